"""Pages of pairs on which a worker answered without looking.

    lambda_m ~ Beta(1, 9),   u_p | m ~ Bern(lambda_m)          is page p of worker m careless?
    attentive: L | same ~ Bern(alpha_m),   L | different ~ Bern(1 - beta_m)
    careless:  L ~ Bern(c_p),   c_p uniform

The two-coin model explains a burst of careless answers by a worker who errs a little everywhere:
all answers then count less, and those of the burst too much. Given s_a = P(same) of every pair from
a fit, the two states of a page are compared by all its answers,

    log p(L_p | attentive) = sum_a log(s_a p(L_a | same) + (1 - s_a) p(L_a | different))
    log p(L_p | careless) = log B(1 + n_yes, 1 + n_no)

and the workers' rates, of attentive pages, and lambda are learned by EM. If the model itself has
lapses (``LapsingWorkers``), its posterior is used instead.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.annotators.channels import attentive_channels
from pyro_crowdclust.data.pair_answers import Answers, Sessions
from pyro_crowdclust.distributions.lapses import log_attention, log_without_looking
from pyro_crowdclust.protocols import FittedModel, SupportsLapses, part_of

# Pseudo-counts of right and wrong answers, and of careless and attentive pages.
_RIGHT, _WRONG = 4.0, 1.0
_CARELESS, _ATTENTIVE = 1.0, 9.0
_ROUNDS = 100


def find_lapses(result: FittedModel) -> pd.DataFrame:
    """The probability that each worker's page of pairs is careless, given the clusters of a fit.

    Leave out pages that are probably careless, and fit again; the rates of workers are then those
    of attentive answers.

    Parameters
    ----------
    result
        A fit to answers about pairs whose table has a column ``page``: a task, session or day.

    Returns
    -------
    A row for every page of a worker, by page and worker: ``answers`` (their number), ``careless``
    (probability), ``said_same`` (share of "same" among the answers) and ``expected_same`` (its
    expectation for an attentive worker with these rates). For a model with lapses these are from
    the model's own posterior. Grades above the middle count as "same"; "cannot tell" is not counted
    as an answer.

    Raises
    ------
    ValueError
        If the answers have no pages, or if they are grades and the model has no lapses.

    Examples
    --------
    >>> from pyro_crowdclust import cluster
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
    answers = data.answers
    if answers is None or answers.page is None:
        raise ValueError(
            "the data have no answers about pairs with pages, on which lapses could be found: give "
            "the table of pairs a column 'page', the task or session of each answer"
        )
    same = result.same_cluster_by_position(answers.left, answers.right)
    sessions = Sessions.of(answers.page, answers.worker)
    page, worker, of_page = (part.numpy() for part in sessions)
    decided = ~np.isnan(answers.label.numpy())
    yes = answers.label.numpy() > 0.5
    workers = part_of(result.model, "annotators", SupportsLapses)
    if workers is not None:
        careless, says_same = _posterior(result, workers, answers, same)
    elif len(data.grade_ids):
        raise ValueError(
            "lapses in graded answers need a model of them: build it with "
            "LapsingWorkers(GradedPairs(...)), as cluster() does if pages have at least five "
            "answers"
        )
    else:
        said_same, agree = torch.from_numpy(yes), torch.from_numpy(same).double()
        careless, says_same = _careless(said_same, agree, sessions, data.num_workers)
    count = np.bincount(of_page, decided, len(page))
    observed, expected = (
        np.bincount(of_page, decided * part, len(page)) / np.where(count, count, np.nan)
        for part in (yes, says_same)
    )
    index = pd.MultiIndex.from_arrays(
        [data.page_ids[page], data.worker_ids[worker]], names=["page", "worker"]
    )
    columns = {"answers": count.astype(int), "careless": careless}
    return pd.DataFrame(columns | {"said_same": observed, "expected_same": expected}, index)


@torch.no_grad()
def _posterior(
    result: FittedModel,
    workers: SupportsLapses,
    answers: Answers,
    same: Float[np.ndarray, " answer"],
) -> tuple[Float[np.ndarray, " page"], Float[np.ndarray, " answer"]]:
    """``q(u_p = 0)`` under a model with lapses, and P("same") of attentive answers.

    q(u) is optimal given q(z) and the rates; see ``annotators.lapsing``.
    """
    sessions = Sessions.of(answers.needed_page, answers.worker)
    rates = {name: result.guide.posteriors[name].mean().cpu() for name in workers.priors()}
    agree = torch.as_tensor(same).double()
    log_odds = workers.log_odds(sessions, answers.label, rates, agree)
    says = workers.outcomes.labels(torch.arange(workers.outcomes.num_grades))  # not "cannot tell"
    channels = attentive_channels(result.guide.workers())
    shares = _shares(workers, rates, says) if channels is None else channels.mean
    grades, above = shares[:, :, : len(says)], says.numpy() > 0.5
    says_same = (grades[:, :, above].sum(2) / grades.sum(2))[answers.worker.numpy()]
    expected = (1 - same) * says_same[:, 0] + same * says_same[:, 1]
    return log_odds.neg().sigmoid().numpy(), expected


def _shares(
    workers: SupportsLapses, rates: Mapping[str, Tensor], says: Float[Tensor, " grade"]
) -> Float[np.ndarray, "worker truth grade"]:
    """Shares of the grades of attentive workers for pairs that differ, and that are the same.

    They are likelihoods at E[t], as in the bound: geometric means of the shares under q, which do
    not add up to one.
    """
    worker = torch.arange(workers.num_workers)
    of_truth = [
        [
            workers.attentive.answer(same, rates, worker).log_prob(torch.full_like(same, one))
            for one in says.tolist()
        ]
        for same in torch.tensor([0.0, 1.0]).double().unsqueeze(1).expand(2, len(worker))
    ]
    return torch.stack([torch.stack(row, 1) for row in of_truth], 1).exp().numpy()


def _careless(
    yes: Bool[Tensor, " answer"],
    same: Float[Tensor, " answer"],
    sessions: Sessions,
    num_workers: int,
) -> tuple[Float[np.ndarray, " page"], Float[np.ndarray, " answer"]]:
    """P(careless) of every page, and P("same") of every answer if its worker is attentive."""
    _, worker, page = sessions
    own, num_pages = worker[page], len(worker)
    at_random = log_without_looking(yes.long(), page, num_pages, 2)
    careless = same.new_full((num_pages,), _CARELESS / (_CARELESS + _ATTENTIVE))
    pages_of = worker.bincount(minlength=num_workers)

    def rate(right: Tensor, weight: Tensor) -> Float[Tensor, " worker"]:
        total = own.bincount(weight, num_workers)
        return (own.bincount(weight * right, num_workers) + _RIGHT) / (total + _RIGHT + _WRONG)

    for _ in range(_ROUNDS):
        weight = 1 - careless[page]
        sensitivity, specificity = rate(yes, weight * same), rate(~yes, weight * (1 - same))
        says_same = same * sensitivity[own] + (1 - same) * (1 - specificity[own])
        attentive = torch.where(yes, says_same, 1 - says_same).log()
        share = worker.bincount(careless, num_workers) + _CARELESS
        odds = (share / (pages_of + _CARELESS + _ATTENTIVE)).logit()
        careless = log_attention(-odds[worker], attentive, at_random, page).neg().sigmoid()
    return careless.numpy(), says_same.numpy()
