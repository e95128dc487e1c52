"""Five UCI data sets with labels on 0 to 50 % of the items; Echraibi et al. 2019, section 3.3.

A mixture of Gaussians with stick-breaking weights, without the number of classes: there are at most
T = 10 clusters for iris and wine, 20 for glass, yeast and digits. Without labels, ``cluster``
chooses the kind and the number of components; with labels four settings are averaged, with weights
from held-out labels. Labels are nearly noise-free answers about clusters (``ClassTable``), or, with
``--supervision field``, the paper's hidden Markov random field. Each run draws the items with
labels, which are the same for all peers.

    python examples/uci_semisupervised.py --data ../shared/data --runs 10

The prediction for an item with a label is its label, for our fit and for every peer. Our fit and
the clusterings are scored by the best one-to-one map of predictions (classes if there are labels,
otherwise clusters) to the true classes. The last line is a JSON object: the best run on all items;
under ``unlabeled`` on the items without a label; under ``mean`` the means of both; under ``peers``
the same for each peer.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import BayesianGaussianMixture
from sklearn.preprocessing import PowerTransformer, StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading

from pyro_crowdclust import CrowdData, Fitted, cluster, fit
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import GaussianComponents, StickBreakingWeights
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.pooling import stacking_weights
from pyro_crowdclust.results import known_class_probabilities, known_or_likeliest
from pyro_crowdclust.starts import LabeledStart, within_class_covariance
from pyro_crowdclust.supervision import ClassTable, HiddenMarkovField

CLUSTERS = {"iris": 10, "wine": 10, "glass": 20, "yeast": 20, "digits": 20}
# Weights of settings are shrunk to equal ones as if this many more held-out items did not differ.
EVEN_ITEMS = 30.0
# Smallest probability of a class, for a held-out item whose class no other labelled item has.
LEAST = 1e-3
BUILT_IN = {"iris": load_iris, "wine": load_wine, "digits": load_digits}


@dataclass(frozen=True)
class Setting:
    """Degrees of freedom of the prior covariance beyond d, and weight of items without a label."""

    degrees: float
    unlabeled_weight: float


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Standardized features without constant ones, and classes."""
    if name in BUILT_IN:
        x, y = BUILT_IN[name](return_X_y=True)
    else:
        with np.load(folder / f"uci_{name}.npz") as file:
            x, y = file["x"], np.unique(file["y"], return_inverse=True)[1]
    return StandardScaler().fit_transform(x[:, x.std(0) > 0]), y


def draw_labels(classes: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """The classes of a random part of the items, -1 for the others."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(classes))[: round(fraction * len(classes))]
    known = np.full(len(classes), -1)
    known[chosen] = classes[chosen]
    return known


def ours(x: np.ndarray, known: np.ndarray, clusters: int, seed: int, args) -> np.ndarray:
    """Classes of all items; clusters if there are no labels.

    Clusters are those of ``cluster``. With labels, class probabilities are an average over settings
    and coordinates, weighted by how well they predict held-out labels.
    """
    if not (known >= 0).any():
        return cluster(x, num_clusters=clusters, seed=seed, progress=False).assignments
    if args.supervision == "field":
        settings = Setting(args.degrees, args.unlabeled_weight)
        result = mixture(x, known, clusters, seed, args, settings)
        return result.data.known_ids.to_numpy()[known_or_likeliest(result)]
    views = (x, StandardScaler().fit_transform(PowerTransformer().fit_transform(x)))
    settings = (
        Setting(args.degrees, args.unlabeled_weight),
        Setting(10 * args.degrees, 0.3 * args.unlabeled_weight),
    )

    def of_each(labels: np.ndarray) -> np.ndarray:
        """Class probabilities, one table for every setting in every view."""
        tables = np.zeros((len(views) * len(settings), len(x), known.max() + 1))
        for table, (view, setting) in zip(tables, product(views, settings), strict=True):
            result = mixture(view, labels, clusters, seed, args, setting)
            table[:, result.data.known_ids] = known_class_probabilities(result)
        return tables

    held = np.random.default_rng(seed).permutation(np.flatnonzero(known >= 0))
    held = held[: len(held) // 4]
    rest = known.copy()
    rest[held] = -1
    likelihoods = of_each(rest)[:, held, known[held]].clip(LEAST)
    weights = len(held) * stacking_weights(likelihoods) + EVEN_ITEMS / len(likelihoods)
    average = np.tensordot(weights, of_each(known), 1)
    return np.where(known >= 0, known, average.argmax(1))


def mixture(
    x: np.ndarray, known: np.ndarray, clusters: int, seed: int, args, setting: Setting
) -> Fitted:
    """A mixture of Gaussians whose prior covariance is that within the known classes."""
    dim, data = x.shape[1], CrowdData(x, known=known)
    labels = torch.as_tensor(known)
    degrees = dim + setting.degrees
    scale = degrees * within_class_covariance(torch.as_tensor(x), labels, args.shrinkage)
    weight = setting.unlabeled_weight
    supervision: ClassTable | HiddenMarkovField
    if args.supervision == "table":
        supervision = ClassTable.of(data, clusters, unlabeled_weight=weight)
    else:
        supervision = HiddenMarkovField.of(
            data,
            clusters,
            strength=args.strength,
            repel_labels=args.repel,
            unlabeled_weight=weight,
        )
    model = SemiCrowdsourcedMixture(
        StickBreakingWeights(clusters, 1.0),
        GaussianComponents(clusters, dim, scale=scale, degrees=degrees),
        Identity(),
        supervision=supervision,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "only one item has the label")
        return fit(
            model,
            MessagePassingGuide(model),
            data,
            batch_size=None,
            step_size=1.0,
            epochs=args.sweeps,
            dtype=torch.float64,
            seed=seed,
            progress=False,
            initialize=LabeledStart(shrinkage=args.shrinkage),
        )


def constrained_kmeans(
    x: np.ndarray, known: np.ndarray, num_clusters: int, seed: int, sweeps: int = 100
) -> np.ndarray:
    """k-means in which an item with label c stays in cluster c; Basu et al. 2002.

    Classes with labels start at the mean of their labelled items, others at k-means++ seeds.
    """
    labelled = known >= 0
    if not labelled.any():
        return KMeans(num_clusters, n_init=10, random_state=seed).fit_predict(x)
    centers, _ = kmeans_plusplus(x, num_clusters, random_state=seed)
    for label in np.unique(known[labelled]):
        centers[label] = x[known == label].mean(0)
    assigned = np.full(len(x), -1)
    for _ in range(sweeps):
        distance = ((x[:, None] - centers) ** 2).sum(-1)
        nearest = np.where(labelled, known, distance.argmin(1))
        if (nearest == assigned).all():
            break
        assigned = nearest
        for one in np.unique(assigned):
            centers[one] = x[assigned == one].mean(0)
    return assigned


def kept(predict: Callable[[], np.ndarray], known: np.ndarray) -> np.ndarray:
    """Predictions of a peer, with the given labels kept."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers that do not converge or see a label once
        return np.where(known >= 0, known, predict())


def unsupervised_mixture(x: np.ndarray, clusters: int, seed: int) -> np.ndarray:
    """Clusters of scikit-learn's mixture, which no label changes."""
    mixture = BayesianGaussianMixture(
        n_components=clusters, weight_concentration_prior=1.0, random_state=seed, max_iter=200
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mixture.fit_predict(x)


def peers(x: np.ndarray, y: np.ndarray, known: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Predictions of the peers. Constrained k-means is given the number of classes."""
    found = {}
    found["constrained k-means"] = constrained_kmeans(x, known, int(y.max()) + 1, seed)
    labelled = known >= 0
    if labelled.any():
        linear = LogisticRegression(max_iter=1000)
        found["logistic regression"] = kept(
            lambda: linear.fit(x[labelled], known[labelled]).predict(x), known
        )
        for kind in (LabelSpreading, LabelPropagation):
            graph = kind(kernel="knn", n_neighbors=7, max_iter=1000)
            found[kind.__name__] = kept(
                lambda graph=graph: graph.fit(x, known).transduction_, known
            )
    return found


def score(predicted: np.ndarray, y: np.ndarray, known: np.ndarray) -> tuple[float, float]:
    """Accuracy on all items, and on those without a label."""
    unlabeled = known < 0
    return (
        clustering_accuracy(y, predicted),
        clustering_accuracy(y[unlabeled], predicted[unlabeled]),
    )


def main(argv: list[str] | None = None) -> dict:
    """Run the sets at every fraction; print a line per method, and last the JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(default), help="folder of uci_*.npz")
    parser.add_argument("--sets", nargs="+", default=list(CLUSTERS), choices=list(CLUSTERS))
    parser.add_argument("--fractions", nargs="+", type=float, default=[0, 0.1, 0.2, 0.3, 0.4, 0.5])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=25)
    parser.add_argument("--supervision", choices=["table", "field"], default="table")
    parser.add_argument("--strength", type=float, default=1.0, help="lambda of the field")
    parser.add_argument("--repel", action="store_true", help="different labels repel in the field")
    parser.add_argument("--unlabeled-weight", type=float, default=0.1)
    parser.add_argument("--degrees", type=float, default=100.0, help="of the prior, beyond d")
    parser.add_argument("--shrinkage", type=float, default=0.1)
    parser.add_argument("--without-peers", action="store_true")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)

    best: dict = {"unlabeled": {}, "mean": {}, "mean_unlabeled": {}, "peers": {}}
    for name in args.sets:
        x, y = load(name, args.data)
        plain = {}
        if not args.without_peers:
            plain = {s: unsupervised_mixture(x, CLUSTERS[name], s) for s in range(args.runs)}
        for fraction in args.fractions:
            scores: dict[str, list[tuple[float, float]]] = {}
            for seed in range(args.runs):
                known = draw_labels(y, fraction, seed)
                found = {"ours": ours(x, known, CLUSTERS[name], seed, args)}
                if not args.without_peers:
                    found["BayesianGaussianMixture"] = plain[seed]
                    found |= peers(x, y, known, seed)
                for method, predicted in found.items():
                    scores.setdefault(method, []).append(score(predicted, y, known))
            for method, rows in scores.items():
                every, unlabeled = np.array(rows).T
                print(
                    f"{name:7s} {fraction:.1f} {method:24s} best {every.max():.3f} mean "
                    f"{every.mean():.3f}, unlabeled {unlabeled.max():.3f} {unlabeled.mean():.3f}",
                    flush=True,
                )
                key = f"{fraction:.1f}"
                own = best if method == "ours" else best["peers"].setdefault(method, {})
                for part, value in (
                    (None, every.max()),
                    ("unlabeled", unlabeled.max()),
                    ("mean", every.mean()),
                    ("mean_unlabeled", unlabeled.mean()),
                ):
                    place = own if part is None else own.setdefault(part, {})
                    place.setdefault(name, {})[key] = round(float(value), 4)
    print(json.dumps(best))
    return best


if __name__ == "__main__":
    main()
