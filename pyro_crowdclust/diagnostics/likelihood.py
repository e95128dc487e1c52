"""Pointwise log-likelihoods at draws of the global sites, with the local sites summed out.

Of an item i, with every discrete local site summed out and every continuous one integrated by
importance sampling from q,

    log p(o_i | Theta) = log sum_m sum_k p(k | Theta) p(x_m | k, Theta) p(o_i | x_m) / (M q(x_m))

which is exact where there is no continuous local site. A guide whose latents depend on the cluster
sums over both itself (``item_log_likelihood``). Of an answer a about items i and j, with
s = P_q(z_i = z_j),

    log p(L_a | Theta, all other data) = -log E_q(z)[1 / p(L_a | z, Theta)]
                                       = -log (s / p(L_a | same) + (1 - s) / p(L_a | different))

because ``p(z | all data) / p(z | all but a)`` is proportional to ``p(L_a | z)``. On a page that its
worker may not have looked at, u = 0, with n_L answers L of C possible ones among all n, likewise

    -log (q(u = 1) (s / p(L_a | same) + (1 - s) / p(L_a | different)) + q(u = 0) (C + n - 1) / n_L).

All are what leave-one-out by importance sampling over Theta needs: ``1 / p(y_a | Theta, the
others)`` is the ratio of the posteriors without and with y_a.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Num
from pyro import poutine
from pyro.poutine import Trace
from torch import Tensor

from pyro_crowdclust.annotators import LapsingWorkers
from pyro_crowdclust.data.pair_answers import Answers, Sessions
from pyro_crowdclust.diagnostics.draws import (
    GlobalDraws,
    batch_of_items,
    is_local,
    local_plates,
    run,
    sites_with_density,
)
from pyro_crowdclust.distributions.pairs import SameCluster
from pyro_crowdclust.distributions.statistics import SupportsRealDraws
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.inference.enumeration import (
    is_deterministic,
    item_log_density,
    unscaled_log_density,
)
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import FittedModel, SupportsItemLogLikelihood, part_of


def item_log_likelihood(
    result: FittedModel,
    draws: GlobalDraws,
    items: Int[Tensor, " item"],
    latent_draws: int = 10,
    class_labels: bool = False,
) -> Float[Tensor, "draw item"] | None:
    """``log p(o_i | Theta)`` of some items, as if nobody had been asked about them.

    Where components are on coordinates of the features it is a density of the features all the same
    (``log_volume`` of the emission).

    Parameters
    ----------
    result
        What ``fit`` returned.
    draws
        Theta.
    items
        Positions of the items.
    latent_draws
        M, where there are continuous local sites. The same x_m serve every Theta, so that their
        noise is common to all draws. The logarithm of an average is too low on average, the more so
        the narrower q(x) is than the posterior of x.
    class_labels
        Whether the labels of an item count, too: ``log p(o_i, a_i | Theta)``.

    Returns
    -------
    None if the model does not say what features look like.
    """
    if isinstance(result.guide, SupportsItemLogLikelihood) and not class_labels:
        return _by_guide(result, draws, items, latent_draws)
    local = local_plates(result)
    first = batch_of_items(result, items[:1], class_labels)
    if not _observes(result, first, local):
        return None
    guide_trace = run(result.guide, first, {})
    discrete = discrete_sites(result, first, local)
    continuous = continuous_sites(guide_trace, discrete, local)
    copies = latent_draws if continuous else 1
    batch = batch_of_items(result, items.repeat(copies), class_labels)
    first_dim = enumeration_dim(result, batch)
    once = batch_of_items(result, items, class_labels)
    drawn = [_drawn(result, once, discrete, continuous, local) for _ in range(copies)]
    values = {
        name: torch.cat([part[name][0] for part, _ in drawn], drawn[0][0][name][1])
        for name in continuous
    }
    log_proposal = torch.cat([density for _, density in drawn])
    rows = []
    for draw in range(draws.num_draws):
        enumerated = enumerated_log_density(
            result, batch, draws.at(draw) | values, discrete, local, first_dim
        )
        weights = (enumerated.logsumexp(0) - log_proposal).reshape(copies, len(items))
        rows.append(weights.logsumexp(0) - math.log(copies))
    return torch.stack(rows).cpu() + log_volume(result, items)


def log_volume(result: FittedModel, items: Int[Tensor, " item"]) -> Float[Tensor, " item"] | float:
    """What a log-density of the coordinates of items lacks of one of their features.

    Features that count less (``feature_weight``) do so in any units.
    """
    emission = part_of(result.model, "emission", Identity)
    if emission is None or result.data.features is None:
        return 0.0
    volume = emission.log_volume(result.data.rows(items)).cpu()
    return float(getattr(result.model, "feature_weight", 1.0)) * volume


def _by_guide(
    result: FittedModel, draws: GlobalDraws, items: Int[Tensor, " item"], latent_draws: int
) -> Float[Tensor, "draw item"]:
    batch = batch_of_items(result, items)
    rows = []
    for draw in range(draws.num_draws):
        with torch.random.fork_rng():  # every Theta begins with the same random numbers
            rows.append(result.guide.item_log_likelihood(draws.at(draw), batch, latent_draws))
    return torch.stack(rows).double().cpu()


def discrete_sites(result: FittedModel, batch: Batch, local: frozenset[str]) -> dict[str, Tensor]:
    """Values that each discrete local site of the model can take on a batch, by site."""
    sites = sites_with_density(run(result.model, batch, {}))
    return {
        name: _flat_support(site["fn"])
        for name, site in sites.items()
        if not site["is_observed"] and is_local(site, local) and site["fn"].has_enumerate_support
    }


def continuous_sites(
    guide_trace: Trace, discrete: Collection[str], local: frozenset[str]
) -> list[str]:
    """Names of the other local sites of the guide, but for functions of these that have a site."""
    return [
        name
        for name, site in sites_with_density(guide_trace).items()
        if is_local(site, local)
        and name not in discrete
        and not getattr(site["fn"], "is_deterministic", False)
    ]


def _flat_support(fn: Any) -> Num[Tensor, "value ..."]:
    support = fn.enumerate_support(expand=False)
    return support.reshape(len(support), *fn.event_shape)


def _drawn(
    result: FittedModel,
    batch: Batch,
    discrete: Collection[str],
    continuous: Collection[str],
    local: frozenset[str],
) -> tuple[dict[str, tuple[Tensor, int]], Float[Tensor, " item"]]:
    """A real value for each continuous local site of a guide, and log q of all of them.

    With every value comes its axis of the items. The guide runs on items as they are in the data,
    and not on copies of them: an autoguide knows parameters of its own for each by its place.
    """
    sites = sites_with_density(run(result.guide, batch, {})) if continuous else {}
    given = {name: _real_value(sites[name]) for name in discrete if name in sites}
    if given:  # others may depend on these
        sites = sites_with_density(run(result.guide, batch, given))
    values, log_density = {}, torch.zeros(len(batch.items), dtype=torch.float64)
    for name in continuous:
        site = sites[name]
        (dim,) = [frame.dim for frame in site["cond_indep_stack"] if frame.name in local]
        value = _real_value(site)
        values[name] = value, dim - len(site["fn"].event_shape)
        log_density = log_density + site["fn"].log_prob(value).double().cpu()
    return values, log_density.to(batch.items.device)


def _real_value(site: dict[str, Any]) -> Tensor:
    """A draw from a guide's site: its value, unless that is a mean."""
    fn = site["fn"]
    return fn.real_draws(1).statistics[0] if isinstance(fn, SupportsRealDraws) else site["value"]


def _observes(result: FittedModel, batch: Batch, local: frozenset[str]) -> bool:
    """Whether a model observes anything of the items of a batch."""
    sites = sites_with_density(run(result.model, batch, {})).values()
    return any(
        site["is_observed"] and is_local(site, local) and not is_deterministic(site)
        for site in sites
    )


def enumerated_log_density(
    result: FittedModel,
    batch: Batch,
    values: Mapping[str, Tensor],
    discrete: Collection[str],
    local: frozenset[str],
    first_dim: int,
) -> Float[Tensor, "value item"]:
    """Log joint density of each item's sites, for every value of the discrete ones.

    What nobody saw and is in no ``values``, such as the label of an item without one, is summed
    out: it is drawn by the model and not counted.

    Parameters
    ----------
    result
        What ``fit`` returned.
    batch
        The items.
    values
        Of all other latent sites.
    discrete
        Names of the discrete local sites.
    local
        Names of the plates of the items.
    first_dim
        ``enumeration_dim`` of the batch.
    """
    model = poutine.infer_config(
        result.model,
        lambda site: {"enumerate": "parallel", "expand": True} if site["name"] in discrete else {},
    )
    with poutine.enum(first_available_dim=first_dim):
        trace = run(model, batch, values)
    counted = [
        name
        for name, site in sites_with_density(trace).items()
        if site["is_observed"] or name in discrete or name in values
    ]
    return item_log_density(trace, local, counted)


def enumeration_dim(result: FittedModel, batch: Batch) -> int:
    """The first dimension to the left of all plates."""
    dims = [
        frame.dim
        for site in sites_with_density(run(result.model, batch, {})).values()
        for frame in site["cond_indep_stack"]
        if frame.vectorized
    ]
    return min(dims, default=-1) - 1


def answer_log_likelihoods(
    result: FittedModel,
    draws: GlobalDraws,
    answers: Int[Tensor, " answer"],
    label: Float[Tensor, " answer"] | None = None,
) -> tuple[Float[Tensor, "draw answer"], Float[Tensor, "draw answer"]] | None:
    """``log p(L | same)`` and ``log p(L | different)`` of some answers, under each draw.

    The model runs on two items that stand for both ends of every pair, once in the same cluster
    and once in different ones. Where answers hang on more of their items than that, it runs on
    these, with the site of ``SameCluster`` given.

    Parameters
    ----------
    result
        What ``fit`` returned.
    draws
        Theta.
    answers
        Rows of the answers.
    label
        Labels to put in place of those that were given.

    Returns
    -------
    None if the model observes no answers, or has neither a site of ``SameCluster`` nor one discrete
    site that tells whether two items are the same.
    """
    if result.data.num_items < 2:
        return None
    two_items, own_items = (_batch_with(result, answers, label, two) for two in (True, False))
    without = sites_with_density(run(result.model, batch_of_items(result, torch.arange(2)), {}))
    of_answers = {
        name: site
        for name, site in sites_with_density(run(result.model, two_items, {})).items()
        if name not in without
    }
    names = [name for name, site in of_answers.items() if site["is_observed"]]
    same = [name for name, site in of_answers.items() if isinstance(site["fn"], SameCluster)]
    discrete = discrete_sites(result, two_items, local_plates(result))
    if not names or (not same and len(discrete) != 1):
        return None
    one = torch.ones_like(two_items.pair_weight)
    together, apart = dict.fromkeys(same, one), dict.fromkeys(same, 0 * one)
    if not same:
        ((z, support),) = discrete.items()
        together, apart = {z: support[[0, 0]]}, {z: support[[0, -1]]}

    def log_likelihoods(batch: Batch, draw: int) -> Float[Tensor, "2 answer"]:
        traces = [run(result.model, batch, draws.at(draw) | end) for end in (together, apart)]
        return torch.stack([_log_density(trace, names) for trace in traces]).cpu()

    batch = two_items
    if same and not torch.allclose(log_likelihoods(own_items, 0), log_likelihoods(batch, 0)):
        batch = own_items
    found = torch.stack([log_likelihoods(batch, draw) for draw in range(draws.num_draws)], 1)
    return found[0], found[1]


def _log_density(trace: Trace, names: Collection[str]) -> Float[Tensor, " answer"]:
    """Of some sites together."""
    sites = sites_with_density(trace)
    return torch.stack([unscaled_log_density(sites[name]) for name in names]).sum(0).double()


def _batch_with(
    result: FittedModel,
    answers: Int[Tensor, " answer"],
    label: Float[Tensor, " answer"] | None,
    two_for_all: bool,
) -> Batch:
    """Some answers, each for itself, with their items, or with two that stand for those of each."""
    given, two = result.data.answers, torch.arange(2)
    assert given is not None  # there are answers to ask about
    asked = torch.stack([given.left[answers], given.right[answers]], 1)
    items, rows = asked.unique(return_inverse=True)
    if two_for_all:
        items, rows = two, two.expand(len(answers), 2)
    batch = dataclasses.replace(
        batch_of_items(result, items),
        left=rows[:, 0],
        right=rows[:, 1],
        worker=given.worker[answers],
        label=given.label[answers] if label is None else label,
        pair_weight=torch.ones(len(answers), dtype=torch.float64),
        num_paired=len(items),
        asked=asked,
        page=None,
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
    workers: LapsingWorkers,
    draws: GlobalDraws,
    answers: Answers,
    chosen: Int[Tensor, " answer"],
    same: Float[np.ndarray, " pair"],
) -> Float[Tensor, "draw answer"]:
    """The same of workers who lapse: others on the page tell whether its worker looked.

    Parameters
    ----------
    workers
        Their model.
    draws
        Theta.
    answers
        All answers; their pages are known.
    chosen
        Rows of the answers that are left out in turn.
    same
        Of all answers, the probability that both ends share a cluster.
    """
    assert answers.page is not None  # as the caller has seen
    sessions = Sessions.of(answers.page, answers.worker)
    place, own = workers.outcomes.places(answers.label), sessions.of_answer[chosen]
    counts = torch.zeros(len(sessions.worker), workers.outcomes.num_outcomes, dtype=torch.float64)
    counts.index_put_((sessions.of_answer, place), counts.new_ones(()), accumulate=True)
    others = counts.shape[1] + counts[own].sum(1) - 1
    not_looked = counts[own, place[chosen]].log() - others.log()
    agree = torch.as_tensor(same, dtype=torch.float64).clamp(0, 1)
    rows = []
    for draw in range(draws.num_draws):
        drawn = draws.at(draw)
        rates = {name: drawn[name].cpu() for name in workers.priors()}
        if_same, if_different = (
            workers.attentive.answer(s, rates, answers.worker).log_prob(answers.label)
            for s in (torch.ones_like(agree), torch.zeros_like(agree))
        )
        said = torch.lerp(if_different, if_same, agree)
        odds = workers.log_odds_before_looking(sessions, answers.label, rates)
        odds = odds.index_add(0, sessions.of_answer, said)[own]
        if_same, if_different = if_same[None, chosen], if_different[None, chosen]
        looked = left_out_answers(if_same, if_different, same[chosen.numpy()])[0]
        logsigmoid = torch.nn.functional.logsigmoid
        rows.append(-torch.logaddexp(logsigmoid(odds) - looked, logsigmoid(-odds) - not_looked))
    return torch.stack(rows)
