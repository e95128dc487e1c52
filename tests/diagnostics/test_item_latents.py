"""Answers that depend on a latent of their items, such as a difficulty, at draws of the guide."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from torch import nn

from pyro_crowdclust.diagnostics import check_workers, to_arviz
from pyro_crowdclust.diagnostics.draws import global_draws
from pyro_crowdclust.diagnostics.item_latents import LatentsOfItems
from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.minibatches import Batch

from ..crowds import quiet_fit
from ..plain_mixtures import ENUMERATE, adam, two_clouds
from .exports import one_chain

# Items 0, 1, ... have no answers, so that a batch of all data has another order than the data.
LEFT, RIGHT = (ends + 4 for ends in np.triu_indices(12, 1))
LABEL = np.array([1, 0, 0] * 22)


def with_difficulty(batch: Batch, name: str = "difficulty") -> None:
    """Answers about pairs are the more seldom right, the more difficult both items are."""
    with pyro.plate("cluster", 2):
        location = pyro.sample("location", dist.Normal(0.0, 10.0))
    ability = pyro.sample("ability", dist.Normal(2.0, 1.0))
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
        difficulty = pyro.sample(name, dist.Normal(0.0, 1.0))
        z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer=ENUMERATE)
        pyro.sample("o", dist.Normal(location[z], 1.0), obs=batch.features[:, 0])
    if batch.num_pairs:
        with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=batch.pair_scale):
            same = pyro.sample("same", SameCluster(z, batch.left, batch.right, batch.num_paired))
            of_pair = difficulty[..., batch.left] + difficulty[..., batch.right]
            right = (ability - of_pair).sigmoid()
            pyro.sample("label", dist.Bernoulli((same - (1 - right)).abs()), obs=batch.label)


class ByAnswers(nn.Module):
    """Points; an item is the more difficult, the more of its answers are "different"."""

    def __init__(self) -> None:
        super().__init__()
        self.location = nn.Parameter(torch.tensor([-2.0, 2.0], dtype=torch.float64))

    def forward(self, batch: Batch) -> None:
        with pyro.plate("cluster", 2):
            pyro.sample("location", dist.Delta(self.location))
        pyro.sample("ability", dist.Delta(torch.tensor(1.5, dtype=torch.float64)))
        different = torch.zeros(len(batch.items), dtype=torch.float64)
        for ends in (batch.left, batch.right):
            different = different.index_add(0, ends, 1 - batch.label)
        with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
            pyro.sample("difficulty", dist.Delta(0.4 * (different - 7)))


def of_items(batch: Batch) -> pyro.plate:
    return pyro.plate("items", batch.num_items, subsample=batch.items)


def fit_with(of_globals, left=LEFT, right=RIGHT):
    data = two_clouds(16, {"left": left, "right": right, "worker": [0] * 66, "label": LABEL})
    guide = EnumeratedGuide(with_difficulty, of_globals)
    return quiet_fit(with_difficulty, guide, data, batch_size=None, optim=adam)


def right_by_difficulty(ability, difficulty):
    return 1 / (1 + np.exp(-(ability - difficulty[..., LEFT] - difficulty[..., RIGHT])))


def left_out(result, right):
    same = result.same_cluster_probability(LEFT, RIGHT)
    if_same, if_different = np.where(LABEL == 1, [right, 1 - right], [1 - right, right])
    return -np.log(same / if_same + (1 - same) / if_different)


def right_by_answers():
    """How probable it is that each answer is right, under ``ByAnswers``."""
    difficulty = np.full(16, -2.8)
    for ends in (LEFT, RIGHT):
        np.add.at(difficulty, ends, 0.4 * (1 - LABEL))
    right = 1 / (1 + np.exp(-(1.5 - difficulty[LEFT] - difficulty[RIGHT])))
    assert right.min() < 0.3 < 0.9 < right.max()
    return right


def test_likelihoods_have_the_latents_of_a_guide_that_uses_the_answers():
    result, right = fit_with(ByAnswers()), right_by_answers()
    same = result.same_cluster_probability(LEFT, RIGHT)
    if_same, if_different = np.where(LABEL == 1, [right, 1 - right], [1 - right, right])
    exact = -np.log(same / if_same + (1 - same) / if_different)
    for found in one_chain(to_arviz(result, 3), "log_likelihood", "answers"):
        np.testing.assert_allclose(found, exact, rtol=1e-8)


@pytest.mark.long
def test_replicated_answers_have_the_latents_of_the_guide():
    result, right = fit_with(ByAnswers()), right_by_answers()
    same = result.same_cluster_probability(LEFT, RIGHT)
    yes = same * right + (1 - same) * (1 - right)
    replicated = one_chain(to_arviz(result, 100, seed=1), "posterior_predictive", "answers")
    np.testing.assert_allclose(replicated.mean(0), yes, atol=5 * 0.5 / np.sqrt(100))
    table = check_workers(result, 40, seed=0)
    np.testing.assert_allclose(table["agreement_replicated"], right.mean(), atol=0.04)


@pytest.mark.long
def test_latents_are_drawn_from_q_for_every_draw_of_the_global_sites():
    others = poutine.block(with_difficulty, hide=["z", "same"])
    inner = AutoNormal(others, create_plates=of_items, init_scale=0.3)
    result = fit_with(inner, LEFT - 4, RIGHT - 4)
    low, median, high = result.guide.of_globals.quantiles([0.1587, 0.5, 0.8413])["difficulty"]
    items = torch.tensor([5, 15, 0])
    with result.inside(seed=0):
        latents = LatentsOfItems.of(result, global_draws(result, 100), items, items[:0])
        drawn = torch.stack([latents.at(draw)["difficulty"] for draw in range(100)])
    sd = (high - low)[items] / 2
    torch.testing.assert_close(drawn.mean(0), median[items], atol=float(sd.max()) / 2, rtol=0)
    torch.testing.assert_close(drawn.std(0), sd, atol=0, rtol=0.3)


@pytest.mark.filterwarnings("ignore:Found (non-auxiliary )?vars:UserWarning")
def test_answers_with_latents_that_the_guide_does_not_draw_are_refused():
    result = fit_with(ByAnswers())
    result = dataclasses.replace(result, model=partial(with_difficulty, name="hardness"))
    for diagnose in (to_arviz, check_workers):
        with pytest.raises(ValueError, match=r"from the prior.*'hardness'.*log_likelihood=False"):
            diagnose(result, 3)
    assert "ability" in to_arviz(result, 3, log_likelihood=False)["posterior"]
