"""Teaching of two classifiers: closed forms of what the second learns, and striped photographs."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.networks import OpinionPool, PatchClassifier, ResidualClassifier, SkipMLP
from pyro_crowdclust.starts import Distillation, RidgeTeaching, TaughtStart, descent
from pyro_crowdclust.starts.distillation import _log_probabilities

from ..striped_photos import SIZE, guide_with, stripes


class Shaken:
    """A view: every feature moves a little."""

    num_random = 1

    def __init__(self, amount: float = 0.0) -> None:
        self.amount = amount

    def __call__(self, features: Tensor, amounts: Tensor) -> Tensor:
        return features + self.amount * amounts.to(features)


@pytest.fixture(autouse=True)
def no_decay(monkeypatch):
    """Weights are those that the loss alone is best at."""
    monkeypatch.setattr(descent, "_WEIGHT_DECAY", 0.0)


class Told:
    """A teacher that sets a linear classifier, which is still in its training mode."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def teach(self, network: Any, *_: object) -> None:
        with torch.no_grad():
            network.weight.copy_(self.weight)
            network.bias.zero_()


class Constant(nn.Module):
    """Says the same of every item."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:
        return self.logits.expand(len(features), 2)


def taught(second: nn.Module, weight: Tensor, features: Tensor, **options: Any) -> OpinionPool:
    """A pool after distillation of a linear classifier."""
    first = nn.Linear(features.shape[1], len(weight)).double()
    pool = OpinionPool([first, second])
    settings = {"steps": 300, "learning_rate": 0.05, "memory": 0.9}
    distillation = Distillation(Shaken(), Told(weight), **settings | options)
    unknown = torch.full((len(features),), -1)
    distillation.teach(pool, CrowdData(features), unknown, torch.Generator().manual_seed(1))
    return pool


def test_the_second_learns_probabilities_of_the_first():
    torch.manual_seed(0)
    features, weight = torch.randn(300, 2).double(), torch.randn(3, 2).double()
    pool = taught(SkipMLP((2, 16, 3)).double(), weight, features, rounds=1, learning_rate=0.02)
    expected = (features @ weight.mT).softmax(1)
    torch.testing.assert_close(pool.members[1](features).softmax(1), expected, atol=0.03, rtol=0)


def test_later_rounds_teach_what_both_say():
    """One number for all items: it ends at the mean of what is taught."""
    sides = torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64).repeat(100, 1)
    weight = torch.tensor([[2.7, 1.9], [0.0, 0.0]], dtype=torch.float64)
    said = (sides @ weight.mT).softmax(1)
    mean = said.mean(0)
    both = (said * mean).sqrt()
    mean_of_both = (both / both.sum(1, keepdim=True)).mean(0)
    assert float((mean_of_both - mean).abs().max()) > 0.05
    for rounds, expected in ((1, mean), (2, mean_of_both)):
        pool = taught(Constant(), weight, sides, rounds=rounds, batch_size=2000)
        found = pool.members[1].logits.softmax(0)
        torch.testing.assert_close(found, expected, atol=0.01, rtol=0)


class Watched(Constant):
    """Notes how many items it sees, and in which mode."""

    seen: ClassVar[list[tuple[int, bool]]] = []

    def forward(self, features: Tensor) -> Tensor:
        self.seen.append((len(features), self.training))
        return super().forward(features)


def test_a_round_begins_with_what_the_mean_says_of_all_items():
    Watched.seen.clear()
    features = torch.ones(10, 1, dtype=torch.float64)
    weight = torch.zeros(2, 1, dtype=torch.float64)
    pool = taught(Watched(), weight, features, rounds=3, steps=7, batch_size=4)
    step, all_items = (4, True), (10, False)
    assert Watched.seen == [step] * 2 + [all_items] + [step] * 2 + [all_items] + [step] * 3
    assert pool.members[0].training
    Watched.seen.clear()
    _log_probabilities(pool.members[1].train(), CrowdData(features))
    assert Watched.seen == [all_items]
    assert pool.members[1].training


@pytest.mark.long
def test_photographs_are_named_by_either_and_by_both():
    images, kind = stripes(300, 0)
    torch.manual_seed(2)
    pool = OpinionPool(
        [
            PatchClassifier((1, SIZE, SIZE), 3, num_patterns=12, size=4, stride=2),
            ResidualClassifier((1, SIZE, SIZE), 3, width=8),
        ]
    )
    known = torch.where(torch.arange(300) < 150, kind, -1)
    guide = guide_with(pool)
    teaching = Distillation(Shaken(0.1), RidgeTeaching(), steps=150, batch_size=64, memory=0.9)
    generator = torch.Generator().manual_seed(1)
    TaughtStart(known, teaching)(guide.model, guide, CrowdData(images), generator)
    new, kind = stripes(300, 5)
    for classifier in (*pool.members, pool):
        assert float((classifier(new).argmax(1) == kind).float().mean()) > 0.8
    second = pool.members[1]
    assert not second.training
    assert not torch.equal(second.whitening, torch.eye(16))


@pytest.mark.parametrize("network", [nn.Linear(2, 3), OpinionPool([nn.Linear(2, 3)])])
def test_other_networks_are_refused(network):
    with pytest.raises(ValueError, match="OpinionPool of two"):
        Distillation(Shaken()).teach(
            network, CrowdData(torch.randn(5, 2)), torch.zeros(5).long(), torch.Generator()
        )
