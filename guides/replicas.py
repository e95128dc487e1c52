"""Replicas of a chain of partitions, for some of which answers count less: parallel tempering.

    p_b(z, h, theta, s) propto p(z) p(h) p(theta) p(s)
                               prod_ij sum_y s_y(z, h) p(answers_ij | y, theta)^b

is the prior at b = 0 and the posterior at b = 1. Replicas at several powers b make Gibbs sweeps
side by side. Those with small b go from one mode to another, and neighbours exchange their states
with probability ``min(1, p_b(state') p_b'(state) / p_b(state) p_b'(state'))``, which leaves each of
the distributions as it is (Geyer 1991). So the replica at b = 1 visits modes in proportion to what
they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.guides.pair_evidence import PairEvidence
from pyro_crowdclust.models.answered_partition import pair_weights
from pyro_crowdclust.partitions import Choices, num_hard_ends, sweep, sweep_hard

# No drawn rate is 0 to rounding.
_LEAST = -100.0


class Replica(NamedTuple):
    """A partition, which items are hard, and what the sites of workers and looks are given these.

    Attributes
    ----------
    labels, hard
        Cluster of every item, and 1 where it is hard.
    given
        Natural parameters of the sites, by name.
    """

    labels: Int[Tensor, " item"]
    hard: Int[Tensor, " item"]
    given: dict[str, Tensor]


class _State(NamedTuple):
    """What replicas exchange: all but how pairs look, which is drawn anew."""

    labels: Int[Tensor, " item"]
    hard: Int[Tensor, " item"]
    rates: dict[str, Tensor]
    rows: Float[Tensor, "relation look"]
    said: Float[Tensor, "pair look"]
    choices: Choices


def run_replicas(
    replicas: Sequence[Replica], powers: Sequence[float], heard: PairEvidence, first: int
) -> tuple[list[Replica], Choices]:
    """One Gibbs sweep of every replica, with an exchange between every other two neighbours.

    Parameters
    ----------
    replicas
        In the order of their powers.
    powers
        b of each; the last is 1.
    heard
        The answers, and the sites by which they are heard.
    first
        The first replica that may exchange with the next: 0 and 1 in turn.

    Returns
    -------
    replicas, choices
        Of the last replica what its items could choose.
    """
    states = [
        _moved(replica, power, heard) for replica, power in zip(replicas, powers, strict=True)
    ]
    for place in range(first, len(states) - 1, 2):
        low, high = powers[place], powers[place + 1]
        own, other = states[place], states[place + 1]
        gain = _log_answers(other, low, heard) - _log_answers(own, low, heard)
        gain += _log_answers(own, high, heard) - _log_answers(other, high, heard)
        if float(torch.rand(()).log()) < gain:
            states[place], states[place + 1] = other, own
    drawn = [_replica(state, power, heard) for state, power in zip(states, powers, strict=True)]
    return drawn, states[-1].choices


def _moved(replica: Replica, power: float, heard: PairEvidence) -> _State:
    """Rates and looks given the partition and what its pairs look like; items given these."""
    model, pairs, hard = heard.model, heard.pairs, replica.hard
    rates = {}
    for name, prior in model.priors().items():
        drawn = prior.family.sample(replica.given[name])
        rates[name] = prior.family.sufficient_statistics(drawn).clamp_min(_LEAST)
    rows = rates.pop("looks")
    said = heard.said(rates)
    # Of every pair by how many of it are hard, and whether it is the same.
    said_if = torch.stack([torch.logsumexp(power * said + row, 1) for row in rows], 1)
    said_if, every = said_if.unflatten(1, (-1, 2)), torch.arange(pairs.num_pairs)
    weights = said_if[every, num_hard_ends(hard, pairs)].diff(dim=1).squeeze(1)
    labels, choices = sweep(replica.labels, pairs, weights, model.prior)
    if model.hard_items:
        hard = sweep_hard(hard, pairs, said_if[every, :, pairs.together(labels).long()])
    return _State(labels, hard, rates, rows, said, choices)


def _log_looks(state: _State, power: float, heard: PairEvidence) -> Float[Tensor, "pair look"]:
    """``log s_y + b log p(answers | y)``."""
    relation = heard.model.relations(state.labels, state.hard, heard.pairs)
    return power * state.said + state.rows[relation]


def _log_answers(state: _State, power: float, heard: PairEvidence) -> float:
    """Log of the product over pairs, with what they look like summed out."""
    return float(torch.logsumexp(_log_looks(state, power, heard), 1).sum())


def _replica(state: _State, power: float, heard: PairEvidence) -> Replica:
    """What pairs look like, and the sites given that."""
    model, pairs = heard.model, heard.pairs
    relation = model.relations(state.labels, state.hard, pairs)
    log_looks = _log_looks(state, power, heard)
    # A Gumbel race: the largest is a draw with log odds these.
    look = (log_looks - torch.empty_like(log_looks).exponential_().log()).argmax(1)
    looks = nn.functional.one_hot(look, model.num_looks).double()
    counts = {name: power * count for name, count in heard.counts(looks, state.rates).items()}
    weighed = looks * pair_weights(heard.batch, pairs).unsqueeze(1)
    counts["looks"] = torch.zeros_like(state.rows).index_add(0, relation, weighed)
    given = {
        name: prior.natural_parameters + counts[name] for name, prior in model.priors().items()
    }
    return Replica(state.labels, state.hard, given)
