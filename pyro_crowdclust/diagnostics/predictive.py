"""Posterior predictive checks of workers, and replicated answers and features."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.pair_answers import Answers, Sessions
from pyro_crowdclust.diagnostics.answer_likelihood import answer_log_likelihoods
from pyro_crowdclust.diagnostics.draws import (
    GlobalDraws,
    batch_of_items,
    global_draws,
    local_plates,
    run,
    sites_with_density,
)
from pyro_crowdclust.diagnostics.item_likelihood import discrete_sites
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import FittedModel, SupportsLapses, SupportsOutcomes, part_of


@runtime_checkable
class SupportsDrawnFeatures(Protocol):
    """A model that simulates features if the batch has none."""

    def drawn_features(self, values: Mapping[str, Tensor]) -> Float[Tensor, "item ..."]:
        """Features, from the values of all sites of a run."""


@runtime_checkable
class SupportsDiscreteValues(Protocol):
    """A model whose discrete site has other values than clusters."""

    def discrete_values(
        self, z: Int[Tensor, " item"], sites: Mapping[str, Tensor], batch: Batch
    ) -> dict[str, Tensor]:
        """Values of the discrete site, drawn given clusters and global sites."""


def same_cluster_draws(
    result: FittedModel, answers: Int[Tensor, " answer"], num_draws: int
) -> Float[Tensor, "draw answer"]:
    """Whether the two items of each answer share a cluster, with ``z_i ~ q(z_i)`` for every item.

    With an ownership, z_i is a component, and the owner of every component is drawn, too.
    """
    given = result.data.needed_answers
    left, right = given.left[answers], given.right[answers]
    items, rows = torch.cat([left, right]).unique(return_inverse=True)
    if result.owners is None:
        z = assignment_draws(torch.tensor(result.probabilities)[items], num_draws)
    else:
        components = assignment_draws(result.component_probabilities[items], num_draws)
        owners = assignment_draws(torch.tensor(result.owners), num_draws)
        z = owners.gather(1, components)
    left, right = rows.split(len(answers))
    return (z[:, left] == z[:, right]).double()


def assignment_draws(
    probabilities: Float[Tensor, "item cluster"], num_draws: int
) -> Int[Tensor, "draw item"]:
    """``z_i ~ q(z_i)``."""
    cumulative = probabilities.cumsum(1)
    uniform = torch.rand(len(probabilities), num_draws, dtype=cumulative.dtype) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, uniform).mT


def replicated_features(
    result: FittedModel, draws: GlobalDraws, items: Int[Tensor, " item"]
) -> Float[Tensor, "draw item ..."] | None:
    """Replicated features: ``z_i ~ q(z_i)``, then ``x_i`` and ``o_i`` given z_i and each theta.

    Parameters
    ----------
    result
        The result of ``fit``.
    draws
        Draws of Theta.
    items
        Positions of the items.

    Returns
    -------
    None if the model has no ``drawn_features(values)``, or not exactly one discrete site of the
    items. A model whose discrete site has other values than the clusters must draw them given z
    (``discrete_values``).
    """
    model: Any = result.model
    if not isinstance(model, SupportsDrawnFeatures):
        return None
    given = batch_of_items(result, items)
    batch = dataclasses.replace(given, features=None)
    discrete = discrete_sites(result, batch, local_plates(result))
    if len(discrete) != 1:
        return None
    ((name, support),) = discrete.items()
    # The model needs components, in the order of the guide.
    z = assignment_draws(result.component_probabilities[items], draws.num_draws)
    z = z.to(support.device)
    rows = []
    for draw in range(draws.num_draws):
        drawn = draws.at(draw)
        if isinstance(model, SupportsDiscreteValues):
            discrete_values = model.discrete_values(z[draw], drawn, given)
        else:
            discrete_values = {name: support[z[draw]]}
        sites = sites_with_density(run(result.model, batch, drawn | discrete_values))
        values = {name: site["value"] for name, site in sites.items()}
        rows.append(model.drawn_features(values).cpu())
    shape = result.feature_shape or ()
    return torch.stack(rows).reshape(len(rows), len(items), *shape)


def possible_labels(result: FittedModel) -> Float[Tensor, " outcome"]:
    """All possible answers about a pair: 0 and 1, or grades as fractions, and NaN for "unsure"."""
    answers, outcomes = result.data.needed_answers, result.data.outcomes
    known = part_of(result.model, "annotators", SupportsOutcomes)
    number = outcomes.num_grades + bool(answers.label.isnan().any())
    return outcomes.labels(torch.arange(known.outcomes.num_outcomes if known else number))


def outcome_log_likelihoods(
    result: FittedModel, draws: GlobalDraws, answers: Int[Tensor, " answer"]
) -> tuple[Float[Tensor, "draw outcome answer"], Float[Tensor, "draw outcome answer"]] | None:
    """``log p(L | same)`` and ``log p(L | different)`` of all possible answers about some pairs.

    None in the cases of ``answer_log_likelihoods``.
    """
    labels = possible_labels(result)
    every = labels.repeat_interleave(len(answers))
    found = answer_log_likelihoods(result, draws, answers.repeat(len(labels)), every)
    if found is None:
        return None
    if_same, if_different = (one.unflatten(1, (len(labels), len(answers))) for one in found)
    return if_same, if_different


def replicated_answers(
    same: Float[Tensor, "draw answer"],
    if_same: Float[Tensor, "draw outcome answer"],
    if_different: Float[Tensor, "draw outcome answer"],
) -> Int[Tensor, "draw answer"]:
    """Codes of replicated answers: ``L ~ p(L | same)`` or ``p(L | different)``.

    Parameters
    ----------
    same
        1 if both items share a cluster, otherwise 0.
    if_same, if_different
        log p(L | same) and log p(L | different) of all possible answers.
    """
    shares = torch.where(same.bool().unsqueeze(1), if_same.exp(), if_different.exp())
    # The last outcome has the rest of the probability, even if the shares do not add up to one.
    passed = torch.rand(same.shape, dtype=shares.dtype).unsqueeze(1) > shares.cumsum(1)[:, :-1]
    return passed.sum(1)


def _replicated_on_pages(
    workers: SupportsLapses,
    sessions: Sessions,
    draws: GlobalDraws,
    same: Float[Tensor, "draw answer"],
) -> Float[Tensor, "draw answer"]:
    """Replicated answers of workers who lapse; each page is attentive or careless as a whole."""
    found = []
    for number, together in enumerate(same):
        drawn = draws.at(number)
        rates = {name: drawn[name].cpu() for name in workers.priors()}
        looks = torch.bernoulli(rates["attention"][sessions.worker, 0].exp())
        found.append(workers.answer_on(sessions, looks, together, rates).sample())
    return torch.stack(found)


def check_workers(
    result: FittedModel, num_draws: int = 200, seed: int | None = None
) -> pd.DataFrame:
    """Posterior predictive checks of every worker's answers.

    For every draw of the clusters and of the workers' rates, the given answers and a replicated
    set of the same size are compared with the clusters by three statistics:

    - ``agreement``: the share of a worker's answers that agree with the clusters; a grade counts by
      its nearness to 0 or 1, whichever the clusters imply;
    - ``said_same``: the share of "same" among the worker's answers, or the mean grade, from 0 to 1;
    - ``worst_page``: the lowest agreement on any of the worker's pages, if answers have pages.
      Workers whose errors come in bursts, all on one page, have a far lower one than a two-coin
      model expects. If the model has lapses, whole pages are replicated as attentive or careless.

    If workers may be unsure, these are for the answers in which they were not, and ``unsure`` is
    the share of the others.

    Parameters
    ----------
    result
        The result of ``fit``.
    num_draws
        Draws of clusters, rates and replicated answers.
    seed
        Seed of the draws; default: that of the fit.

    Returns
    -------
    One row per worker and, for each statistic T, the columns ``T`` (posterior mean of T of the
    given answers), ``T_replicated`` (mean of T of replicated answers), ``T_lower``, ``T_upper``
    (central 90 % interval of the latter) and ``T_p``, the posterior predictive p-value: how often
    the replicated T is at most the given one, ties counted half. Near 0 or 1 the model does not
    reproduce T. Workers without answers about pairs, such as those who only gave class labels, have
    NaN.

    Raises
    ------
    ValueError
        If ``num_draws`` is below 1, if there are no answers about pairs, or if the model's answers
        do not depend on clusters of the items.
    """
    data, answers = result.data, result.data.answers
    check_whole("num_draws", num_draws, least=1)
    if answers is None:
        raise ValueError(
            "there are no answers about pairs to check: for sorted pages see result.pages, for "
            "class labels result.confusion"
        )
    with result.inside(seed):
        same, replicated = _replicated(result, answers, num_draws)
    given = np.broadcast_to(answers.label.numpy(), same.shape)
    both = [_statistics(labels, same, answers, data.num_workers) for labels in (given, replicated)]
    columns: dict[str, np.ndarray] = {}
    for name, observed in both[0].items():
        if name != "unsure" or any(statistics[name].any() for statistics in both):
            columns |= _compared(name, observed, both[1][name])
    table = pd.DataFrame(columns, index=data.worker_ids.rename("worker"))
    table[np.bincount(answers.worker.numpy(), minlength=data.num_workers) == 0] = np.nan
    return table


def _replicated(
    result: FittedModel, answers: Answers, num_draws: int
) -> tuple[Float[np.ndarray, "draw answer"], Float[np.ndarray, "draw answer"]]:
    """Whether both items share a cluster, and replicated labels, for draws of clusters and rates.

    Raises
    ------
    ValueError
        If the model's answers do not depend on clusters of the items.
    """
    every = torch.arange(answers.num_pairs)
    draws = global_draws(result, num_draws)
    of_outcomes = outcome_log_likelihoods(result, draws, every)
    if of_outcomes is None:
        raise ValueError(
            "the model has no discrete site of the items with which answers could be compared, "
            "for example because its clusters are draws of partitions by answers alone: see "
            "result.workers, whose intervals are over these draws"
        )
    same = same_cluster_draws(result, every, num_draws)
    lapsing = part_of(result.model, "annotators", SupportsLapses)
    if lapsing is not None and answers.page is not None:
        sessions = Sessions.of(answers.page, answers.worker)
        labels = _replicated_on_pages(lapsing, sessions, draws, same)
    else:
        labels = possible_labels(result)[replicated_answers(same, *of_outcomes)]
    return same.numpy(), labels.numpy()


def _statistics(
    labels: Float[np.ndarray, "draw answer"],
    same: Float[np.ndarray, "draw answer"],
    answers: Answers,
    number: int,
) -> dict[str, Float[np.ndarray, "draw worker"]]:
    """What ``check_workers`` compares, of these labels of the answers."""
    worker, agrees = answers.worker.numpy(), 1 - np.abs(labels - same)
    found = {
        "agreement": _means(agrees, worker, number),
        "said_same": _means(labels, worker, number),
        "unsure": _means(np.isnan(labels), worker, number),
    }
    if answers.page is not None:
        found["worst_page"] = _worst(agrees, worker, number, answers.page.numpy())
    return found


def _compared(
    name: str,
    observed: Float[np.ndarray, "draw worker"],
    predicted: Float[np.ndarray, "draw worker"],
) -> dict[str, Float[np.ndarray, " worker"]]:
    """The columns of ``check_workers`` about a statistic of given and replicated answers."""
    lower, upper = np.quantile(predicted, [0.05, 0.95], axis=0)
    below = (predicted < observed) + 0.5 * (predicted == observed)
    return {
        name: observed.mean(0),
        f"{name}_replicated": predicted.mean(0),
        f"{name}_lower": lower,
        f"{name}_upper": upper,
        f"{name}_p": below.mean(0),
    }


def _means(
    values: np.ndarray, group: np.ndarray, number: int, of_none: float = 0.0
) -> Float[np.ndarray, "draw group"]:
    """Mean of the values in each group of columns, without NaN; ``of_none`` if there are none."""
    known, filled = ~np.isnan(values), np.nan_to_num(values)
    sums, counts = (
        np.stack([np.bincount(group, weights=row, minlength=number) for row in part])
        for part in (filled, known)
    )
    return np.where(counts > 0, sums / np.maximum(counts, 1), of_none)


def _worst(
    agrees: np.ndarray, worker: np.ndarray, number: int, page: np.ndarray
) -> Float[np.ndarray, "draw worker"]:
    """The lowest mean on any page of each worker, except for pages with NaN only."""
    pages, group = np.unique(np.stack([worker, page]), axis=1, return_inverse=True)
    means = _means(agrees, group.ravel(), pages.shape[1], of_none=1.0)
    worst = np.ones((number, len(means)))
    np.minimum.at(worst, pages[0], means.T)
    return worst.T
