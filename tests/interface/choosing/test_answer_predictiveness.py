"""When clusters are those of the answers alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, Fitted, load
from pyro_crowdclust.data import some_items, without_features
from pyro_crowdclust.guides import PartitionGuide, answer_draws, drawn_partitions
from pyro_crowdclust.interface.candidates.forms import ANSWERS
from pyro_crowdclust.interface.choosing import answer_predictiveness
from pyro_crowdclust.interface.choosing.answer_predictiveness import (
    Draws,
    answers_predict_each_other,
    clusters_supported_by_answers,
)
from pyro_crowdclust.interface.holding_out.pairs import splits_of_pairs
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.simulation import simulate_pairs

from ...control_c import press_control_c
from ..small_choices import answered, misleading, small


@pytest.fixture(autouse=True)
def _short_search(monkeypatch):
    """Of ten parts of the answers four are held out in turn, which is enough here."""
    monkeypatch.setattr(
        answer_predictiveness,
        "splits_of_pairs",
        lambda *given, **least: splits_of_pairs(*given, **least)[:4],
    )


@pytest.mark.long
@pytest.mark.parametrize(("asked", "gaps"), [(40, 0), (72, 0), (120, 12)])
def test_items_follow_answers_of_which_the_features_tell_nothing(asked, gaps, tmp_path):
    """Others get the shares of the clusters, with probabilities that say so."""
    features, _ = misleading(120)
    features[:gaps, 1] = np.nan
    kinds = np.random.default_rng(5).integers(0, 3, 120)
    data = answered(features, kinds, 4 * asked, items=range(asked))
    result = small(data, 2, 4, forms=1).fit(progress=False)
    assert result.chosen.winner.startswith("regression on nothing")
    assert "clusters are learned from the answers alone" in result.chosen.reason
    assert clustering_accuracy(kinds[:asked], result.assignments[:asked]) > 0.9
    if asked < 120:
        assert result.probabilities[asked:].max() < 0.6
    assert (result.workers["sensitivity"] - 0.9).abs().max() < 0.1
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=data)
    np.testing.assert_allclose(again.probabilities, result.probabilities, rtol=0, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("number", "distance"), [(6, 0.6), (3, 8.0)])
def test_answers_about_all_items_compete_with_clusters_of_the_features(number, distance):
    """Weak features, too, predict answers better than chance."""
    kinds = np.arange(72) % number
    features = np.random.default_rng(0).normal(size=(72, 1)) + distance * kinds[:, None]
    result = small(answered(features, kinds, 300), 3, 6, forms=1).fit(progress=False)
    assert clustering_accuracy(kinds, result.assignments) > 0.95
    assert result.chosen.winner.startswith("regression on nothing") == (distance < 1)


@pytest.mark.long
@pytest.mark.parametrize("draw", [1, 2], ids=["of the groups", "without a part"])
def test_ctrl_c_while_partitions_are_drawn_ends_the_search(monkeypatch, draw):
    """Which keeps what answers held out are likeliest under: others have an ELBO, but no score."""
    press_control_c(monkeypatch, PartitionGuide, "start", draw)
    features, kinds = misleading(120)
    result = small(answered(features / 100, kinds), 2, 4, forms=1).fit(progress=False)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    table = result.chosen.table
    assert table["elbo"].max() > 0
    assert table.loc[table["chosen"], "held_out"].item() == table["held_out"].max()


@pytest.mark.long
def test_answers_that_do_not_tell_each_other_either_change_no_cluster():
    features, _ = misleading(120)
    data = answered(features, np.arange(120) % 2, 300, items=range(40))
    rng = np.random.default_rng(1)
    guessed = torch.from_numpy(rng.integers(0, 2, data.num_pairs)).double()
    data = data.with_parts(answers=dataclasses.replace(data.answers, label=guessed))
    result = small(data, 2, forms=1).fit(progress=False)
    assert not result.chosen.uses_answers
    assert not (result.chosen.table["features"] == "nothing").any()


@pytest.mark.parametrize("tells", [True, False])
def test_fewer_answers_than_a_search_holds_out_tell_each_other_or_not(tells):
    kinds, rates = np.arange(40) % 3, [0.95] * 8
    said = simulate_pairs(kinds, rates, rates, pairs_per_worker=22, seed=0)
    if not tells:
        said["label"] = np.random.default_rng(1).integers(0, 2, len(said))
    data = CrowdData(None, said)
    assert splits_of_pairs(data, torch.Generator().manual_seed(0)) == []
    assert answers_predict_each_other(data, 0) is tells
    assert not answers_predict_each_other(CrowdData(None, said[:40]), 0)


def test_partitions_are_drawn_once_from_the_same_answers(monkeypatch):
    """Also if the features are others, or if a fit begins at them."""
    drawn = []

    def draw(data: CrowdData, seed: int) -> Fitted:
        drawn.append(data)
        return drawn_partitions(data, seed=seed, max_chains=1)

    monkeypatch.setattr(answer_predictiveness, "drawn_partitions", draw)
    monkeypatch.setattr(answer_draws, "_STEPS", 2)
    kinds = np.arange(20) % 2
    data, other = (answered(np.full((20, 1), x), kinds, 40) for x in (0.0, 1.0))
    draws = Draws(8, seed=0)
    draws.start_of(data)
    first = draws.partitions_of(without_features(data))
    assert draws.partitions_of(without_features(other)) is first
    assert len(drawn) == 1
    fewer = torch.arange(data.num_pairs) > 0
    draws.start_of(some_items(data, torch.arange(20), fewer))
    assert len(drawn) == 2


@pytest.mark.long
def test_answers_alone_have_to_know_more_than_the_features_if_these_show_clusters():
    kinds = np.arange(30) % 3
    data = answered(np.zeros((30, 1)), kinds, 100)
    draws = Draws(8, seed=0)
    assert draws.start_of(data) is draws.start_of(data)

    def as_good(part: CrowdData) -> Fitted:
        return ANSWERS.recipe(part, 3).fit(progress=False)

    assert clusters_supported_by_answers(data, draws, None) == 3
    assert clusters_supported_by_answers(data, draws, as_good) is None
