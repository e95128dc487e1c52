"""Drop moves: which components the answers do not support, and what becomes of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import DropMoves
from pyro_crowdclust.callbacks.drop_moves import unsupported
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pages

from ..crowds import quiet_fit


@pytest.mark.parametrize(
    ("heard", "expected", "dropped"),
    [
        (100.0, 100.0, False),
        (30.0, 100.0, False),  # over a quarter of what was expected
        (20.0, 100.0, True),
        (0.0, 16.0, False),  # four deviations below, which chance may do
        (0.0, 17.0, True),
        (0.0, 0.0, False),
    ],
)
def test_a_component_is_dropped_only_when_chance_does_not_explain_it(heard, expected, dropped):
    verdict = unsupported(torch.tensor([heard]), torch.tensor([expected]), 0.25)
    assert verdict.tolist() == [dropped]


class FixedGuide:
    """A guide whose q(z) is a table by item, with and without the answers."""

    def __init__(self, alone: torch.Tensor, heard: torch.Tensor) -> None:
        self.alone, self.heard, self.emptied = alone, heard, []

    def infer(self, batch) -> SimpleNamespace:
        table = self.heard if batch.num_pairs else self.alone
        return SimpleNamespace(assignments=table[batch.items])

    def empty(self, cluster: int) -> None:
        self.emptied.append(cluster)


def run_moves(alone: torch.Tensor, heard: torch.Tensor, moves: DropMoves, epoch: int) -> FixedGuide:
    labels = np.arange(400) % 2
    pairs = simulate_pages(labels, [1.0], [1.0], pages_per_worker=6, seed=0)
    guide = FixedGuide(alone, heard)
    row = {"epoch": epoch}
    data = CrowdData(torch.zeros(400, 2), pairs)
    moves(SimpleNamespace(history=[row], data=data, guide=guide, device=None, dtype=None))
    assert row["drops"] == len(guide.emptied)
    return guide


def test_a_component_without_answered_items_is_emptied():
    labels = np.arange(400) % 2
    pairs = simulate_pages(labels, [1.0], [1.0], pages_per_worker=6, seed=0)
    answered = CrowdData(torch.zeros(400, 2), pairs).annotated_items
    heard = torch.eye(3)[torch.arange(400) % 2]
    everywhere = heard.clone()
    everywhere[::2] = torch.tensor([0.0, 0.0, 1.0])
    elsewhere = everywhere.clone()
    elsewhere[answered] = heard[answered]
    moves = DropMoves()
    assert run_moves(elsewhere, heard, moves, epoch=2).emptied == [2]
    assert moves.moves == [(2, 2)]
    assert run_moves(elsewhere, heard, DropMoves(), epoch=1).emptied == []
    assert run_moves(elsewhere, heard, DropMoves(last_epoch=2), epoch=3).emptied == []
    # Answered items that only the messages carry away are no reason.
    assert run_moves(everywhere, heard, DropMoves(), epoch=2).emptied == []
    assert run_moves(everywhere, everywhere, DropMoves(), epoch=2).emptied == []


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
