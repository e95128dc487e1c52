"""Soft answers: simulated judges, copies, judges who say nothing, what cannot be combined."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit

from pyro_crowdclust.annotators.cuts import SHARE_ITEMS
from pyro_crowdclust.pooling import SoftAnswers, combine_soft_answers, soft_answers


def judged(num_items: int, num_judges: int, seed: int) -> tuple[np.ndarray, ...]:
    """Truth, log odds, and which are given: judges exaggerate, lean, and see one trait."""
    rng = np.random.default_rng(seed)
    truth = rng.random(num_items) < 0.2
    trait = np.where(truth, 2.0, -2.3) + 1.3 * rng.normal(size=num_items)
    scale = rng.uniform(0.5, 3, num_judges)
    lean = trait[:, None] + 0.7 * rng.normal(size=num_judges)
    log_odds = scale * (lean + 1.5 * rng.normal(size=(num_items, num_judges)))
    given = rng.random(log_odds.shape) < 0.8
    given[:, 0] = True
    return truth, log_odds, given, scale


def combined(log_odds: np.ndarray, given: np.ndarray) -> SoftAnswers:
    item, judge = np.nonzero(given)
    return combine_soft_answers(item, judge, expit(log_odds[item, judge]), share=0.2)


@pytest.mark.parametrize(("num_judges", "factor"), [(3, 1.0), (8, 0.85)])
def test_probabilities_are_better_than_means_of_probabilities_and_of_odds(num_judges, factor):
    losses = []
    for seed in range(3):
        truth, log_odds, given, scale = judged(400, num_judges, seed)
        found = combined(log_odds, given)
        mean = np.where(given, expit(log_odds), 0).sum(1) / given.sum(1)
        added = expit(np.where(given, log_odds, 0).sum(1))
        losses.append(
            [
                -np.log(np.clip(np.where(truth, p, 1 - p), 1e-15, 1)).mean()
                for p in (found.probabilities.to_numpy(), mean, added)
            ]
        )
        assert np.corrcoef(scale, found.judges["scale"])[0, 1] > 0.9
    ours, mean, added = np.mean(losses, 0)
    assert ours < factor * min(mean, added)


def test_a_copy_of_a_judge_does_not_take_over():
    truth, log_odds, _, _ = judged(400, 4, 5)
    losses = []
    for answers in (log_odds, np.concatenate([log_odds, log_odds[:, [3]]], 1)):
        p = combined(answers, np.ones(answers.shape, dtype=bool)).probabilities.to_numpy()
        losses.append(-np.log(np.where(truth, p, 1 - p)).mean())
    assert losses[1] < losses[0] + 0.03


def test_ids_are_kept_and_certain_answers_are_finite():
    found = combine_soft_answers(["b", "b", "a"], [7, 3, 3], [1.0, 0.9, 0.0])
    assert found.probabilities.index.tolist() == ["a", "b"]
    assert found.judges.index.tolist() == [3, 7]
    assert np.isfinite(found.judges).all(axis=None)
    assert found.probabilities["a"] < 0.5 < found.probabilities["b"]


def test_ids_may_be_tensors_and_iterators():
    said = torch.tensor([0.9, 0.2, 0.3])
    found = combine_soft_answers(torch.tensor([5, 5, 6]), iter("xyx"), said)
    assert found.probabilities.index.tolist() == [5, 6]
    assert found.judges.index.tolist() == ["x", "y"]


def test_few_answers_are_taken_about_for_what_they_say():
    """With nothing to tell a judge's habits by, .9 is no certainty."""
    for said in ([0.9], [0.9, 0.9, 0.9], [0.3, 0.5]):
        found = combine_soft_answers(range(len(said)), ["x"] * len(said), said)
        np.testing.assert_allclose(found.probabilities, said, atol=0.08)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (([0, 1], [0, 0], [0.5, 1.5]), "probability row 1 is 1.5"),
        (([0, 1], [0, 0], [0.5, np.nan]), "probability row 1 is nan.*: leave out answers that"),
        (([0, 1], [0, 0], [0.5, 93.0]), "row 1 is 93.0, .* 0 and 1: divide percentages by 100"),
        (([0, 1], [0], [0.5, 0.5]), "worker has 1 entries"),
        (([0, 0], ["x", "x"], [0.5, 0.6]), "repeats judge 'x' and item 0"),
        (
            ([0, 1], ["a", "b"], "x"),
            "probability must be numbers from 0 to 1, one for every answer",
        ),
        (([0, 1], ["a", "b"], [0.5, "likely"]), "must be numbers from 0 to 1, .*'likely'"),
        (([0, "0"], ["a", "b"], [0.1, 0.9]), "items 0 .int. and '0' .str. are written alike"),
        (([0, 1], [1, "1"], [0.1, 0.9]), "workers 1 .int. and '1' .str. are written alike"),
        (([], [], []), "there are no answers"),
        (([0, None], [0, 0], [0.5, 0.5]), "item row 1 is missing"),
        (([0], [0], [0.5], 0.0), "share is 0.0"),
        (([0], [0], [0.5], "votes"), "share is 'votes', but must be a number between 0 and 1"),
    ],
)
def test_answers_that_cannot_be_combined(answers, message):
    with pytest.raises(ValueError, match=message):
        combine_soft_answers(*answers)


@pytest.fixture
def as_votes(monkeypatch):
    """A share that is given counts as much as that of the votes."""
    monkeypatch.setattr(soft_answers, "items_of_given_share", lambda share: SHARE_ITEMS)


def test_the_share_is_that_of_the_votes_where_none_is_given(as_votes):
    """Of 400 items a fifth is of the kind: one half beforehand is clearly worse."""
    truth, log_odds, given, _ = judged(400, 5, 0)
    item, judge = np.nonzero(given)
    answers = item, judge, expit(log_odds[item, judge])

    def votes(weight: np.ndarray) -> float:
        mean = np.where(given, expit(log_odds), 0) @ weight / (given @ weight)
        return ((mean > 0.5).sum() + 5) / 410

    first = combine_soft_answers(*answers, share=votes(np.ones(5))).judges
    told = (first["scale"] / first["deviation"]).to_numpy() ** 2
    found = combine_soft_answers(*answers).probabilities.to_numpy()
    expected = combine_soft_answers(*answers, share=votes(told)).probabilities
    np.testing.assert_allclose(found, expected)
    mean = np.where(given, expit(log_odds), 0).sum(1) / given.sum(1)

    def loss(p: np.ndarray) -> float:
        return -np.log(np.where(truth, p, 1 - p)).mean()

    assert loss(found) < 0.95 * loss(combine_soft_answers(*answers, share=0.5).probabilities)
    assert loss(found) < 0.9 * loss(mean)


def test_a_judge_who_says_the_same_of_all_items_has_no_vote():
    """Beside two judges it would have a third of the vote, and most items would be of the kind."""
    truth, log_odds, _, _ = judged(400, 2, 0)
    losses = []
    for answers in (log_odds, np.column_stack([log_odds, np.full(400, 12.0)])):
        item, judge = np.indices(answers.shape).reshape(2, -1)
        p = combine_soft_answers(item, judge, expit(answers.ravel())).probabilities.to_numpy()
        losses.append(-np.log(np.where(truth, p, 1 - p)).mean())
    assert losses[1] < losses[0] + 0.02


def test_judges_who_are_even_vote_for_both(as_votes):
    """Two items' means are above one half, one's below, and two are even."""
    items, says = list("abcde"), [0.9, 0.8, 0.2, 0.5, 0.5]
    found = combine_soft_answers(items, ["x"] * 5, says).probabilities
    expected = combine_soft_answers(items, ["x"] * 5, says, share=8 / 15).probabilities
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("scale", [0.0, 0.7, -0.7])
def test_judges_who_have_nothing_in_common_are_warned_of(scale):
    """Two judges, of whom one sees, and one guesses, sees, or sees and says the opposite."""
    rng = np.random.default_rng(0)
    seen = rng.normal(size=300)
    odds = np.stack([seen, scale * seen], 1) + rng.normal(size=(300, 2))
    item, judge = (places.ravel() for places in np.indices(odds.shape))
    answers = item, judge, 1 / (1 + np.exp(-odds.ravel()))
    if scale == 0.0:
        with pytest.warns(UserWarning, match="hardly correlated: 300 pairs of their log odds"):
            combine_soft_answers(*answers)
    else:
        combine_soft_answers(*answers)
    few = item < 150
    combine_soft_answers(*(part[few] for part in answers))


def test_a_combination_is_told_in_a_line():
    found = combine_soft_answers(["a", "a", "b"], [0, 1, 0], [0.9, 0.99, 0.1], share=0.5)
    assert repr(found) == "SoftAnswers(2 items by 2 judges, 1 probably of the kind)"


@pytest.mark.parametrize("given_as", [0.01, 0.02])
def test_the_share_of_a_rare_class_holds_where_judges_are_lenient(given_as):
    rng = np.random.default_rng(0)
    truth = np.arange(2000) < 20
    trait = np.where(truth, 2.0, -2.0) + rng.normal(size=2000)
    seen = trait[:, None] + 1.5 * rng.normal(size=(2000, 5)) + 2
    item, judge = np.indices(seen.shape)
    answers = item.ravel(), judge.ravel(), expit(seen).ravel()
    expected = combine_soft_answers(*answers, share=given_as).probabilities.sum()
    assert 2000 * given_as / 2 < expected < 2000 * given_as * 1.5
