"""CIFAR-10 with simulated pages, after Luo et al. 2018, section 5.3.

The answers of the paper are not public, so they are simulated in the same way: 240 pages of 36
images, drawn from 4,000, are sorted by 32 workers. They sort by labels that people gave
(CIFAR-10N), or by the true classes with the error rates of the 48 workers who sorted MNIST
(``--quality mnist``). K = 10 clusters, d = 64. First the answered images are clustered by the
answers alone. A ridge regression on responses of image patches to patterns is trained on these
clusters (``--classifier patches``), and a network on its predictions for all images, with random
views. The product of both (``pool``, the default) is q(z | o) of SCDC, which is then trained for
``--epochs``, or ``--fit-steps``. With ``--classifier network`` there is only the network.

    python examples/cifar10_crowd.py --fit-steps 40 --seed 0
    python examples/cifar10_crowd.py --fit-steps 40 --classifier patches

Without answers the first clusters come from k-means on these responses:

    python examples/cifar10_crowd.py --answers no --steps 1000 --fit-steps 40

The default networks are small enough for a CPU. ``--networks paper`` has those of the paper, for a
GPU: five stacks of residual blocks from 32 x 32 to 8 x 8 and back, and nine convolutional layers
for q(z | o):

    python examples/cifar10_crowd.py --networks paper --width 64 --device cuda

Reads ``cifar10_train_1.npz``, ``cifar10_train_2.npz``, ``cifar10_test_first1000.npz``, and
``mnist.npz`` and ``mnist_crowd_annotations.npz`` or ``cifar10n_labels.npz`` from a folder; its
default is the environment variable PYRO_CROWDCLUST_DATA, or ../shared/data without it. Prints a
line per epoch and, last, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from pyro_crowdclust import CrowdData, cluster, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import RateMoves
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.inference import ConsistencyTerm, RecognitionTerm
from pyro_crowdclust.metrics import clustering_report
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import (
    AmortizedRecognition,
    ConvolutionalClassifier,
    GaussianRecognition,
    OpinionPool,
    PatchClassifier,
    RandomPhoto,
    ResidualClassifier,
    ResidualDecoder,
    ResidualEncoder,
    SkipMLP,
)
from pyro_crowdclust.simulation import simulate_partitions, two_coin_rates
from pyro_crowdclust.starts import (
    Distillation,
    PrincipalComponentStart,
    RidgeTeaching,
    TaughtStart,
    ViewTeaching,
)
from pyro_crowdclust.training import Stopping, Trainer

IMAGE, PIXELS, CLASSES = (3, 32, 32), 3 * 32 * 32, 10
ASKED, PAGES, PAGE_SIZE, WORKERS = 4000, 240, 36, 32


def rows(images: np.ndarray) -> np.ndarray:
    """Images ``[item, 32, 32, 3]`` of bytes as rows, channels first, of about unit scale."""
    return ((images.transpose(0, 3, 1, 2).reshape(len(images), -1) / 255 - 0.5) * 4).astype(
        np.float32
    )


def load(
    folder: Path, items: int, test_items: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first images of the training set and their classes; test images and their classes."""
    parts = [np.load(folder / f"cifar10_train_{part}.npz") for part in (1, 2)]
    if items <= 10_000:
        parts = parts[:1]
    images = np.concatenate([part["images"] for part in parts])[:items]
    labels = np.concatenate([part["labels"] for part in parts])[:items]
    test = np.load(folder / "cifar10_test_first1000.npz")
    test_images, test_labels = (test[name][:test_items] for name in ("images", "labels"))
    return rows(images), labels.astype(int), rows(test_images), test_labels.astype(int)


def mnist_error_rates(folder: Path, rng: np.random.Generator) -> np.ndarray:
    """Shares of images that 32 workers of MNIST misplace: ``1 - sqrt(sensitivity)``."""
    crowd = np.load(folder / "mnist_crowd_annotations.npz")
    pairs = pd.DataFrame(crowd["annotations"], columns=["left", "right", "worker", "label"])
    rates = two_coin_rates(pairs, np.load(folder / "mnist.npz")["y_train"])
    errors = 1 - np.sqrt(rates["sensitivity"].to_numpy())
    return rng.choice(errors[np.isfinite(errors)], WORKERS, replace=False)


def ask(folder: Path, labels: np.ndarray, quality: str, seed: int) -> pd.DataFrame:
    """Pages of the answered images; proportionally fewer if there are fewer than 4,000 images."""
    rng = np.random.default_rng(seed)
    asked = rng.permutation(len(labels))[:ASKED]
    pages = max(1, round(PAGES * len(asked) / ASKED))
    each = -(-pages // WORKERS)
    draw = partial(simulate_partitions, pages_per_worker=each, page_size=PAGE_SIZE, items=asked)
    if quality == "mnist":
        frame = draw(labels, mnist_error_rates(folder, rng), seed=seed)
    else:
        # Workers sort by the label that one person gave to each image, right or wrong.
        human = np.load(folder / "cifar10n_labels.npz")["labels"][: len(labels)].astype(int)
        sorted_by = [draw(human[:, one], [0.0] * WORKERS, seed=seed) for one in range(3)]
        frame = pd.concat([part[part["worker"] % 3 == one] for one, part in enumerate(sorted_by)])
    # Workers take turns until all pages are sorted.
    turn = frame["page"] % each * WORKERS + frame["worker"]
    return frame[turn < pages].reset_index(drop=True)


def clusters_of_answered(pairs: pd.DataFrame, num_items: int, seed: int) -> torch.Tensor:
    """The cluster of every image from the answers alone, -1 for images without answers."""
    alone = cluster(None, pairs=pairs, seed=seed, progress=False)
    codes = np.full(num_items, -1)
    # Clusters are sorted by size; the ones beyond K have only a few images each.
    codes[alone.data.item_ids] = np.where(alone.assignments < CLASSES, alone.assignments, -1)
    return torch.from_numpy(codes)


def clusters_of_patches(images: np.ndarray, seed: int, dim: int = 20) -> torch.Tensor:
    """K-means on responses of patches of an image to patterns, for some images; -1 for the others.

    Principal components of the responses are whitened, and normalized to length one.
    """
    generator = torch.Generator().manual_seed(seed)
    network = PatchClassifier(IMAGE, CLASSES, num_patterns=200, stride=2)
    features = torch.from_numpy(images)
    network.learn_patterns(features[: 2 * ASKED], generator)
    with torch.no_grad():
        pooled = torch.cat([network.pooled(part) for part in features.split(1024)])
    network.standardize(pooled)
    points = PCA(dim, whiten=True, random_state=seed).fit_transform(network.standardized(pooled))
    found = KMeans(CLASSES, n_init=3, random_state=seed).fit_predict(normalize(points))
    shown = torch.randperm(len(images), generator=generator)[:ASKED]
    clusters = torch.full((len(images),), -1)
    clusters[shown] = torch.as_tensor(found, dtype=torch.int64)[shown]
    return clusters


def build(
    data: CrowdData, options: argparse.Namespace
) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide | AmortizedGuide]:
    """BayesSCDC or SCDC with the same decoder."""
    dim, width, hidden = options.dim, options.width, 8 * options.width
    if options.networks == "paper":
        decoder = ResidualDecoder(dim, IMAGE, width)
        network = ConvolutionalClassifier(IMAGE, CLASSES, 2 * width)
        trunk = ResidualEncoder(IMAGE, hidden, width)
    else:
        decoder = SkipMLP((dim, hidden, PIXELS))
        network = ResidualClassifier(IMAGE, CLASSES, 2 * width)
        trunk = SkipMLP((PIXELS, hidden, hidden))
    patches = PatchClassifier(IMAGE, CLASSES, options.patterns, stride=options.stride)
    classifier = {
        "patches": patches,
        "pool": OpinionPool([patches, network]),
        "network": network,
    }[options.classifier]
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLASSES, 1.0),
        GaussianComponents(CLASSES, dim),
        NormalEmission(decoder, PIXELS),
        TwoCoin(data.num_workers) if data.answers is not None else None,
    )
    # With the weights for MNIST: those for views without answers would merge clusters.
    terms = {
        "recognition_term": RecognitionTerm(options.weight) if data.answers is not None else None,
        "consistency_term": ConsistencyTerm(
            RandomPhoto(IMAGE), options.consistency, options.answered_consistency
        ),
    }
    if options.variant == "bayes":
        encoder = GaussianRecognition(ResidualEncoder(IMAGE, 2 * dim, width), dim)
        return model, MessagePassingGuide(model, encoder, **terms)
    recognition = AmortizedRecognition(
        (PIXELS, hidden), dim, CLASSES, trunk=trunk, classifier=classifier
    )
    return model, AmortizedGuide(model, recognition, **terms)


class Scores:
    """A callback that scores training and test images after every epoch."""

    def __init__(self, labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray) -> None:
        self.labels, self.test, self.test_labels = labels, test, test_labels

    @torch.no_grad()
    def of_start(self, guide: MessagePassingGuide | AmortizedGuide) -> None:
        """Print the scores of q(z | o) on test images before training."""
        if isinstance(guide, AmortizedGuide):
            found = guide.recognition.classifier(torch.from_numpy(self.test)).argmax(1).numpy()
            scores = clustering_report(self.test_labels, found)
            print(f"start: test {scores['accuracy']:.4f} / {scores['nmi']:.4f}", flush=True)

    def __call__(self, trainer: Trainer) -> None:
        """Add the scores to the epoch's row of the history and print it."""
        row = trainer.history[-1]
        for part, features, labels in (
            ("train", trainer.data.features, self.labels),
            ("test", self.test, self.test_labels),
        ):
            scores = clustering_report(labels, trainer.predict_proba(features).argmax(1))
            row |= {f"{part}_{name}": value for name, value in scores.items()}
        print(
            f"epoch {row['epoch']:3d}  {row['seconds']:6.1f} s  "
            f"ELBO/item {row['elbo'] / trainer.data.num_items:9.2f}  "
            f"train {row['train_accuracy']:.4f} / {row['train_nmi']:.4f}  "
            f"test {row['test_accuracy']:.4f} / {row['test_nmi']:.4f}  "
            f"clusters {row['test_clusters_in_use']:.0f}",
            flush=True,
        )


def distillation(steps: int) -> Distillation:
    """Train with milder views than the consistency term, since each image has only few of them."""
    return Distillation(
        RandomPhoto(IMAGE, degrees=5.0, stretch=0.1, shift=3.0, hidden=8.0), steps=steps
    )


def teacher(options: argparse.Namespace) -> ViewTeaching | RidgeTeaching | Distillation:
    """How q(z | o) is trained on the first clusters."""
    if options.classifier == "network":
        return ViewTeaching(RandomPhoto(IMAGE), steps=options.steps)
    if options.classifier == "patches":
        return RidgeTeaching()
    return distillation(options.steps)


def start(
    options: argparse.Namespace, images: np.ndarray, pairs: pd.DataFrame | None
) -> TaughtStart | PrincipalComponentStart:
    """Start q(z | o) of SCDC at clusters from answers, or from patches; BayesSCDC at k-means."""
    if options.variant == "bayes":
        return PrincipalComponentStart(partition_steps=options.partition_steps)
    if pairs is None:
        clusters = clusters_of_patches(images, options.seed)
    else:
        clusters = clusters_of_answered(pairs, options.items, options.seed)
    return TaughtStart(clusters, teacher(options), device=options.device)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the experiment; returns what it prints as JSON."""
    default = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--test-items", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--fit-steps", type=int, help="of SCDC at most; whole epochs if not given")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variant", choices=["bayes", "amortized"], default="amortized")
    parser.add_argument("--answers", choices=["yes", "no"], default="yes")
    parser.add_argument("--quality", choices=["mnist", "cifar10n"], default="cifar10n")
    parser.add_argument("--networks", choices=["small", "paper"], default="small")
    parser.add_argument("--classifier", choices=["patches", "network", "pool"], default="pool")
    parser.add_argument("--patterns", type=int, default=400, help="of patches")
    parser.add_argument("--stride", type=int, default=1, help="pixels from patch to patch")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4000, help="in which q(z | o) is taught")
    parser.add_argument("--batch-size", type=int, default=100, help="images without answers")
    parser.add_argument("--weight", type=float, default=200.0, help="of the recognition term")
    parser.add_argument("--consistency", type=float, help="of views; 10, or 1 without answers")
    parser.add_argument("--answered-consistency", type=float, default=100.0)
    parser.add_argument("--learning-rate", type=float, help="3e-4, or 3e-5 without answers")
    parser.add_argument("--partition-steps", type=int, default=100)
    options = parser.parse_args(arguments)
    # Without answers to separate clusters, views with a weight of 10 merge them, and large steps
    # undo the start: for the ELBO, colours matter more than objects.
    if options.consistency is None:
        options.consistency = 10.0 if options.answers == "yes" else 1.0
    if options.learning_rate is None:
        options.learning_rate = 3e-4 if options.answers == "yes" else 3e-5

    images, labels, test, test_labels = load(options.data, options.items, options.test_items)
    pairs = None
    if options.answers == "yes":
        pairs = ask(options.data, labels, options.quality, options.seed)
    data = CrowdData(images, pairs)
    print(f"{data}; {options.device}, {torch.get_num_threads()} threads", flush=True)
    model, guide = build(data, options)
    scores = Scores(labels, test, test_labels)
    first = start(options, images, pairs)

    def begin(*parts: Any) -> None:
        first(*parts)
        scores.of_start(parts[1])

    moves = [RateMoves()] if options.variant == "amortized" else []
    result = fit(
        model,
        guide,
        data,
        epochs=options.epochs,
        batch_size=options.batch_size,
        optim=partial(torch.optim.Adam, lr=options.learning_rate, fused=True),
        step_size=0.01,
        seed=options.seed,
        device=options.device,
        initialize=begin,
        stopping=Stopping(steps=options.fit_steps),
        callbacks=[*moves, scores],
        progress=False,
    )
    last = result.history.iloc[-1]
    names = ("accuracy", "nmi", "ami", "ari", "clusters_in_use")
    figures = {f"test_{name}": float(last[f"test_{name}"]) for name in names}
    figures["train_accuracy"] = float(last["train_accuracy"])
    figures["train_nmi"] = float(last["train_nmi"])
    figures["seconds_per_epoch"] = float(result.history["seconds"].mean())
    figures["processor_minutes"] = time.process_time() / 60
    print(f"{result.stop_reason}")
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
    return figures


if __name__ == "__main__":
    main()
