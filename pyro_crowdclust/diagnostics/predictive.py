"""Replicated answers and features, and whether answers look like the ones that were given."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.diagnostics.draws import (
    GlobalDraws,
    batch_of_items,
    global_draws,
    local_plates,
    run,
    sample_sites,
)
from pyro_crowdclust.diagnostics.likelihood import answer_log_likelihoods, discrete_sites
from pyro_crowdclust.protocols import FittedModel, SupportsDiscreteValues, SupportsDrawnFeatures


def same_cluster_draws(
    result: FittedModel, answers: Int[Tensor, " answer"], num_draws: int
) -> Float[Tensor, "draw answer"]:
    """Whether the ends of each answer share a cluster, with ``z_i ~ q(z_i)`` for every item."""
    given = result.data.answers
    assert given is not None  # there are answers to ask about
    left, right = given.left[answers], given.right[answers]
    items, rows = torch.cat([left, right]).unique(return_inverse=True)
    z = _assignment_draws(torch.tensor(result.probabilities)[items], num_draws)
    left, right = rows.split(len(answers))
    return (z[:, left] == z[:, right]).double()


def _assignment_draws(
    probabilities: Float[Tensor, "item cluster"], num_draws: int
) -> Int[Tensor, "draw item"]:
    """``z_i ~ q(z_i)``."""
    cumulative = probabilities.cumsum(1)
    uniform = torch.rand(len(probabilities), num_draws, dtype=cumulative.dtype) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, uniform).mT


def replicated_features(
    result: FittedModel, draws: GlobalDraws, items: Int[Tensor, " item"]
) -> Float[Tensor, "draw item ..."] | None:
    """Features drawn anew: ``z_i ~ q(z_i)``, then ``x_i`` and ``o_i`` given z_i and each theta.

    Parameters
    ----------
    result
        What ``fit`` returned.
    draws
        Theta.
    items
        Positions of the items.

    Returns
    -------
    None if the model has no ``drawn_features(values)``, or no discrete site of the items. A model
    whose discrete site has other values than the clusters draws them given z itself
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
    # Of components, by the guide's own numbers, as the model knows them.
    z = _assignment_draws(result.component_probabilities[items], draws.num_draws)
    z = z.to(support.device)
    rows = []
    for draw in range(draws.num_draws):
        drawn = draws.at(draw)
        if isinstance(model, SupportsDiscreteValues):
            discrete_values = model.discrete_values(z[draw], drawn, given)
        else:
            discrete_values = {name: support[z[draw]]}
        sites = sample_sites(run(result.model, batch, drawn | discrete_values))
        values = {name: site["value"] for name, site in sites.items()}
        rows.append(model.drawn_features(values).cpu())
    shape = result.feature_shape or ()
    return torch.stack(rows).reshape(len(rows), len(items), *shape)


def replicated_answers(
    same: Float[Tensor, "draw answer"],
    if_same: Float[Tensor, "draw answer"],
    if_different: Float[Tensor, "draw answer"],
) -> Float[Tensor, "draw answer"]:
    """Answers drawn anew: ``L ~ Bern(p(yes | same))`` or ``Bern(p(yes | different))``.

    Parameters
    ----------
    same
        1 where both ends share a cluster.
    if_same, if_different
        log p(yes | same) and log p(yes | different).
    """
    return torch.bernoulli(torch.where(same.bool(), if_same.exp(), if_different.exp()))


def check_workers(
    result: FittedModel, num_draws: int = 200, seed: int | None = None
) -> pd.DataFrame:
    """Posterior predictive checks of every worker's answers.

    For every draw of the clusters and of the workers' rates, the given answers and a replicated
    set of the same size are held against the clusters. Three statistics:

    - ``agreement``: the share of a worker's answers that agree with the clusters;
    - ``said_same``: the share of "same" among the worker's answers;
    - ``worst_page``: the lowest agreement on any of the worker's pages, where answers have pages.
      Workers whose errors come in bursts, all on one page, have a far lower one than a two-coin
      model expects.

    Parameters
    ----------
    result
        What ``fit`` returned.
    num_draws
        Draws of clusters, rates and replicated answers.
    seed
        Of the draws; default the fit's own.

    Returns
    -------
    One row per worker and, for each statistic T, the columns ``T`` (posterior mean of T of the
    given answers), ``T_replicated`` (mean of T of replicated answers), ``T_lower``, ``T_upper``
    (central 90 % interval of the latter) and ``T_p``, the posterior predictive p-value: how often
    the replicated T is at most the given one, ties counted half. Near 0 or 1 the model does not
    reproduce T.

    Raises
    ------
    ValueError
        If there are no answers about pairs, or the model has no clusters that they are about.
    """
    data = result.data
    if data.answers is None:
        raise ValueError("there are no answers to check: the data have none")
    every = torch.arange(data.num_pairs)
    with result.inside(seed):
        draws = global_draws(result, num_draws)
        log_yes = answer_log_likelihoods(result, draws, every, torch.ones(len(every)))
        if log_yes is None:
            raise ValueError(
                "the model's answers do not depend on a discrete site of the items, so there is "
                "nothing to check them against"
            )
        drawn = same_cluster_draws(result, every, num_draws)
        replicated = replicated_answers(drawn, *log_yes).numpy()
    given, same = data.answers.label.numpy(), drawn.numpy()
    worker = data.answers.worker.numpy()
    statistics = {
        "agreement": (_means(given == same, worker), _means(replicated == same, worker)),
        "said_same": (
            np.repeat(_means(given[None], worker), num_draws, 0),
            _means(replicated, worker),
        ),
    }
    if data.answers.page is not None:
        page = data.answers.page.numpy()
        observed, predicted = (_worst(of == same, worker, page) for of in (given, replicated))
        statistics["worst_page"] = observed, predicted
    columns: dict[str, np.ndarray] = {}
    for name, (observed, predicted) in statistics.items():
        lower, upper = np.quantile(predicted, [0.05, 0.95], axis=0)
        below = (predicted < observed) + 0.5 * (predicted == observed)
        columns |= {
            name: observed.mean(0),
            f"{name}_replicated": predicted.mean(0),
            f"{name}_lower": lower,
            f"{name}_upper": upper,
            f"{name}_p": below.mean(0),
        }
    return pd.DataFrame(columns, index=data.worker_ids.rename("worker"))


def _means(values: np.ndarray, group: np.ndarray) -> Float[np.ndarray, "draw group"]:
    """Mean of the values of each group of columns."""
    counts = np.bincount(group)
    sums = np.stack([np.bincount(group, weights=row, minlength=len(counts)) for row in values])
    return sums / counts


def _worst(
    agrees: np.ndarray, worker: np.ndarray, page: np.ndarray
) -> Float[np.ndarray, "draw worker"]:
    """The lowest mean on any page of each worker."""
    pages, group = np.unique(np.stack([worker, page]), axis=1, return_inverse=True)
    means = _means(agrees, group.ravel())
    worst = np.ones((worker.max() + 1, len(means)))
    np.minimum.at(worst, pages[0], means.T)
    return worst.T
