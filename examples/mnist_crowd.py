"""MNIST with the real answers of 48 workers: the main experiment of Luo et al. 2018.

57,330 answers (91 pages of 36 images, sorted by 48 people) about 2,759 of 60,000 images; K = 50
clusters and d = 8 latent dimensions as in the paper. With the answers or without, ``--variant``

    bayes          BayesSCDC, with a network of its own for q(z given o)
    bayes-latents  BayesSCDC as in the paper: q(z) is read from the latents
    amortized      SCDC

A residual network is then trained on the clusters that the first or the last variant found, with
random views (``--teaching-steps``), and the fit continues with it as q(z given o) for
``--fit-steps``. Predictions are means over ``--views`` of an image.

    python examples/mnist_crowd.py --variant bayes --answers yes --minutes 20 --seed 0

In two processes with the same result, on one machine or several:

    torchrun --nproc-per-node 2 examples/mnist_crowd.py --seed 0

DIR of ``--data DIR`` has ``mnist.npz`` and ``mnist_crowd_annotations.npz``; its default is the
environment variable PYRO_CROWDCLUST_DATA, or ../shared/data without it. Prints a line per epoch
and, last, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import log_loss

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import DropMoves, MergeMoves, RateMoves
from pyro_crowdclust.emissions import BernoulliEmission
from pyro_crowdclust.guides import AmortizedGuide, AtMean, MessagePassingGuide, Sampled
from pyro_crowdclust.inference import ConsistencyTerm, RecognitionTerm
from pyro_crowdclust.metrics import clustering_report
from pyro_crowdclust.minibatches import joined_ranks
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import (
    AmortizedRecognition,
    ConvolutionalEncoder,
    GaussianRecognition,
    RandomAffine,
    ResidualClassifier,
    SkipMLP,
    View,
    ViewOrItself,
)
from pyro_crowdclust.starts import (
    NeighborPartition,
    PrincipalComponentStart,
    TaughtStart,
    ViewTeaching,
)
from pyro_crowdclust.training import Checkpoint, RobbinsMonro, Stopping, Trainer

IMAGE_SHAPE = (1, 28, 28)
PIXELS = 28 * 28
# If training starts at k-means, the weight of views grows over an epoch: at full weight from the
# first step, views of images without answers merge digits before the answers have an effect. From
# clusters that keep neighbours together, views count at once, but with a smaller weight: at a
# weight of 100 and a rate of 3e-3 training merges digits that the start separates.
FROM_K_MEANS = {
    "start": "k-means",
    "learning_rate": 3e-3,
    "consistency": 100.0,
    "consistency_ramp": 1.0,
    "answered_consistency": 1000.0,
}
FROM_NEIGHBORS = {
    "start": "neighbors",
    "learning_rate": 1e-3,
    "consistency": 10.0,
    "consistency_ramp": 0.0,
    "answered_consistency": 100.0,
}
# Those with answers were chosen by the ELBO per item, with the answers of 18 pages held out.
WITH_ANSWERS = {"weight": 20.0, "step_delay": 100.0}
WITHOUT = {"weight": 200.0, "step_delay": 1000.0}
VARIANTS = ("bayes", "bayes-latents", "amortized")
SETTINGS = {
    ("bayes", "yes"): FROM_NEIGHBORS | WITH_ANSWERS,
    ("bayes", "no"): FROM_NEIGHBORS | WITHOUT,
    ("bayes-latents", "yes"): FROM_K_MEANS | WITH_ANSWERS,
    ("bayes-latents", "no"): FROM_NEIGHBORS | WITHOUT,
    ("amortized", "yes"): FROM_NEIGHBORS | WITH_ANSWERS,
    ("amortized", "no"): FROM_NEIGHBORS | WITHOUT,
}


def load(
    folder: Path, answers: bool, num_unanswered: int | None = None, num_held: int = 0
) -> tuple[CrowdData, pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Training images with answers, held-out answers, digits, test images, and their digits.

    Training images without answers are all of them, or the first ``num_unanswered``. The answers of
    ``num_held`` pages are held out, and those of other pages about the same images.
    """
    images = np.load(folder / "mnist.npz")
    crowd = np.load(folder / "mnist_crowd_annotations.npz")
    pairs = pd.DataFrame(crowd["annotations"], columns=["left", "right", "worker", "label"])
    pairs["page"] = crowd["hit"]

    def scaled(pixels: np.ndarray) -> np.ndarray:
        return pixels.reshape(len(pixels), -1).astype(np.float32) / 255

    answered = np.union1d(pairs["left"], pairs["right"])
    others = np.setdiff1d(np.arange(len(images["x_train"])), answered)
    chosen = np.union1d(answered, others[:num_unanswered])
    train, test = scaled(images["x_train"][chosen]), scaled(images["x_test"])
    held = np.random.default_rng(0).permutation(pairs["page"].unique())[:num_held]
    unseen = pairs.loc[pairs["page"].isin(held), ["left", "right"]].to_numpy().ravel()
    ends = pairs[["left", "right"]].isin(unseen)
    seen = pairs[~ends.any(axis=1)]
    data = CrowdData(train, seen if answers else None, item_ids=chosen)
    return data, pairs[ends.all(axis=1)], images["y_train"][chosen], test, images["y_test"]


def build(
    data: CrowdData, options: argparse.Namespace
) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide | AmortizedGuide]:
    """Model and guide, with a perceptron as decoder and convolutions in q(z | o)."""
    clusters, dim, hidden = options.clusters, options.dim, options.hidden
    model = SemiCrowdsourcedMixture(
        DirichletWeights(clusters, options.concentration),
        GaussianComponents(clusters, dim),
        BernoulliEmission(SkipMLP((dim, hidden, hidden, PIXELS))),
        TwoCoin(data.num_workers) if data.num_pairs else None,
    )

    def consistency(epoch: float) -> float:
        ramp = options.consistency_ramp
        return options.consistency * (min(epoch / ramp, 1.0) if ramp else 1.0)

    terms = {
        "recognition_term": RecognitionTerm(options.weight) if data.num_pairs else None,
        "consistency_term": ConsistencyTerm(
            RandomAffine(IMAGE_SHAPE), consistency, options.answered_consistency
        ),
    }
    if options.variant == "bayes-latents":
        network = ConvolutionalEncoder(IMAGE_SHAPE, 2 * dim)
        return model, MessagePassingGuide(model, GaussianRecognition(network, dim), **terms)
    classifier = ConvolutionalEncoder(IMAGE_SHAPE, clusters)
    if options.variant == "bayes":
        potentials = GaussianRecognition(
            SkipMLP((PIXELS, hidden, hidden, 2 * dim)), dim, classifier=classifier
        )
        return model, MessagePassingGuide(model, potentials, **terms)
    recognition = AmortizedRecognition(
        (PIXELS, hidden, hidden), dim, clusters, classifier=classifier
    )
    assignments = Sampled(options.num_summed) if options.num_summed else AtMean()
    return model, AmortizedGuide(model, recognition, assignments=assignments, **terms)


def callbacks(options: argparse.Namespace) -> list[Callable[[Trainer], None]]:
    """Callbacks of the fit."""
    decay = partial(decay_rate, options)
    if options.answers == "no":
        return [decay]
    if options.variant == "bayes-latents":
        return [decay, MergeMoves(), DropMoves(last_epoch=options.drop_until)]
    return [decay, MergeMoves(), *rate_moves(options)]


def decay_rate(options: argparse.Namespace, trainer: Trainer) -> None:
    """The networks' rate falls linearly over the second half: this averages over its last steps."""
    left = max(options.epochs - trainer.epochs_done, 1)
    share = min(1.0, left / (options.epochs + 1 - options.epochs // 2))
    for group in [] if trainer.optim is None else trainer.optim.param_groups:
        group["lr"] = options.learning_rate * share


def rate_moves(options: argparse.Namespace) -> list[Callable[[Trainer], None]]:
    """Moves of workers' rates that are point estimates; conjugate posteriors do not need them."""
    has_points = options.variant == "amortized" and options.answers == "yes"
    return [RateMoves()] if has_points else []


def start(options: argparse.Namespace) -> PrincipalComponentStart:
    """Start of training: at k-means, or at clusters that keep neighbours together."""
    if options.start == "k-means":
        return PrincipalComponentStart(partition_steps=options.partition_steps)
    classifier = partial(ConvolutionalEncoder, IMAGE_SHAPE)
    partition = NeighborPartition(
        classifier,
        RandomAffine(IMAGE_SHAPE),
        steps=options.neighbor_steps,
        device=options.device,
    )
    return PrincipalComponentStart(
        sample_size=60_000, partition=partition, partition_steps=options.partition_steps
    )


def successor(first: Fitted, options: argparse.Namespace) -> TaughtStart:
    """Replace the classifier of a fit by a residual network; returns its start at the clusters."""
    found = first.component_probabilities
    network = ResidualClassifier(IMAGE_SHAPE, options.clusters, options.width)
    first.guide.recognition.set_classifier(network)

    def elsewhere(model: Any, guide: Any, *_: Any) -> None:
        """All else stays as it is."""
        guide.recognition.classifier.draw_parameters()

    view = ViewOrItself(RandomAffine(IMAGE_SHAPE))
    teaching = ViewTeaching(view, steps=options.teaching_steps)
    return TaughtStart(found, teaching, start=elsewhere, device=options.device)


class ViewPool(torch.nn.Module):
    """A classifier averaged over a fixed set of views: logits ``log sum_v p(k | v(o))``."""

    def __init__(self, network: torch.nn.Module, view: View, amounts: torch.Tensor) -> None:
        super().__init__()
        self.network, self.view = network, view
        self.register_buffer("amounts", amounts)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """The logits of items."""
        views = (self.view(features, one.expand(len(features), -1)) for one in self.amounts)
        return torch.stack([self.network(view).log_softmax(-1) for view in views]).logsumexp(0)


def see_views(result: Fitted, options: argparse.Namespace) -> None:
    """Let q(z | o) be the mean over a few views of an item, milder than those of training."""
    view = RandomAffine(IMAGE_SHAPE, degrees=6.0, stretch=0.05, slant=0.08, shift=1.0)
    generator = torch.Generator().manual_seed(options.seed)
    amounts = 2 * torch.rand(options.views, view.num_random, generator=generator) - 1
    recognition = result.guide.recognition
    pool = ViewPool(recognition.classifier, view, amounts)
    recognition.set_classifier(pool.to(options.device))


class Scores:
    """A callback that scores training and test images after every epoch."""

    def __init__(self, train_labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray) -> None:
        self.train_labels, self.test, self.test_labels = train_labels, test, test_labels

    def __call__(self, trainer: Trainer) -> None:
        """Add the scores to the epoch's row of the history and print it."""
        row = trainer.history[-1]
        for part, features, labels in (
            ("train", trainer.data.features, self.train_labels),
            ("test", self.test, self.test_labels),
        ):
            assignments = trainer.predict_proba(features).argmax(1)
            scores = clustering_report(labels, assignments)
            row |= {f"{part}_{name}": value for name, value in scores.items()}
        workers = trainer.guide.workers()
        known = {} if workers is None else workers.rates
        for name, rate in known.items():
            row[f"mean_{name}"] = float(rate.mean.mean())
        if not trainer.ranks.is_first:
            return
        rates = "  ".join(f"{name} {row[f'mean_{name}']:.3f}" for name in known)
        print(
            f"epoch {row['epoch']:3d}  {row['seconds']:5.1f} s  "
            f"ELBO/item {row['elbo'] / trainer.data.num_items:8.2f}  "
            f"train {row['train_accuracy']:.4f} / {row['train_nmi']:.4f} / {row['train_ami']:.4f}  "
            f"test {row['test_accuracy']:.4f} / {row['test_nmi']:.4f} / {row['test_ami']:.4f}  "
            f"clusters {row['test_clusters_in_use']:.0f} "
            f"({row.get('merges', 0)} merged, {row.get('drops', 0)} dropped)  {rates}",
            flush=True,
        )


def held_out_log_loss(result: Fitted, held: pd.DataFrame) -> float:
    """Log loss of the held-out answers, in nats; workers without other answers are average ones."""
    same = result.same_cluster_probability(held["left"], held["right"])
    rates = result.workers[["sensitivity", "specificity"]]
    known = rates.reindex(held["worker"]).fillna(rates.mean())
    says_same = same * known["sensitivity"] + (1 - same) * (1 - known["specificity"])
    return float(log_loss(held["label"], says_same, labels=[0, 1]))


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line options; defaults are the settings of the variant."""
    default = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--variant", choices=VARIANTS, default="bayes")
    parser.add_argument("--answers", choices=["yes", "no"], default="yes")
    parser.add_argument("--minutes", type=float, default=20.0, help="start no epoch after these")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--items", type=int, help="number of images without answers; default: all")
    parser.add_argument(
        "--held-out-pages",
        type=int,
        default=0,
        help="pages to hold out and score",
    )
    parser.add_argument("--checkpoint", type=Path, help="file to resume from and to write")
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--concentration", type=float, help="of the Dirichlet; 1 / clusters if not")
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument(
        "--num-summed", type=int, default=4, help="clusters summed, one drawn (SCDC); 0: all"
    )
    parser.add_argument("--learning-rate", type=float, default=None)
    parser.add_argument("--step-size", type=float, default=0.01)
    parser.add_argument("--step-delay", type=float, default=None)
    parser.add_argument("--drop-until", type=int, default=3, help="last epoch of drop moves")
    parser.add_argument("--weight", type=float, default=None, help="of the recognition term")
    parser.add_argument("--consistency", type=float, default=None)
    parser.add_argument("--consistency-ramp", type=float, default=None, help="epochs")
    parser.add_argument("--start", choices=["k-means", "neighbors"], default=None)
    parser.add_argument("--neighbor-steps", type=int, default=1000)
    parser.add_argument("--partition-steps", type=int, default=300)
    parser.add_argument(
        "--teaching-steps", type=int, default=1600, help="of a second q(z | o); 0: none"
    )
    parser.add_argument("--fit-steps", type=int, default=100, help="of the fit after these")
    parser.add_argument("--views", type=int, default=8, help="seen by it at prediction")
    parser.add_argument("--width", type=int, default=32, help="of the second q(z | o)")
    parser.add_argument("--successor-rate", type=float, default=3e-4, help="of the learning then")
    parser.add_argument("--answered-consistency", type=float, default=None)
    options = parser.parse_args(arguments)
    usual = SETTINGS[options.variant, options.answers]
    given = {name: value for name, value in vars(options).items() if value is not None}
    return argparse.Namespace(**{**vars(options), **usual, **given})


def main(arguments: list[str] | None = None) -> dict[str, float | None]:
    """Run the experiment; returns what it prints as JSON."""
    options = read_options(arguments)
    has_answers = options.answers == "yes"
    data, held, train_labels, test, test_labels = load(
        options.data, has_answers, options.items, options.held_out_pages
    )
    model, guide = build(data, options)
    scores = Scores(train_labels, test, test_labels)
    started = time.perf_counter()
    with joined_ranks() as ranks:
        if ranks.is_first:
            print(f"{data}; {ranks.count} processes of {torch.get_num_threads()} threads")
        result = fit(
            model,
            guide,
            data,
            epochs=options.epochs,
            stopping=Stopping(max_time=timedelta(minutes=options.minutes)),
            optim=partial(torch.optim.Adam, lr=options.learning_rate, fused=True),
            step_size=RobbinsMonro(options.step_size, options.step_delay, forgetting=1.0),
            initialize=start(options),
            seed=options.seed,
            device=options.device,
            progress=False,
            callbacks=[*callbacks(options), scores],
            checkpoint=options.checkpoint and Checkpoint(options.checkpoint, resume=True),
            trainer=partial(Trainer, ranks=ranks),
        )
        if options.variant != "bayes-latents" and options.teaching_steps:
            result = fit(
                result.model,
                result.guide,
                data,
                epochs=1,
                stopping=Stopping(steps=options.fit_steps),
                optim=partial(torch.optim.Adam, lr=options.successor_rate, fused=True),
                step_size=options.step_size,
                initialize=successor(result, options),
                seed=options.seed,
                device=options.device,
                progress=False,
                callbacks=[*rate_moves(options), scores],
                trainer=partial(Trainer, ranks=ranks),
            )
            see_views(result, options)
    last, report = result.history.iloc[-1], clustering_report(test_labels, result.predict(test))
    figures = {
        "test_accuracy": report["accuracy"],
        "test_nmi": report["nmi"],
        "test_ami": report["ami"],
        "clusters_in_use": int(report["clusters_in_use"]),
        "mean_sensitivity": last.get("mean_sensitivity"),
        "mean_specificity": last.get("mean_specificity"),
        "seconds_per_epoch": float(result.history["seconds"].mean()),
        "processor_minutes": time.process_time() / 60,
    }
    if has_answers and len(held):
        figures["elbo_per_item"] = last["elbo"] / data.num_items
        figures["log_loss_held_out"] = held_out_log_loss(result, held)
    figures = {name: None if v is None else round(float(v), 4) for name, v in figures.items()}
    if ranks.is_first:
        print(f"{result.stop_reason}; {time.perf_counter() - started:.0f} s in all")
        print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
