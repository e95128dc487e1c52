"""Pages of pairs on which a worker answered without looking.

    lambda_m ~ Beta(1, 9),   u_p | m ~ Bern(lambda_m)          is page p of worker m careless?
    attentive: L | same ~ Bern(alpha_m),   L | different ~ Bern(1 - beta_m)
    careless:  L ~ Bern(c_p),   c_p uniform

Two coins take a burst of careless answers for a worker who errs a little everywhere: all answers
then count less, and those of the burst too much. Given s_a = P(same) of every pair, as a fit has
it, the two states of a page are compared by all its answers,

    log p(L_p | attentive) = sum_a log(s_a p(L_a | same) + (1 - s_a) p(L_a | different))
    log p(L_p | careless) = log B(1 + n_yes, 1 + n_no)

and workers' rates and lambda are learned by EM: rates are those of pages with attention.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import betaln, expit, logit

from pyro_crowdclust.data.pair_answers import Sessions
from pyro_crowdclust.protocols import FittedModel

# Pseudo-counts: of answers that are right and wrong, of pages that are careless and attentive.
_RIGHT, _WRONG = 4.0, 1.0
_CARELESS, _ATTENTIVE = 1.0, 9.0
_ROUNDS = 100


def find_lapses(result: FittedModel) -> pd.DataFrame:
    """How likely each worker's pages of pairs are careless, given the clusters of a fit.

    Leave out what is likely careless, and fit again; rates of workers are then those of attention.

    Parameters
    ----------
    result
        A fit to answers about pairs whose table has a column ``page``: a task, session or day.

    Returns
    -------
    A row for every page of a worker, by page and worker: ``answers``, ``careless`` (probability),
    and ``said_same`` and ``expected_same``, the shares of "same" that were said and that an
    attentive worker of these rates would have said. Grades above the middle are "same", and who
    cannot tell has not answered.

    Raises
    ------
    ValueError
        If the answers have no pages.

    Examples
    --------
    >>> from pyro_crowdclust.interface import cluster
    >>> from pyro_crowdclust.mixture import GaussianComponents
    >>> rng = np.random.default_rng(0)
    >>> kind = np.arange(40) % 2
    >>> ends = rng.permutation(np.stack(np.triu_indices(40, 1), axis=1))[:200]
    >>> same = kind[ends[:, 0]] == kind[ends[:, 1]]
    >>> pairs = pd.DataFrame(ends, columns=["left", "right"])
    >>> pairs = pairs.assign(worker="ann", page=np.arange(200) // 20, label=same.astype(int))
    >>> pairs.loc[pairs["page"] == 3, "label"] = 1  # all the same, in a hurry
    >>> features = kind[:, None] * 9.0 + rng.normal(size=(40, 2))
    >>> result = cluster(features, pairs, components=GaussianComponents, progress=False)
    >>> lapses = find_lapses(result)
    >>> lapses.query("careless > 0.9").index.tolist()
    [(3, 'ann')]
    """
    data = result.data
    if data.answers is None or data.pairs is None or data.answers.page is None:
        raise ValueError(
            "lapses are looked for on pages of answers about pairs, and there are none: give the "
            "pairs a column 'page', the task or session that an answer belongs to"
        )
    pairs = data.pairs
    same = np.asarray(result.same_cluster_probability(pairs["left"], pairs["right"]))
    label = data.answers.label.numpy()
    told = ~np.isnan(label)
    sessions = Sessions.of(data.answers.page[told], data.answers.worker[told])
    page, worker, of_page = (part.numpy() for part in sessions)
    careless, expected = _careless(label[told] > 0.5, same[told], of_page, worker, data.num_workers)
    count = np.bincount(of_page)
    said = np.bincount(of_page, label[told] > 0.5) / count
    index = pd.MultiIndex.from_arrays(
        [data.page_ids[page], data.worker_ids[worker]], names=["page", "worker"]
    )
    columns = {"answers": count, "careless": careless, "said_same": said, "expected_same": expected}
    return pd.DataFrame(columns, index)


def _careless(
    yes: np.ndarray,
    same: Float[np.ndarray, " answer"],
    page: np.ndarray,
    worker: np.ndarray,
    num_workers: int,
) -> tuple[Float[np.ndarray, " page"], Float[np.ndarray, " page"]]:
    """P(careless) of every page, and the share of "same" that is expected of attention."""
    own = worker[page]
    num_pages = len(worker)
    number, said = np.bincount(page), np.bincount(page, yes)
    at_random = betaln(1 + said, 1 + number - said)
    prior = _CARELESS / (_CARELESS + _ATTENTIVE)
    careless = np.full(num_pages, prior)
    pages_of = np.bincount(worker, minlength=num_workers)

    def rate(right: np.ndarray, weight: np.ndarray) -> Float[np.ndarray, " worker"]:
        total = np.bincount(own, weight, num_workers)
        return (np.bincount(own, weight * right, num_workers) + _RIGHT) / (total + _RIGHT + _WRONG)

    for _ in range(_ROUNDS):
        heard = 1 - careless[page]
        sensitivity, specificity = rate(yes, heard * same), rate(~yes, heard * (1 - same))
        says_same = same * sensitivity[own] + (1 - same) * (1 - specificity[own])
        attentive = np.bincount(page, np.log(np.where(yes, says_same, 1 - says_same)), num_pages)
        share = np.bincount(worker, careless, num_workers) + _CARELESS
        odds = logit(share / (pages_of + _CARELESS + _ATTENTIVE))
        careless = expit(odds[worker] + at_random - attentive)
    return careless, np.bincount(page, says_same, num_pages) / number
