"""Log-likelihoods of answers about pairs at draws of the global sites, z summed out.

For an answer a about items i and j, with s = P_q(z_i = z_j),

    log p(L_a | Theta, all other data) = -log E_q(z)[1 / p(L_a | z, Theta)]
                                       = -log (s / p(L_a | same) + (1 - s) / p(L_a | different))

because ``p(z | all data) / p(z | all but a)`` is proportional to ``p(L_a | z)``. If the worker may
have answered a page without looking, u = 0, with n_L answers L among all n of the page and C
possible answers, it is likewise

    -log (q(u = 1) (s / p(L_a | same) + (1 - s) / p(L_a | different)) + q(u = 0) (C + n - 1) / n_L).

Both are the quantities that leave-one-out cross-validation by importance sampling over Theta
needs: ``1 / p(L_a | Theta, the others)`` is the ratio of the posteriors without and with L_a.

If answers also depend on continuous latents x of their items, such as a difficulty, or of their
own, every row has one joint draw of (Theta, x) from q, and Theta stands for both above. This is the
same importance sampling, over (Theta, x) instead of Theta:

    1 / p(L_a | all but a) = E_p(Theta, x | all data)[1 / p(L_a | Theta, x, all other data)].

An average of ``1 / p(L_a | z, x, Theta)`` over several x for each Theta would have the same
expectation, and a smaller variance, but every x costs as much as another Theta with its x.
q(z) is its average over q(Theta, x).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from jaxtyping import Float, Int
from pyro.poutine import Trace
from torch import Tensor

from pyro_crowdclust.data.pair_answers import Answers, Sessions
from pyro_crowdclust.diagnostics.draws import (
    GlobalDraws,
    batch_of_items,
    local_plates,
    run,
    sites_with_density,
)
from pyro_crowdclust.diagnostics.item_latents import LatentsOfItems
from pyro_crowdclust.diagnostics.item_likelihood import discrete_sites
from pyro_crowdclust.distributions.lapses import page_counts, share_without_looking
from pyro_crowdclust.distributions.pairs import SameCluster
from pyro_crowdclust.inference.enumeration import unscaled_log_density
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import FittedModel, SupportsLapses, part_of


def answer_log_likelihoods(
    result: FittedModel,
    draws: GlobalDraws,
    answers: Int[Tensor, " answer"],
    label: Float[Tensor, " answer"] | None = None,
) -> tuple[Float[Tensor, "draw answer"], Float[Tensor, "draw answer"]] | None:
    """``log p(L | same)`` and ``log p(L | different)`` of some answers, under each draw.

    The model runs on two items that stand for the two items of every pair, once in the same cluster
    and once in different ones. If answers also depend on the items themselves, it runs on the
    items of the answers, with the site of ``SameCluster`` given; if they depend on continuous
    latents of the items or of their own, also with a draw of these from the guide for each draw of
    Theta.

    Parameters
    ----------
    result
        The result of ``fit``.
    draws
        Draws of Theta.
    answers
        Rows of the answers.
    label
        Labels to use instead of those that were given.

    Returns
    -------
    None if the model observes no answers, or has neither a site of ``SameCluster`` nor exactly one
    discrete site, by which two items are the same or not.

    Raises
    ------
    ValueError
        If the answers depend on further sites of the model that the guide does not draw.
    """
    if result.data.num_items < 2:
        return None
    two_items, own_items = (_batch_with(result, answers, label, two) for two in (True, False))
    sites = _sites_of_answers(result, draws, two_items)
    if sites is None:
        return None

    def log_likelihoods(
        batch: Batch, draw: int, latents: Mapping[str, Tensor] = MappingProxyType({})
    ) -> Float[Tensor, "2 answer"]:
        values = {**draws.at(draw), **latents}
        traces = [run(result.model, batch, values | end) for end in (sites.same, sites.different)]
        return torch.stack([_log_density(trace, sites.observed) for trace in traces]).cpu()

    batch, latents = two_items, None
    takes_own = sites.has_same_cluster
    if takes_own and not torch.allclose(log_likelihoods(own_items, 0), log_likelihoods(batch, 0)):
        batch = own_items
    if _differ(partial(log_likelihoods, batch, 0)):
        batch, latents = own_items, LatentsOfItems.of(result, draws, own_items.items, answers)
        values = latents.at(0)
        if not takes_own or _differ(partial(log_likelihoods, batch, 0, values)):
            _refuse(result, batch, [*draws.sites, *sites.same, *values])
    found = torch.stack(
        [
            log_likelihoods(batch, draw, {} if latents is None else latents.at(draw))
            for draw in range(draws.num_draws)
        ],
        1,
    )
    return found[0], found[1]


class _SitesOfAnswers(NamedTuple):
    """The sites on which answers depend.

    Attributes
    ----------
    observed
        Names of the sites of the answers.
    same, different
        Values of sites by which the two items of every pair are in one cluster, or in two.
    has_same_cluster
        Whether these are sites of ``SameCluster``, which any items may have, not clusters of two.
    """

    observed: list[str]
    same: dict[str, Tensor]
    different: dict[str, Tensor]
    has_same_cluster: bool


def _sites_of_answers(
    result: FittedModel, draws: GlobalDraws, two_items: Batch
) -> _SitesOfAnswers | None:
    """The sites of answers; None if the model observes none, or no site says what is the same."""
    without = sites_with_density(run(result.model, batch_of_items(result, torch.arange(2)), {}))
    of_answers = {
        name: site
        for name, site in sites_with_density(run(result.model, two_items, {})).items()
        if name not in without
    }
    observed = [name for name, site in of_answers.items() if site["is_observed"]]
    same = [name for name, site in of_answers.items() if isinstance(site["fn"], SameCluster)]
    discrete = discrete_sites(result, two_items, local_plates(result))
    if not observed or (not same and len(discrete) != 1):
        return None
    _check_plates(draws, of_answers, observed)
    if same:
        one = torch.ones_like(two_items.pair_weight)
        ends = dict.fromkeys(same, one), dict.fromkeys(same, 0 * one)
    else:
        ((z, support),) = discrete.items()
        ends = {z: support[[0, 0]]}, {z: support[[0, -1]]}
    return _SitesOfAnswers(observed, *ends, bool(same))


def _check_plates(
    draws: GlobalDraws, of_answers: Mapping[str, Any], observed: Collection[str]
) -> None:
    """Raise a ``ValueError`` about latents of answers whose plate does not say which answers."""
    plates = {frame.name for name in observed for frame in of_answers[name]["cond_indep_stack"]}
    for name in draws.sites.keys() & of_answers.keys():
        for frame in of_answers[name]["cond_indep_stack"]:
            if frame.name in plates:
                raise ValueError(
                    f"the guide has a value of {name!r} for every answer, in a plate "
                    f"{frame.name!r} of all answers whatever the batch holds, so that the "
                    f"likelihood of some answers is not known: use minibatches.AnswerPlate("
                    f"{frame.name!r}, batch) as this plate in the model, and by create_plates of "
                    "an autoguide, or export without likelihoods: "
                    "to_arviz(..., log_likelihood=False)"
                )


def _differ(log_likelihoods: Callable[[], Tensor]) -> bool:
    """Whether log-likelihoods depend on random numbers, because the model draws some site."""
    with torch.random.fork_rng():  # the draws of the caller stay the same
        one, other = log_likelihoods(), log_likelihoods()
    return not torch.allclose(one, other, equal_nan=True)


def _refuse(result: FittedModel, batch: Batch, known: Collection[str]) -> NoReturn:
    sites = sites_with_density(run(result.model, batch, {})).items()
    others = [name for name, site in sites if not site["is_observed"] and name not in known]
    raise ValueError(
        "the answers about pairs depend on sites that would be drawn from the prior, among "
        f"{others}: their likelihood is known if they depend on the items only through the site "
        "of SameCluster, observed data, and continuous latents that the guide draws in the plate "
        "of the items or in an AnswerPlate. Draw these latents in the guide, sum over discrete "
        "ones inside the distribution of the answers, or export without likelihoods: "
        "to_arviz(..., log_likelihood=False)"
    )


def _log_density(trace: Trace, names: Collection[str]) -> Float[Tensor, " answer"]:
    """The log-density of some sites together."""
    sites = sites_with_density(trace)
    return torch.stack([unscaled_log_density(sites[name]) for name in names]).sum(0).double()


def _batch_with(
    result: FittedModel,
    answers: Int[Tensor, " answer"],
    label: Float[Tensor, " answer"] | None,
    two_for_all: bool,
) -> Batch:
    """A batch of some answers, with their items, or with two items that stand for all of these."""
    given, two = result.data.needed_answers, torch.arange(2)
    asked = torch.stack([given.left[answers], given.right[answers]], 1)
    items, rows = asked.unique(return_inverse=True)
    if two_for_all:
        items, rows = two, two.expand(len(answers), 2)
    # Lapses are summed out by the caller, so that the batch has no pages then.
    lapsing = part_of(result.model, "annotators", SupportsLapses)
    batch = dataclasses.replace(
        batch_of_items(result, items),
        left=rows[:, 0],
        right=rows[:, 1],
        worker=given.worker[answers],
        label=given.label[answers] if label is None else label,
        pair_weight=torch.ones(len(answers), dtype=torch.float64),
        answers=answers,
        num_paired=len(items),
        asked=asked,
        page=None if given.page is None or lapsing is not None else given.page[answers],
    )
    return batch.to(result.device, result.dtype)


def left_out_answers(
    if_same: Float[Tensor, "draw answer"],
    if_different: Float[Tensor, "draw answer"],
    same: Float[np.ndarray, " answer"],
) -> Float[Tensor, "draw answer"]:
    """``-log (s / p(L | same) + (1 - s) / p(L | different))``."""
    share = torch.as_tensor(same, dtype=torch.float64).clamp(0, 1)
    return -torch.logaddexp(share.log() - if_same, torch.log1p(-share) - if_different)


def left_out_on_pages(
    workers: SupportsLapses,
    draws: GlobalDraws,
    answers: Answers,
    chosen: Int[Tensor, " answer"],
    same: Float[np.ndarray, " pair"],
) -> Float[Tensor, "draw answer"]:
    """The same for workers who may lapse, by the other answers on the page of each answer.

    Parameters
    ----------
    workers
        Model of the workers.
    draws
        Draws of Theta.
    answers
        All answers; their pages are known.
    chosen
        Rows of the answers that are left out in turn.
    same
        For all answers, the probability that both items share a cluster.
    """
    sessions = Sessions.of(answers.needed_page, answers.worker)
    place, own = workers.outcomes.places(answers.label), sessions.of_answer[chosen]
    number = workers.outcomes.num_outcomes
    counts = page_counts(place, sessions.of_answer, len(sessions.worker), number)[own]
    others = counts - torch.nn.functional.one_hot(place[chosen], number)
    not_looked = share_without_looking(others, place[chosen]).log()
    agree = torch.as_tensor(same, dtype=torch.float64).clamp(0, 1)
    worker, label = answers.worker[chosen], answers.label[chosen]
    rows = []
    for draw in range(draws.num_draws):
        drawn = draws.at(draw)
        rates = {name: drawn[name].cpu() for name in workers.priors()}
        if_same, if_different = (
            workers.attentive.answer(s, rates, worker).log_prob(label)[None]
            for s in (torch.ones_like(agree[chosen]), torch.zeros_like(agree[chosen]))
        )
        odds = workers.log_odds(sessions, answers.label, rates, agree)[own]
        looked = left_out_answers(if_same, if_different, same[chosen.numpy()])[0]
        logsigmoid = torch.nn.functional.logsigmoid
        rows.append(-torch.logaddexp(logsigmoid(odds) - looked, logsigmoid(-odds) - not_looked))
    return torch.stack(rows)
