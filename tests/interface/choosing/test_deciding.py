"""Which rule decides, and what is left of a search that Ctrl-C ends."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.choosing import deciding
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.deciding import answers_about_the_same, decide
from pyro_crowdclust.interface.choosing.decisions import Decision, WithoutAnswers
from pyro_crowdclust.interface.choosing.trials import Trial

from ..small_choices import answered, small, two_groups, two_rings


def trial(clusters: int = 3, joins: bool = False) -> SimpleNamespace:
    return SimpleNamespace(clusters=clusters, joins=joins, log_probabilities=np.zeros(9))


BEST = Decision(trial(), "it predicts them")


def searched(**found: object) -> SimpleNamespace:
    """A search in which nothing predicts answers, with these changes."""
    best = found.pop("of_features", trial())
    without = WithoutAnswers(best, [best], parts=found.pop("parts", ()))
    search = {
        "space": SimpleNamespace(by_features="a search space", may_be_records=False),
        "candidates": SimpleNamespace(splits=["pages"]),
        "best": BEST,
        "predicts_answers": False,
        "without_answers": without,
        "joined": without,
        "unless_interrupted": lambda rules: rules(),
    }
    return SimpleNamespace(**search | found)


NO_SPLITS = SimpleNamespace(splits=[])
NO_ANSWERS = SimpleNamespace(by_features=None, may_be_records=False)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({}, "nothing predicts held-out answers clearly better than chance: clusters are learned"),
        ({"space": NO_ANSWERS}, BEST.reason),
        ({"predicts_answers": True}, BEST.reason),
        ({"of_features": trial(clusters=1)}, BEST.reason),
        ({"of_features": trial(joins=True)}, "no candidate predicts held-out placements clearly: "),
        ({"candidates": NO_SPLITS}, "there are too few answers to hold some out: clusters are"),
        (
            {"candidates": NO_SPLITS, "parts": ["a quarter"], "of_features": trial(joins=True)},
            "there are too few answers to hold some out for every candidate: clusters are learned "
            "from the features alone, and pages say which",
        ),
    ],
    ids=["none", "no answers", "predicted", "one cluster", "pages", "few answers", "few pages"],
)
def test_the_first_rule_that_applies_decides(found, reason):
    search = searched(**found)
    decision = decide(search)
    assert decision.reason.startswith(reason)
    assert decision.trial is (BEST.trial if reason == BEST.reason else search.joined.best)


# Gains over chance of answers about items without any in the fit, in turns. The first says nothing;
# the second predicts them, but is so sure of itself that their mean log-probability is lower.
NOTHING, TOO_SURE = (0.1, -0.1), (0.9, -0.5)


@pytest.mark.parametrize(("of_rival", "decides"), [(TOO_SURE, True), (NOTHING, False)])
def test_a_rival_that_predicts_answers_about_other_items_is_decided_for(
    monkeypatch, of_rival, decides
):
    data = answered(*two_rings(120), 500, range(90))
    search = Search(small(data, 3, forms=1), 0, False)
    (one, *_) = search.candidates.splits
    first = one.of_others.cumsum() % 2 == 0

    def tried(number: int, of_others: tuple[float, float]) -> Trial:
        gain = np.where(one.of_others, np.where(first, *of_others), 0.3 + 0.1 * (1 - 2 * first))
        scores = AtWeights((one.by_chance + np.log1p(gain))[None])
        return Trial(search.space.forms[0], number, 0.0, scores, number, 0.0)

    best, rival = tried(2, NOTHING), tried(3, of_rival)
    search.candidates.trials += [best, rival]
    search.best = Decision(best, "it predicts all of them best")
    if decides:
        assert best.score > rival.score
        assert answers_about_the_same(search).trial is rival
    else:
        by_answers = Decision(trial(), "answers alone")
        monkeypatch.setattr(deciding, "_from_answers", lambda *_: by_answers)
        assert answers_about_the_same(search) is by_answers
    search.best = Decision(tried(4, (0.3, 0.2)), "it predicts others, too")
    assert answers_about_the_same(search) is None


def test_ctrl_c_leaves_the_best_so_far_if_there_is_any(monkeypatch):
    def pressed(search):
        raise KeyboardInterrupt

    monkeypatch.setattr(deciding, "RULES", (pressed,))
    search = Search(small(CrowdData(two_groups()), 2, forms=1), 0, False)
    with pytest.raises(KeyboardInterrupt, match="before a first fit was finished"):
        decide(search)
    tried = search.candidates.try_out(search.space.forms[0], 2)
    decision = decide(search)
    assert decision.trial is tried
    assert decision.reason == "best of 1 candidates when the search was interrupted"
    assert decision.interrupted
