"""Parallel tempering of partitions: replicas of a chain in which answers count less.

    p_b(z, h, theta, s) propto p(z) p(h) p(theta) p(s)
                               prod_ij sum_y s_y(z, h) [p(answers_ij | y, theta) p(x_ij | y)]^b

is the prior at b = 0 and the posterior at b = 1. Replicas at several powers b make Gibbs sweeps
side by side. Those with small b move easily between modes. Neighbours exchange their states with
probability ``min(1, p_b(state') p_b'(state) / p_b(state) p_b'(state'))``, which leaves each
distribution invariant (Geyer 1991). So the replica at b = 1 visits modes in proportion to their
posterior probability. Several such chains of replicas, without exchanges between them, are drawn in
the same arrays.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.inference.pair_evidence import PairEvidence
from pyro_crowdclust.partitions.categorical_draws import draw_categories
from pyro_crowdclust.partitions.choices import Choices
from pyro_crowdclust.partitions.hard_items import num_hard_ends, sweep_hard
from pyro_crowdclust.partitions.sweeps import sweep_chains

# A drawn rate may round to 0; this is the smallest log rate.
_MIN_LOG_RATE = -100.0


class Replicas(NamedTuple):
    """Partitions, hard items, and the posteriors of the sites of workers and looks given these.

    Attributes
    ----------
    labels, hard
        The cluster of every item, and 1 if it is hard, otherwise 0.
    given
        Natural parameters of the sites given partition and looks, by name.
    """

    labels: Int[Tensor, "replica item"]
    hard: Int[Tensor, "replica item"]
    given: dict[str, Float[Tensor, "replica ... size"]]


class _States(NamedTuple):
    """What replicas exchange: everything except the looks of pairs, which are drawn anew.

    ``log_shares`` are the rows of the pairs' relations, ``log s_y``.
    """

    labels: Int[Tensor, "replica item"]
    hard: Int[Tensor, "replica item"]
    rates: dict[str, Float[Tensor, "replica *plate size"]]
    relation: Int[Tensor, "replica pair"]
    log_shares: Float[Tensor, "replica pair look"]
    log_likelihoods: Float[Tensor, "replica pair look"]

    def at(self, places: Int[Tensor, " replica"]) -> _States:
        """The states in another order."""
        rates = {name: rate[places] for name, rate in self.rates.items()}
        return _States(
            self.labels[places],
            self.hard[places],
            rates,
            self.relation[places],
            self.log_shares[places],
            self.log_likelihoods[places],
        )


def run_replicas(
    replicas: Replicas, powers: tuple[float, ...], evidence: PairEvidence, first: int
) -> tuple[Replicas, Choices]:
    """One Gibbs sweep of every replica, with an exchange between every other two neighbours.

    Parameters
    ----------
    replicas
        The replicas of one chain after the other, each chain in the order of its powers.
    powers
        b of each replica of a chain; the last is 1.
    evidence
        The answers and their likelihood.
    first
        The first replica that may exchange with the next: 0 and 1 in turn.

    Returns
    -------
    replicas, choices
        The new states, and the choices of the items in the last replica's sweep.
    """
    of_each = torch.tensor(powers, dtype=torch.float64).repeat(len(replicas.labels) // len(powers))
    states, choices = _swept(replicas, of_each, evidence)
    states = states.at(_exchanged(states, of_each, first, len(powers)))
    return _replicas(states, of_each, evidence), choices


def _swept(
    replicas: Replicas, powers: Float[Tensor, " replica"], evidence: PairEvidence
) -> tuple[_States, Choices]:
    """Draws of rates and look probabilities given partition and looks; then of the items."""
    model, pairs, hard = evidence.model, evidence.pairs, replicas.hard
    rates = {}
    for name, prior in model.priors().items():
        drawn = prior.family.sample(replicas.given[name])
        rates[name] = prior.family.sufficient_statistics(drawn).clamp_min(_MIN_LOG_RATE)
    rows = rates.pop("looks")
    log_likelihoods = evidence.log_likelihoods(rates)
    # The axes are replica, pair, number of hard items in the pair, and different or the same.
    weighed = (powers[:, None, None] * log_likelihoods).unsqueeze(2) + rows.unsqueeze(1)
    by_relation = _log_sum(weighed).unflatten(2, (-1, 2))
    of_kinds = by_relation.diff(dim=3).squeeze(3)
    if model.hard_items:
        of_kinds = of_kinds.gather(2, num_hard_ends(hard, pairs).unsqueeze(2))
    labels, choices = sweep_chains(replicas.labels, pairs, of_kinds.squeeze(2), model.prior)
    if model.hard_items:
        together = pairs.together(labels).long()[..., None, None]
        place = together.expand(-1, -1, by_relation.shape[2], 1)
        by_kind = by_relation.gather(3, place).squeeze(3)
        hard = torch.stack(
            [sweep_hard(one, pairs, some) for one, some in zip(hard, by_kind, strict=True)]
        )
    relation = model.relations(labels, hard, pairs)
    log_shares = rows[torch.arange(len(rows)).unsqueeze(1), relation]
    return _States(labels, hard, rates, relation, log_shares, log_likelihoods), choices


def _exchanged(
    states: _States,
    powers: Float[Tensor, " replica"],
    first: int,
    per_chain: int,
) -> Int[Tensor, " replica"]:
    """The replica whose state every replica has after the exchanges."""
    places = torch.arange(len(powers))
    lower = places.unflatten(0, (-1, per_chain))[:, first : per_chain - 1 : 2].flatten()
    if not len(lower):
        return places
    partner = places.clone()
    partner[lower], partner[lower + 1] = lower + 1, lower
    gain = _log_answers(states, powers[partner]) - _log_answers(states, powers)
    swaps = lower[torch.rand(len(lower)).log() < gain[lower] + gain[lower + 1]]
    places[swaps], places[swaps + 1] = swaps + 1, swaps
    return places


def _log_sum(log_weights: Float[Tensor, "*batch look"]) -> Float[Tensor, "*batch"]:
    """``logsumexp`` over looks; they are few, so that this is several times as fast."""
    return reduce(torch.logaddexp, log_weights.unbind(-1))


def _log_looks(
    states: _States, powers: Float[Tensor, " replica"]
) -> Float[Tensor, "replica pair look"]:
    """``log s_y + b log p(answers | y)``."""
    return powers[:, None, None] * states.log_likelihoods + states.log_shares


def _log_answers(states: _States, powers: Float[Tensor, " replica"]) -> Float[Tensor, " replica"]:
    """Log of the product over pairs, with looks summed out."""
    return _log_sum(_log_looks(states, powers)).sum(1)


def _replicas(
    states: _States, powers: Float[Tensor, " replica"], evidence: PairEvidence
) -> Replicas:
    """Draws of the looks of pairs, and the posteriors of the sites given them."""
    model, pairs = evidence.model, evidence.pairs
    log_looks = _log_looks(states, powers)
    looks = nn.functional.one_hot(draw_categories(log_looks), model.num_looks).double()
    counts = {
        name: powers[:, None, None] * count
        for name, count in evidence.counts(looks, states.rates).items()
    }
    weighed = looks * pairs.weights(evidence.batch.pair_weight).unsqueeze(1)
    place = states.relation.unsqueeze(2).expand_as(weighed)
    none = weighed.new_zeros(len(powers), len(model.looks.natural_parameters), model.num_looks)
    counts["looks"] = none.scatter_add(1, place, weighed)
    given = {
        name: prior.natural_parameters + counts[name] for name, prior in model.priors().items()
    }
    return Replicas(states.labels, states.hard, given)
