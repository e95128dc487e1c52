"""MNIST with few labels, or none, by a Dirichlet process deep latent Gaussian mixture.

The experiments of Echraibi et al. 2020: stick-breaking weights of a Dirichlet process, with 10 % of
the labels, drawn at random, or without labels.

    python examples/dp_dlgmm_mnist.py --labels 0.1 --data DIR --seed 0
    python examples/dp_dlgmm_mnist.py --labels 0 --figures figures

DIR has ``mnist.npz``; its default is the environment variable PYRO_CROWDCLUST_DATA, or
../shared/data without it. q(z | o) is a convolutional classifier that also learns from random views
of the images. Test items are predicted by q(z | o) and, for comparison, by importance weights. With
labels a cluster is a digit. Without labels the truncation is T = 50, training starts at clusters
that keep nearest neighbours together, as for SCDC in ``mnist_crowd.py``, and clusters are matched
to digits one to one. ``--holdout N`` scores the last N training images, which are then not used for
training: all settings were chosen in this way. ``--figures`` draws samples of every cluster and a
t-SNE of the latents.

Prints a line per epoch and, last, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.manifold import TSNE
from torch import nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.emissions import BernoulliEmission
from pyro_crowdclust.guides import StructuredGuide
from pyro_crowdclust.inference import ConsistencyTerm, LabelTerm
from pyro_crowdclust.metrics import (
    clustering_accuracy,
    clusters_in_use,
    expected_calibration_error,
    normalized_mutual_information,
)
from pyro_crowdclust.minibatches import item_batches
from pyro_crowdclust.mixture import DiagonalGaussianComponents, StickBreakingWeights
from pyro_crowdclust.models import DeepLatentMixture
from pyro_crowdclust.networks import (
    ClusterMLP,
    ClusterRecognition,
    CodedMLP,
    ConvolutionalEncoder,
    RandomAffine,
)
from pyro_crowdclust.plots import new_figure, plot_cluster_samples, plot_partition
from pyro_crowdclust.protocols import Start
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.starts import NeighborPartition, PrincipalComponentStart
from pyro_crowdclust.supervision import KnownClusters
from pyro_crowdclust.training import RobbinsMonro, Trainer

# With labels a cluster is a class. Without labels there are more clusters than needed, and the
# weight of views and the rate are those of SCDC from the same start.
WITH_LABELS = {"clusters": 10, "rate": 2e-3, "consistency": 20.0}
WITHOUT_LABELS = {"clusters": 50, "rate": 1e-3, "consistency": 10.0}


@dataclass(frozen=True)
class Images:
    """Images as rows, labels of some of them, images to score, and the shape of an image."""

    train: np.ndarray
    known: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    shape: tuple[int, int, int]

    @property
    def labelled(self) -> bool:
        """Whether any label is known."""
        return bool((self.known >= 0).any())


def rows(images: np.ndarray) -> np.ndarray:
    """Images of bytes as rows in [0, 1]."""
    return images.reshape(len(images), -1).astype(np.float32) / 255


def some_of(labels: np.ndarray, count: int, seed: int) -> np.ndarray:
    """A random share of the labels, and -1 for the others."""
    chosen = np.random.default_rng(seed).choice(len(labels), count, replace=False)
    known = np.full(len(labels), -1)
    known[chosen] = labels[chosen]
    return known


def load(folder: Path, options: argparse.Namespace) -> Images:
    """MNIST, or its first ``--items`` training images."""
    images = np.load(folder / "mnist.npz")
    train, labels = images["x_train"], images["y_train"].astype(np.int64)
    test, test_labels = images["x_test"], images["y_test"].astype(np.int64)
    if options.holdout:
        test, test_labels = train[-options.holdout :], labels[-options.holdout :]
        train, labels = train[: -options.holdout], labels[: -options.holdout]
    if options.items:
        train, labels = train[: options.items], labels[: options.items]
        test, test_labels = test[: options.items], test_labels[: options.items]
    known = some_of(labels, round(options.labels * len(train)), options.seed)
    return Images(rows(train), known, rows(test), test_labels, (1, *train.shape[1:]))


def build(images: Images, options: argparse.Namespace) -> StructuredGuide:
    """A model with a dense decoder for every cluster, and its guide with convolutional networks."""
    clusters, dim, hidden, width = options.clusters, options.dim, options.hidden, options.width
    model = DeepLatentMixture(
        StickBreakingWeights(clusters),
        DiagonalGaussianComponents(clusters, dim, degrees=4.0),
        BernoulliEmission(ClusterMLP((dim, hidden, hidden, images.train.shape[1]), clusters)),
        supervision=KnownClusters(clusters) if images.labelled else None,
    )
    shape = images.shape
    trunk = ConvolutionalEncoder(shape, width, (options.channels, 2 * options.channels))
    recognition = ClusterRecognition(trunk, CodedMLP((width, width, 2 * dim), clusters), [dim])
    weights = options.consistency, options.labelled_consistency
    return StructuredGuide(
        model,
        recognition,
        threshold=0.01,
        num_draws=options.draws,
        classifier=ConvolutionalEncoder(shape, clusters),
        label_term=LabelTerm(options.weight) if images.labelled else None,
        consistency_term=ConsistencyTerm(RandomAffine(shape), *weights),
    )


def start(images: Images, options: argparse.Namespace) -> PrincipalComponentStart:
    """Start of training: near the labels, or at clusters that keep neighbours together."""
    if images.labelled:
        return PrincipalComponentStart()
    classifier, view = partial(ConvolutionalEncoder, images.shape), RandomAffine(images.shape)
    partition = NeighborPartition(classifier, view, steps=options.neighbor_steps)
    return PrincipalComponentStart(
        sample_size=60_000, partition=partition, partition_steps=options.partition_steps
    )


class OneCycleAdam(torch.optim.Adam):
    """Adam whose rate rises in a line over a tenth of the steps, and falls in a line to zero."""

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float, steps: int) -> None:
        super().__init__(parameters, lr=rate, fused=True)
        self.rate, self.steps, self.taken = rate, steps, 0

    def step(self, closure: None = None) -> None:
        """One step, with the rate of the schedule."""
        self.taken += 1
        done = self.taken / self.steps
        for group in self.param_groups:
            group["lr"] = self.rate * max(0.0, min(10 * done, (1 - done) / 0.9))
        super().step()


def report(trainer: Trainer) -> None:
    """A callback that prints every epoch."""
    row = trainer.history[-1]
    print(
        f"epoch {row['epoch']:3d}  {row['seconds']:6.1f} s  "
        f"ELBO/item {row['elbo'] / trainer.data.num_items:8.2f}  clusters {row['clusters_in_use']}",
        flush=True,
    )


def train(
    images: Images, options: argparse.Namespace, guide: StructuredGuide, first: Start
) -> Fitted:
    """Fit the mixture to the images."""
    data = CrowdData(images.train, known=images.known if images.labelled else None)
    print(f"{data}; {torch.get_num_threads()} threads", flush=True)
    steps = options.epochs * max(1, round(data.num_items / options.batch_size))
    return fit(
        guide.model,
        guide,
        data,
        epochs=options.epochs,
        batch_size=options.batch_size,
        optim=partial(OneCycleAdam, rate=options.rate, steps=steps),
        step_size=RobbinsMonro(0.05, 1000, forgetting=1.0),
        initialize=first,
        seed=options.seed,
        progress=False,
        callbacks=[report],
    )


def by_importance_weights(result: Fitted, features: np.ndarray) -> np.ndarray:
    """q(z) of new items by importance weights, even if the guide has q(z | o)."""
    parts = []
    with result.inside():
        for batch in item_batches(CrowdData(features), 2000):
            parts.append(result.guide.importance_logits(batch).softmax(-1))
    return torch.cat(parts).double().numpy()


def error_and_calibration(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Share of wrong classes, and expected calibration error."""
    right = probabilities.argmax(1) == labels
    return 1 - right.mean(), expected_calibration_error(probabilities.max(1), right)


def score(result: Fitted, images: Images) -> dict[str, float]:
    """Errors of the predicted classes, by q(z | o) and by importance weights.

    Without labels, clusters are matched to classes.
    """
    probabilities, labels = result.predict_proba(images.test), images.test_labels
    weighted = by_importance_weights(result, images.test)
    figures = {}
    for suffix, found in (("", probabilities), ("_importance_weights", weighted)):
        clusters = found.argmax(1)
        if result.data.known is None:
            figures[f"test_error{suffix}"] = 1 - clustering_accuracy(labels, clusters)
        else:
            names = f"test_error{suffix}", f"calibration_error{suffix}"
            figures |= zip(names, error_and_calibration(found, labels), strict=True)
        figures[f"test_nmi{suffix}"] = normalized_mutual_information(labels, clusters)
    figures["clusters_in_use"] = clusters_in_use(probabilities.argmax(1))
    return figures


def draw(result: Fitted, images: Images, folder: Path, name: str) -> None:
    """Figures 2 to 4 of the paper: latents of some test images, and samples of every cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    axes = plot_cluster_samples(result, images.shape, at_least=0.005)
    axes.figure.savefig(folder / f"{name}_samples.png", dpi=75, metadata={"Software": None})
    some = images.test[:2000]
    tsne = TSNE(2, init="pca", perplexity=min(30, len(some) / 4), random_state=0)
    points = tsne.fit_transform(result.transform(some))
    figure = new_figure(10.0, 4.6)
    left, right = figure.subplots(1, 2)
    for axes, title, groups in (
        (left, "by cluster", result.predict(some)),
        (right, "by true class", images.test_labels[: len(some)]),
    ):
        plot_partition(points, groups, axes=axes)
        axes.set_title(title)
    figure.savefig(folder / f"{name}_latent.png", dpi=75, metadata={"Software": None})


def arguments_of(description: str) -> argparse.ArgumentParser:
    """Options for both image sets."""
    default = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--seed", type=int, default=0, help="of the labels and of the fit")
    parser.add_argument("--items", type=int, help="number of images; all if not given")
    parser.add_argument("--clusters", type=int, help="T")
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=64, help="width of each decoder")
    parser.add_argument("--width", type=int, default=128, help="size of the trunk's output")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--weight", type=float, default=100.0, help="of the label term")
    parser.add_argument("--consistency", type=float, help="weight of views")
    parser.add_argument("--labelled-consistency", type=float, default=300.0)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--draws", type=int, default=20, help="importance weights of a prediction")
    parser.add_argument("--figures", type=Path, help="folder for pictures; none if not given")
    return parser


def run(
    images: Images, options: argparse.Namespace, name: str, guide: StructuredGuide, first: Start
) -> dict[str, float]:
    """Train, score, draw, and print the figures as JSON."""
    started = time.process_time()
    result = train(images, options, guide, first)
    figures = score(result, images)
    figures["processor_minutes"] = (time.process_time() - started) / 60
    if options.figures:
        draw(result, images, options.figures, name)
    print(json.dumps({name: round(float(value), 4) for name, value in figures.items()}))
    return figures


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the experiment; returns what it prints as JSON."""
    parser = arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--labels", type=float, default=0.1, help="share of labelled images")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--neighbor-steps", type=int, default=1000, help="of the start")
    parser.add_argument("--partition-steps", type=int, default=300, help="of the start")
    parser.add_argument("--holdout", type=int, help="number of training images to score instead")
    options = parser.parse_args(arguments)
    images = load(options.data, options)
    usual = WITH_LABELS if images.labelled else WITHOUT_LABELS
    given = {name: value for name, value in vars(options).items() if value is not None}
    options = argparse.Namespace(**{**vars(options), **usual, **given})
    name = "mnist_labels" if options.labels else "mnist"
    return run(images, options, name, build(images, options), start(images, options))


if __name__ == "__main__":
    main()
