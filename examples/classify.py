"""Class labels and features in one call, on public tables with a simulated crowd.

Four workers each label a third of up to 300 items of a table. They know the class with probability
.9, .8, .7 and .6, and otherwise name a random one. ``classify`` chooses its model by held-out
labels. It is compared with Dawid-Skene, without features, on the items with labels, and with a
logistic regression, trained on the classes by Dawid-Skene, on the others.

    python examples/classify.py --seeds 2

With ``--copies 2`` there are two more workers, who repeat nine of ten labels of the third one. With
``--misled 0.6`` six of ten labels name the next class instead, and with ``--known 25`` the classes
of 25 items are known. They are given as the labels of one more worker, who is trusted in
one fit, and not trusted in the other.

Scores are accuracies, and the calibration error of the most probable classes in ten bins. Last
line: one JSON object by table.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import classify, infer_classes
from pyro_crowdclust.metrics import expected_calibration_error

ACCURACIES = (0.9, 0.8, 0.7, 0.6)
# The worker whose labels are the known classes.
KNOWN = 99


def rings(seed: int = 0, num_items: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Three rings in the plane, which are not linearly separable."""
    rng = np.random.default_rng(seed)
    kind, angle = rng.integers(3, size=num_items), rng.uniform(0, 2 * np.pi, num_items)
    around = 2.0 * (kind + 1)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return around + 0.2 * rng.normal(size=(num_items, 2)), kind


def noise(seed: int = 0, num_items: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Features without any information on the classes."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num_items, 6)), rng.integers(3, size=num_items)


TABLES = {
    "wine": lambda: load_wine(return_X_y=True),
    "iris": lambda: load_iris(return_X_y=True),
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "rings": rings,
    "noise": noise,
}


def crowd(
    kind: np.ndarray, seed: int, copies: int = 0, misled: float = 0.0, known: int = 0
) -> pd.DataFrame:
    """Labels ``item, worker, label``.

    ``copies`` more workers repeat the third one, nearly always. A share ``misled`` of all
    labels name the next class instead. The classes of ``known`` items are given.
    """
    rng = np.random.default_rng(seed)
    asked = rng.choice(len(kind), min(len(kind) // 2, 300), replace=False)
    rows = []
    for worker, accuracy in enumerate(ACCURACIES):
        for item in rng.choice(asked, len(asked) // 3, replace=False):
            right = rng.random() < accuracy
            rows.append((item, worker, kind[item] if right else rng.choice(np.unique(kind))))
    labels = pd.DataFrame(rows, columns=["item", "worker", "label"])
    repeated = [labels]
    for worker in range(copies):
        own = labels[labels["worker"] == 2].assign(worker=len(ACCURACIES) + worker)
        guessed = rng.choice(np.unique(kind), len(own))
        own["label"] = np.where(rng.random(len(own)) < 0.9, own["label"], guessed)
        repeated.append(own)
    labels = pd.concat(repeated, ignore_index=True)
    if misled:
        following = (kind[labels["item"]] + 1) % len(np.unique(kind))
        labels["label"] = np.where(rng.random(len(labels)) < misled, following, labels["label"])
    sure = {"item": asked[:known], "worker": KNOWN, "label": kind[asked[:known]]}
    return pd.concat([labels, pd.DataFrame(sure)], ignore_index=True) if known else labels


def compare(
    features: np.ndarray, kind: np.ndarray, labels: pd.DataFrame, options: dict
) -> tuple[dict[str, float], str]:
    """Accuracies and calibration error, and the chosen model."""
    items, classes = range(len(kind)), np.unique(kind)
    result = classify(features, labels, classes=classes, progress=False, **options)
    alone = infer_classes(CrowdData(None, labels=labels, item_ids=items, classes=classes), [1])
    asked = np.unique(labels["item"])
    others = np.setdiff1d(items, asked)
    found, sure = result.probabilities.argmax(1), result.probabilities.max(1)
    scaled, named = StandardScaler().fit_transform(features), alone.probabilities.argmax(1)
    regression = LogisticRegression(max_iter=3000).fit(scaled[asked], named[asked])
    figures = {
        "labelled": float(np.mean(found[asked] == kind[asked])),
        "labelled_dawid_skene": float(np.mean(named[asked] == kind[asked])),
        "others": float(np.mean(found[others] == kind[others])),
        "others_regression": float(np.mean(regression.predict(scaled[others]) == kind[others])),
        "calibration_error": expected_calibration_error(sure.clip(0, 1), found == kind),
    }
    return figures, result.chosen.winner


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the example; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=0, help="workers who copy the third one")
    parser.add_argument("--misled", type=float, default=0.0, help="share of wrong labels")
    parser.add_argument("--known", type=int, default=0, help="items whose class is known")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = {}
    for name in options.tables:
        rows = []
        for seed in range(options.seeds):
            of_fit = {"epochs": options.epochs, "folds": options.folds}
            features, kind = TABLES[name]()
            labels = crowd(kind, seed, options.copies, options.misled, options.known)
            figures, winner = compare(features, kind, labels, of_fit)
            if options.known:
                trusting = compare(features, kind, labels, of_fit | {"trusted": [KNOWN]})[0]
                figures |= {f"{key}_trusting": trusting[key] for key in ("labelled", "others")}
            rows.append(figures)
            rounded = {key: round(value, 3) for key, value in figures.items()}
            print(f"{name}, seed {seed}: {winner}, {rounded}", flush=True)
        found[name] = {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}
    print(json.dumps(found))
    return found


if __name__ == "__main__":
    main()
