"""``make accuracy``: run the experiments and write their figures to ``docs/results``.

    python benchmarks/accuracy.py            # all of them
    python benchmarks/accuracy.py pinwheel uci

The data sets are looked for in PYRO_CROWDCLUST_DATA, else ../shared/data.
"""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable
from typing import Any

from report import Experiment, Figure, measure


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


def every(key: str, digits: int = 3) -> Callable[[dict[str, Any]], str]:
    """The value of one key for every seed."""
    return lambda figures: ", ".join(f"{one:.{digits}f}" for one in figures[key])


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
    """Ours with every seed, and the best peer of the same run."""

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


def mean_and_spread(key: str) -> Callable[[dict[str, Any]], str]:
    """Mean, standard deviation and all values of a score over the seeds."""
    return lambda figures: _mean_and_spread(figures[key], 4, "")


def percent(key: str) -> Callable[[dict[str, Any]], str]:
    """The same of an error, in percent."""
    return lambda figures: _mean_and_spread([100 * one for one in figures[key]], 2, " %")


def _mean_and_spread(values: list[float], digits: int, unit: str) -> str:
    mean = f"{statistics.mean(values):.{digits}f}{unit}"
    if len(values) == 1:
        return mean
    each = ", ".join(f"{one:.{digits}f}" for one in values)
    return f"{mean} ± {statistics.stdev(values):.{digits}f} ({each})"


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


UCI_SETS = ("iris", "wine", "glass", "yeast", "digits")
# At least, and the best peer that was measured when it was asked.
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


def crowd(name: str) -> Callable[[dict[str, Any]], str]:
    """Accuracy and log loss on one set of class labels, beside the best peer's."""

    def text(figures: dict[str, Any]) -> str:
        row = figures[name]
        ours = f"{row['ours']:.3f}, log loss {row['log_loss']:.2f}"
        if row["best_peer"] is None:
            return ours
        best = f"{row['best_peer']:.3f} ({row['best_peer_name']})"
        return (
            f"{ours}; crowd-kit: {best}, Dawid-Skene's log loss {row['dawid_skene_log_loss']:.2f}"
        )

    return text


CROWDS = Experiment(
    "crowds",
    ["examples/crowd_labels.py"],
    [
        Figure(f"labels of {name}", f"accuracy {asked}", crowd(name))
        for name, asked in {
            "adult": 0.766,
            "bluebird": 0.889,
            "dog": 0.843,
            "labelme": 0.792,
            "music_genre": 0.800,
            "relevance": 0.617,
            "rte": 0.928,
            "sentiment_sp_amt": 0.946,
            "sentiment_text": 0.917,
            "trec": 0.702,
            "tweet_sentiment": 0.960,
            "weather_amt": 0.867,
            "web": 0.829,
            "zencrowd_all": 0.862,
        }.items()
    ],
    needs_data=True,
)


def methods(key: str, part: str) -> Callable[[dict[str, Any]], str]:
    """MomResp, LogResp and the baseline."""
    names = {
        "momresp": "MomResp",
        "logresp": "LogResp",
        "logresp_point": "its point estimate",
        "dawid_skene": "Dawid-Skene",
    }
    return lambda figures: ", ".join(
        f"{name} {figures[key][f'{method}_{part}']:.3f}" for method, name in names.items()
    )


def curve(method: str) -> Callable[[dict[str, Any]], str]:
    """Accuracy after every number of answers."""

    def text(figures: dict[str, Any]) -> str:
        curves = figures["news20"]
        points = zip(curves["answers"], curves[method], strict=True)
        return ", ".join(f"{accuracy:.3f} ({answers})" for answers, accuracy in points)

    return text


FEATURES = Experiment(
    "features",
    [
        *("examples/momresp_logresp.py", "--sizes", "50", "200", "500", "1000"),
        *("--items", "2000", "--seeds", "3", "--epochs", "40"),
    ],
    [
        Figure(
            f"20 Newsgroups, accuracy on other posts (after so many answers), {name}",
            asked,
            curve(method),
        )
        for method, name, asked in (
            ("momresp", "MomResp", "ahead while answers are few"),
            ("logresp", "LogResp", "catching up"),
            ("logresp_point", "LogResp with a point estimate", ""),
            ("dawid_skene", "Dawid-Skene and a classifier", ""),
        )
    ]
    + [
        Figure(f"{key}, accuracy on {said}", "above Dawid-Skene", methods(key, part))
        for key in ("sentiment_text", "labelme")
        for part, said in (("train", "labelled items"), ("test", "the test part"))
    ],
    needs_data=True,
)

PAIRS = Experiment(
    "pairs",
    ["examples/pairs_as_classes.py"],
    [
        Figure(
            "pairs_product, F1 of same: ours / majority vote / crowd-kit Dawid-Skene",
            "",
            lambda figures: " / ".join(
                "none" if figures[key] is None else f"{figures[key]:.3f}"
                for key in ("f1", "majority_vote_f1", "dawid_skene_f1")
            ),
        ),
        Figure(
            "pairs_product, workers' specificity: mean error, correlation with the truth",
            "",
            lambda figures: (
                f"{figures['specificity_error']:.3f}, {figures['specificity_correlation']:.3f}"
            ),
        ),
    ],
    needs_data=True,
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


def judges(name: str, size: str) -> Callable[[dict[str, Any]], str]:
    """F1 of "same" and log losses of one set of judges, all of them or panels of a size."""

    def text(figures: dict[str, Any]) -> str:
        row = figures[name] if size == "all" else figures[name]["panels"][size]
        f1 = " / ".join(
            "none" if row[key] is None else f"{row[key]:.3f}"
            for key in ("ours", "ours_with_features", "majority", "best_peer")
        )
        losses = " / ".join(f"{loss:.2f}" for loss in row["log_loss"].values())
        return (
            f"{f1}; log losses {losses}; calibration error {row['calibration_error']['ours']:.3f}"
        )

    return text


JUDGES = Experiment(
    "judges",
    ["examples/judges.py", "--panels", "30", "--methods", "DawidSkene", "OneCoinDawidSkene"],
    [
        Figure(
            f"judges of {name}, {size}",
            "ours at the better of majority and peers",
            judges(name, size),
        )
        for name in ("abt_buy", "dblp_acm", "wdc")
        for size in ("all", "3", "5", "10")
    ],
    needs_data=True,
)


if __name__ == "__main__":
    deep = [DEEP_LABELS, DEEP, DEEP_CIFAR10]
    pairs = [PINWHEEL, FACES, CIFAR, DIGITS, *MNIST]
    others = [UCI, FOUR_GAUSSIANS, TEXT, CROWDS, FEATURES, PAIRS, JUDGES, POSTERIORS]
    measure([*pairs, *others, *deep])
