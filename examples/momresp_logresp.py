"""MomResp and LogResp: class labels from annotators, together with features.

Two experiments. *Learning curves*, the claim of Felt et al. 2015: posts of 20 Newsgroups (100
words, 4 groups) and simulated annotators of four quality levels; the generative MomResp should be
better with few answers, and the discriminative LogResp should catch up. *Real crowds*: movie-review
sentences and LabelMe images, on the labelled items and on a test part without labels. LogResp has a
Gaussian posterior of its regression, or, for comparison, the paper's point estimate. The baseline
is Dawid-Skene, and a logistic regression trained on its labels.

On the real crowds the form and the weight of the features are chosen by held-out answers, without
the truth; annotators have confusion matrices around a common one, which is learned. There LogResp
starts once at the majority vote and once at MomResp's classes, and MomResp is also fitted to items
that include the test part, with features only.

    python examples/momresp_logresp.py --data DIR --figures figures

DIR has ``news20_w100.npz`` and two ``crowd_labels_*.npz``; its default is the environment variable
PYRO_CROWDCLUST_DATA, or ../shared/data without it. Last line: one JSON object; ``news20`` has lists
over the numbers of answers, the others accuracies on training items and on the test part.
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
from pyro_crowdclust.annotators import CommunityConfusion, ConfusionMatrices
from pyro_crowdclust.callbacks import LearnedPrior
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.mixture import (
    Components,
    GaussianComponents,
    MultinomialComponents,
    SoftmaxRegression,
)
from pyro_crowdclust.models import DawidSkene, LogResp, MomResp
from pyro_crowdclust.plots import COLORS, new_axes, quiet
from pyro_crowdclust.pooling import held_out_log_probability
from pyro_crowdclust.protocols import ClassAnnotators
from pyro_crowdclust.starts import ClassesStart
from pyro_crowdclust.training import Stopping

NAMES = {
    "momresp": "MomResp",
    "logresp": "LogResp",
    "logresp_point": "LogResp, point estimate",
    "dawid_skene": "Dawid-Skene, classifier",
}
QUALITIES = (0.9, 0.7, 0.5, 0.3)
ANSWERS_PER_ITEM = 3
# Larger than the number of items, so that classes share one covariance, which is learned.
MANY = 1000.0


class Features(NamedTuple):
    """Features of the training items and of the test part for each model, and their weight."""

    generative: np.ndarray
    regression: np.ndarray
    generative_test: np.ndarray
    regression_test: np.ndarray
    components: Components
    weight: float = 1.0
    name: str = "counts"


class Crowd(NamedTuple):
    """Answers, the truth for scores, and the forms of the features to choose from."""

    labels: pd.DataFrame
    truth: np.ndarray
    truth_test: np.ndarray
    forms: list[Features]

    def data(self, x: np.ndarray) -> CrowdData:
        """The answers and these features."""
        classes = range(self.forms[0].components.num_clusters)
        return CrowdData(x, labels=self.labels, classes=classes)

    @property
    def asked(self) -> np.ndarray:
        """The items with answers."""
        return np.unique(self.labels["item"])


def train(
    model: Any, data: CrowdData, epochs: int, points: Sequence[str] = (), **options: Any
) -> Fitted:
    """Fit by full-batch natural steps, with Adam for point estimates."""
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
        **options,
    )


def train_momresp(
    form: Features, annotators: ClassAnnotators, epochs: int, data: CrowdData
) -> Fitted:
    """Fit MomResp; the width of Gaussian components is learned."""
    model = MomResp(form.components, annotators, feature_weight=form.weight)
    return train(model, data, epochs, callbacks=[LearnedPrior()])


def choose(crowd: Crowd, annotators: ClassAnnotators, epochs: int, folds: int) -> Features:
    """The form of features under which MomResp predicts answers about held-out items best."""
    if len(crowd.forms) == 1:
        return crowd.forms[0]
    found = []
    for form in crowd.forms:
        fit_one = partial(train_momresp, form, annotators, epochs)
        found.append(held_out_log_probability(crowd.data(form.generative), fit_one, folds))
        print(f"{form.name}, weight {form.weight}: {found[-1]:.4f} nats per held-out answer")
    return crowd.forms[int(np.argmax(found))]


def compare(
    crowd: Crowd, annotators: ClassAnnotators, epochs: int, folds: int = 3
) -> dict[str, list[float]]:
    """Accuracy on the labelled training items and on the test part, by method."""
    form, truth = choose(crowd, annotators, epochs, folds), crowd.truth
    asked = crowd.asked

    def accuracies(result: Fitted, x_test: np.ndarray) -> list[float]:
        on_asked = (result.assignments[asked] == truth[asked]).mean()
        return [float(on_asked), float((result.predict(x_test) == crowd.truth_test).mean())]

    generative, discriminative = crowd.data(form.generative), crowd.data(form.regression)
    momresp = train_momresp(form, annotators, epochs, generative)
    logresp = LogResp(
        SoftmaxRegression(annotators.num_classes, form.regression.shape[1]), annotators
    )
    voted = train(logresp, discriminative, epochs)
    point = train(logresp, discriminative, epochs, ["coefficients"])
    plain = train(DawidSkene(annotators), generative, epochs)
    classifier = LogisticRegression(max_iter=500)
    classifier.fit(form.regression[asked], plain.assignments[asked])
    found = {
        "momresp": accuracies(momresp, form.generative_test),
        "logresp": accuracies(voted, form.regression_test),
        "logresp_point": accuracies(point, form.regression_test),
        "dawid_skene": [
            float((plain.assignments[asked] == truth[asked]).mean()),
            float((classifier.predict(form.regression_test) == crowd.truth_test).mean()),
        ],
    }
    if len(crowd.forms) > 1:
        start = ClassesStart(momresp.probabilities)
        started = train(logresp, discriminative, epochs, initialize=start)
        found["logresp_started"] = accuracies(started, form.regression_test)
        everything = crowd.data(np.concatenate([form.generative, form.generative_test]))
        seen = train_momresp(form, annotators, epochs, everything)
        found["momresp_seen"] = accuracies(seen, form.generative_test)
    return found


def simulated_answers(
    truth: np.ndarray, items: np.ndarray, num_classes: int, seed: int
) -> pd.DataFrame:
    """Answers of three of the four annotators for every item; errors are uniform."""
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
    classes = int(y.max()) + 1
    form = Features(
        *(x[:num_items], scaled[:num_items], x[num_items:], scaled[num_items:]),
        MultinomialComponents(classes, x.shape[1]),
    )
    curves: dict[str, list[float]] = {name: [] for name in NAMES}
    for size in sizes:
        found = []
        for seed in range(seeds):
            items = np.random.default_rng(seed).permutation(num_items)[:size]
            labels = simulated_answers(y, items, classes, seed)
            crowd = Crowd(labels, y[:num_items], y[num_items:], [form])
            found.append(compare(crowd, ConfusionMatrices(len(QUALITIES), classes), epochs))
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


def sentences(folder: Path, dim: int, words: int | None) -> Crowd:
    """Movie-review sentences: word counts for MomResp, their principal directions for LogResp."""
    arrays = np.load(folder / "crowd_labels_sentiment_text.npz")
    train_text, test_text = (
        arrays[key].tobytes().decode("utf8").split("\n")
        for key in ("texts_utf8", "texts_test_utf8")
    )
    counter = CountVectorizer(min_df=5, max_features=words)
    counts, counts_test = counter.fit_transform(train_text), counter.transform(test_text)
    weights = TfidfTransformer().fit(counts)
    reduce = TruncatedSVD(dim, random_state=0)
    scale = StandardScaler()
    x = scale.fit_transform(reduce.fit_transform(weights.transform(counts)))
    x_test = scale.transform(reduce.transform(weights.transform(counts_test)))
    dense = [part.toarray().astype(float) for part in (counts, counts_test)]
    components = MultinomialComponents(2, counts.shape[1])
    forms = [Features(dense[0], x, dense[1], x_test, components, weight) for weight in (1.0, 0.2)]
    labels = pd.DataFrame(arrays["annotations"], columns=["item", "worker", "label"])
    return Crowd(labels, arrays["truth"], arrays["truth_test"], forms)


def images(folder: Path, dim: int) -> Crowd:
    """LabelMe images: principal components of network features, or of their square roots."""
    arrays = np.load(folder / "crowd_labels_labelme.npz")
    parts = [arrays[f"features_{part}"].astype(float) for part in ("train", "test")]
    forms = []
    forms_of_parts = {"columns": parts, "square roots": [np.sqrt(part) for part in parts]}
    for name, (train_part, test_part) in forms_of_parts.items():
        for size in (dim, 2 * dim):
            reduce = PCA(size, whiten=True, random_state=0)
            x, x_test = reduce.fit_transform(train_part), reduce.transform(test_part)
            components = GaussianComponents(8, size, least_degrees=MANY)
            name_of_form = f"{name}, {size} directions"
            forms.append(Features(x, x, x_test, x_test, components, name=name_of_form))
    labels = pd.DataFrame(arrays["annotations"], columns=["item", "worker", "label"])
    return Crowd(labels, arrays["truth_train"], arrays["truth_test"], forms)


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
    parser.add_argument("--words", type=int, help="of the sentences, the most frequent; all")
    parser.add_argument("--folds", type=int, default=3, help="in which answers are held out")
    parser.add_argument("--dim", type=int, default=20, help="features of the real crowds")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    figures: dict[str, dict[str, Any]] = {
        "news20": learning_curves(
            options.data, options.sizes, options.items, options.seeds, options.epochs
        )
    }
    draw(figures["news20"], options.figures / "learning_curves.png")
    real = {
        "sentiment_text": sentences(options.data, options.dim, options.words),
        "labelme": images(options.data, options.dim),
    }
    for name, crowd in real.items():
        workers = crowd.labels["worker"].nunique()
        classes = crowd.forms[0].components.num_clusters
        annotators = CommunityConfusion(workers, classes, 1)
        found = compare(crowd, annotators, options.epochs, options.folds)
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
