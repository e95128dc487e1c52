"""MomResp and LogResp: class labels from annotators, together with features.

Two experiments. *Learning curves*, the claim of Felt et al. 2015: posts of 20 Newsgroups (100
words, 4 groups) and simulated annotators of four quality levels; the generative MomResp is to be
ahead while answers are few, the discriminative LogResp to catch up. *Real crowds*: movie-review
sentences and LabelMe images, on the items that were labelled and on a test part without labels.
LogResp has a Gaussian posterior of its regression, and beside it the paper's point estimate. The
baseline is Dawid-Skene, and a logistic regression trained on its labels.

    python examples/momresp_logresp.py --data DIR --figures figures

DIR holds ``news20_w100.npz`` and two ``crowd_labels_*.npz``; its default is the environment
variable PYRO_CROWDCLUST_DATA, else ../shared/data. Last line: one JSON object; ``news20`` holds
lists over the numbers of answers, the others accuracies on training items and on the test part.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.mixture import (
    Components,
    DiagonalGaussianComponents,
    MultinomialComponents,
    SoftmaxRegression,
)
from pyro_crowdclust.models import DawidSkene, LogResp, MomResp
from pyro_crowdclust.plots.style import COLORS, new_axes, quiet
from pyro_crowdclust.training import Stopping

NAMES = {
    "momresp": "MomResp",
    "logresp": "LogResp",
    "logresp_point": "LogResp, point estimate",
    "dawid_skene": "Dawid-Skene, classifier",
}
QUALITIES = (0.9, 0.7, 0.5, 0.3)
ANSWERS_PER_ITEM = 3


class Features(NamedTuple):
    """What each model reads of the training items, and of the test part."""

    generative: np.ndarray
    regression: np.ndarray
    generative_test: np.ndarray
    regression_test: np.ndarray


def train(model: Any, data: CrowdData, epochs: int, points: Sequence[str] = ()) -> Fitted:
    """Full-batch natural steps; what is a point estimate is learned by Adam."""
    return fit(
        model,
        ClassLabelGuide(model, points=points),
        data,
        batch_size=None,
        step_size=0.7,
        epochs=epochs,
        optim=partial(torch.optim.Adam, lr=0.05),
        stopping=Stopping(1e-4),
        progress=False,
    )


def compare(
    labels: pd.DataFrame,
    features: Features,
    components: Components,
    truth: np.ndarray,
    truth_test: np.ndarray,
    epochs: int,
) -> dict[str, tuple[float, float]]:
    """Accuracy on the labelled training items and on the test part, by method."""
    classes = range(components.num_clusters)
    asked = np.unique(labels["item"])

    def crowd(x: np.ndarray) -> CrowdData:
        return CrowdData(x, labels=labels, classes=classes)

    def accuracies(result: Fitted, x_test: np.ndarray) -> tuple[float, float]:
        on_asked = (result.assignments[asked] == truth[asked]).mean()
        return float(on_asked), float((result.predict(x_test) == truth_test).mean())

    generative, discriminative = crowd(features.generative), crowd(features.regression)
    annotators = ConfusionMatrices(generative.num_workers, len(classes))
    momresp = train(MomResp(components, annotators), generative, epochs)
    regression = SoftmaxRegression(len(classes), features.regression.shape[1])
    logresp = train(LogResp(regression, annotators), discriminative, epochs)
    point = train(LogResp(regression, annotators), discriminative, epochs, ["coefficients"])
    plain = train(DawidSkene(annotators), generative, epochs)
    classifier = LogisticRegression(max_iter=500)
    classifier.fit(features.regression[asked], plain.assignments[asked])
    on_test = float((classifier.predict(features.regression_test) == truth_test).mean())
    on_asked = float((plain.assignments[asked] == truth[asked]).mean())
    return {
        "momresp": accuracies(momresp, features.generative_test),
        "logresp": accuracies(logresp, features.regression_test),
        "logresp_point": accuracies(point, features.regression_test),
        "dawid_skene": (on_asked, on_test),
    }


def simulated_answers(
    truth: np.ndarray, items: np.ndarray, num_classes: int, seed: int
) -> pd.DataFrame:
    """Three of the four annotators answer every item; the others' errors are even."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in items:
        for worker in rng.choice(len(QUALITIES), ANSWERS_PER_ITEM, replace=False):
            right = rng.random() < QUALITIES[worker]
            wrong = (truth[item] + rng.integers(1, num_classes)) % num_classes
            rows.append((item, worker, truth[item] if right else wrong))
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


def learning_curves(
    folder: Path, sizes: list[int], num_items: int, seeds: int, epochs: int
) -> dict[str, list[float]]:
    """Mean test accuracy of every method over seeds, for every number of labelled posts."""
    arrays = np.load(folder / "news20_w100.npz")
    order = np.random.default_rng(0).permutation(len(arrays["y"]))
    x, y = arrays["x"][order].astype(float), arrays["y"][order]
    y = y - y.min()
    scaled = StandardScaler().fit_transform(x)
    features = Features(x[:num_items], scaled[:num_items], x[num_items:], scaled[num_items:])
    classes = int(y.max()) + 1
    curves: dict[str, list[float]] = {name: [] for name in NAMES}
    for size in sizes:
        found = []
        for seed in range(seeds):
            items = np.random.default_rng(seed).permutation(num_items)[:size]
            labels = simulated_answers(y, items, classes, seed)
            components = MultinomialComponents(classes, x.shape[1])
            found.append(
                compare(labels, features, components, y[:num_items], y[num_items:], epochs)
            )
        for name, curve in curves.items():
            curve.append(round(float(np.mean([one[name][1] for one in found])), 4))
        print(
            f"{size} posts, {ANSWERS_PER_ITEM * size} answers:",
            {k: v[-1] for k, v in curves.items()},
        )
    return {"answers": [ANSWERS_PER_ITEM * size for size in sizes], **curves}


def draw(curves: dict[str, list[float]], file: Path) -> None:
    """Test accuracy against the number of answers."""
    axes = new_axes(5, 3.5)
    for color, (key, name) in zip(COLORS, NAMES.items(), strict=False):
        axes.plot(curves["answers"], curves[key], marker="o", color=color, label=name)
    axes.set(xscale="log", xlabel="answers", ylabel="accuracy on posts without answers")
    axes.set_xticks(curves["answers"], curves["answers"])
    axes.minorticks_off()
    axes.legend(frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    quiet(axes, grid="y")
    axes.figure.savefig(file)


def sentences(folder: Path, dim: int) -> tuple[pd.DataFrame, Features, Components, Any, Any]:
    """Movie-review sentences: word counts for MomResp, their principal directions for LogResp."""
    arrays = np.load(folder / "crowd_labels_sentiment_text.npz")
    train_text, test_text = (
        arrays[key].tobytes().decode("utf8").split("\n")
        for key in ("texts_utf8", "texts_test_utf8")
    )
    counter = CountVectorizer(min_df=5)
    counts, counts_test = counter.fit_transform(train_text), counter.transform(test_text)
    weights = TfidfTransformer().fit(counts)
    reduce = TruncatedSVD(dim, random_state=0)
    scale = StandardScaler()
    x = scale.fit_transform(reduce.fit_transform(weights.transform(counts)))
    x_test = scale.transform(reduce.transform(weights.transform(counts_test)))
    dense = [part.toarray().astype(float) for part in (counts, counts_test)]
    features = Features(dense[0], x, dense[1], x_test)
    labels = pd.DataFrame(arrays["annotations"], columns=["item", "worker", "label"])
    components = MultinomialComponents(2, counts.shape[1])
    return labels, features, components, arrays["truth"], arrays["truth_test"]


def images(folder: Path, dim: int) -> tuple[pd.DataFrame, Features, Components, Any, Any]:
    """LabelMe images: principal components of network features."""
    arrays = np.load(folder / "crowd_labels_labelme.npz")
    reduce = PCA(dim, whiten=True, random_state=0)
    x = reduce.fit_transform(arrays["features_train"].astype(float))
    x_test = reduce.transform(arrays["features_test"].astype(float))
    labels = pd.DataFrame(arrays["annotations"], columns=["item", "worker", "label"])
    features = Features(x, x, x_test, x_test)
    components = DiagonalGaussianComponents(8, dim)
    return labels, features, components, arrays["truth_train"], arrays["truth_test"]


def main(arguments: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """Run the example; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--figures", type=Path, default=Path("figures"))
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50, 100, 200, 500, 1000, 3000])
    parser.add_argument("--items", type=int, default=4000, help="posts to learn from")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--dim", type=int, default=100, help="of the regression on real crowds")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    figures: dict[str, dict[str, Any]] = {
        "news20": learning_curves(
            options.data, options.sizes, options.items, options.seeds, options.epochs
        )
    }
    draw(figures["news20"], options.figures / "learning_curves.png")
    for name, prepare in (("sentiment_text", sentences), ("labelme", images)):
        prepared = prepare(options.data, options.dim)
        found = compare(*prepared, options.epochs)
        figures[name] = {
            f"{method}_{part}": round(value, 4)
            for method, values in found.items()
            for part, value in zip(("train", "test"), values, strict=True)
        }
        print(name, figures[name])
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
