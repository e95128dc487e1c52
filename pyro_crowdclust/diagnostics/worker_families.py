"""Workers who agree with one another more than independent errors about one truth explain.

    R_jk = sum_l cov(a_j = l, a_k = l) / sqrt(sum_l var(a_j = l) sum_l var(a_k = l))

is the agreement beyond chance over the items that both answered. If errors are independent given
one truth it is a product, R_jk = r_j r_k (Spearman's one factor), so that the agreement within a
group F follows from that between F and all others, O, and that among the others,

    R_FF = R_FO^2 / R_OO .

A family agrees more than this. The equation is the same for both sides of a split: either F errs
together, or the others do and F is right more often. The answers cannot distinguish the two cases.
The side that agrees more is reported here, which is right for copies, and wrong if good annotators
face bad ones who make the same errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

from pyro_crowdclust.data.worker_families import read_voices

# To be conservative, the agreement outside a group is lowered by this many standard errors; that
# across it, which is squared, is raised by one.
_ERRORS = 2.0
# The agreement of two workers with fewer common items is treated as unknown.
_MIN_COMMON = 10
# The mean agreement within a group must exceed by this much the largest value that is possible
# under one truth, standard errors and chance included.
_BEYOND = 0.1


def find_families(answers: Any) -> pd.DataFrame:
    """Groups of workers who agree with one another more than errors about one truth explain.

    Candidates are the groups of average linkage by R. The group that most exceeds its expected
    agreement is taken, then the next one without workers of it, and so on. At least two workers
    must be outside of a group.

    Parameters
    ----------
    answers
        Class labels ``item, worker, label`` or pairs ``left, right, worker, label``.

    Returns
    -------
    A row for every worker of a family, by worker: ``family`` (its workers' ids), ``within`` (mean
    R) and ``expected`` (under one truth). If you know that these workers err together, pass the
    column ``family`` to ``one_answer_per_family``.

    Raises
    ------
    ValueError
        If the answers are not such a table.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=400)
    >>> says = np.where(rng.random((400, 6)) < 0.8, truth[:, None], 1 - truth[:, None])
    >>> copied = rng.random(400) < 0.9
    >>> says[copied, 1] = says[copied, 0]
    >>> item, worker = np.indices(says.shape)
    >>> table = {"item": item.ravel(), "worker": worker.ravel(), "label": says.ravel()}
    >>> find_families(table).index.tolist()
    [0, 1]
    """
    table, items = read_voices(answers)
    table = table.dropna(subset="label").drop_duplicates([*items, "worker"])
    item = table.groupby(items, sort=False).ngroup().to_numpy()
    worker, names = pd.factorize(table["worker"], sort=False)
    label, _ = pd.factorize(table["label"])
    agreement, answered = _agreement(item, worker, label)
    found = [
        {
            "worker": names[one],
            "family": " + ".join(str(names[one]) for one in group),
            "within": within,
            "expected": expected,
        }
        for group, within, expected in _groups(agreement, answered)
        for one in group
    ]
    columns = ["worker", "family", "within", "expected"]
    return pd.DataFrame(found, columns=columns).set_index("worker")


def _agreement(
    item: Int[np.ndarray, " answer"],
    worker: Int[np.ndarray, " answer"],
    label: Int[np.ndarray, " answer"],
) -> tuple[Float[np.ndarray, "worker worker"], csr_array]:
    """R, with NaN for few common items or constant answers, and the table of who answered what."""
    shape = int(item.max(initial=-1)) + 1, int(worker.max(initial=-1)) + 1
    answered = csr_array((np.ones(len(item)), (item, worker)), shape)
    common = (answered.T @ answered).toarray()
    covariance, variance = np.zeros_like(common), np.zeros_like(common)
    number = np.maximum(common, 1)
    for one in range(int(label.max(initial=-1)) + 1):
        own = label == one
        says = csr_array((np.ones(own.sum()), (item[own], worker[own])), shape)
        both, alone = (says.T @ says).toarray(), (says.T @ answered).toarray()
        covariance += both - alone * alone.T / number
        variance += alone - alone**2 / number
    scale = np.sqrt(variance * variance.T)
    known = (common >= _MIN_COMMON) & (scale > 0)
    np.fill_diagonal(known, False)
    return np.where(known, covariance / np.where(known, scale, 1.0), np.nan), answered


def _groups(
    agreement: Float[np.ndarray, "worker worker"],
    answered: csr_array,
) -> list[tuple[list[int], float, float]]:
    """Disjoint groups, with R within and the largest R that is possible under one truth."""
    workers = np.arange(len(agreement))
    if len(workers) < 4 or np.isnan(agreement).all():
        return []
    distance = 1 - np.where(np.isnan(agreement), np.nanmean(agreement), agreement)
    # About the largest of P standard normal deviates, where P pairs could have been merged first.
    luck = np.sqrt(2 * np.log(len(workers) * (len(workers) - 1) / 2))
    groups = [[int(one)] for one in workers]
    found: list[tuple[list[int], float, float]] = []
    for left, right, *_ in linkage(squareform(distance, checks=False), "average"):
        groups.append(sorted(groups[int(left)] + groups[int(right)]))
        inside = np.isin(workers, groups[-1])
        blocks = np.ix_(inside, inside), np.ix_(inside, ~inside), np.ix_(~inside, ~inside)
        if any(np.isnan(agreement[block]).all() for block in blocks) or (~inside).sum() < 2:
            continue
        within, across, outside = (float(np.nanmean(agreement[block])) for block in blocks)
        of_group, of_others = answered @ inside, answered @ ~inside
        items_across = ((of_group > 0) & (of_others > 0)).sum()
        least = outside - _ERRORS * (1 - outside**2) / np.sqrt((of_others > 1).sum())
        # If the others may not agree at all, no limit follows for the group.
        if least <= 0 or within <= outside:
            continue
        most = (abs(across) + (1 - across**2) / np.sqrt(items_across)) ** 2 / least
        chance = luck * max(1 - most**2, 0.0) / np.sqrt((of_group > 1).sum())
        if within > most + chance + _BEYOND:
            found.append((groups[-1], within, most))
    found.sort(key=lambda group: group[2] - group[1])
    taken: set[int] = set()
    chosen = []
    for group in found:
        if not taken & {*group[0]}:
            chosen.append(group)
            taken |= {*group[0]}
    return chosen
