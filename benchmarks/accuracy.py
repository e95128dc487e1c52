"""``make accuracy``: run the experiments and write their figures to ``docs/results.md``.

    python benchmarks/accuracy.py

The data sets are looked for in PYRO_CROWDCLUST_DATA, else ../shared/data.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from report import Experiment, Figure, table, write_section


def value(key: str, digits: int = 3) -> Callable[[dict[str, Any]], str]:
    """The value of one key."""
    return lambda figures: f"{figures[key]:.{digits}f}"


def spread(key: str) -> Callable[[dict[str, Any]], str]:
    """Median, worst and all values of a list."""

    def text(figures: dict[str, Any]) -> str:
        values = figures[key]
        every = ", ".join(f"{one:.3f}" for one in values)
        return f"median {statistics.median(values):.3f}, worst {min(values):.3f} ({every})"

    return text


PINWHEEL = Experiment(
    ["examples/pinwheel.py", "--seeds", "10"],
    [
        Figure("Pinwheel, BayesSCDC, accuracy", "median 0.955, worst 0.90", spread("accuracy")),
        Figure("Pinwheel, BayesSCDC, NMI", "median 0.93", spread("nmi")),
        Figure(
            "Pinwheel, BayesSCDC, clusters in use",
            "5 to 8",
            lambda figures: ", ".join(str(int(k)) for k in figures["clusters_in_use"]),
        ),
        Figure("Pinwheel, SCDC, accuracy", "median 0.90", spread("scdc_accuracy")),
        Figure("Pinwheel, SCDC, NMI", "", spread("scdc_nmi")),
    ],
)

MNIST = Experiment(
    ["examples/mnist_crowd.py", "--epochs", "20", "--seed", "0"],
    [
        Figure("MNIST, 20 epochs, test accuracy", "0.85", value("test_accuracy", 4)),
        Figure("MNIST, 20 epochs, test NMI", "0.82", value("test_nmi", 4)),
        Figure("MNIST, 20 epochs, test AMI", "", value("test_ami", 4)),
        Figure("MNIST, clusters in use", "", value("clusters_in_use", 0)),
        Figure("MNIST, mean sensitivity", "0.978 +- 0.02", value("mean_sensitivity", 4)),
        Figure("MNIST, mean specificity", "0.991 +- 0.01", value("mean_specificity", 4)),
        Figure("MNIST, seconds per epoch", "", value("seconds_per_epoch", 1)),
    ],
    needs_data=True,
)


def digits(seed: int) -> Experiment:
    """The demo with one seed."""
    return Experiment(
        ["examples/digits_crowd.py", "--seed", str(seed)],
        [
            Figure(
                f"Digits, seed {seed}: NMI with / without answers",
                "with > without",
                lambda figures: f"{figures['nmi_with']:.3f} / {figures['nmi_without']:.3f}",
            ),
            Figure(
                f"Digits, seed {seed}: accuracy with / without answers",
                "",
                lambda figures: (
                    f"{figures['accuracy_with']:.3f} / {figures['accuracy_without']:.3f}"
                ),
            ),
            Figure(
                f"Digits, seed {seed}: three lowest weights",
                "the random and inverted workers",
                lambda figures: (
                    f"{figures['lowest_weight_workers']} (truth {figures['true_bad_workers']})"
                ),
            ),
        ],
    )


if __name__ == "__main__":
    write_section("accuracy", table([PINWHEEL, *map(digits, range(5)), MNIST]))
