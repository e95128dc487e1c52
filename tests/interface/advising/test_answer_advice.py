"""Of all that is found out about answers, what must be changed first is said."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.advising.answer_advice import about_answers
from pyro_crowdclust.interface.advising.answer_facts import AnswerFacts

DATA = CrowdData(None, {"left": [0], "right": [1], "worker": ["ann"], "label": [1]})
ALL = AnswerFacts(
    SimpleNamespace(data=DATA, chosen=None, guide=None),
    are_few=True,
    is_unclear=False,
    are_used=False,
    only_word="same",
    uninformative=pd.Index(["ann"]),
    are_opposite=True,
    are_guesses=True,
    kinds_seen=None,
    are_unexplained=True,
    are_blamed=True,
    are_alone=False,
    form_clusters=True,
    are_unpredicted=True,
)
# What is changed in turn, each time on top of all before, and what is said then.
IN_ORDER = [
    ({}, "there are too few answers"),
    ({"are_few": False}, 'nearly all answers are "same", whatever the pair, and the clusters are'),
    ({"only_word": None}, "by these clusters workers hardly say"),
    ({"are_blamed": False}, "some workers nearly always give the same answer"),
    ({"uninformative": pd.Index([])}, "most answers say the opposite of what the clusters show, "),
    ({"are_opposite": False}, "answers about items that were not asked about before are not"),
    ({"are_used": True}, "most answers come from workers who hardly agree with the clusters"),
    ({"kinds_seen": "finer"}, "most answers come from workers who see finer kinds than the clus"),
    ({"are_guesses": False}, "partitions found from the answers alone explain the answers better"),
    ({"are_unexplained": False}, "the features show little of what the crowd sees, so that"),
    ({"form_clusters": False}, "the features show little of what the crowd sees: answers about"),
    ({"are_unpredicted": False}, None),
]


@pytest.mark.parametrize("number", range(len(IN_ORDER)))
def test_what_comes_first_says_all(number):
    changes = {
        name: value for change, _ in IN_ORDER[: number + 1] for name, value in change.items()
    }
    facts = dataclasses.replace(ALL, **changes)
    expected = IN_ORDER[number][1]
    found = about_answers(facts)
    assert [sentence.startswith(expected) for sentence in found] == [True] * (expected is not None)


@pytest.mark.parametrize(("guesses", "why"), [(True, "most workers guess"), (False, "do not expl")])
def test_why_answers_were_not_used(guesses, why):
    none = dict.fromkeys(("are_few", "are_blamed", "are_opposite"), False)
    none |= {"only_word": None, "uninformative": pd.Index([])}
    facts = dataclasses.replace(ALL, are_guesses=guesses, **none)
    (sentence,) = about_answers(facts)
    assert why in sentence
    assert sentence.endswith(
        "; ask about more pairs, or add features that show what the crowd sees"
    )


@pytest.mark.parametrize("label", [[0] * 9 + [1], [0, 1] * 5], ids=["rare", "frequent"])
def test_features_are_not_to_blame_where_workers_see_their_clusters(label):
    pairs = {"left": [0] * 10, "right": [*range(1, 11)], "worker": ["ann"] * 10, "label": label}
    none = dict.fromkeys(
        ("are_few", "are_blamed", "are_opposite", "are_guesses", "are_unexplained"), False
    )
    none |= {"only_word": None, "uninformative": pd.Index([])}
    result = SimpleNamespace(data=CrowdData(None, pairs), chosen=None, guide=None)
    (sentence,) = about_answers(dataclasses.replace(ALL, result=result, **none))
    assert "most workers see them, so that the answers may be too few to show it" in sentence
    assert ('(only 1 of 10 are "same")' in sentence) == (sum(label) == 1)
    assert sentence.endswith("; ask about more pairs")


GUESSED = "they seem to guess, or see something else than the others"


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (None, GUESSED),
        (SimpleNamespace(other_view=""), GUESSED),
        (SimpleNamespace(other_view="workers 1, 2 see something else"), None),
    ],
)
def test_who_seems_to_guess(chosen, said):
    none = dict.fromkeys(("are_few", "are_blamed", "are_opposite", "is_unclear"), False)
    none |= {"only_word": None, "uninformative": pd.Index([]), "are_used": True}
    result = SimpleNamespace(data=DATA, chosen=chosen, guide=None)
    found = about_answers(dataclasses.replace(ALL, result=result, **none))
    assert [said in one for one in found] == [True] * (said is not None)


@pytest.mark.parametrize("few", [True, False])
def test_rates_relative_to_clusters_of_the_features_say_nothing_about_workers(few):
    """Unless workers agree with these, or are rated by partitions of their answers."""
    none = dict.fromkeys(("are_blamed", "are_opposite", "are_unexplained"), False)
    none |= {"only_word": None, "uninformative": pd.Index([])}
    facts = dataclasses.replace(ALL, are_few=few, **none)
    said = "the rates of workers, and their intervals, measure how far they agree with these clu"
    assert said in about_answers(facts)[0]
    for change in ({"are_guesses": False}, {"are_unexplained": True}):
        assert said not in about_answers(dataclasses.replace(facts, **change))[0]
