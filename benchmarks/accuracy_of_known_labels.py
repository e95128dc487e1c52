"""Experiments of ``make accuracy`` with known labels of a few items, or without labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accuracy_figures import every, mean_and_spread, percent, value
from report import Experiment, Figure

UCI_SETS = ("iris", "wine", "glass", "yeast", "digits")
# The smallest accuracy that is required, and that of the best peer when the requirement was set.
UCI_ASKED = {
    "0.0": ["paper 0.72", "paper 0.49", "paper 0.52", "paper 0.37", "paper 0.61"],
    "0.2": [
        "0.98, peer 0.973",
        "0.96, peer 0.983",
        "0.62, peer 0.748",
        "0.55, peer 0.672",
        "0.92, peer 0.978",
    ],
    "0.5": [
        "0.98, peer 1.00",
        "0.98, peer 1.00",
        "0.78, peer 0.841",
        "0.75, peer 0.805",
        "0.96, peer 0.990",
    ],
}


def uci_ours(name: str, fraction: str) -> Callable[[dict[str, Any]], str]:
    """Ours on one set: best (and mean) of the runs, on all items and on those without a label."""

    def text(figures: dict[str, Any]) -> str:
        best, mean = figures[name][fraction], figures["mean"][name][fraction]
        rest = figures["unlabeled"][name][fraction], figures["mean_unlabeled"][name][fraction]
        peers = {peer: of.get(name, {}) for peer, of in figures["peers"].items()}
        scores = {peer: of[fraction] for peer, of in peers.items() if fraction in of}
        peer = max(scores, key=scores.get)
        peer_rest = figures["peers"][peer]["mean_unlabeled"][name][fraction]
        return (
            f"{best:.3f} ({mean:.3f}), unlabeled {rest[0]:.3f} ({rest[1]:.3f}); "
            f"{peer} {scores[peer]:.3f}, unlabeled ({peer_rest:.3f})"
        )

    return text


UCI = Experiment(
    "uci",
    ["examples/uci_semisupervised.py", "--runs", "10"],
    [
        Figure(f"{name}, {float(fraction):.0%} labels", asked, uci_ours(name, fraction))
        for fraction in ("0.0", "0.1", "0.2", "0.3", "0.4", "0.5")
        for name, asked in zip(UCI_SETS, UCI_ASKED.get(fraction, [""] * 5), strict=True)
    ],
    needs_data=True,
)


def found(case: str, kind: str) -> Callable[[dict[str, Any]], str]:
    """Clusters and accuracy of one case of the four Gaussians."""

    def text(figures: dict[str, Any]) -> str:
        one = figures[case][kind]
        return f"{one['clusters']} clusters, accuracy {one['accuracy']:.3f}"

    return text


FOUR_GAUSSIANS = Experiment(
    "four_gaussians",
    ["examples/four_gaussians.py"],
    [
        Figure(f"Four Gaussians, {case}, {kind}", asked, found(case, kind))
        for case, asked in (
            ("row_T4", "3 clusters given labels"),
            ("row_T10", "3 clusters given labels"),
            ("view_horizontal", "2 clusters, top and bottom"),
            ("view_vertical", "2 clusters, left and right"),
        )
        for kind in ("none", "field, paper's start", "field", "table", "start alone")
    ],
)

TEXT = Experiment(
    "text",
    ["examples/text_mixture.py"],
    [
        Figure(
            f"20 Newsgroups {name}, 1 % labels, posts without a label",
            "",
            lambda figures, name=name: ", ".join(
                f"{key} {value:.3f}" for key, value in figures[name].items() if key != "labels"
            ),
        )
        for name in ("w100", "w1000")
    ],
    needs_data=True,
)

DEEP_LABELS = Experiment(
    "dp_dlgmm_labels",
    ["examples/dp_dlgmm_mnist.py", "--labels", "0.1"],
    [
        Figure("MNIST, 10 % of the labels, test error", "2.0 %", percent("test_error")),
        Figure("expected calibration error", "", percent("calibration_error")),
        Figure(
            "test error by importance weights",
            "4.0 %",
            percent("test_error_importance_weights"),
        ),
        Figure(
            "expected calibration error of importance weights",
            "",
            percent("calibration_error_importance_weights"),
        ),
        Figure("clusters in use", "", every("clusters_in_use", 0)),
        Figure("minutes of processor time", "", every("processor_minutes", 1)),
    ],
    needs_data=True,
    seeds=range(5),
)

DEEP = Experiment(
    "dp_dlgmm",
    ["examples/dp_dlgmm_mnist.py", "--labels", "0"],
    [
        Figure("MNIST without labels, test error", "7 % (accuracy 0.93)", percent("test_error")),
        Figure("test NMI", "0.88", mean_and_spread("test_nmi")),
        Figure(
            "test error by importance weights",
            "",
            percent("test_error_importance_weights"),
        ),
        Figure(
            "test NMI by importance weights", "", mean_and_spread("test_nmi_importance_weights")
        ),
        Figure("clusters in use, of T = 50", "10", every("clusters_in_use", 0)),
        Figure("minutes of processor time", "20", every("processor_minutes", 1)),
    ],
    needs_data=True,
    seeds=range(3),
)

DEEP_CIFAR10 = Experiment(
    "dp_dlgmm_cifar10",
    ["examples/dp_dlgmm_cifar10.py"],
    [
        Figure("CIFAR-10, 1,000 labels, test error", "0.45", value("test_error")),
        Figure("expected calibration error", "", value("calibration_error")),
        Figure("test error by importance weights", "", value("test_error_importance_weights")),
        Figure("minutes of processor time", "", value("processor_minutes", 1)),
    ],
    needs_data=True,
)
