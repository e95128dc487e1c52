"""Experiments of ``make accuracy`` on answers about pairs and on sorted pages."""

from __future__ import annotations

import operator
from typing import Any

from accuracy_figures import every, mean_and_spread, spread, value
from report import Experiment, Figure

PINWHEEL = Experiment(
    "pinwheel",
    ["examples/pinwheel.py", "--seeds", "10"],
    [
        Figure("Pinwheel, BayesSCDC, accuracy", "median 0.955, worst 0.90", spread("accuracy")),
        Figure("Pinwheel, BayesSCDC, NMI", "median 0.93", spread("nmi")),
        Figure("Pinwheel, BayesSCDC, clusters in use", "5 to 8", every("clusters_in_use", 0)),
        Figure("Pinwheel, SCDC, accuracy", "median 0.90", spread("scdc_accuracy")),
        Figure("Pinwheel, SCDC, NMI", "", spread("scdc_nmi")),
        Figure(
            "Pinwheel, no answers, 10 starts, accuracy",
            "worst 0.90, aim 0.95 (Luo et al.: 0.756 to 0.956)",
            spread("without_accuracy"),
        ),
        Figure("Pinwheel, no answers, NMI", "(Luo et al.: 0.806 to 0.91)", spread("without_nmi")),
        Figure(
            "Pinwheel, no answers, clusters in use",
            "",
            every("without_clusters_in_use", 0),
        ),
    ],
)

FACES_AIMS = {
    "all": {"200": "0.65", "500": "0.85", "1000": "0.98", "2000": "1.00"},
    "subset": {"200": "", "500": "0.65", "1000": "0.65", "2000": "0.65"},
}


def faces_figures(part: str, answers: str, aim: str) -> list[Figure]:
    """Scores of this library for every seed, and of the best peer in the same run."""

    def ours(figures: dict[str, Any]) -> str:
        row = figures[part][answers]
        every_seed = ", ".join(f"{one:.3f}" for one in row["ours_every"])
        return f"{row['ours_nmi']:.3f} ± {row['ours_sd']:.3f} ({every_seed})"

    def peer(figures: dict[str, Any]) -> str:
        peers = sorted(figures[part][answers]["peers"].items(), key=operator.itemgetter(1))
        return ", ".join(f"{name} {score:.3f}" for name, score in reversed(peers))

    asked = f"above every peer; aim {aim}" if aim else "above every peer"
    name = f"answers on {'all' if part == 'all' else '100'} images, n = {answers}"
    return [Figure(f"{name}: NMI", asked, ours), Figure(f"{name}: peers", "", peer)]


FACES = Experiment(
    "faces",
    ["examples/faces_crowd.py", "--seeds", "10"],
    [
        *(
            figure
            for part, aims in FACES_AIMS.items()
            for answers, aim in aims.items()
            for figure in faces_figures(part, answers, aim)
        ),
        Figure(
            "order of the five workers' weights right, n = 2000",
            "9 of 10 seeds",
            lambda figures: f"{figures['workers']['order_right']} of {figures['workers']['of']}",
        ),
        Figure(
            "true weights inside their 90 % intervals, n = 2000",
            "0.90",
            lambda figures: f"{figures['workers']['inside_90']:.2f}",
        ),
    ],
    needs_data=True,
)

CIFAR = Experiment(
    "cifar10",
    ["examples/cifar10_crowd.py", "--fit-steps", "40"],
    [
        Figure(
            "test accuracy, 1,000 images",
            "0.55, aim 0.70 (Luo et al.: 0.501)",
            mean_and_spread("test_accuracy"),
        ),
        Figure("test NMI", "0.50 (Luo et al.: 0.555)", mean_and_spread("test_nmi")),
        Figure("test AMI", "", mean_and_spread("test_ami")),
        Figure("test ARI", "", mean_and_spread("test_ari")),
        Figure("training accuracy", "", mean_and_spread("train_accuracy")),
        Figure("training NMI", "", mean_and_spread("train_nmi")),
        Figure("minutes of processor time", "60", every("processor_minutes", 1)),
    ],
    needs_data=True,
    seeds=range(3),
)


def mnist(name: str, variant: str, answers: str, asked: tuple[str, str]) -> Experiment:
    """One variant with or without answers, five single starts; the paper's figures and the aim."""
    rates = [
        Figure("mean sensitivity", "0.978 ± 0.02", every("mean_sensitivity")),
        Figure("mean specificity", "0.991 ± 0.01", every("mean_specificity")),
    ]
    return Experiment(
        name,
        [
            *("examples/mnist_crowd.py", "--variant", variant),
            *("--answers", answers, "--minutes", "60"),
        ],
        [
            Figure("test accuracy", asked[0], mean_and_spread("test_accuracy")),
            Figure("test NMI", asked[1], mean_and_spread("test_nmi")),
            Figure("test AMI", "", mean_and_spread("test_ami")),
            Figure("clusters in use", "10", every("clusters_in_use", 0)),
            *(rates if answers == "yes" else []),
            Figure("seconds per epoch", "", every("seconds_per_epoch")),
            Figure("minutes of processor time", "20", every("processor_minutes", 1)),
        ],
        needs_data=True,
        seeds=range(5),
    )


BAYES = ("paper 0.8424 ± 0.055; 0.97", "paper 0.8120 ± 0.021; 0.93")
BAYES_WITHOUT = ("paper 0.7764; 0.92", "paper 0.7944; 0.87")
SCDC = ("paper 0.8187; aim 0.99", "paper 0.7657; aim 0.97")
SCDC_WITHOUT = ("paper 0.6592; aim 0.98", "paper 0.6953; aim 0.945")
MNIST = [
    mnist("mnist", "bayes", "yes", BAYES),
    mnist("mnist_no_answers", "bayes", "no", BAYES_WITHOUT),
    mnist("mnist_latents", "bayes-latents", "yes", BAYES),
    mnist("mnist_latents_no_answers", "bayes-latents", "no", BAYES_WITHOUT),
    mnist("mnist_scdc", "amortized", "yes", SCDC),
    mnist("mnist_scdc_no_answers", "amortized", "no", SCDC_WITHOUT),
]

WORKERS = ("lowest_weight_workers", "true_bad_workers")

DIGITS = Experiment(
    "digits",
    ["examples/digits_crowd.py"],
    [
        Figure("NMI with answers", "above that without", every("nmi_with")),
        Figure("NMI without", "", every("nmi_without")),
        Figure("accuracy with answers", "", every("accuracy_with")),
        Figure("accuracy without", "", every("accuracy_without")),
        Figure(
            "seeds where the three lowest weights are the random and inverted workers",
            "5 of 5",
            lambda figures: f"{sum(map(operator.eq, *map(figures.get, WORKERS)))} of 5",
        ),
    ],
    seeds=range(5),
)

POSTERIORS = Experiment(
    "posteriors",
    ["benchmarks/posteriors.py"],
    [
        Figure(
            "largest distance of posterior means, in NUTS's standard deviations",
            "",
            value("nuts_mean_distance", 2),
        ),
        Figure(
            "standard deviations over NUTS's, lowest and highest",
            "at most about 1",
            lambda figures: (
                f"{figures['nuts_sd_ratio_lowest']:.2f}, {figures['nuts_sd_ratio_highest']:.2f}"
            ),
        ),
        Figure(
            "true rates inside central 90 % intervals, single pairs",
            "0.90",
            value("coverage_pairs"),
        ),
        Figure(
            "Kolmogorov distance of their ranks to uniform (95 % of uniform ranks stay below)",
            "",
            lambda figures: (
                f"{figures['kolmogorov_pairs']:.3f} ({figures['kolmogorov_pairs_95']:.3f})"
            ),
        ),
        Figure(
            "true rates inside central 90 % intervals, workers who sort pages",
            "0.90",
            value("coverage_pages"),
        ),
    ],
)
