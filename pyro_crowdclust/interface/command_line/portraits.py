"""Portraits of clusters: typical items, columns that set them apart, items and pairs in doubt."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from pyro_crowdclust.data import Columns
from pyro_crowdclust.results import Fitted

# Among more columns than this, a single one says little, and those of pictures have no names.
_MAX_COLUMNS = 2000
# A column sets a cluster apart if its mean there and that of the other items differ by at least
# this many standard deviations.
_APART = 0.3
# How many items or columns of each cluster, and how many doubts, a table shows at most.
_PER_CLUSTER, _DOUBTS = 5, 10


def typical_items(result: Fitted) -> pd.DataFrame:
    """Items near the middle of every cluster, among those that are surely in it.

    Distances are in units of the columns' standard deviations. If the features are not available,
    the items with the highest probabilities come first.

    Examples
    --------
    >>> from pyro_crowdclust import cluster
    >>> features = np.repeat([[0.0], [9.0]], [5, 20], axis=0) + np.arange(25)[:, None] / 100
    >>> result = cluster(features, num_clusters=2, progress=False)
    >>> typical_items(result)["items"].tolist()
    ['14, 15, 13, 16, 17', '2, 1, 3, 0, 4']
    """
    distance = -result.assignment_probabilities
    table = _numbers(result)
    if table is not None:
        away = np.zeros(len(table))
        for cluster in np.unique(result.assignments):
            own = result.assignments == cluster
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # about columns without any value
                middle = np.nanmedian(table[own], axis=0, keepdims=True)
            away[own] = np.nansum(np.square(table[own] - middle), axis=1)
        # How near an item is remains unknown where most of its values are missing.
        unseen = np.isnan(table).mean(1) > 0.5
        doubtful = result.assignment_probabilities < 0.9
        distance = away + np.where(unseen | doubtful, away.max() + 1, 0.0)
    rows = {}
    for cluster in np.unique(result.assignments):
        own = np.flatnonzero(result.assignments == cluster)
        nearest = own[np.argsort(distance[own], kind="stable")[:_PER_CLUSTER]]
        rows[cluster] = ", ".join(map(str, result.data.item_ids[nearest]))
    return pd.DataFrame({"items": rows}).rename_axis("cluster")


def what_sets_apart(result: Fitted) -> pd.DataFrame | None:
    """The columns in which each cluster differs most from all other items.

    ``apart`` is the mean in the cluster minus the mean of the others, divided by the column's
    standard deviation; the mean of a category is its share. None if the features are not available
    or there are too many columns.
    """
    columns, features = _columns(result), _features(result)
    if columns is None or features is None:
        return None
    values = _one_hot(features, columns)
    with np.errstate(invalid="ignore"):
        deviation = values.std().where(lambda spread: spread > 0)
    rows = []
    for cluster in np.unique(result.assignments):
        own = result.assignments == cluster
        inside, outside = values[own].mean(), values[~own].mean()
        apart = ((inside - outside) / deviation).dropna()
        for name in apart.abs().sort_values(ascending=False, kind="stable").index[:_PER_CLUSTER]:
            if abs(apart[name]) >= _APART:
                rows.append((cluster, name, inside[name], outside[name], apart[name]))
    frame = pd.DataFrame(rows, columns=["cluster", "column", "mean", "mean of others", "apart"])
    return frame.set_index("cluster")


def items_in_doubt(result: Fitted) -> pd.DataFrame:
    """The items whose cluster is least certain, with another cluster that is probable.

    There is none (an empty text) where an item is in none of the others, as in some partitions
    that were drawn.
    """
    surest = result.assignment_probabilities
    doubt = np.argsort(surest, kind="stable")[:_DOUBTS]
    doubt = doubt[surest[doubt] < 0.99]
    if len(result.clusters) < 2 or not len(doubt):
        return pd.DataFrame()
    probabilities = result.cluster_probabilities(result.data.item_ids[doubt]).copy()
    own = result.assignments[doubt]
    np.put_along_axis(probabilities, own[:, None], 0.0, axis=1)
    other, its = probabilities.argmax(1), probabilities.max(1)
    return pd.DataFrame(
        {
            "cluster": own,
            "probability": surest[doubt],
            "or cluster": np.where(its > 0, other.astype(object), ""),
            "its probability": its,
        },
        index=result.data.item_ids[doubt].rename("item"),
    )


def pairs_in_dispute(result: Fitted) -> pd.DataFrame | None:
    """The pairs about which people disagree most, with each other or with the result.

    One row per pair: how many said "same" and "different", and the probability that the two items
    share a cluster. None where there are no answers, or nobody disagrees.
    """
    answers = result.data.answers
    if answers is None:
        return None
    ends = torch.stack([answers.left, answers.right]).sort(0).values.numpy()
    frame = pd.DataFrame({"left": ends[0], "right": ends[1], "same": answers.label.numpy()})
    # A grade counts in part as "same" and in part as "different"; "can't tell" counts as neither.
    counts = frame.groupby(["left", "right"])["same"].agg(["sum", "count"]).reset_index()
    left, right = counts["left"].to_numpy(), counts["right"].to_numpy()
    ends_of_pairs = (result.data.item_ids[end].tolist() for end in (left, right))
    probability = np.asarray(result.same_cluster_probability(*ends_of_pairs))
    is_graded = len(result.data.grade_ids) > 0
    same, different = (
        counts["sum"].to_numpy(),
        counts["count"].to_numpy() - counts["sum"].to_numpy(),
    )
    # The expected number of wrong answers about the pair, according to the result.
    against = probability * different + (1 - probability) * same
    most = np.argsort(-against, kind="stable")[:_DOUBTS]
    most = most[against[most] > 0.5]
    if not len(most):
        return None
    return pd.DataFrame(
        {
            "left": result.data.item_ids[left[most]],
            "right": result.data.item_ids[right[most]],
            "say same": same[most] if is_graded else same[most].astype(np.int64),
            "say different": different[most] if is_graded else different[most].astype(np.int64),
            "probability of same": probability[most],
        }
    )


def _features(result: Fitted) -> Float[np.ndarray, "item column"] | None:
    """Features in memory, a row of numbers per item; None for pictures and too many columns."""
    features = result.data.features_in_memory
    if features is None or features.ndim != 2:
        return None
    if features.shape[1] > _MAX_COLUMNS:
        return None
    return result.data.all_rows().double().numpy()


def _numbers(result: Fitted) -> Float[np.ndarray, "item column"] | None:
    """Features in units of their standard deviations, categories one-hot; NaN where missing."""
    features, columns = _features(result), _columns(result)
    if features is None or columns is None:
        return None
    values = _one_hot(features, columns)
    spread = values.std(ddof=0)
    return (values / spread.where(spread > 0, 1.0)).to_numpy()


def _columns(result: Fitted) -> Columns | None:
    shape = result.feature_shape
    if result.data.columns is not None:
        return result.data.columns
    return Columns.of_numbers(shape[0]) if shape is not None and len(shape) == 1 else None


def _one_hot(features: Float[np.ndarray, "item column"], columns: Columns) -> pd.DataFrame:
    """The features by name, with a column of zeros and ones for every category."""
    found: dict[str, np.ndarray] = {}
    for place, name in enumerate(columns.labels()):
        own, levels = features[:, place], columns.levels[place]
        if columns.kinds[place] == "category" and levels is not None:
            for code, level in enumerate(levels):
                found[f"{name}={level}"] = np.where(np.isnan(own), np.nan, own == code)
        elif levels is not None:  # yes or no
            found[f"{name}={levels[-1]}"] = own
        else:
            found[f"{name}"] = own
    return pd.DataFrame(found)
