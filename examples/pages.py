"""MNIST digits sorted by 48 people: 91 pages of 36 digits, used as placements or as pairs.

The same answers are used in two ways: as 3,276 placements under ``SortedPages``, and as the 57,330
pairs that follow from them under ``TwoCoin``. A few pages are held out of both fits and predicted.

    python examples/pages.py --variant amortized --seed 0

SCDC (``amortized``), BayesSCDC (``bayes``), both with small networks on pixels, or ``plain``: a
mixture of Gaussians on the first principal components. DIR of ``--data DIR`` has ``mnist.npz`` and
``mnist_crowd_annotations.npz``; its default is the environment variable PYRO_CROWDCLUST_DATA, or
../shared/data without it. Prints a line per fit, the pages that are probably lumped, worst first,
and, last, one JSON object, with scores of both fits: accuracy on the images that people saw and on
others, the share of wrong pairs among those with a probability of "same" above .99, log losses, and
seconds per step.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import SortedPages, TwoCoin, pair_rates
from pyro_crowdclust.callbacks import MergeMoves, RateMoves
from pyro_crowdclust.emissions import BernoulliEmission, Emission, Identity
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP
from pyro_crowdclust.training import RobbinsMonro

PIXELS = 28 * 28


def load(
    folder: Path, others: int, held_out: int, seed: int
) -> tuple[CrowdData, CrowdData, np.ndarray]:
    """The pages of the fit, the held-out pages, and the digits of the images.

    Images are all those on pages, and ``others`` more.
    """
    images = np.load(folder / "mnist.npz")
    crowd = np.load(folder / "mnist_crowd_annotations.npz")
    pairs = pd.DataFrame(crowd["annotations"], columns=["left", "right", "worker", "label"])
    pairs["page"] = crowd["hit"]
    seen = np.union1d(pairs["left"], pairs["right"])
    unseen = np.setdiff1d(np.arange(len(images["x_train"])), seen)[:others]
    chosen = np.union1d(seen, unseen)
    pixels = images["x_train"][chosen].reshape(len(chosen), -1).astype(np.float32) / 255
    # A page is held out only if its worker also sorted another one.
    workers = pairs.groupby("page")["worker"].first()
    again = workers[workers.duplicated()].index.to_numpy()
    out = np.random.default_rng(seed).choice(again, held_out, replace=False)
    kept = pairs["page"].isin(out)
    data = [CrowdData(pixels, pairs[part], item_ids=chosen) for part in (~kept, kept)]
    return data[0], data[1], images["y_train"][chosen]


def principal_components(pixels: np.ndarray, dim: int) -> np.ndarray:
    """The first principal components, the first of variance one."""
    centered = pixels - pixels.mean(0)
    left, scale, _ = np.linalg.svd(centered, full_matrices=False)
    return left[:, :dim] * scale[:dim] / scale[0] * np.sqrt(len(pixels))


def fitted(data: CrowdData, options: argparse.Namespace) -> Fitted:
    """Fit one of the variants to placements or to pairs."""
    clusters, dim, hidden = options.clusters, options.dim, options.hidden
    kind = TwoCoin if data.placements is None else SortedPages
    common = {"seed": options.seed, "progress": False, "epochs": options.epochs}

    def model(emission: Emission) -> SemiCrowdsourcedMixture:
        parts = DirichletWeights(clusters), GaussianComponents(clusters, dim)
        return SemiCrowdsourcedMixture(*parts, emission, kind(data.num_workers))

    if options.variant == "plain":
        plain = model(Identity())
        full = {"batch_size": None, "step_size": 0.5, "dtype": torch.float64}
        return fit(
            plain, MessagePassingGuide(plain), data, callbacks=[MergeMoves()], **full, **common
        )
    deep = model(BernoulliEmission(SkipMLP((dim, hidden, hidden, PIXELS))))
    term = RecognitionTerm(options.weight)
    first = options.epochs // 4
    callbacks = [MergeMoves(first_epoch=first)]
    if options.variant == "bayes":
        network = SkipMLP((PIXELS, hidden, hidden, 2 * dim))
        guide = MessagePassingGuide(deep, GaussianRecognition(network, dim), recognition_term=term)
    else:
        networks = AmortizedRecognition((PIXELS, hidden, hidden), dim, clusters)
        guide = AmortizedGuide(deep, networks, recognition_term=term)
        callbacks.append(RateMoves())
    return fit(
        deep,
        guide,
        data,
        optim=partial(torch.optim.Adam, lr=options.learning_rate),
        step_size=RobbinsMonro(0.1, delay=200.0),
        callbacks=callbacks,
        **common,
    )


def rates(result: Fitted, workers: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Sensitivity and specificity over pairs of these workers."""
    table = result.workers.loc[workers]
    if isinstance(result.model.annotators, SortedPages):
        in_use = int((result.clusters["assigned_items"] > 0).sum())
        return pair_rates(table["accuracy"].to_numpy(), max(in_use, 2))
    return table["sensitivity"].to_numpy(), table["specificity"].to_numpy()


def log_loss(probability: np.ndarray, is_true: np.ndarray) -> float:
    """Mean of ``-log p`` of the truth."""
    probability = probability.clip(1e-6, 1 - 1e-6)
    return float(-np.log(np.where(is_true, probability, 1 - probability)).mean())


def scores(result: Fitted, held: CrowdData, digits: np.ndarray) -> dict[str, float]:
    """Scores of clusters, probabilities and predictions."""
    seen = result.data.annotated_items.numpy()
    unseen = np.setdiff1d(np.arange(len(digits)), held.annotated_items.numpy())
    unseen = np.setdiff1d(unseen, seen)
    found, probabilities = result.assignments, result.probabilities
    left, right = np.triu_indices(len(seen), 1)
    same = (probabilities[seen] @ probabilities[seen].T)[left, right]
    is_same = digits[seen][left] == digits[seen][right]
    pairs = held.pairs
    of_pairs = result.same_cluster_probability(pairs["left"].to_numpy(), pairs["right"].to_numpy())
    sensitivity, specificity = rates(result, pairs["worker"])
    says_same = of_pairs * sensitivity + (1 - of_pairs) * (1 - specificity)
    label = pairs["label"].to_numpy() == 1
    sure = same > 0.99
    steps = result.history["step"].max()
    return {
        "accuracy": clustering_accuracy(digits[seen], found[seen]),
        "accuracy_of_others": clustering_accuracy(digits[unseen], found[unseen]),
        "clusters_in_use": float((result.clusters["assigned_items"] > 0).sum()),
        "wrong_above_99": float((~is_same[sure]).mean()) if sure.any() else 0.0,
        "log_loss_same_cluster": log_loss(same, is_same),
        "log_loss_held_out": log_loss(says_same, label),
        "log_loss_held_out_base": log_loss(np.full(len(label), label.mean()), label),
        "seconds_a_step": float(result.history["seconds"].sum() / steps),
    }


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Fit both ways; returns what it prints as JSON."""
    default = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--variant", choices=["plain", "bayes", "amortized"], default="amortized")
    parser.add_argument("--items", type=int, default=4000, help="images without answers")
    parser.add_argument("--held-out", type=int, default=13, help="held-out pages")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--clusters", type=int, default=30)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=200)
    parser.add_argument("--weight", type=float, default=20.0, help="of the recognition term")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    data, held, digits = load(options.data, options.items, options.held_out, options.seed)
    if options.variant == "plain":
        features = principal_components(data.features, options.dim)
        data = CrowdData(features, data.pairs, item_ids=data.item_ids)
    print(data)
    figures: dict[str, object] = {}
    for name, answers in (("placements", data.as_placements()), ("pairs", data)):
        result = fitted(answers, options)
        found = scores(result, held, digits)
        figures[name] = {key: round(float(value), 4) for key, value in found.items()}
        print(f"{name:10s} {figures[name]}", flush=True)
        if name == "placements":
            lumped = result.pages.query("lumped > 0.5").sort_values("lumped_pairs", ascending=False)
            figures["lumped_pages"] = [int(page) for page in lumped.index]
            columns = ["worker", "groups", "lumped", "careless", "lumped_pairs", "misplaced"]
            worst = result.pages.sort_values("misplaced", ascending=False).head(5)
            print(pd.concat([lumped, worst])[columns].round(2).to_string())
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
