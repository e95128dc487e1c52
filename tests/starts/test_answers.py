"""Starts that trust people: what answers alone say, and that nobody is unheard from the outset."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin, annotators_for
from pyro_crowdclust.callbacks import OwnershipMoves
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.metrics import adjusted_mutual_information, clustering_accuracy
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.protocols import Start
from pyro_crowdclust.simulation import simulate_pairs
from pyro_crowdclust.starts import (
    AnswersStart,
    PrincipalComponentStart,
    TrustingStart,
    groups_by_answers,
)

from ..crowds import amortized_pair, crowd

ITEMS = 150


def useless(rates: list[float], asked: int = 60) -> tuple[CrowdData, np.ndarray]:
    """Features of noise, and answers about some of the items."""
    kinds = np.arange(ITEMS) % 2
    pairs = simulate_pairs(kinds, rates, rates, pairs_per_worker=200, items=range(asked), seed=0)
    return CrowdData(np.random.default_rng(0).normal(size=(ITEMS, 5)), pairs), kinds


def model_of(data: CrowdData, num_components: int = 2) -> SemiCrowdsourcedMixture:
    return SemiCrowdsourcedMixture(
        DirichletWeights(num_components),
        GaussianComponents(num_components, 5),
        Identity(),
        TwoCoin(data.num_workers, (2.0, 1.0), (2.0, 1.0)),
        ownership=Ownership(num_components),
    )


@pytest.mark.parametrize("rounds", [2, 5])
@pytest.mark.parametrize("rates", [[0.85] * 5, [0.9, 0.9, 0.9, 0.9, 0.1]])
def test_answers_alone_find_the_groups(rates, rounds):
    """The last of one crowd says the opposite of what it sees."""
    data, kinds = useless(rates)
    annotators = annotators_for(data, (3.0, 1.0))
    items, groups = groups_by_answers(data.answers, annotators, rounds=rounds)
    assert items.tolist() == list(range(60))
    assert adjusted_mutual_information(kinds[:60], groups) > 0.8


def test_where_features_say_nothing_answered_items_follow_the_answers():
    data, kinds = useless([0.9] * 6)
    model = model_of(data)
    result = fit(
        model,
        MessagePassingGuide(model),
        data,
        epochs=30,
        batch_size=None,
        step_size=1.0,
        dtype=torch.float64,
        initialize=AnswersStart(),
        callbacks=[OwnershipMoves()],
        progress=False,
    )
    assert clustering_accuracy(kinds[:60], result.assignments[:60]) > 0.95
    assert result.workers["sensitivity"].min() > 0.8


def test_workers_begin_reliable():
    data, _ = useless([0.9] * 3)
    model = model_of(data, 4)
    guide = MessagePassingGuide(model)
    TrustingStart()(model, guide, data, torch.Generator().manual_seed(0))
    standard = guide.posteriors["sensitivity"].standard()
    assert (standard.successes == 6).all()
    assert (standard.failures == 2).all()


def test_who_always_says_the_same_counts_nothing_at_first():
    """Six of nine say "same" of every pair."""
    kinds = np.arange(60) % 3
    rates = [0.9] * 3 + [1.0] * 6, [0.9] * 3 + [0.0] * 6
    data = CrowdData(np.zeros((60, 5)), simulate_pairs(kinds, *rates, pairs_per_worker=200, seed=0))
    items, groups = groups_by_answers(data.answers, annotators_for(data, (3.0, 1.0)))
    assert adjusted_mutual_information(kinds[items], groups) > 0.8
    posteriors = started(TrustingStart(), data, model_of(data)).posteriors
    sensitivity, specificity = (
        posteriors[name].standard() for name in ("sensitivity", "specificity")
    )
    assert sensitivity.successes[:3].tolist() == specificity.successes[:3].tolist() == [6.0] * 3
    assert sensitivity.successes[3:].tolist() == specificity.failures[3:].tolist() == [101.0] * 6


def started(start: Start, data: CrowdData, model: SemiCrowdsourcedMixture) -> MessagePassingGuide:
    guide = MessagePassingGuide(model)
    start(model, guide, data, torch.Generator().manual_seed(0))
    return guide


def test_which_components_are_one_is_found_where_there_are_answers_and_owners():
    data, _ = useless([0.9] * 3)
    model = model_of(data, 4)
    trusting, plain = (
        started(start, data, model).posteriors["owners"].natural_parameters
        for start in (TrustingStart(), PrincipalComponentStart())
    )
    assert float((trusting - plain).abs().max()) > 1
    alone = model_of(data, 4)
    alone.ownership = None
    assert "owners" not in started(TrustingStart(), data, alone).posteriors


def test_owners_are_found_by_networks_in_their_own_precision():
    data, _ = useless([0.9] * 3)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(4),
        GaussianComponents(4, 2),
        NormalEmission(SkipMLP((2, 6, 5)), 5),
        TwoCoin(3),
        ownership=Ownership(4),
    )
    guide = MessagePassingGuide(model, GaussianRecognition(SkipMLP((5, 6, 4)), 2))
    guide.recognition.to(torch.float32)
    TrustingStart()(model, guide, data, torch.Generator().manual_seed(0))
    before = model.ownership.prior.natural_parameters
    assert float((guide.posteriors["owners"].natural_parameters - before).abs().max()) > 1


def test_a_guide_of_points_is_refused():
    model, guide = amortized_pair()
    with pytest.raises(ValueError, match="AmortizedGuide has none: use PrincipalComponentStart"):
        TrustingStart()(model, guide, crowd(), torch.Generator().manual_seed(0))


def test_without_answers_workers_stay_at_their_prior():
    data, _ = useless([0.9] * 3)
    silent = data.with_answers(None)
    standard = started(TrustingStart(), silent, model_of(data)).posteriors["sensitivity"].standard()
    assert (standard.successes == 2).all()


def test_items_with_the_most_answers_are_grouped():
    data, _ = useless([0.9] * 4)
    model = model_of(data)
    guide = MessagePassingGuide(model)
    AnswersStart(max_items=10)(model, guide, data, torch.Generator().manual_seed(0))
    weights = guide.posteriors["weights"].standard().concentration - 0.5
    assert 5 < float(weights.sum()) < 40  # items without a group count little


def test_without_answers_there_is_nothing_to_start_from():
    data = CrowdData(np.eye(5))
    with pytest.raises(ValueError, match="no answers to start from"):
        AnswersStart()(None, None, data, torch.Generator())


def test_answers_that_keep_nobody_together():
    pairs = {"left": [0, 1], "right": [1, 2], "worker": [0, 0], "label": [0, 0]}
    data = CrowdData(np.eye(5), pairs)
    model = model_of(data)
    with pytest.raises(ValueError, match="connect no group of 3 or more items"):
        AnswersStart()(model, MessagePassingGuide(model), data, torch.Generator())
