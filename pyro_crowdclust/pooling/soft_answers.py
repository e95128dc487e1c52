"""Soft answers: combining the probabilities that several judges give for the class of an item.

    l_ij = log p_ij / (1 - p_ij)           l_ij | t_i ~ N(b_j t_i - h_j, v_j)
    t_i ~ Cat(rho) on a grid               p(y_i = 1 | t_i) = sigma(kappa (t_i - c))

The log odds l_ij that judge j gives for item i are a linear function of the item's trait t_i, plus
noise. So every judge has a calibration curve, with a scale b and a shift h: a judge who exaggerates
has a large b, one who favours one class a large |h|, one who answers at random a b near zero.
Judges share one trait, so that evidence common to all of them counts once, as in ``LatentTrait``,
from which trait, share and sharpness are taken. Curves are pooled, in units of the deviation of the
judge's log odds: (b_j, h_j) ~ N(m, S) and v_j around v_0, all learned from the judges and a prior
with the weight of a few judges.

How they are fitted, and where the cut c is, is in ``judge_curves``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from pyro_crowdclust.annotators.cuts import SHARE_ITEMS, items_of_given_share
from pyro_crowdclust.annotators.trait_grid import ABOVE
from pyro_crowdclust.data.alike import refuse_two_types
from pyro_crowdclust.data.tables import to_index
from pyro_crowdclust.errors import as_numbers, check_probabilities, show, warn
from pyro_crowdclust.errors import count as counted
from pyro_crowdclust.pooling.judge_curves import deviations_of_judges, fit_curves
from pyro_crowdclust.results.agreement import Agreement

# Log odds are clipped here: probabilities that are rounded to 0 or 1 have infinite ones.
_MAX_LOG_ODDS = 12.0
# If no share is given, the estimate includes this many items that are positive with probability
# one half, which keeps the share of few items away from 0 and 1.
_EVEN_ITEMS = 10.0


@dataclass(frozen=True, eq=False, repr=False)
class SoftAnswers:
    """What ``combine_soft_answers`` found.

    Attributes
    ----------
    probabilities
        ``p(y_i = 1)`` by item.
    judges
        A row for every judge: ``scale`` b, ``shift`` h, ``deviation`` of the noise.
    """

    probabilities: pd.Series
    judges: pd.DataFrame

    def __repr__(self) -> str:
        items = counted(len(self.probabilities), "item")
        judges = counted(len(self.judges), "judge")
        likely = int((self.probabilities > 0.5).sum())
        return f"SoftAnswers({items} by {judges}, {likely} probably of the kind)"


def combine_soft_answers(
    item: Iterable[Hashable],
    worker: Iterable[Hashable],
    probability: ArrayLike,
    share: float | None = None,
) -> SoftAnswers:
    """p(positive) of every item, from judges who give probabilities.

    Parameters
    ----------
    item, worker
        Ids of the item and of the judge of every answer; not every judge needs to judge every item.
    probability
        p_ij, from 0 to 1: the judge's probability that the item is positive, calibrated or not.
    share
        r, the expected share of positive items, known up to a factor of about 1.6. By default
        the share of items whose mean probability is above one half, with judges weighted by the
        information in their answers.

    Raises
    ------
    ValueError
        For a share outside (0, 1), probabilities outside [0, 1], arrays of different lengths, a
        repeated answer, a missing id, or no answers.

    Warns
    -----
    UserWarning
        If the answers about the same items agree no more than guesses would.

    Examples
    --------
    >>> found = combine_soft_answers(
    ...     ["a", "a", "b", "b", "c"], ["x", "y", "x", "y", "x"], [0.9, 0.99, 0.2, 0.4, 0.1]
    ... )
    >>> (found.probabilities > 0.5).to_dict()
    {'a': True, 'b': False, 'c': False}
    """
    share_items = SHARE_ITEMS if share is None else items_of_given_share(share)
    table = _log_odds(item, worker, probability)
    answers = table.to_numpy()
    given = ~np.isnan(answers)
    probability = np.where(given, expit(answers), 0.0)
    answers = np.where(given, answers, 0.0)
    unit = deviations_of_judges(answers, given)
    answers = answers / unit
    _warn_of_guesses(answers, given)
    if share is None:
        # Judges who give all items the same probability would add a vote to every item, so weights
        # are needed.
        share = _share_of_means(probability, given, np.ones(len(unit)))
        curves = fit_curves(answers, given, share)[0]
        share = _share_of_means(probability, given, curves.information)
    curves, trait, rho = fit_curves(answers, given, share)
    probabilities = trait @ (ABOVE.numpy() @ curves.cut(rho, share, share_items))
    columns = np.column_stack([curves.line, np.sqrt(curves.variance)]) * unit[:, None]
    judges = pd.DataFrame(columns, table.columns, ["scale", "shift", "deviation"])
    return SoftAnswers(pd.Series(probabilities, table.index), judges)


def _warn_of_guesses(
    answers: Float[np.ndarray, "item judge"], given: Bool[np.ndarray, "item judge"]
) -> None:
    """Warn if the judges' log odds for the same items are uncorrelated.

    For standardized log odds z of guesses, ``sum_i sum_{j < l} z_ij z_il`` has the mean 0, and the
    number of pairs as its variance.
    """
    number = given.sum(0).clip(1)
    centered = np.where(given, answers - answers.sum(0) / number, 0.0)
    deviation = np.sqrt((centered**2).sum(0) / number)
    varies = given & (deviation > 0)
    scores = np.where(varies, centered / np.where(deviation > 0, deviation, 1.0), 0.0)
    num_each = varies.sum(1)
    num_pairs = int((num_each * (num_each - 1)).sum() // 2)
    in_common = ((scores.sum(1) ** 2) - (scores**2).sum(1)).sum() / 2
    if Agreement(num_pairs, in_common, 0.0, num_pairs**0.5).is_by_chance:
        warn(
            f"answers of different judges about the same items are hardly correlated: {num_pairs} "
            f"pairs of their log odds have a correlation of {in_common / num_pairs:.2f}. The "
            "answers do not show who is right, so the probabilities mean next to nothing, however "
            "close to 0 or 1 they are: collect answers of other judges"
        )


def _log_odds(
    item: Iterable[Hashable], worker: Iterable[Hashable], probability: ArrayLike
) -> pd.DataFrame:
    """l, with a row for every item and a column for every judge; NaN for missing answers."""
    p = as_numbers("probability", probability, "numbers from 0 to 1, one for every answer")
    given = {"item": item, "worker": worker}
    ids = {name: to_index(one, name) for name, one in given.items()}
    for name, one in ids.items():
        if (missing := one.isna()).any():
            raise ValueError(f"{name} row {int(missing.argmax())} is missing: give an id")
        if p.shape != (len(one),):
            raise ValueError(
                f"probability has the shape {list(p.shape)}, but {name} has {len(one)} entries: "
                "give one of each for every answer"
            )
        refuse_two_types(one.unique(), f"{name}s")
    if not len(p):
        raise ValueError("there are no answers: give one or more")
    if np.isnan(p).any():
        row = int(np.isnan(p).argmax())
        raise ValueError(f"probability row {row} is nan: leave out answers that are missing")
    are_percentages = bool(p.min() >= 0 and p.max() <= 100)
    check_probabilities("probability", p, ": divide percentages by 100" * are_percentages)
    frame = pd.DataFrame(ids)
    twice = frame.duplicated().to_numpy()
    if twice.any():
        row = int(twice.argmax())
        raise ValueError(
            f"answer row {row} repeats judge {show(ids['worker'][row])} and item "
            f"{show(ids['item'][row])}: give every answer once"
        )
    with np.errstate(divide="ignore"):
        frame["log_odds"] = np.clip(logit(p), -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
    return frame.pivot(index="item", columns="worker", values="log_odds")


def _share_of_means(
    probability: Float[np.ndarray, "item judge"],
    given: Bool[np.ndarray, "item judge"],
    weight: Float[np.ndarray, " judge"],
) -> float:
    """The share of items whose weighted mean is above one half; a mean of one half counts half."""
    mean = probability @ weight / np.maximum(given @ weight, 1e-300)
    return vote_share(np.sign(mean.round(9) - 0.5), _EVEN_ITEMS)


def vote_share(votes: Float[np.ndarray, " item"], even_items: float) -> float:
    """The share of items with votes for the second of two classes, plus ``even_items`` ties.

    Examples
    --------
    >>> vote_share(np.array([1.0, 1.0, -1.0, 0.0]), even_items=2)  # (2.5 + 1) / 6
    0.5833333333333334
    """
    return float(((1 + votes).sum() + even_items) / 2 / (len(votes) + even_items))
