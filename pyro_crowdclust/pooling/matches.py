"""Probabilities that pairs of records match, given answers and constraints on each record.

    p(y | answers)  propto  prod_e [ exp(w x_e^T beta) q_e / (1 - q_e) ]^{y_e}
                            prod_r s^{max(0, n_r - 1)},      n_r = sum_{e of r} y_e

If two lists without duplicates are matched, a record has at most one match in the other list: each
of its n_r matches beyond the first costs a factor s. With s = 0 second matches are impossible; with
s = 1 there is no constraint. Every pair is in two factors, those of its left and of its right
record. Sums over y are computed by messages on this graph (belief propagation, which is exact if
the graph has no cycles). The sum over all matches of a record has a closed form,

    sum_y prod_e c_e^{y_e} s^{max(0, n - 1)} = 1 + [ prod_e (1 + s c_e) - 1 ] / s ,

so that a round is linear in the number of pairs. beta is the (ridge) logistic regression, on
features x of the pairs, of the probabilities that are found without features. It is computed only
once: if iterated, it would confirm itself. Similar texts mislead annotators, too, so features are
not independent evidence: w is 1/2 by default.

s can be learned: p(answers | s) is the ratio of the sums over y with the odds q and with equal
odds, which are chosen for each s so that the prior share of matches is the mean of q.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from pyro_crowdclust.data.tables import to_index
from pyro_crowdclust.errors import as_numbers, check_probabilities, count
from pyro_crowdclust.partitions import logistic_regression

# Log odds are clipped here, so that messages stay finite.
_MAX_LOG_ODDS = 30.0
_ROUNDS, _DAMPING, _TOLERANCE = 200, 0.3, 1e-7
# Candidates for s when it is learned.
_SECOND = (0.01, 0.05, 0.25, 1.0)
# Steps of the bisection that finds the equal odds.
_HALVINGS = 12


@dataclass(frozen=True, eq=False, repr=False)
class Matches:
    """What ``match_records`` found.

    Attributes
    ----------
    probabilities
        ``p(match)`` of every pair.
    second_match
        s of the left and of the right records.
    coefficients
        beta of the standardized features, then the intercept; empty without features.
    """

    probabilities: Float[np.ndarray, " pair"]
    second_match: tuple[float, float]
    coefficients: Float[np.ndarray, " feature"]

    def __repr__(self) -> str:
        likely = int((self.probabilities > 0.5).sum())
        return f"Matches({count(len(self.probabilities), 'pair')}, {likely} probably a match)"


def match_records(
    probabilities: ArrayLike,
    left: Iterable[Hashable],
    right: Iterable[Hashable],
    features: ArrayLike | None = None,
    second_match: Sequence[float | None] = (0.02, 0.02),
    feature_weight: float = 0.5,
) -> Matches:
    """Probabilities of matches given the answers, other matches of each record, and features.

    Parameters
    ----------
    probabilities
        ``p(match | answers)`` of every pair, preferably from a well calibrated model, such as
        ``LatentTrait``.
    left, right
        Ids of the records of every pair. The two lists have separate ids: the same id left and
        right does not mean the same record.
    features
        Numbers that grow or fall with the similarity of the two records, such as similarities of
        texts, ``[pair, feature]``; constant columns are ignored.
    second_match
        s of the left and of the right records: above 0, small if a record has at most one match in
        the other list, 1 if it may have any number. None: the candidate (.01 to 1) under which the
        probabilities are likeliest.
    feature_weight
        w.

    Raises
    ------
    ValueError
        For probabilities outside [0, 1], s outside (0, 1], arrays of different lengths, a repeated
        pair, no pairs, or features that are not finite.

    Examples
    --------
    >>> found = match_records([0.9, 0.6, 0.1, 0.1], ["a", "a", "b", "c"], ["x", "y", "y", "z"])
    >>> found.probabilities.round(2).tolist()
    [0.8, 0.14, 0.09, 0.1]
    """
    if not isinstance(feature_weight, Real) or not np.isfinite(feature_weight):
        raise ValueError(f"feature_weight is {feature_weight!r}, but must be a number, such as 0.5")
    q, sides = _checked_pairs(probabilities, left, right)
    x = None if features is None else standard_features(features, len(q))
    given = logit(np.clip(q, 1e-9, 1 - 1e-9))
    share = float(np.clip(q.mean(), 1e-6, 1 - 1e-6))
    chosen = _second_matches(second_match, given, share, sides)
    found = expit(given + record_messages(given, sides, chosen).sum(1))
    beta = np.zeros(0)
    if x is not None:
        beta = logistic_regression(torch.from_numpy(x), torch.from_numpy(found)).numpy()
        score = x @ beta[:-1]
        log_odds = given + feature_weight * (score - score.mean())
        found = expit(log_odds + record_messages(log_odds, sides, chosen).sum(1))
    return Matches(found, chosen, beta)


def _checked_pairs(
    probabilities: ArrayLike, left: Iterable[Hashable], right: Iterable[Hashable]
) -> tuple[Float[np.ndarray, " pair"], Int[np.ndarray, "pair side"]]:
    q = as_numbers("probabilities", probabilities)
    ends = {"left": to_index(left, "left"), "right": to_index(right, "right")}
    for name, end in ends.items():
        if q.shape != (len(end),):
            raise ValueError(
                f"probabilities have the shape {list(q.shape)}, but {name} has {len(end)} "
                "records: give one of each for every pair"
            )
        if end.isna().any():
            raise ValueError(
                f"{name} row {int(end.isna().argmax())} is missing: give the id of a record"
            )
    if not len(q):
        raise ValueError("there are no pairs: give one or more")
    check_probabilities("probabilities", q)
    twice = pd.DataFrame(ends).duplicated().to_numpy()
    if twice.any():
        row = int(twice.argmax())
        names = ", ".join(str(end[row]) for end in ends.values())
        raise ValueError(f"pairs row {row} repeats the pair ({names}): give every pair once")
    return q, np.stack([pd.factorize(end)[0] for end in ends.values()], 1)


def standard_features(features: ArrayLike, num_pairs: int) -> Float[np.ndarray, "pair feature"]:
    """Features with mean 0 and deviation 1; raises a ``ValueError`` for what is no such table."""
    x = as_numbers("features", features, remedy=", such as similarities of texts")
    if x.ndim != 2 or len(x) != num_pairs:
        raise ValueError(
            f"features have the shape {list(x.shape)}, but must be [{num_pairs}, feature]"
        )
    if not np.isfinite(x).all():
        row = int((~np.isfinite(x)).any(1).argmax())
        raise ValueError(f"features row {row} is not finite: fill it, or drop the pair")
    deviation = x.std(0)
    return (x - x.mean(0)) / np.where(deviation > 0, deviation, 1.0)


def _second_matches(
    wanted: Sequence[float | None],
    given: Float[np.ndarray, " pair"],
    share: float,
    sides: Int[np.ndarray, "pair side"],
) -> tuple[float, float]:
    if isinstance(wanted, str) or not isinstance(wanted, Sequence) or len(wanted) != 2:
        raise ValueError(
            f"second_match is {wanted!r}, but must be two numbers: one for left, one for right"
        )
    for one in wanted:
        if one is not None and not (isinstance(one, Real) and 0 < one <= 1):
            raise ValueError(
                f"second_match has {one!r}, but must be above 0 and at most 1, or None"
            )
    # One side after the other, starting without a constraint on the other side.
    chosen = [1.0 if one is None else one for one in wanted]
    for side, one in enumerate(wanted):
        if one is None:
            other = chosen[1 - side]
            candidates = [(s, other) if side == 0 else (other, s) for s in _SECOND]
            chosen = [*max(candidates, key=lambda pair: log_evidence(given, share, sides, pair))]
    return chosen[0], chosen[1]


def log_evidence(
    given: Float[np.ndarray, " pair"],
    share: float,
    sides: Int[np.ndarray, "pair side"],
    second_match: tuple[float, float],
) -> float:
    """``log sum_y p(answers | y) p(y | s)`` up to a constant: the log-evidence of s.

    The sums of posterior and prior are Bethe approximations, which are exact without cycles.
    """
    constant = lost_to_factors(sides, second_match, share)
    prior = np.full_like(given, logit(share) + constant)
    posterior = log_sum(given + constant, sides, second_match)
    return posterior - log_sum(prior, sides, second_match)


def lost_to_factors(
    sides: Int[np.ndarray, "pair side"], second_match: tuple[float, float], share: float
) -> float:
    """What to add to equal log odds of all pairs so that factors do not change their share."""
    if second_match == (1, 1):
        return 0.0
    low, high = 0.0, 8.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        log_odds = np.full(len(sides), logit(share) + middle)
        mean = expit(log_odds + record_messages(log_odds, sides, second_match).sum(1)).mean()
        low, high = (middle, high) if mean < share else (low, middle)
    return (low + high) / 2


def log_sum(
    log_odds: Float[np.ndarray, " pair"],
    sides: Int[np.ndarray, "pair side"],
    second_match: tuple[float, float],
) -> float:
    """``log sum_y prod_e odds_e^{y_e} prod_r s^{max(0, n_r - 1)}``, by Bethe's approximation."""
    messages = record_messages(log_odds, sides, second_match)
    total = -float(np.logaddexp(0, log_odds + messages.sum(1)).sum())
    for side, s in enumerate(second_match):
        others = np.clip(log_odds + messages[:, 1 - side], -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
        product = np.bincount(sides[:, side], np.log1p(s * np.exp(others)))
        total += float(_log_record(product, s).sum())
    return total


def _log_record(log_product: np.ndarray, s: float) -> np.ndarray:
    """``log(1 + (prod - 1) / s)`` from ``log prod``."""
    # log(e^x - 1) = x + log(1 - e^-x); x = 0 for a record without other pairs.
    rest = log_product + np.log(-np.expm1(-np.maximum(log_product, 1e-300)))
    return np.logaddexp(0, rest - np.log(s))


def record_messages(
    log_odds: Float[np.ndarray, " pair"],
    sides: Int[np.ndarray, "pair side"],
    second_match: tuple[float, float],
) -> Float[np.ndarray, "pair side"]:
    """Messages from both records of every pair, given their other pairs, in log odds."""
    messages = np.zeros((len(log_odds), 2))
    for _ in range(_ROUNDS):
        new = np.zeros_like(messages)
        for side, s in enumerate(second_match):
            if s == 1:
                continue
            others = np.clip(log_odds + messages[:, 1 - side], -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
            terms = np.log1p(s * np.exp(others))
            record = sides[:, side]
            without = np.maximum(np.bincount(record, terms)[record] - terms, 0.0)
            new[:, side] = without - _log_record(without, s)
        change = np.abs(new - messages).max(initial=0.0)
        messages = _DAMPING * messages + (1 - _DAMPING) * new
        if change < _TOLERANCE:
            break
    return messages
