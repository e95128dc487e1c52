"""What records know of a match: against sums over all matches, and simulated lists."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.metrics import log_loss

from pyro_crowdclust.pooling import match_records
from pyro_crowdclust.pooling.matches import (
    log_evidence,
    log_sum,
    lost_to_factors,
    record_messages,
    standard_features,
)

# A path of six records: no cycle, so that messages are exact.
LEFT, RIGHT = ["a", "a", "b", "b", "c"], ["x", "y", "y", "z", "z"]
SECOND = (0.1, 0.4)


CODES = np.array([[0, 0, 1, 1, 2], [0, 1, 1, 2, 2]]).T


def enumerated(q: np.ndarray, second_match: tuple[float, float]) -> tuple[np.ndarray, float]:
    """Probabilities of matches and log sum by all 2^5 sets of matches."""
    total, matched = 0.0, np.zeros(len(q))
    for chosen in itertools.product((0, 1), repeat=len(q)):
        y = np.array(chosen)
        weight = np.prod((q / (1 - q)) ** y)
        for records, s in zip((LEFT, RIGHT), second_match, strict=True):
            for record in set(records):
                count = sum(one for one, name in zip(y, records, strict=True) if name == record)
                weight *= s ** max(0, count - 1)
        total += weight
        matched += weight * y
    return matched / total, np.log(total)


@pytest.mark.parametrize("second_match", [SECOND, (1.0, 0.02), (1.0, 1.0)])
def test_messages_are_exact_without_cycles(second_match):
    q = np.random.default_rng(0).uniform(0.05, 0.95, 5)
    expected, log_total = enumerated(q, second_match)
    messages = record_messages(logit(q), CODES, second_match).sum(1)
    np.testing.assert_allclose(expit(logit(q) + messages), expected, atol=1e-6)
    found = match_records(q, LEFT, RIGHT, second_match=second_match)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-6)
    assert log_sum(logit(q), CODES, second_match) == pytest.approx(log_total, abs=1e-6)


def test_candidates_are_compared_at_one_share_of_matches():
    constant = lost_to_factors(CODES, SECOND, 0.3)
    prior, _ = enumerated(np.full(5, expit(logit(0.3) + constant)), SECOND)
    assert prior.mean() == pytest.approx(0.3, abs=1e-3)


def lists(seed: int, one_match: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each left record with four candidates; one is its match, or each is by a coin."""
    rng = np.random.default_rng(seed)
    left = np.repeat(np.arange(200), 4)
    right = np.arange(800)
    truth = np.tile(np.arange(4) == 0, 200) if one_match else rng.random(800) < 0.3
    # What is said of a pair is N(1, 1.4^2) or N(-1, 1.4^2).
    said = np.where(truth, 1.0, -1.0) + 1.4 * rng.normal(size=800)
    q = expit(2 * said / 1.4**2 + logit(truth.mean()))
    return q, left, right, truth


@pytest.mark.parametrize("one_match", [True, False])
def test_whether_records_have_second_matches_is_learned(one_match):
    q, left, right, truth = lists(0, one_match)
    found = match_records(q, left, right, second_match=(None, 1.0))
    assert found.second_match[0] == (0.01 if one_match else 1.0)
    losses = [log_loss(truth, one) for one in (q, found.probabilities)]
    assert losses[1] < losses[0] - 0.003 if one_match else losses[1] == pytest.approx(losses[0])
    turned = match_records(q, right, left, second_match=(1.0, None))
    assert turned.second_match == found.second_match[::-1]
    np.testing.assert_allclose(turned.probabilities, found.probabilities)


def test_the_second_side_is_learned_beside_what_was_learned_of_the_first():
    q, left, right, _ = lists(0, True)
    q, left, right = np.r_[q, q], np.r_[left, right + 200], np.r_[right, left + 800]
    given, share, sides = logit(q), q.mean(), np.stack([left, right], 1)
    candidates = (0.01, 0.05, 0.25, 1.0)
    first = max(candidates, key=lambda s: log_evidence(given, share, sides, (s, 1.0)))
    second = max(candidates, key=lambda s: log_evidence(given, share, sides, (first, s)))
    assert match_records(q, left, right, second_match=(None, None)).second_match == (first, second)
    assert max(first, second) < 1


def test_features_that_tell_matches_apart_help():
    q, left, right, truth = lists(1, True)
    x = np.where(truth, 1.0, -1.0) + np.random.default_rng(2).normal(size=800)
    alone = match_records(q, left, right).probabilities
    both = match_records(q, left, right, features=x[:, None])
    assert ((both.probabilities > 0.5) == truth).mean() > ((alone > 0.5) == truth).mean() + 0.02
    assert both.coefficients[0] > 0.5
    none = match_records(q, left, right, features=np.ones((800, 1)))
    np.testing.assert_allclose(none.probabilities, alone, atol=1e-6)


def test_features_are_standardized():
    features = np.random.default_rng(0).normal(3.0, 2.0, size=(60, 2))
    expected = (features - features.mean(0)) / features.std(0)
    np.testing.assert_allclose(standard_features(features, 60), expected)


def test_independent_pairs_keep_their_probabilities():
    q = np.array([0.0, 0.3, 1.0])
    found = match_records(q, [1, 2, 3], [1, 2, 3])
    np.testing.assert_allclose(found.probabilities, q, atol=1e-8)
    assert repr(found) == "Matches(3 pairs, 1 probably a match)"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([0.5], ["a"], ["x", "y"]), "right has 2 records"),
        (([], [], []), "there are no pairs"),
        (([0.5, 1.5], ["a", "b"], ["x", "y"]), "probabilities row 1 is 1.5"),
        (([0.5, 0.5], ["a", "a"], ["x", "x"]), r"pairs row 1 repeats the pair \(a, x\)"),
        (([0.5], [None], ["x"]), "left row 0 is missing"),
        (([0.5] * 2, ["a", "b"], ["x", "y"], [[0.0], [np.nan]]), "features row 1 is not finite"),
        (([0.5], ["a"], ["x"], [1.0]), "features have the shape"),
        (([0.5], ["a"], ["x"], None, (0.0, 1.0)), "second_match has 0.0"),
        (([0.5], ["a"], ["x"], None, (0.1,)), r"second_match is \(0.1,\), but must be two numbers"),
        (([0.5], ["a"], ["x"], None, 0.02), "second_match is 0.02, but must be two numbers"),
        (([0.5], ["a"], ["x"], None, ("a", 1)), "second_match has 'a', but must be above 0"),
        (([0.5], ["a"], ["x"], [["b"]]), "features must be numbers .*could not convert"),
        ((["half"], ["a"], ["x"]), "probabilities must be numbers"),
        (([0.5], ["a"], ["x"], None, (1, 1), "a"), "feature_weight is 'a', but must be a number"),
    ],
)
def test_bad_pairs_are_named(arguments, error):
    with pytest.raises(ValueError, match=error):
        match_records(*arguments)
