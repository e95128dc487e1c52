"""CIFAR-10 with 1,000 labels, by a Dirichlet process deep latent Gaussian mixture.

It replaces the experiment on SVHN of Echraibi et al. 2020, figure 4: 20,000 images in colour, and
samples of every cluster. A ridge regression on responses of image patches to patterns is trained on
the labels, and a residual network on its predictions for all images, with random views. The product
of both is q(z | o), from which the fit starts. See ``dp_dlgmm_mnist.py``.

    python examples/dp_dlgmm_cifar10.py --data DIR --figures figures

DIR has ``cifar10_train_1.npz``, ``cifar10_train_2.npz`` and ``cifar10_test_first1000.npz``. Last
line: one JSON object.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cifar10_crowd
from cifar10_crowd import CLASSES, IMAGE, PIXELS
from dp_dlgmm_mnist import Images, arguments_of, run, some_of

from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.guides import StructuredGuide
from pyro_crowdclust.inference import ConsistencyTerm, LabelTerm
from pyro_crowdclust.mixture import DiagonalGaussianComponents, StickBreakingWeights
from pyro_crowdclust.models import DeepLatentMixture
from pyro_crowdclust.networks import (
    ClusterMLP,
    ClusterRecognition,
    CodedMLP,
    ConvolutionalEncoder,
    OpinionPool,
    PatchClassifier,
    RandomPhoto,
    ResidualClassifier,
)
from pyro_crowdclust.starts import TaughtStart
from pyro_crowdclust.supervision import KnownClusters


def load(folder: Path, options: argparse.Namespace) -> Images:
    """The images, or the first ``--items`` of them."""
    train, labels, test, test_labels = cifar10_crowd.load(folder, options.items, options.test_items)
    known = some_of(labels, min(options.labels, len(labels)), options.seed)
    return Images(train, known, test, test_labels, IMAGE)


def build(options: argparse.Namespace) -> StructuredGuide:
    """A model with a dense decoder for every cluster, and its guide with two classifiers."""
    clusters, dim, hidden, width = options.clusters, options.dim, options.hidden, options.width
    decoder = ClusterMLP((dim, hidden, hidden, PIXELS), clusters)
    model = DeepLatentMixture(
        StickBreakingWeights(clusters),
        DiagonalGaussianComponents(clusters, dim, degrees=4.0),
        NormalEmission(decoder, PIXELS, num_clusters=clusters),
        supervision=KnownClusters(clusters),
    )
    trunk = ConvolutionalEncoder(IMAGE, width, (options.channels, 2 * options.channels))
    patches = PatchClassifier(IMAGE, clusters, options.patterns)
    residual = ResidualClassifier(IMAGE, clusters, 4 * options.channels)
    return StructuredGuide(
        model,
        ClusterRecognition(trunk, CodedMLP((width, width, 2 * dim), clusters), [dim]),
        threshold=0.01,
        num_draws=options.draws,
        classifier=OpinionPool([patches, residual]),
        label_term=LabelTerm(options.weight),
        consistency_term=ConsistencyTerm(
            RandomPhoto(IMAGE), options.consistency, options.labelled_consistency
        ),
    )


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the experiment; returns what it prints as JSON."""
    parser = arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--test-items", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--patterns", type=int, default=400, help="number of patch patterns")
    parser.add_argument("--steps", type=int, default=2000, help="steps that train q(z | o)")
    # Weights and rate as in ``cifar10_crowd.py``.
    parser.set_defaults(consistency=10.0, labelled_consistency=100.0, rate=3e-4)
    parser.set_defaults(items=20_000, clusters=CLASSES)
    options = parser.parse_args(arguments)
    start = TaughtStart(None, cifar10_crowd.distillation(options.steps))
    return run(load(options.data, options), options, "cifar10", build(options), start)


if __name__ == "__main__":
    main()
