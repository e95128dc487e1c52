"""Drop moves: which components the answers do not support, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import DropMoves, Proposal
from pyro_crowdclust.callbacks.drop_moves import unsupported
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.simulation import simulate_pages
from pyro_crowdclust.starts import MixtureStart

from ..crowds import quiet_fit


@pytest.mark.parametrize(
    ("heard", "expected", "dropped"),
    [
        (100.0, 100.0, False),
        (30.0, 100.0, False),  # over a quarter of what was expected
        (20.0, 100.0, True),
        (0.0, 16.0, False),  # four deviations below, which chance may do
        (0.0, 17.0, True),
        (4.0, 20.0, False),
        (0.0, 0.0, False),
    ],
)
def test_a_component_is_dropped_only_when_chance_does_not_explain_it(heard, expected, dropped):
    verdict = unsupported(torch.tensor([heard]), torch.tensor([expected]), 0.25)
    assert verdict.tolist() == [dropped]


class FixedGuide:
    """A guide whose q(z) is a table by item, with and without the answers."""

    def __init__(self, alone: torch.Tensor, heard: torch.Tensor) -> None:
        self.alone, self.heard = alone, heard

    def infer(self, batch) -> SimpleNamespace:
        table = self.heard if batch.num_pairs else self.alone
        return SimpleNamespace(assignments=table[batch.items])


def proposals(alone: torch.Tensor, heard: torch.Tensor, data: CrowdData) -> list[tuple[int, ...]]:
    guide = FixedGuide(alone, heard)
    trainer = SimpleNamespace(data=data, guide=guide, device=None, dtype=None)
    return [proposal.clusters for proposal in DropMoves().proposals(trainer)]


def test_a_component_without_answered_items_is_proposed():
    labels = np.arange(400) % 2
    pairs = simulate_pages(labels, [1.0], [1.0], pages_per_worker=6, seed=0)
    data = CrowdData(torch.zeros(400, 2), pairs)
    answered = data.annotated_items
    heard = torch.eye(4)[torch.arange(400) % 2]
    everywhere = heard.clone()
    everywhere[::2] = torch.tensor([0.0, 0.0, 1.0, 0.0])
    elsewhere = everywhere.clone()
    elsewhere[answered] = heard[answered]
    assert proposals(elsewhere, heard, data) == [(2,)]
    # The larger the shortfall, the earlier.
    some = elsewhere.clone()
    rest = torch.isin(torch.arange(400), answered, invert=True)
    some[rest & (torch.arange(400) % 4 == 1)] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    assert proposals(some, heard, data) == [(2,), (3,)]
    # Answered items that only the messages carry away are no reason.
    assert proposals(everywhere, heard, data) == []
    assert proposals(everywhere, everywhere, data) == []


def one_hot(clusters: torch.Tensor) -> torch.Tensor:
    return torch.eye(4)[clusters]


def test_answered_items_count_by_features_and_with_messages():
    """Items that nobody was asked about are in two clusters of their own, 128 and 108 of 400."""
    parity = torch.arange(400) % 2
    pairs = simulate_pages(parity.numpy(), [1.0], [1.0], pages_per_worker=6, seed=0)
    data = CrowdData(torch.zeros(400, 2), pairs)
    answered = torch.zeros(400, dtype=torch.bool)
    answered[torch.as_tensor(data.annotated_items)] = True
    alone = parity.clone()
    alone[~answered] += 2
    expected = answered.sum() * (alone == 2).sum() / 400

    def some(share: float) -> torch.Tensor:
        count = round(share * float(expected))
        return (answered & (parity == 0)).nonzero()[:count].squeeze(1)

    heard = torch.where(answered, parity, alone)
    assert proposals(one_hot(alone), one_hot(heard), data) == [(2,), (3,)]
    # What it holds with messages makes its shortfall the smaller one, or none.
    heard[some(0.23)] = 2
    assert proposals(one_hot(alone), one_hot(heard), data) == [(3,), (2,)]
    heard[some(0.5)] = 2
    assert proposals(one_hot(alone), one_hot(heard), data) == [(3,)]
    # By features it may hold up to half of what is expected.
    heard = torch.where(answered, parity, alone)
    alone[some(0.42)] = 2
    assert (2,) in proposals(one_hot(alone), one_hot(heard), data)
    alone[some(0.8)] = 2
    assert (2,) not in proposals(one_hot(alone), one_hot(heard), data)


@dataclass
class Always(DropMoves):
    """Proposes the clusters that it is told."""

    told: tuple[tuple[int, ...], ...] = ()

    def proposals(self, trainer: object) -> list[Proposal]:
        return [Proposal(clusters) for clusters in self.told]


def crowded(told: tuple[tuple[int, ...], ...], **options: int) -> tuple[Fitted, Always]:
    """Two far clouds in three clusters, the second cut in two; the answers are about a few."""
    features = 8 * (np.arange(60) % 2)[:, None] + np.random.default_rng(0).normal(size=(60, 2))
    pairs = {"left": [0, 0, 1], "right": [2, 1, 3], "worker": [0, 0, 0], "label": [1, 0, 1]}
    model = SemiCrowdsourcedMixture(
        DirichletWeights(3, 0.5), GaussianComponents(3, 2), Identity(), TwoCoin(1)
    )
    start = torch.where(torch.arange(60) % 4 == 1, 2, torch.arange(60) % 2)

    def initialize(model, guide, data, generator):
        observed = model.components.observe(torch.as_tensor(data.features))
        guide.start_at(MixtureStart(observed, torch.eye(3)[start], 1.0))

    result = quiet_fit(
        model,
        MessagePassingGuide(model),
        CrowdData(features, pairs),
        initialize=initialize,
        epochs=3,
        batch_size=None,
        step_size=1.0,
        callbacks=[Always(told=told, **options)],
    )
    return result, result.callbacks[0]


def test_a_drop_is_made_only_where_it_pays():
    result, moves = crowded(told=((0,), (2,), (1,)))
    # Half of a cloud is not missed, a whole one is.
    assert [(epoch, cluster) for epoch, cluster, _ in moves.moves] == [(2, 2)]
    assert moves.moves[0][2] > 1
    assert result.history["drops"].tolist() == [0, 1, 0]
    assert set(result.assignments) == {0, 1}
    plain, _ = crowded(told=())
    assert result.elbo > plain.elbo


@pytest.mark.parametrize("options", [{"first_epoch": 9}, {"first_epoch": 1, "last_epoch": 0}])
def test_drops_have_their_time(options):
    assert crowded(told=((2,),), **options)[1].moves == []


def test_empty_returns_a_component_to_its_prior_and_leaves_the_others():
    model = SemiCrowdsourcedMixture(
        DirichletWeights(4), GaussianComponents(4, 2), Identity(), TwoCoin(3)
    )
    labels = np.arange(120) % 3
    features = 6 * np.stack([labels == 0, labels == 1], 1) + np.random.default_rng(0).normal(
        size=(120, 2)
    )
    rates = [0.9] * 3
    pairs = simulate_pages(labels, rates, rates, pages_per_worker=1, seed=0)
    fitted = quiet_fit(model, MessagePassingGuide(model), CrowdData(features, pairs), epochs=2)
    guide = fitted.guide
    before = {
        name: posterior.natural_parameters.detach().clone()
        for name, posterior in guide.posteriors.items()
    }
    guide.empty(1)
    for name in ("weights", "components"):
        after = guide.posteriors[name].natural_parameters.detach()
        prior = fitted.model.priors()[name].natural_parameters
        assert torch.equal(after[1], prior[1])
        assert torch.equal(after[[0, 2, 3]], before[name][[0, 2, 3]])
