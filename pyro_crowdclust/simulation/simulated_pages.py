"""Crowds that answer about pages of items, pair by pair or by sorting them into groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Int
from numpy.typing import ArrayLike

from pyro_crowdclust.simulation.argument_checks import asked_items, require_pages, worker_rates
from pyro_crowdclust.simulation.two_coin_answers import answer_frame, two_coin_answers


def simulate_pages(
    labels: ArrayLike,
    sensitivity: ArrayLike,
    specificity: ArrayLike,
    *,
    pages_per_worker: int,
    page_size: int = 36,
    items: ArrayLike | None = None,
    seed: int,
) -> pd.DataFrame:
    """``P(L = 1 | same) = a_m`` and ``P(L = 0 | different) = b_m``, answered about whole pages.

    A page is ``page_size`` distinct items, drawn uniformly for each page. Its worker answers all
    ``page_size (page_size - 1) / 2`` pairs of them, each independently (the two-coin model), so
    that the answers of a page need not be transitive; those of ``simulate_partitions`` are.

    Parameters
    ----------
    labels
        True class of every item, integers or strings, shape ``[N]``.
    sensitivity, specificity
        One probability per worker, shape ``[M]``.
    pages_per_worker
        Pages that each worker answers. Two pages may share items.
    page_size
        Items on a page, at least 2.
    items
        Positions of the items that are asked about; default all.
    seed
        The same seed gives the same frame.

    Returns
    -------
    Columns ``left, right, worker, label, page``; pages are numbered from 0 over all workers.

    Raises
    ------
    ValueError
        Where a rate, an item or a number is out of its range, or the items do not fill a page.

    Examples
    --------
    >>> crowd = simulate_pages([0, 0, 1, 1], [0.9], [0.8], pages_per_worker=2, page_size=3, seed=0)
    >>> crowd.groupby("page").size().tolist()
    [3, 3]
    """
    sensitivity, specificity = worker_rates(sensitivity=sensitivity, specificity=specificity)
    truth, items = asked_items(labels, items)
    require_pages(pages_per_worker, page_size, len(items))
    rng = np.random.default_rng(seed)
    num_pages = len(sensitivity) * pages_per_worker
    members, slots = _draw_pages(len(items), num_pages, page_size, rng)
    pairs = members[:, slots].reshape(-1, 2)
    page = np.repeat(np.arange(num_pages), len(slots))
    worker = page // pages_per_worker
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    label = two_coin_answers(same, sensitivity[worker], specificity[worker], rng)
    return answer_frame(items[pairs], worker, label).assign(page=page)


def simulate_partitions(
    labels: ArrayLike,
    error_rate: ArrayLike,
    *,
    pages_per_worker: int,
    page_size: int = 36,
    items: ArrayLike | None = None,
    seed: int,
) -> pd.DataFrame:
    """``L_ij = [c_i = c_j]``, with ``c_i`` the true class, or with ``error_rate`` any other class.

    The worker sorts a page into groups, one item at a time: each item goes with its own class with
    probability ``1 - e``, and otherwise with one of the other ``K - 1`` classes of the asked items,
    uniformly, whether or not that class is on the page. Answers inside a page are transitive, as
    those of real workers are, and one misplaced item makes a burst of wrong answers. Over pairs,

        sensitivity = (1 - e)^2 + e^2 / (K - 1)
        specificity = 1 - 2 e (1 - e) / (K - 1) - e^2 (K - 2) / (K - 1)^2

    Parameters
    ----------
    labels
        True class of every item, integers or strings, shape ``[N]``.
    error_rate
        Probability ``e`` that an item is misplaced, one per worker, shape ``[M]``.
    pages_per_worker
        Pages that each worker sorts. Two pages may share items.
    page_size
        Items on a page, at least 2.
    items
        Positions of the items that are asked about, of at least two classes; default all.
    seed
        The same seed gives the same frame.

    Returns
    -------
    Columns ``left, right, worker, label, page``; pages are numbered from 0 over all workers.

    Raises
    ------
    ValueError
        Where a rate, an item or a number is out of its range, the items do not fill a page, or all
        of them are of one class.

    Examples
    --------
    >>> crowd = simulate_partitions(
    ...     ["a", "a", "b", "b"], [0.0], pages_per_worker=1, page_size=4, seed=0
    ... )
    >>> crowd.loc[crowd["label"] == 1, ["left", "right"]].sort_values("left").to_numpy().tolist()
    [[0, 1], [2, 3]]
    """
    (error_rate,) = worker_rates(error_rate=error_rate)
    truth, items = asked_items(labels, items)
    require_pages(pages_per_worker, page_size, len(items))
    num_classes = _num_classes(truth)
    rng = np.random.default_rng(seed)
    num_pages = len(error_rate) * pages_per_worker
    members, slots = _draw_pages(len(items), num_pages, page_size, rng)
    misplaced = rng.random(members.shape) < np.repeat(error_rate, pages_per_worker)[:, None]
    # A step of 1 to K - 1 around the circle of classes reaches each other class equally often.
    step = rng.integers(1, num_classes, members.shape)
    group = ((truth[members] + misplaced * step) % num_classes)[:, slots].reshape(-1, 2)
    label = (group[:, 0] == group[:, 1]).astype(np.int64)
    page = np.repeat(np.arange(num_pages), len(slots))
    pairs = items[members[:, slots].reshape(-1, 2)]
    return answer_frame(pairs, page // pages_per_worker, label).assign(page=page)


def simulate_placements(
    labels: ArrayLike,
    accuracy: ArrayLike,
    *,
    pages_per_worker: int,
    page_size: int = 36,
    lumped: float = 0.0,
    careless: float = 0.0,
    items: ArrayLike | None = None,
    seed: int,
) -> pd.DataFrame:
    """``P(g_i = y_i) = a_m``: sorted pages as placements, with another class in all other cases.

    As ``simulate_partitions`` with ``error_rate = 1 - accuracy``, but as placements, and some pages
    are in another state. On a lumped page classes share groups: each of the K classes belongs to
    one of ``max(K // 2, 2)`` groups, drawn anew. On a careless page every item goes with a class
    drawn at random.

    Parameters
    ----------
    labels
        True class of every item, integers or strings, shape ``[N]``.
    accuracy
        Probability that an item is placed with its class, one per worker, shape ``[M]``.
    pages_per_worker
        Pages that each worker sorts. Two pages may share items.
    page_size
        Items on a page, at least 2.
    lumped, careless
        Probabilities that a page is lumped, and that it is careless.
    items
        Positions of the items that are asked about, of at least two classes; default all.
    seed
        The same seed gives the same frame.

    Returns
    -------
    Columns ``page, item, worker, group`` and ``state`` (sorted, lumped or careless, of the page),
    the first four as ``CrowdData(placements=...)`` takes them.

    Raises
    ------
    ValueError
        As ``simulate_partitions``, and where the two probabilities are more than 1 together.

    Examples
    --------
    >>> crowd = simulate_placements(list("aabb"), [1.0], pages_per_worker=1, page_size=4, seed=0)
    >>> crowd.groupby("group")["item"].apply(sorted).tolist()
    [[0, 1], [2, 3]]
    """
    (accuracy,) = worker_rates(accuracy=accuracy)
    truth, items = asked_items(labels, items)
    require_pages(pages_per_worker, page_size, len(items))
    if not (lumped >= 0 and careless >= 0 and lumped + careless <= 1):
        raise ValueError(
            f"lumped and careless are {lumped} and {careless}, but must be probabilities that add "
            "up to at most 1"
        )
    num_classes = _num_classes(truth)
    rng = np.random.default_rng(seed)
    worker = np.repeat(np.arange(len(accuracy)), pages_per_worker)
    states = ["lumped", "careless", "sorted"]
    others = max(1 - lumped - careless, 0.0)  # 1 - 0.9 - 0.1 is below zero
    state = rng.choice(states, len(worker), p=[lumped, careless, others])
    frames = []
    for page, (who, kind) in enumerate(zip(worker, state, strict=True)):
        chosen = rng.choice(len(items), page_size, replace=False)
        misplaced = rng.random(page_size) >= accuracy[who]
        group = (truth[chosen] + misplaced * rng.integers(1, num_classes, page_size)) % num_classes
        if kind == "lumped":
            group = rng.permutation(np.arange(num_classes) % max(num_classes // 2, 2))[group]
        elif kind == "careless":
            group = rng.integers(num_classes, size=page_size)
        columns = {"page": page, "item": items[chosen], "worker": who, "group": group}
        frames.append(pd.DataFrame(columns).assign(state=kind))
    return pd.concat(frames, ignore_index=True)


def _num_classes(truth: Int[np.ndarray, " asked"]) -> int:
    """The number of classes of the asked items, which must be at least two."""
    number = int(truth.max()) + 1
    if number < 2:
        raise ValueError(
            "all asked items are of one class, so there is no other group in which a worker could "
            "misplace an item; pass items of at least two classes"
        )
    return number


def _draw_pages(
    num_items: int, num_pages: int, page_size: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "page slot"], Int[np.ndarray, "pair 2"]]:
    """The distinct items of every page, and the two slots on a page of each of its pairs."""
    pages = [rng.choice(num_items, page_size, replace=False) for _ in range(num_pages)]
    return np.stack(pages), np.stack(np.triu_indices(page_size, k=1), axis=1)
