"""Common baselines for tables and answers; all are given the true number of classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.semi_supervised import LabelSpreading


def of_features(x: np.ndarray, number: int, seed: int) -> dict[str, np.ndarray]:
    """Baselines that ignore answers, given the number of classes."""
    found = {"k-means": KMeans(number, n_init=5, random_state=seed).fit_predict(x)}
    fits = []
    for kind in ("full", "tied", "diag", "spherical"):
        if x.shape[1] <= 120 or kind in ("diag", "spherical"):
            mixture = GaussianMixture(
                number, covariance_type=kind, reg_covar=1e-4, random_state=seed
            )
            fits.append(mixture.fit(x))
    found["Gaussian mixture, BIC"] = min(fits, key=lambda fitted: fitted.bic(x)).predict(x)
    return found


def of_votes(pairs: pd.DataFrame, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Spectral clustering of the majority votes about the asked items."""
    asked = np.unique(pairs[["left", "right"]])
    left, right = (np.searchsorted(asked, pairs[side]) for side in ("left", "right"))
    votes, counts = np.zeros((2, len(asked), len(asked)))
    np.add.at(votes, (left, right), pairs["label"])
    np.add.at(counts, (left, right), 1)
    votes, counts = votes + votes.T, counts + counts.T
    affinity = np.where(counts > 0, votes / np.maximum(counts, 1), pairs["label"].mean() / 2) + 1e-6
    np.fill_diagonal(affinity, 1)
    spectral = SpectralClustering(number, affinity="precomputed", random_state=seed)
    return asked, spectral.fit_predict(affinity)


def of_answers(x: np.ndarray, pairs: pd.DataFrame, number: int, seed: int) -> dict[str, np.ndarray]:
    """Baselines that use the answers, given the number of classes."""
    found = {"constrained k-means": constrained_k_means(x, pairs, number, seed)}
    asked, labels = of_votes(pairs, number, seed)
    if len(np.unique(labels)) > 1:
        predicted = LogisticRegression(max_iter=500).fit(x[asked], labels).predict(x)
        predicted[asked] = labels
        found["votes, then logistic regression"] = predicted
        known = np.full(len(x), -1)
        known[asked] = labels
        spreading = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=50)
        found["label spreading from votes"] = spreading.fit(x, known).transduction_
    return found


def constrained_k_means(
    x: np.ndarray, pairs: pd.DataFrame, number: int, seed: int, rounds: int = 10
) -> np.ndarray:
    """k-means with a penalty for every majority vote that is violated (Basu et al. 2004)."""
    votes = pairs.groupby(["left", "right"])["label"].agg(lambda said: 2 * said.sum() - len(said))
    neighbors: dict[int, list[tuple[int, float]]] = {}
    for (left, right), weight in votes.items():
        neighbors.setdefault(left, []).append((right, weight))
        neighbors.setdefault(right, []).append((left, weight))
    start = KMeans(number, n_init=3, random_state=seed).fit(x)
    labels, centers = start.labels_.copy(), start.cluster_centers_.copy()
    free = ~np.isin(np.arange(len(x)), list(neighbors))
    for _ in range(rounds):
        before = labels.copy()
        distance = (x**2).sum(1)[:, None] - 2 * x @ centers.T + (centers**2).sum(1)
        labels[free] = distance[free].argmin(1)
        for item, others in neighbors.items():
            cost = distance[item].copy()
            for other, weight in others:
                cost[labels[other]] -= x.shape[1] * weight / 2
            labels[item] = cost.argmin()
        for one in np.unique(labels):
            centers[one] = x[labels == one].mean(0)
        if (labels == before).all():
            break
    return labels
