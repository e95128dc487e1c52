"""View merges: their gain against the sum written out, and what they join and leave apart."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.callbacks.view_merges import ViewMerges, view_gain
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import ConsistencyTerm
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP

from ..crowds import amortized_pair, crowd, message_passing_pair, quiet_fit


def agreement(found: torch.Tensor, seen: torch.Tensor) -> float:
    return sum(
        found[i, k].item() * seen[i, k].log().item()
        for i, k in itertools.product(range(len(found)), range(found.shape[1]))
        if found[i, k] > 0
    )


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(range(4), 2)))
def test_the_gain_is_the_change_of_the_agreement(first, second):
    found, seen = torch.randn(2, 6, 4).softmax(-1)
    joined = [part.clone() for part in (found, seen)]
    for part in joined:
        part[:, first] += part[:, second]
        part[:, second] = 0.0
    gain = view_gain(found, seen)
    change = agreement(*joined) - agreement(found, seen)
    assert gain[first, second].item() == pytest.approx(change, rel=1e-10)
    torch.testing.assert_close(gain, gain.mT)
    assert gain.diagonal().eq(0).all()
    assert gain.min() >= 0


class Sideways:
    """A view: an item of two features lands anywhere along the first."""

    num_random = 1

    def __call__(self, features: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
        return torch.cat([4 * amounts.to(features), features[:, 1:]], 1)


def split_clouds(**merges: int) -> tuple[np.ndarray, np.ndarray, ViewMerges, list[float]]:
    """Two human clusters, above and below, each of two clouds left and right; four components."""
    rng = np.random.default_rng(0)
    corner = np.arange(240) % 4
    centers = np.array([[-3.0, -3.0], [3.0, -3.0], [-3.0, 3.0], [3.0, 3.0]])
    features = centers[corner] + 0.3 * rng.standard_normal((240, 2))
    model = SemiCrowdsourcedMixture(
        DirichletWeights(4), GaussianComponents(4, 2), NormalEmission(SkipMLP((2, 4, 2)), 2)
    )
    guide = MessagePassingGuide(
        model,
        GaussianRecognition(SkipMLP((2, 4, 4)), 2),
        consistency_term=ConsistencyTerm(Sideways(), weight=0.0, answered_weight=0.0),
    )
    moves = ViewMerges(**merges)
    result = quiet_fit(
        model, guide, CrowdData(features), epochs=3, step_size=0.5, callbacks=[moves], seed=1
    )
    return result.assignments, corner // 2, moves, result.history["merges"].tolist()


def test_components_that_views_confuse_are_joined_and_no_others():
    assignments, human, moves, history = split_clouds(first_epoch=1)
    assert clustering_accuracy(human, assignments) > 0.99
    assert len(np.unique(assignments)) == 2
    assert len(moves.moves) == sum(history) >= 2
    assert all(change > 0 for *_, change in moves.moves)
    emptied = [empty for _, _, empty, _ in moves.moves]
    assert len(emptied) == len(set(emptied))


def test_moves_wait_for_their_epoch():
    assignments, _, moves, history = split_clouds(first_epoch=4)
    assert len(np.unique(assignments)) == 4
    assert moves.moves == []
    assert history == [0, 0, 0]


def test_a_checkpoint_keeps_the_moves():
    moves = ViewMerges(moves=[(5, 0, 1, 2.5)])
    other = ViewMerges()
    other.load_state_dict(moves.state_dict())
    assert other.moves == moves.moves


@pytest.mark.parametrize("make", [message_passing_pair, amortized_pair])
def test_every_guide_with_a_network_can_be_merged(make):
    model, guide = make()
    guide.consistency_term = ConsistencyTerm(Sideways(), 1.0, 1.0)
    result = quiet_fit(model, guide, crowd(), callbacks=[ViewMerges(first_epoch=1)])
    assert result.history["merges"].ge(0).all()


def test_a_view_is_needed():
    trainer = SimpleNamespace(
        history=[{"epoch": 9}], guide=SimpleNamespace(consistency_term=None), data=crowd()
    )
    with pytest.raises(ValueError, match="ConsistencyTerm"):
        ViewMerges()(trainer)
