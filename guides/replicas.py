"""Replicas of a chain of partitions, for some of which answers count less: parallel tempering.

    p_b(z, h, theta, s) propto p(z) p(h) p(theta) p(s)
                               prod_ij sum_y s_y(z, h) [p(answers_ij | y, theta) p(x_ij | y)]^b

is the prior at b = 0 and the posterior at b = 1. Replicas at several powers b make Gibbs sweeps
side by side. Those with small b go from one mode to another, and neighbours exchange their states
with probability ``min(1, p_b(state') p_b'(state) / p_b(state) p_b'(state'))``, which leaves each of
the distributions as it is (Geyer 1991). So the replica at b = 1 visits modes in proportion to what
they hold. Several such chains of replicas, which exchange nothing, are drawn in the same arrays.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.guides.pair_evidence import PairEvidence
from pyro_crowdclust.models.answered_partition import pair_weights
from pyro_crowdclust.partitions import Choices, num_hard_ends, sweep_chains, sweep_hard

# No drawn rate is 0 to rounding.
_LEAST = -100.0


class Replicas(NamedTuple):
    """Partitions, which items are hard, and what the sites of workers and looks are given these.

    Attributes
    ----------
    labels, hard
        Cluster of every item, and 1 where it is hard.
    given
        Natural parameters of the sites, by name.
    """

    labels: Int[Tensor, "replica item"]
    hard: Int[Tensor, "replica item"]
    given: dict[str, Float[Tensor, "replica *plate size"]]


class _States(NamedTuple):
    """What replicas exchange: all but how pairs look, which is drawn anew."""

    labels: Int[Tensor, "replica item"]
    hard: Int[Tensor, "replica item"]
    rates: dict[str, Float[Tensor, "replica *plate size"]]
    rows: Float[Tensor, "replica relation look"]
    said: Float[Tensor, "replica pair look"]

    def at(self, places: Int[Tensor, " replica"]) -> _States:
        """The states in another order."""
        rates = {name: rate[places] for name, rate in self.rates.items()}
        return _States(
            self.labels[places], self.hard[places], rates, self.rows[places], self.said[places]
        )


def run_replicas(
    replicas: Replicas, powers: tuple[float, ...], heard: PairEvidence, first: int
) -> tuple[Replicas, Choices]:
    """One Gibbs sweep of every replica, with an exchange between every other two neighbours.

    Parameters
    ----------
    replicas
        Of one chain after the other, in the order of their powers.
    powers
        b of each replica of a chain; the last is 1.
    heard
        The answers, and the sites by which they are heard.
    first
        The first replica that may exchange with the next: 0 and 1 in turn.

    Returns
    -------
    replicas, choices
        Of the last replica what its items could choose.
    """
    of_each = torch.tensor(powers, dtype=torch.float64).repeat(len(replicas.labels) // len(powers))
    states, choices = _moved(replicas, of_each, heard)
    states = states.at(_exchanged(states, of_each, heard, first, len(powers)))
    return _replicas(states, of_each, heard), choices


def _moved(
    replicas: Replicas, powers: Float[Tensor, " replica"], heard: PairEvidence
) -> tuple[_States, Choices]:
    """Rates and looks given the partition and what its pairs look like; items given these."""
    model, pairs, hard = heard.model, heard.pairs, replicas.hard
    rates = {}
    for name, prior in model.priors().items():
        drawn = prior.family.sample(replicas.given[name])
        rates[name] = prior.family.sufficient_statistics(drawn).clamp_min(_LEAST)
    rows = rates.pop("looks")
    said = heard.said(rates)
    # Of every pair by how many of it are hard, and whether it is the same.
    weighed = (powers[:, None, None] * said).unsqueeze(2) + rows.unsqueeze(1)
    said_if = _log_sum(weighed).unflatten(2, (-1, 2))
    kind = num_hard_ends(hard, pairs)[..., None, None].expand(-1, -1, 1, 2)
    weights = said_if.gather(2, kind).diff(dim=3)[..., 0, 0]
    labels, choices = sweep_chains(replicas.labels, pairs, weights, model.prior)
    if model.hard_items:
        place = pairs.together(labels).long()[..., None, None].expand(-1, -1, said_if.shape[2], 1)
        said_of_kind = said_if.gather(3, place).squeeze(3)
        hard = torch.stack(
            [sweep_hard(one, pairs, said) for one, said in zip(hard, said_of_kind, strict=True)]
        )
    return _States(labels, hard, rates, rows, said), choices


def _exchanged(
    states: _States,
    powers: Float[Tensor, " replica"],
    heard: PairEvidence,
    first: int,
    per_chain: int,
) -> Int[Tensor, " replica"]:
    """Whose state every replica has after exchanges."""
    places = torch.arange(len(powers))
    lower = places.unflatten(0, (-1, per_chain))[:, first : per_chain - 1 : 2].flatten()
    if not len(lower):
        return places
    partner = places.clone()
    partner[lower], partner[lower + 1] = lower + 1, lower
    gain = _log_answers(states, powers[partner], heard) - _log_answers(states, powers, heard)
    swaps = lower[torch.rand(len(lower)).log() < gain[lower] + gain[lower + 1]]
    places[swaps], places[swaps + 1] = swaps + 1, swaps
    return places


def _log_sum(log_weights: Float[Tensor, "*batch look"]) -> Float[Tensor, "*batch"]:
    """``logsumexp`` over looks, which are few: several times as fast."""
    return reduce(torch.logaddexp, log_weights.unbind(-1))


def _log_looks(
    states: _States, powers: Float[Tensor, " replica"], heard: PairEvidence
) -> Float[Tensor, "replica pair look"]:
    """``log s_y + b log p(answers | y)``."""
    relation = heard.model.relations(states.labels, states.hard, heard.pairs)
    chain = torch.arange(len(powers)).unsqueeze(1)
    return powers[:, None, None] * states.said + states.rows[chain, relation]


def _log_answers(
    states: _States, powers: Float[Tensor, " replica"], heard: PairEvidence
) -> Float[Tensor, " replica"]:
    """Log of the product over pairs, with what they look like summed out."""
    return _log_sum(_log_looks(states, powers, heard)).sum(1)


def _replicas(states: _States, powers: Float[Tensor, " replica"], heard: PairEvidence) -> Replicas:
    """What pairs look like, and the sites given that."""
    model, pairs = heard.model, heard.pairs
    log_looks = _log_looks(states, powers, heard)
    # A Gumbel race: the largest is a draw with log odds these.
    look = (log_looks - torch.empty_like(log_looks).exponential_().log()).argmax(2)
    looks = nn.functional.one_hot(look, model.num_looks).double()
    counts = {
        name: powers[:, None, None] * count
        for name, count in heard.counts(looks, states.rates).items()
    }
    relation = model.relations(states.labels, states.hard, pairs)
    weighed = looks * pair_weights(heard.batch, pairs).unsqueeze(1)
    place = relation.unsqueeze(2).expand_as(weighed)
    counts["looks"] = torch.zeros_like(states.rows).scatter_add(1, place, weighed)
    given = {
        name: prior.natural_parameters + counts[name] for name, prior in model.priors().items()
    }
    return Replicas(states.labels, states.hard, given)
