"""Data with a known truth: the Pinwheel, and crowds that answer about items of known classes.

Every crowd comes as a frame with one answer per row: `left` and `right` are positions of two
different items (`left < right`), `worker` a number from 0, `label` 1 for "same" and 0 for
"different", and `page`, where there is one, the number of the task in which the answer was given.
"""

from __future__ import annotations

import numbers

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.special import logit

from pyro_crowdclust.metrics import label_codes


def simulate_pairs(
    labels: ArrayLike,
    sensitivity: ArrayLike,
    specificity: ArrayLike,
    *,
    pairs_per_worker: int,
    items: ArrayLike | None = None,
    balanced: bool = False,
    seed: int,
) -> pd.DataFrame:
    """``P(L = 1 | same) = a_m`` and ``P(L = 0 | different) = b_m``, answered about random pairs.

    The two-coin model of Luo et al. 2018, eq. 2: worker `m` has sensitivity ``a_m`` and specificity
    ``b_m``. Each draws pairs of distinct items uniformly, none of them twice, and answers each pair
    independently.

    Parameters
    ----------
    labels
        True class of every item, integers or strings, shape `[N]`.
    sensitivity, specificity
        One probability per worker, shape `[M]`.
    pairs_per_worker
        Answers that each worker gives.
    items
        Positions of the items that are asked about; default all.
    balanced
        Draw as many pairs of truly the same class as of different ones, which is how the equal
        numbers of must-link and cannot-link constraints of Luo et al. 2018, section 5.2, are
        produced here. The truth is balanced and not the answers, because choosing pairs by their
        answers would change the very rates that are asked for; with equal sensitivity and
        specificity, as in that section, the answers balance too, in expectation.
    seed
        The same seed gives the same frame.

    Returns
    -------
    Columns `left, right, worker, label`; `M * pairs_per_worker` rows.

    Raises
    ------
    ValueError
        Where a rate, an item or a number is out of its range, or there are too few pairs to draw
        from.

    Examples
    --------
    >>> simulate_pairs([0, 0, 1, 1], [1.0], [1.0], pairs_per_worker=6, seed=0)["label"].sum()
    np.int64(2)
    """
    sensitivity, specificity = _worker_rates(sensitivity=sensitivity, specificity=specificity)
    truth, items = _asked_items(labels, items)
    _require_count("pairs_per_worker", pairs_per_worker, at_least=1)
    if balanced and pairs_per_worker % 2:
        raise ValueError(
            f"pairs_per_worker must be even where balanced, but is {pairs_per_worker}: half of the "
            "pairs are of the same class and half of different ones"
        )

    # With the items sorted by class, the earlier ones of the same class as item j are the positions
    # from start[j] to j, those of another class the positions below start[j]: both are ranges.
    order = np.argsort(truth, kind="stable")
    start = np.searchsorted(truth[order], truth[order])
    position = np.arange(len(order))
    zero = np.zeros_like(position)
    if balanced:
        half = pairs_per_worker // 2
        ranges = [("same-class", start, position, half), ("different-class", zero, start, half)]
    else:
        ranges = [("distinct", zero, position, pairs_per_worker)]

    rng = np.random.default_rng(seed)
    frames = []
    for worker in range(len(sensitivity)):
        drawn = [_draw_pairs(kind, first, end, size, rng) for kind, first, end, size in ranges]
        pairs = order[rng.permutation(np.concatenate(drawn))]
        same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
        label = _two_coin_answers(same, sensitivity[worker], specificity[worker], rng)
        frames.append(_answer_frame(items[pairs], worker, label))
    return pd.concat(frames, ignore_index=True)


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

    A page is `page_size` distinct items, drawn uniformly for each page. Its worker answers all
    ``page_size (page_size - 1) / 2`` pairs of them, each independently (the two-coin model), so
    that the answers of a page need not be transitive; those of `simulate_partitions` are.

    Parameters
    ----------
    labels
        True class of every item, integers or strings, shape `[N]`.
    sensitivity, specificity
        One probability per worker, shape `[M]`.
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
    Columns `left, right, worker, label, page`; pages are numbered from 0 over all workers.

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
    sensitivity, specificity = _worker_rates(sensitivity=sensitivity, specificity=specificity)
    truth, items = _asked_items(labels, items)
    _require_pages(pages_per_worker, page_size, len(items))
    rng = np.random.default_rng(seed)
    num_pages = len(sensitivity) * pages_per_worker
    members, slots = _draw_pages(len(items), num_pages, page_size, rng)
    pairs = members[:, slots].reshape(-1, 2)
    page = np.repeat(np.arange(num_pages), len(slots))
    worker = page // pages_per_worker
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    label = _two_coin_answers(same, sensitivity[worker], specificity[worker], rng)
    return _answer_frame(items[pairs], worker, label).assign(page=page)


def simulate_partitions(
    labels: ArrayLike,
    error_rate: ArrayLike,
    *,
    pages_per_worker: int,
    page_size: int = 36,
    items: ArrayLike | None = None,
    seed: int,
) -> pd.DataFrame:
    """``L_ij = [c_i = c_j]``, with ``c_i`` the true class, or with `error_rate` any other class.

    The worker sorts a page into groups, one item at a time: each item goes with its own class with
    probability ``1 - e`` and else with one of the other ``K - 1`` classes of the asked items,
    uniformly, whether or not that class is on the page. Answers inside a page are transitive, as
    those of real workers are, and one misplaced item makes a burst of wrong answers. Over pairs,

        sensitivity = (1 - e)^2 + e^2 / (K - 1)
        specificity = 1 - 2 e (1 - e) / (K - 1) - e^2 (K - 2) / (K - 1)^2

    Parameters
    ----------
    labels
        True class of every item, integers or strings, shape `[N]`.
    error_rate
        Probability `e` that an item is misplaced, one per worker, shape `[M]`.
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
    Columns `left, right, worker, label, page`; pages are numbered from 0 over all workers.

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
    (error_rate,) = _worker_rates(error_rate=error_rate)
    truth, items = _asked_items(labels, items)
    _require_pages(pages_per_worker, page_size, len(items))
    num_classes = int(truth.max()) + 1
    if num_classes < 2:
        raise ValueError(
            "all asked items are of one class, so a worker has no other group to misplace an item "
            "in; pass items of at least two classes"
        )
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
    return _answer_frame(pairs, page // pages_per_worker, label).assign(page=page)


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
    """Sorted pages: an item goes with its own class with probability ``a_m``, else with another.

    As `simulate_partitions`, of which the accuracy is ``1 - error_rate``, but as placements, and
    with pages that are not as the worker's others. On a lumped page classes share groups: each of
    the K classes belongs to one of ``max(K // 2, 2)`` groups, drawn anew. On a careless page every
    item goes with a class drawn at random.

    Parameters
    ----------
    labels
        True class of every item, integers or strings, shape `[N]`.
    accuracy
        Probability that an item is placed with its class, one per worker, shape `[M]`.
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
    Columns `page, item, worker, group` and `state` (sorted, lumped or careless, of the page), the
    first four as `CrowdData(placements=...)` takes them.

    Raises
    ------
    ValueError
        As `simulate_partitions`, and where the two probabilities are more than 1 together.

    Examples
    --------
    >>> crowd = simulate_placements(list("aabb"), [1.0], pages_per_worker=1, page_size=4, seed=0)
    >>> crowd.groupby("group")["item"].apply(sorted).tolist()
    [[0, 1], [2, 3]]
    """
    (accuracy,) = _worker_rates(accuracy=accuracy)
    truth, items = _asked_items(labels, items)
    _require_pages(pages_per_worker, page_size, len(items))
    if not (lumped >= 0 and careless >= 0 and lumped + careless <= 1):
        raise ValueError(
            f"lumped and careless are {lumped} and {careless}, but must be probabilities of a sum "
            "of at most 1"
        )
    num_classes = int(truth.max()) + 1
    if num_classes < 2:
        raise ValueError(
            "all asked items are of one class, so a worker has no other group to misplace an item "
            "in; pass items of at least two classes"
        )
    rng = np.random.default_rng(seed)
    worker = np.repeat(np.arange(len(accuracy)), pages_per_worker)
    states = ["lumped", "careless", "sorted"]
    state = rng.choice(states, len(worker), p=[lumped, careless, 1 - lumped - careless])
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


def two_coin_rates(frame: pd.DataFrame, labels: ArrayLike) -> pd.DataFrame:
    """``weight_m = log a_m / (1 - a_m) + log b_m / (1 - b_m)``, from each worker's true hit rates.

    ``a_m`` is the share of "same" among the worker's answers about pairs of the same class, and
    ``b_m`` the share of "different" among those about pairs of different classes. The weight is
    that of Luo et al. 2018, section 5.2: what an answer of this worker counts, in nats; 0 for a
    worker who guesses.

    Parameters
    ----------
    frame
        Answers with columns `left, right, worker, label`; `left` and `right` are positions in
        `labels`.
    labels
        True class of every item, integers or strings, shape `[N]`.

    Returns
    -------
    One row per worker (the index), with columns `sensitivity`, `specificity`, `weight`,
    `same_pairs` and `different_pairs` (answers that each rate rests on). A rate that rests on no
    answer is NaN, and so is its weight; a rate of exactly 0 or 1 makes the weight infinite (NaN
    where one rate is 0 and the other 1).

    Raises
    ------
    ValueError
        Where a column is missing, the frame is empty, a position is out of range or a label is not
        0 or 1.

    Examples
    --------
    >>> crowd = simulate_pairs([0, 0, 1, 1], [1.0, 0.0], [1.0, 1.0], pairs_per_worker=6, seed=0)
    >>> two_coin_rates(crowd, [0, 0, 1, 1])[["sensitivity", "specificity"]].to_numpy().tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    missing = [name for name in ("left", "right", "worker", "label") if name not in frame]
    if missing:
        raise ValueError(f"frame lacks the columns {missing}; it has {list(frame.columns)}")
    if frame.empty:
        raise ValueError("frame is empty: there is no answer to compare with the labels")
    truth = label_codes(labels)
    left = _positions(frame["left"], len(truth), "column left")
    right = _positions(frame["right"], len(truth), "column right")
    label = frame["label"].to_numpy()
    if not np.isin(label, (0, 1)).all():
        row = int(np.argmin(np.isin(label, (0, 1))))
        raise ValueError(f"column label must be 0 or 1, but row {row} holds {label[row]}")

    same = truth[left] == truth[right]
    correct = (label == same).astype(np.float64)
    by_worker = pd.DataFrame(
        {
            "worker": frame["worker"].to_numpy(),
            "sensitivity": np.where(same, correct, np.nan),
            "specificity": np.where(same, np.nan, correct),
        }
    ).groupby("worker")
    rates = by_worker.mean()
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, as documented
        rates["weight"] = logit(rates["sensitivity"]) + logit(rates["specificity"])
    # A NaN of the other kind of pair is not counted.
    counts = by_worker.count()
    rates["same_pairs"] = counts["sensitivity"]
    rates["different_pairs"] = counts["specificity"]
    return rates


def pinwheel(
    num_clusters: int = 5,
    num_per_cluster: int = 100,
    *,
    radial_std: float = 0.3,
    tangential_std: float = 0.05,
    rate: float = 0.25,
    seed: int,
) -> tuple[Float[np.ndarray, "item 2"], Int[np.ndarray, " item"]]:
    """``x = 10 (r cos t + s sin t, s cos t - r sin t)``, bent arms around the origin.

    With ``r ~ N(1, radial_std^2)`` along arm `k`, ``s ~ N(0, tangential_std^2)`` across it and the
    angle ``t = 2 pi k / num_clusters + rate exp(r)``, as in Johnson et al. 2016: arms bend more the
    further out they reach. The items are shuffled.

    Parameters
    ----------
    num_clusters, num_per_cluster
        Number of arms, and of items on each.
    radial_std, tangential_std
        Spread along and across an arm, in units of the mean radius (10 in the output).
    rate
        Bend of the arms, in radians; 0 gives straight ones.
    seed
        The same seed gives the same data.

    Returns
    -------
    Features of shape `[num_clusters * num_per_cluster, 2]`, and the arm of every item.

    Raises
    ------
    ValueError
        Where a number is not positive or a spread is negative.

    Examples
    --------
    >>> features, labels = pinwheel(3, 50, seed=0)
    >>> features.shape, np.bincount(labels).tolist()
    ((150, 2), [50, 50, 50])
    """
    _require_count("num_clusters", num_clusters, at_least=1)
    _require_count("num_per_cluster", num_per_cluster, at_least=1)
    if not (radial_std >= 0 and tangential_std >= 0):
        raise ValueError(
            "radial_std and tangential_std must not be negative, but are "
            f"{radial_std} and {tangential_std}"
        )
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(num_clusters), num_per_cluster))
    radial = 1 + radial_std * rng.standard_normal(len(labels))
    tangential = tangential_std * rng.standard_normal(len(labels))
    angle = 2 * np.pi * labels / num_clusters + rate * np.exp(radial)
    cosine, sine = np.cos(angle), np.sin(angle)
    features = np.stack(
        [radial * cosine + tangential * sine, tangential * cosine - radial * sine], axis=1
    )
    return 10 * features, labels


def _draw_pairs(
    kind: str,
    first: Int[np.ndarray, " item"],
    end: Int[np.ndarray, " item"],
    size: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "pair 2"]:
    """Pairs ``(i, j)`` with ``first[j] <= i < end[j]``, uniformly and without replacement."""
    cumulative = np.cumsum(end - first)
    available = int(cumulative[-1])
    if size > available:
        raise ValueError(
            f"each worker is to answer {size} {kind} pairs, but the items make only {available}; "
            "lower pairs_per_worker or pass more items"
        )
    drawn = rng.choice(available, size, replace=False)
    j = np.searchsorted(cumulative, drawn, side="right")
    i = end[j] - (cumulative[j] - drawn)
    return np.stack([i, j], axis=1)


def _draw_pages(
    num_items: int, num_pages: int, page_size: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "page slot"], Int[np.ndarray, "pair 2"]]:
    """Distinct items of every page, and the two slots of every pair of a page."""
    pages = [rng.choice(num_items, page_size, replace=False) for _ in range(num_pages)]
    return np.stack(pages), np.stack(np.triu_indices(page_size, k=1), axis=1)


def _two_coin_answers(
    same: Bool[np.ndarray, " pair"],
    sensitivity: float | Float[np.ndarray, " pair"],
    specificity: float | Float[np.ndarray, " pair"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " pair"]:
    says_same = np.where(same, sensitivity, 1 - specificity)
    return (rng.random(len(same)) < says_same).astype(np.int64)


def _answer_frame(
    pairs: Int[np.ndarray, "pair 2"],
    worker: int | Int[np.ndarray, " pair"],
    label: Int[np.ndarray, " pair"],
) -> pd.DataFrame:
    left, right = np.sort(pairs, axis=1).T
    return pd.DataFrame({"left": left, "right": right, "worker": worker, "label": label})


def _worker_rates(**rates: ArrayLike) -> list[Float[np.ndarray, " worker"]]:
    """Check that every rate gives one probability per worker, for the same workers."""
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in rates.items()}
    for name, array in arrays.items():
        if array.ndim != 1 or array.size == 0:
            raise ValueError(
                f"{name} must hold one probability per worker, but its shape is {array.shape}"
            )
        outside = ~((array >= 0) & (array <= 1))
        if outside.any():
            worker = int(np.argmax(outside))
            raise ValueError(
                f"{name} must lie in [0, 1], but that of worker {worker} is {array[worker]}"
            )
    if len({array.size for array in arrays.values()}) > 1:
        sizes = " and ".join(f"{name} has {array.size}" for name, array in arrays.items())
        raise ValueError(f"the rates must be about the same workers, but {sizes}")
    return list(arrays.values())


def _asked_items(
    labels: ArrayLike, items: ArrayLike | None
) -> tuple[Int[np.ndarray, " asked"], Int[np.ndarray, " asked"]]:
    """Class codes and positions of the items that are asked about."""
    truth = label_codes(labels)
    if items is None:
        return truth, np.arange(len(truth))
    asked = _positions(items, len(truth), "items")
    if len(np.unique(asked)) < len(asked):
        raise ValueError("items names a position more than once; pass each item once")
    return label_codes(truth[asked], "items"), asked


def _positions(values: ArrayLike, num_items: int, name: str) -> Int[np.ndarray, " item"]:
    array = np.asarray(values)
    if array.size == 0:
        raise ValueError(f"{name} is empty; pass at least one position")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be one-dimensional integer positions, but is {array.dtype} of shape "
            f"{array.shape}; np.flatnonzero turns a mask into positions"
        )
    outside = (array < 0) | (array >= num_items)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"{name} must lie in 0 to {num_items - 1}, but row {row} holds {array[row]}"
        )
    return array.astype(np.int64)


def _require_count(name: str, value: int, at_least: int) -> None:
    if not isinstance(value, numbers.Integral) or value < at_least:
        raise ValueError(f"{name} must be an integer of at least {at_least}, but is {value!r}")


def _require_pages(pages_per_worker: int, page_size: int, num_items: int) -> None:
    _require_count("pages_per_worker", pages_per_worker, at_least=1)
    _require_count("page_size", page_size, at_least=2)
    if page_size > num_items:
        raise ValueError(
            f"a page of {page_size} distinct items cannot be filled from {num_items}; lower "
            "page_size or pass more items"
        )
