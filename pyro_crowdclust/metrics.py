"""How well a clustering agrees with the truth, and how well calibrated its probabilities are.

Labels may be integers or strings, one per item (shape ``[N]``), and only the partition they make
counts: no function here needs cluster 3 to be called class 3. Every value is a label, -1 included,
so drop the items without a known class before you compare. Functions of two partitions raise a
``ValueError`` where these differ in length, are empty or miss a label.
"""

from __future__ import annotations

from numbers import Real

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from sklearn import metrics as sklearn_metrics

from pyro_crowdclust.errors import check_probabilities


def as_array(values: ArrayLike) -> np.ndarray:
    """The values as a NumPy array, also of a tensor that is on a GPU or requires gradients."""
    if not isinstance(values, torch.Tensor):
        return np.asarray(values)
    # NumPy has no bfloat16; float32 holds every bfloat16 number exactly.
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy(force=True)


def label_codes(values: ArrayLike, name: str = "labels") -> Int[np.ndarray, " item"]:
    """Number the distinct labels 0, 1, 2, ... in the order in which they first appear.

    Parameters
    ----------
    values
        One integer or string per item, shape ``[N]``; an array, list, series or tensor.
    name
        What to call the values in an error message.

    Returns
    -------
    Codes of shape ``[N]``; equal codes where the labels are equal.

    Raises
    ------
    ValueError
        Where ``values`` is empty, is not one-dimensional, misses a label or holds fractions.

    Examples
    --------
    >>> label_codes(["cat", "dog", "cat"])
    array([0, 1, 0])
    """
    array = as_array(values)
    if array.dtype.kind == "U":  # NumPy turns a missing label in a list of texts into "nan"
        array = np.asarray(values, dtype=object)
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, one label per item, but the shape is "
            f"{array.shape}; for probabilities of shape [N, K] pass their argmax over K"
        )
    if array.size == 0:
        raise ValueError(f"{name} is empty: there is no item to compare")
    codes, distinct = pd.factorize(array)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(f"{name} has no label (NaN or None) in row {row}; drop such items first")
    # Numbers may also stand among texts, in an array of objects.
    numbers = distinct if array.dtype.kind in "fO" else ()
    fractions = [code for code, one in enumerate(numbers) if isinstance(one, Real) and one % 1]
    if fractions:
        row = int(np.argmax(np.isin(codes, fractions)))
        raise ValueError(
            f"{name} must be integers or strings, but row {row} holds {array[row]}; if these are "
            "probabilities, threshold them or take an argmax first"
        )
    return codes.astype(np.int64, copy=False)


def clustering_accuracy(true_labels: ArrayLike, assignments: ArrayLike) -> float:
    """``max_f 1/N sum_n [y_n = f(c_n)]`` over one-to-one maps ``f`` of clusters to classes.

    The best map is found by the Hungarian algorithm. With more clusters than classes, the items of
    the clusters left over count as wrong.

    Examples
    --------
    >>> clustering_accuracy(["a", "a", "b", "b"], [7, 7, 3, 5])
    0.75
    """
    table = _contingency(*_paired_codes(true_labels, assignments))
    return float(sum(map(_most_matched, _parts(table))) / table.sum())


def normalized_mutual_information(true_labels: ArrayLike, assignments: ArrayLike) -> float:
    """``NMI = 2 I(y; c) / (H(y) + H(c))``, mutual information over the arithmetic mean entropy.

    0 for independent partitions of infinitely many items, 1 for equal ones. It grows with the
    number of clusters even by chance; ``adjusted_mutual_information`` does not.

    Examples
    --------
    >>> round(normalized_mutual_information(["a", "a", "b", "b"], [7, 7, 3, 5]), 3)
    0.8
    """
    codes = _paired_codes(true_labels, assignments)
    return float(sklearn_metrics.normalized_mutual_info_score(*codes))


def adjusted_mutual_information(true_labels: ArrayLike, assignments: ArrayLike) -> float:
    """``AMI = (I - E[I]) / ((H(y) + H(c)) / 2 - E[I])``, mutual information above chance.

    ``E[I]`` is taken over random partitions with the same cluster sizes (Vinh et al. 2010). Near 0
    for a random clustering, 1 for equal partitions.

    Examples
    --------
    >>> round(adjusted_mutual_information(["a", "a", "b", "b"], [7, 7, 3, 5]), 3)
    0.571
    """
    codes = _paired_codes(true_labels, assignments)
    return float(sklearn_metrics.adjusted_mutual_info_score(*codes))


def adjusted_rand_index(true_labels: ArrayLike, assignments: ArrayLike) -> float:
    """``ARI = (R - E[R]) / (1 - E[R])``, with ``R`` the share of pairs on which the two agree.

    Examples
    --------
    >>> round(adjusted_rand_index(["a", "a", "b", "b"], [7, 7, 3, 5]), 3)
    0.571
    """
    codes = _paired_codes(true_labels, assignments)
    return float(sklearn_metrics.adjusted_rand_score(*codes))


def purity(true_labels: ArrayLike, assignments: ArrayLike) -> float:
    """``1/N sum_k max_y #{n : c_n = k, y_n = y}``, the items in the main class of their cluster.

    Splitting a cluster never lowers purity: read it together with the number of clusters in use.

    Examples
    --------
    >>> purity(["a", "a", "b", "b"], [7, 7, 3, 5])
    1.0
    """
    table = _contingency(*_paired_codes(true_labels, assignments))
    return float(table.max(axis=0).sum() / table.sum())


def clusters_in_use(assignments: ArrayLike, at_least: float = 0.01) -> int:
    """``#{k : #{n : c_n = k} / N >= at_least}``, the number of clusters that are not too small.

    Parameters
    ----------
    assignments
        One integer or string per item, shape ``[N]``.
    at_least
        Smallest share of the items, in [0, 1], for which a cluster counts; 0 counts every cluster
        that holds an item.

    Raises
    ------
    ValueError
        Where ``assignments`` is empty or misses a label, or ``at_least`` lies outside [0, 1].

    Examples
    --------
    >>> clusters_in_use([0] * 600 + [1] * 395 + [2] * 5)
    2
    """
    if not 0 <= at_least <= 1:
        raise ValueError(f"at_least must be a share of the items, in [0, 1], but is {at_least}")
    counts = np.bincount(label_codes(assignments, "assignments"))
    return int((counts / counts.sum() >= at_least).sum())


def clustering_report(true_labels: ArrayLike, assignments: ArrayLike) -> dict[str, float]:
    """All scores of this module that compare two partitions, in one dictionary.

    Returns
    -------
    ``accuracy``, ``nmi``, ``ami``, ``ari``, ``purity``, and ``clusters_in_use`` (clusters that hold
    at least 1 % of the items).

    Examples
    --------
    >>> report = clustering_report(["a", "a", "b", "b"], [7, 7, 3, 5])
    >>> report["accuracy"], report["clusters_in_use"]
    (0.75, 3.0)
    """
    codes = _paired_codes(true_labels, assignments)
    return {
        "accuracy": clustering_accuracy(*codes),
        "nmi": normalized_mutual_information(*codes),
        "ami": adjusted_mutual_information(*codes),
        "ari": adjusted_rand_index(*codes),
        "purity": purity(*codes),
        "clusters_in_use": float(clusters_in_use(codes[1])),
    }


def expected_calibration_error(
    probabilities: ArrayLike, outcomes: ArrayLike, num_bins: int = 10
) -> float:
    """``ECE = sum_b n_b / n |mean outcome in b - mean probability in b|`` for yes/no events.

    The event here is "these two items share a cluster"; ``b`` runs over bins of equal width in the
    predicted probability (Naeini et al. 2015). 0 means that of the pairs called same with
    probability p, a share p is the same.

    Parameters
    ----------
    probabilities
        Predicted probability of each event, in [0, 1], shape ``[n]``.
    outcomes
        1 or True where the event happened, 0 or False where it did not, shape ``[n]``.
    num_bins
        Number of bins of [0, 1]; a probability on an edge belongs to the upper bin.

    Raises
    ------
    ValueError
        Where the two differ in length, are empty, are not one-dimensional, or leave their range.

    Examples
    --------
    >>> round(expected_calibration_error([0.9, 0.9, 0.1, 0.1], [1, 1, 0, 1]), 3)
    0.25
    """
    if num_bins < 1 or int(num_bins) != num_bins:
        raise ValueError(f"num_bins must be a positive integer, but is {num_bins}")
    predicted = as_array(probabilities).astype(np.float64)
    observed = as_array(outcomes).astype(np.float64)
    if predicted.ndim != 1 or predicted.shape != observed.shape:
        raise ValueError(
            "probabilities and outcomes must be one-dimensional and of equal length, but their "
            f"shapes are {predicted.shape} and {observed.shape}"
        )
    if predicted.size == 0:
        raise ValueError("probabilities is empty: there is no event to compare")
    check_probabilities("probabilities", predicted)
    valid = (observed == 0) | (observed == 1)
    if not valid.all():
        row = int(np.argmin(valid))
        raise ValueError(f"outcomes must be 0 or 1, but row {row} holds {observed[row]}")

    # Products would round some edges down: 0.29 * 100 is 28.999...
    edges = np.arange(1, int(num_bins)) / num_bins
    gaps = np.bincount(np.searchsorted(edges, predicted, "right"), weights=observed - predicted)
    return float(np.abs(gaps).sum() / predicted.size)


def _paired_codes(
    true_labels: ArrayLike, assignments: ArrayLike
) -> tuple[Int[np.ndarray, " item"], Int[np.ndarray, " item"]]:
    """Codes of both labelings, which must be about the same items."""
    truth = label_codes(true_labels, "true_labels")
    clusters = label_codes(assignments, "assignments")
    if len(truth) != len(clusters):
        raise ValueError(
            f"true_labels has {len(truth)} items but assignments has {len(clusters)}; pass both "
            "for the same items, in the same order"
        )
    return truth, clusters


def _contingency(
    truth: Int[np.ndarray, " item"], clusters: Int[np.ndarray, " item"]
) -> sparse.csc_array:
    """Number of items of every class (row) in every cluster (column), where there are any."""
    ones = np.ones(len(truth), dtype=np.int64)
    return sparse.coo_array((ones, (truth, clusters))).tocsc()


def _parts(table: sparse.csc_array) -> list[sparse.coo_array]:
    """The parts of a table that share no class and no cluster, with rows and columns of their own.

    Best maps of the parts together are the best map of all, and the parts are small where there are
    many clusters, unless these have little to do with the classes.
    """
    entries = table.tocoo()
    # A graph of classes, followed by clusters.
    ends = entries.row, table.shape[0] + entries.col
    graph = sparse.coo_array((entries.data, ends), shape=(sum(table.shape),) * 2)
    _, part = connected_components(graph, directed=False)
    order = part[entries.row].argsort(kind="stable")
    last = np.bincount(part[entries.row]).cumsum()[:-1]
    return [
        sparse.coo_array((count, (label_codes(row), label_codes(column))))
        for count, row, column in zip(
            *(np.split(of[order], last) for of in (entries.data, entries.row, entries.col)),
            strict=True,
        )
    ]


def _most_matched(table: sparse.coo_array) -> int:
    """The largest sum of entries of which no two share a row or a column."""
    if min(table.shape) == 1:
        return int(table.data.max())
    full = table.toarray()
    return int(full[linear_sum_assignment(full, maximize=True)].sum())
