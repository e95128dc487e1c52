"""Searches with answers and without them, and Ctrl-C in them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.candidates.weights import WEIGHTS
from pyro_crowdclust.interface.choosing import clustering_search
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.trying import Candidates
from pyro_crowdclust.interface.holding_out.pairs import PairSplit

from ...control_c import press_control_c, press_in_start
from ..small_choices import (
    answered,
    misleading,
    small,
    two_rings,
)


@pytest.fixture(autouse=True, scope="module")
def _short_searches(_few_draws):
    """Not here, where how a search goes is what is tested."""


def test_an_interrupted_search_fits_the_best_so_far(monkeypatch):
    features, _ = two_rings(60)
    press_control_c(monkeypatch, Candidates, "try_out", 2)
    result = small(CrowdData(features), 3, 4).fit(progress=False)
    assert result.stop_reason.startswith("interrupted by the user")
    assert len(result.chosen.table) == 1


@pytest.mark.parametrize(("fit", "tried"), [(1, 1), (2, 1), (3, 2)])
def test_ctrl_c_in_the_start_of_a_candidate(monkeypatch, fit, tried):
    """A first candidate is kept as far as it came, later ones are not."""
    features, _ = two_rings(60)
    press_in_start(monkeypatch, fit)
    result = small(CrowdData(features), 3, 4).fit(progress=False)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    assert len(result.chosen.table) == tried


@pytest.mark.long
def test_ctrl_c_while_answers_held_out_are_scored(monkeypatch):
    """The second of the candidates, which is not noted then; the first is read as it scored."""
    number = len(WEIGHTS)
    press_control_c(monkeypatch, PairSplit, "log_probability", number + 1)
    result = small(answered(*misleading()), 3, 4).fit(progress=False)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    (row,) = result.chosen.table.itertuples()
    assert result.model.feature_weight == row.feature_weight < 1


@pytest.mark.parametrize("start", [1, 2])
def test_ctrl_c_in_the_last_fits_keeps_the_best_start(monkeypatch, start):
    choice = small(CrowdData(two_rings(60)[0]), 3, forms=1)
    press_in_start(monkeypatch, 3 + start)  # the trial, and one from a larger fit, are before
    result = choice.fit(progress=False, num_starts=3)
    assert result.stop_reason.startswith("interrupted by the user")
    assert (len(result.history) == 0) == (start == 1)
    assert len(result.chosen.table) == 1


@pytest.mark.long
def test_answers_are_heard_at_every_weight_also_of_rows_with_gaps():
    features, said = misleading()
    features[np.random.default_rng(0).random(features.shape) < 0.1] = np.nan
    search = Search(small(answered(features, said), 2, forms=1), 0, False)
    tried = search.candidates.try_out(search.space.forms[0], 2)
    assert tried.by_weight is not None
    assert tried.by_weight.log_probabilities.shape == (
        len(WEIGHTS),
        len(search.candidates.splits[0].held_out.label),
    )
    without = search.without_answers
    trial = without.best
    assert without.fitted is not None
    assert trial.by_weight is not None
    assert trial.by_weight.log_probabilities.shape == (
        len(WEIGHTS),
        len(search.candidates.splits[0].held_out.label),
    )
    assert trial.feature_weight < 1


def test_a_reading_by_the_answers_is_made_once(monkeypatch):
    """Whichever part of the search is asked first."""
    made = []

    def counted(data, fits, seed):
        made.append(len(fits))

    monkeypatch.setattr(clustering_search.UnseenAnswers, "of", counted)
    search = Search(small(answered(*two_rings(60), 3), 2, forms=1), 0, False)
    assert not search.candidates.splits
    assert search.read_by_answers is None
    assert search.without_answers is search.joined
    assert search.read_by_answers is None
    assert made == [len(search.joined.trials)]


@pytest.mark.parametrize("stage", ["_by_elbo", "without_answers", "joined"])
def test_ctrl_c_leaves_what_was_found_without_answers(stage):
    """The last that was found of it, and nothing that was not asked for."""
    page = np.arange(60) // 10
    pages = {"page": page, "item": np.arange(60), "group": two_rings(60)[1], "worker": page}
    search = Search(small(CrowdData(two_rings(60)[0], placements=pages), 2, forms=1), 0, False)

    def pressed():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.unless_interrupted(pressed)
    found = getattr(search, stage)
    assert search.unless_interrupted(pressed).without is found


@pytest.mark.long
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_answers_that_are_all_the_same_leave_features_their_weight(label):
    data = answered(*two_rings(60), 40)
    answers = dataclasses.replace(data.answers, label=torch.full_like(data.answers.label, label))
    search = Search(small(data.with_answers(answers), 2, forms=1), 0, False)
    trial = search.without_answers.best
    assert (trial.feature_weight, len(trial.by_weight.log_probabilities)) == (1, 1)
