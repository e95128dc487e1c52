"""Priors on trial: which variants are taken, and which of those that are as good."""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.answers_alone.pairs_alone import PairsAlone
from pyro_crowdclust.interface.answers_alone.prior_ranking import (
    best_predicting,
    by_halves,
    fallback,
    most_agreeing,
    simplest,
    varied,
)
from pyro_crowdclust.interface.answers_alone.prior_trials import PriorTrial

SAID = PairsAlone(CrowdData(None, {"left": [0], "right": [1], "worker": ["a"], "label": [1]}))


def test_of_priors_as_good_the_one_with_fewer_clusters_is_taken():
    heard = torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = torch.linspace(-1, 1, 100, dtype=torch.float64)

    def trial(change: torch.Tensor, sizes: list[int]) -> PriorTrial:
        return PriorTrial("a prior", SAID, heard + change, np.array(sizes), 0.0)

    likeliest = trial(0 * noise, [5, 5, 5, 5])
    # By one and a half standard errors, and by more than three.
    as_good, worse = trial(noise - 0.09, [8, 11, 1]), trial(noise - 0.2, [20])
    assert as_good.effective < 3
    assert simplest([likeliest, as_good, worse], likeliest, 0.03) is as_good


@pytest.mark.parametrize(
    ("first_joins", "other_joins", "gain", "taken"),
    [(False, True, 0.2, 1), (True, True, 0.2, 0), (False, False, 0.2, 0), (False, True, 0.01, 0)],
)
def test_a_fallback_joins_items_if_that_is_clearly_likelier(first_joins, other_joins, gain, taken):
    heard = torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = torch.linspace(-1, 1, 100, dtype=torch.float64)

    def trial(joins: bool, change: torch.Tensor | float) -> PriorTrial:
        sizes = np.array([2, 2] if joins else [1] * 4)
        return PriorTrial("a prior", SAID, heard + change, sizes, 0.0)

    tried = [trial(first_joins, 0.0), trial(other_joins, gain + noise)]
    tried.append(trial(other_joins, gain + noise - 0.1))
    assert fallback(tried) is tried[taken]


@pytest.mark.parametrize(
    ("near", "hard", "both", "errors", "taken"),
    [
        (0.2, 0.1, 0.3, 1.0, "near items hard items"),
        (0.2, 0.1, 0.2, 1.0, "near items"),
        (0.1, 0.2, 0.0, 1.0, "hard items"),
        (-0.1, 0.01, 0.3, 0.0, "hard items near items"),
        (-0.1, 0.01, 0.3, 1.0, ""),
        (-0.1, -0.1, 0.3, 0.0, ""),
    ],
)
def test_the_likelier_variant_is_taken_and_then_the_other_beside_it(
    near, hard, both, errors, taken
):
    """Of 50 answers half are likelier by .1 more and half by .1 less, an error of .014."""
    gains = {(False, False): 0.0, (True, False): near, (False, True): hard, (True, True): both}
    around = torch.tensor([-0.1, 0.1], dtype=torch.float64).repeat(25)

    def said(near_items: bool, hard_items: bool) -> SimpleNamespace:
        near = [] if near_items else [(said(True, hard_items), "nearest neighbours")]
        hard = [] if hard_items else [(said(near_items, True), "hard to recognize")]
        return SimpleNamespace(
            near_items=near_items, hard_items=hard_items, variants=lambda: near + hard
        )

    def attempt(prior, of):
        gain = gains[of.near_items, of.hard_items]
        numbers = gain + around * (gain != 0)
        return PriorTrial(prior, of, numbers, np.array([2, 1]), 0.0)

    start = attempt("few clusters", said(False, False))
    chosen, reason = varied(start, attempt, errors)
    best = gains["near items" in taken, "hard items" in taken]
    assert chosen.held_out == pytest.approx(best)
    said_first = re.findall("nearest neighbours|hard to recognize", reason)
    words = {"near items": "nearest neighbours", "hard items": "hard to recognize"}
    assert said_first == [words[one] for one in re.findall("near items|hard items", taken)]


@pytest.mark.parametrize(
    ("agreement", "joined", "max_loss", "kept", "lift", "expected"),
    [
        (0.945, 12, 0.03, 1.0, 1.0, "many"),
        (0.97, 12, 0.03, 1.0, 1.0, "many"),
        (0.99, 12, 0.03, 1.0, 1.0, "few"),
        (0.99, 12, 0.1, 1.0, 1.0, "many"),
        (0.945, 4, 0.1, 1.0, 1.0, "few"),
        (0.945, 12, 0.03, 0.8, 1.0, "few"),
        (0.945, 12, 0.03, 0.8, 3.0, "many"),
    ],
)
def test_priors_that_join_less_and_agree_with_as_many_answers_are_preferred(
    agreement, joined, max_loss, kept, lift, expected
):
    heard = torch.linspace(-1, 0, 100, dtype=torch.float64)
    trial = partial(PriorTrial, answers=SAID, log_probabilities=heard, seconds=0.0)
    of_records = trial(
        "many", sizes=np.ones(9, int), agreement=0.95, joined=2, share_joined=0.6 * kept
    )
    sizes = np.array([5, 4])
    fewer = trial(
        "few", sizes=sizes, agreement=agreement, joined=joined, share_joined=0.6, lift=lift
    )
    assert simplest([fewer, of_records], of_records, max_loss).prior == expected


@pytest.mark.parametrize(
    ("agreement", "joined", "lift", "expected"),
    [
        (0.9, 2, 50.0, "records"),
        (0.89, 2, 50.0, "likeliest"),
        (0.9, 12, 50.0, "likeliest"),
        (0.9, 2, 5.0, "likeliest"),
    ],
    ids=["chosen pairs", "agrees less", "joins as many", "random pairs"],
)
def test_the_likeliest_is_not_taken_if_its_clusters_join_more_and_agree_with_no_more_answers(
    agreement, joined, lift, expected
):
    """It is likelier by more than three standard errors."""
    heard = torch.linspace(-1, 0, 100, dtype=torch.float64)
    gain = 0.2 + torch.linspace(1, -1, 100, dtype=torch.float64)
    trial = partial(PriorTrial, answers=SAID, seconds=0.0)
    many = trial("records", log_probabilities=heard, sizes=np.ones(9, int))
    many = many._replace(agreement=agreement, joined=joined, share_joined=0.5, lift=lift)
    few = trial("likeliest", log_probabilities=heard + gain, sizes=np.array([5, 4]))
    few = few._replace(agreement=0.9, joined=20, share_joined=0.6, lift=1.5)
    assert simplest([few, many], few, 0.03).prior == expected
    assert simplest([few, many], few, 0.03, are_chosen=True).prior == expected


def test_of_those_that_join_less_the_one_that_agrees_most_is_taken():
    heard = torch.linspace(-1, 0, 100, dtype=torch.float64)
    sizes = np.array([2] + [1] * 7)
    trial = partial(PriorTrial, answers=SAID, seconds=0.0, sizes=sizes, lift=50.0)
    worse = heard - 0.2
    none = trial("none", log_probabilities=worse, agreement=0.8, joined=0, share_joined=0.3)
    some = trial("some", log_probabilities=worse, agreement=0.89, joined=3, share_joined=0.6)
    few = trial("few", log_probabilities=heard, agreement=0.8, joined=20)
    few = few._replace(sizes=np.array([5, 4]), lift=1.5)
    assert simplest([few, none, some], few, 0.03) is some
    chosen, reason = best_predicting(SAID, [few, none, some], few, lambda *_: some)
    assert chosen is some
    assert "likelier under few, but some joins far fewer pairs that nobody was asked" in reason


def test_pairs_that_are_known_to_be_chosen_need_not_be_joined():
    heard = torch.linspace(-1, 0, 100, dtype=torch.float64)
    trial = partial(PriorTrial, answers=SAID, log_probabilities=heard, seconds=0.0)
    many = trial("many", sizes=np.ones(9, int), agreement=0.9, joined=2, share_joined=0.3)
    few = trial("few", sizes=np.array([5, 4]), agreement=0.9, joined=20, share_joined=0.6)
    assert simplest([few, many], many, 0.1) is few
    assert simplest([few, many], many, 0.1, are_chosen=True) is many


def graded_trial(prior: str, of_halves: float, answers: PairsAlone) -> PriorTrial:
    """A trial that joins items, with held-out halves that are so likely."""
    heard = torch.full((100,), -1.0, dtype=torch.float64)
    noise = 0.1 * torch.linspace(-1, 1, 100, dtype=torch.float64)
    sizes = np.array([5, 4])
    return PriorTrial(prior, answers, heard, sizes, 0.0, of_halves=of_halves + noise)


@pytest.mark.parametrize(("gain", "is_taken"), [(0.3, True), (-0.3, False), (0.0, False)])
def test_halves_of_grades_are_what_counts_if_they_are_better_predicted(gain, is_taken):
    pairs = {"left": [0, 1], "right": [1, 2], "worker": ["a", "a"], "label": [1, 3]}
    answers = PairsAlone(CrowdData(None, pairs=pairs, grades=[1, 2, 3]))
    chosen, tried = graded_trial("clusters of all sizes", -0.6, answers), []

    def attempt(prior: str, answers: PairsAlone) -> PriorTrial:
        tried.append(prior)
        return graded_trial(prior, -0.6 + gain * (prior == "few clusters"), answers)

    best, reason = by_halves(chosen, attempt)
    assert tried == ["few clusters", "clusters of all sizes"]
    assert (best.name == "few clusters, halves of grades") == is_taken == bool(reason)
    assert is_taken or best is chosen


def test_yes_and_no_have_no_halves():
    assert by_halves(graded_trial("few clusters", 0.0, SAID), None)[1] == ""


PATH = np.arange(60)
CHAIN = {"left": PATH, "right": PATH + 1, "worker": ["a"] * 60, "label": 1 - PATH % 2}
PAIRS, NOBODY, ALL = np.arange(61) // 2, np.arange(61), np.zeros(61, dtype=int)
NEARLY = np.where(np.arange(61) < 2, np.arange(61) + 90, PAIRS)  # one answer less


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (NOBODY, PAIRS, "second"),
        (PAIRS, NOBODY, "first"),
        (NEARLY, PAIRS, "first"),
        (ALL, PAIRS, "first"),
    ],
)
def test_where_nothing_else_tells_clusters_say_what_most_answers_say(first, second, expected):
    data = CrowdData(None, pairs=CHAIN, item_ids=range(61))
    found = {"first": first, "second": second}

    def recipe(prior: str) -> SimpleNamespace:
        result = SimpleNamespace(data=data, assignments=found[prior], stop_reason="converged")
        return SimpleNamespace(fit=lambda **_: result)

    said = SimpleNamespace(
        for_trials=lambda: SimpleNamespace(recipe=recipe),
        priors={name: partial(str, name) for name in found},
    )
    heard = torch.zeros(3)
    tried = [PriorTrial(name, SAID, heard, np.array([1]), 0.0) for name in found]
    assert most_agreeing(said, tried, {}).prior == expected
