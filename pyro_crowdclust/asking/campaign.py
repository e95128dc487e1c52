"""Simulated campaigns: rounds of fitting and asking, until more answers change little."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import pandas as pd

from pyro_crowdclust.asking.answering import AnsweringCrowd, SupportsClasses, SupportsOffers
from pyro_crowdclust.asking.criteria import Criterion, InformationGain
from pyro_crowdclust.asking.page_questions import Pages
from pyro_crowdclust.asking.suggesting import Kind, first_new_number, suggest
from pyro_crowdclust.asking.suggestions import Suggestions
from pyro_crowdclust.data.answer_tables import COLUMNS
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.extending import extended
from pyro_crowdclust.errors import check_whole, warnings_once
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.training.stopping import is_interrupted

# Number of rounds over which the expected and the actual share of moved items are compared.
_MEMORY = 10
_COLUMNS = ["round", "asked", "spent", "expected_gain", "expected_moved", "moved", "seconds"]


@dataclass(frozen=True)
class Stop:
    """Stop once rounds neither move items to other clusters nor are expected to.

    The forecast of a round is the share of items that it was expected to move, corrected by how
    well expectations were met so far: ``expected (moved + s) / (expected' + s)``, with both sums
    over the last ten rounds and s ten times ``share``. A round is idle if the forecast and the
    share moved are at most ``share``.

    Parameters
    ----------
    share
        Share of the items below which a round is idle.
    patience
        Number of idle rounds in a row after which to stop.

    Raises
    ------
    ValueError
        If ``share`` is not between 0 and 1, or ``patience`` is below 1.

    Examples
    --------
    >>> rounds = pd.DataFrame(
    ...     {"round": [0, 1, 2], "moved": [0.2, 0, 0], "expected_moved": [0.1, 0, 0]}
    ... )
    >>> Stop(patience=2).round(rounds), Stop(patience=3).round(rounds)
    (2, None)
    """

    share: float = 0.005
    patience: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.share, Real) or not 0 < self.share < 1:
            raise ValueError(
                f"share is {self.share!r}, but must be a share of the items between 0 and 1, such "
                "as 0.005"
            )
        check_whole("patience", self.patience, least=1)

    def forecast(self, rounds: pd.DataFrame) -> pd.Series:
        """Share of the items that each round was expected to move, corrected by earlier rounds."""
        last = rounds[["moved", "expected_moved"]].rolling(_MEMORY, min_periods=1).sum()
        last = last + _MEMORY * self.share
        return rounds["expected_moved"] * last["moved"] / last["expected_moved"]

    def round(self, rounds: pd.DataFrame) -> int | None:
        """The round after which a campaign could have ended, or None."""
        idle = (rounds["moved"] <= self.share) & (self.forecast(rounds) <= self.share)
        in_a_row = idle.rolling(self.patience).sum() >= self.patience
        return int(rounds["round"][in_a_row].iloc[0]) if in_a_row.any() else None


@dataclass(frozen=True)
class Campaign:
    """The rounds, questions and last fit of a campaign.

    Attributes
    ----------
    rounds
        One row per round: ``round``; ``asked``, the questions so far, and ``spent``, their price;
        ``expected_gain`` of the round before it was asked, in nats; ``expected_moved`` and
        ``moved``, the share of items that it was expected to move to another cluster, and that it
        did move; ``seconds``; and the columns of ``score``.
    questions
        All questions, as in ``Suggestions.frame``, with their ``round``.
    result
        The last fit.
    """

    rounds: pd.DataFrame
    questions: pd.DataFrame
    result: Fitted


@warnings_once()
def simulate_campaign(
    fit: Callable[[CrowdData], Fitted],
    data: CrowdData,
    crowd: AnsweringCrowd,
    kind: Kind = Pages(),  # noqa: B008, frozen
    *,
    rounds: int = 20,
    count: int = 1,
    criterion: Criterion = InformationGain(),  # noqa: B008, frozen
    prices: Mapping[Hashable, float] | None = None,
    exploration: float = 0.1,
    stop: Stop | None = None,
    score: Callable[[Fitted], Mapping[str, float]] | None = None,
    seed: int = 0,
) -> Campaign:
    """Simulate rounds of ``suggest``, answers of a crowd, and ``update``.

    Parameters
    ----------
    fit
        Function that makes the first fit to the data and, if these have no answers, the fit after
        the first round, such as ``lambda data: cluster(data, progress=False)``. Later rounds update
        it.
    data
        Items, and answers that were given before.
    crowd
        ``SimulatedCrowd``, ``RecordedCrowd``, or a user-defined one: an object with the ids of its
        ``workers`` and a method ``answer(questions, page_prefix)``, which takes the rows of
        ``Suggestions.frame`` and returns what ``Fitted.update`` takes, as ``{"pairs": table}``.
        It may have ``classes``, all labels that it may give, and ``offers(kind)``, the kind of
        questions that can still be asked or None.
    kind, count, criterion, prices, exploration
        As for ``suggest``, in every round.
    rounds
        Maximal number of rounds; fewer if there are no questions left.
    stop
        Rule for ending earlier.
    score
        Function that returns scores of a fit by name, for the table of rounds, such as its accuracy
        if the truth is known.
    seed
        Seed of the questions.

    Raises
    ------
    ValueError
        If ``rounds`` is not a whole number of 0 or more, or if ``answer`` or ``score`` returns
        something else than described.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust.asking import SimulatedCrowd
    >>> from pyro_crowdclust.interface import mixture_for
    >>> truth = np.arange(60) % 2
    >>> features = np.random.default_rng(0).normal(size=(60, 2)) + 4 * truth[:, None]
    >>> crowd = SimulatedCrowd(truth, {"ann": 0.95, "bob": 0.6}, seed=0)
    >>> campaign = simulate_campaign(
    ...     lambda data: mixture_for(data, num_clusters=4).fit(progress=False),
    ...     CrowdData(features), crowd, Pages(5), rounds=3)
    >>> campaign.rounds["asked"].tolist(), len(campaign.questions)
    ([1, 2, 3], 15)
    """
    check_whole("rounds", rounds, least=0)
    classes = [*crowd.classes] if isinstance(crowd, SupportsClasses) else None
    if data.class_labels is not None:
        data = extended(data, classes=classes)
    first = first_new_number(data.page_ids, "round ")
    result = fit(data)
    asking: dict[str, Any] = {
        "count": count,
        "criterion": criterion,
        "prices": prices,
        "exploration": exploration,
        "seed": seed,
    }
    table: list[dict[str, float]] = []
    questions: list[pd.DataFrame] = []
    asked, spent = 0, 0.0
    for number in range(rounds):
        if is_interrupted(result):  # return the rounds so far
            break
        started = time.perf_counter()
        suggestions = _suggested(result, crowd, kind, **asking)
        if not suggestions:
            break
        answers = _checked(crowd.answer(suggestions.frame, f"round {first + number}"))
        before, result = result, _go_on(fit, result, answers, classes)
        asked, spent = asked + len(suggestions), spent + suggestions.price
        questions.append(suggestions.frame.assign(round=number))
        row = {"round": number, "asked": asked, "spent": spent}
        row |= _moves(suggestions, before, result) | {"seconds": time.perf_counter() - started}
        table.append(row | _scores(score, result))
        if stop is not None and stop.round(pd.DataFrame(table)) is not None:
            break
    if not table:  # nothing was asked: tables without rows have the same columns
        none = pd.DataFrame(columns=[*_COLUMNS, *_scores(score, result)])
        return Campaign(none, pd.DataFrame(columns=[*kind.columns, "round"]), result)
    return Campaign(pd.DataFrame(table), pd.concat(questions, ignore_index=True), result)


def _suggested(
    result: Fitted, crowd: AnsweringCrowd, kind: Kind, **options: Any
) -> Suggestions | None:
    """The questions of a round, of the kind that can still be asked; None if there is none."""
    offered = crowd.offers(kind) if isinstance(crowd, SupportsOffers) else kind
    if offered is None:
        return None
    # After the first answers there is a new fit, with annotators who suit them.
    is_first = not _has_answers(result)
    return suggest(result, offered, workers=crowd.workers, for_new_fit=is_first, **options)


def _has_answers(result: Fitted) -> bool:
    return result.data.has_answers or result.data.class_labels is not None


def _moves(suggestions: Suggestions, before: Fitted, after: Fitted) -> dict[str, float]:
    """The expected gain of a round, and the share of the items that changed their cluster."""
    return {
        "expected_gain": suggestions.expected_gain,
        "expected_moved": suggestions.expected_moved / before.data.num_items,
        "moved": 1 - clustering_accuracy(before.assignments, after.assignments),
    }


def _scores(
    score: Callable[[Fitted], Mapping[str, float]] | None, result: Fitted
) -> dict[str, float]:
    """Scores of a fit, by name."""
    found = {} if score is None else score(result)
    if not isinstance(found, Mapping):
        raise ValueError(
            f"score returned {found!r}, but must return scores by name: {{'accuracy': 0.9}}"
        )
    return dict(found)


def _checked(answers: Any) -> dict[str, Any]:
    """The answers of a crowd, if ``Fitted.update`` accepts them."""
    if not isinstance(answers, Mapping) or not answers or not {*answers} <= {*COLUMNS}:
        found = list(answers) if isinstance(answers, Mapping) else f"a {type(answers).__name__}"
        raise ValueError(
            f"the crowd's answer() returned {found}, but must return a table under the argument of "
            f"update that takes it ({', '.join(COLUMNS)}), such as {{'pairs': table}}"
        )
    return dict(answers)


def _go_on(
    fit: Callable[[CrowdData], Fitted],
    result: Fitted,
    answers: dict[str, Any],
    classes: Iterable[Hashable] | None,
) -> Fitted:
    """The fit updated with answers, or a new fit if it had none and therefore no annotators."""
    if _has_answers(result):
        return result.update(**answers)
    return fit(extended(result.data, **answers, classes=classes if "labels" in answers else None))
