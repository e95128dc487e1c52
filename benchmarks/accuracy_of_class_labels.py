"""Experiments of ``make accuracy`` on class labels by many people, or judges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from report import Experiment, Figure


def crowd(name: str) -> Callable[[dict[str, Any]], str]:
    """Accuracy and log loss on one set of class labels, and those of the best peer."""

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
