"""``suggest``: the next questions, and the worker to ask each of them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Protocol

import numpy as np
import pandas as pd
from jaxtyping import Float

from pyro_crowdclust.asking.asked import Asked
from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.criteria import Criterion, InformationGain
from pyro_crowdclust.asking.crowd import Crowd
from pyro_crowdclust.asking.page_questions import Pages
from pyro_crowdclust.asking.situation import Situation
from pyro_crowdclust.asking.suggestions import Suggestions
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import check_whole, listed, warn
from pyro_crowdclust.errors import count as count_of
from pyro_crowdclust.protocols import FittedModel
from pyro_crowdclust.results.fitted import check_fit

# The information of a question, in nats, that is none to rounding.
_NO_GAIN = 1e-9


class Kind(Protocol):
    """A kind of question: ``Pages``, ``Pairs`` or ``Labels``."""

    @property
    def columns(self) -> Sequence[str]:
        """Columns of the table of questions."""

    @property
    def answers(self) -> str:
        """The argument of ``CrowdData`` that takes the answers."""

    def compose(self, situation: Situation, count: int) -> tuple[pd.DataFrame, Beliefs]:
        """A table of ``count`` questions of this kind, and the beliefs by which they were chosen.

        The beliefs are those before any answer, in which there may be more doubt than in those of
        the situation.
        """


def suggest(
    result: FittedModel,
    kind: Kind = Pages(),  # noqa: B008, frozen
    *,
    count: int = 20,
    criterion: Criterion = InformationGain(),  # noqa: B008, frozen
    of: Iterable[Hashable] | None = None,
    workers: Iterable[Hashable] | None = None,
    prices: Mapping[Hashable, float] | None = None,
    loads: Mapping[Hashable, float] | None = None,
    exploration: float = 0.1,
    for_new_fit: bool = False,
    seed: int = 0,
) -> Suggestions:
    """``argmax I(answers; z)``, greedily: the next questions, and the workers to ask.

    Everything is computed from the posterior, in time linear in the items; see ``docs/asking.md``.
    A worker is never asked the same twice: about a pair, alone or on a page, to place an item on a
    page, or to label it. A batch asks a second worker about a pair, or an item to label, only once
    it has asked one about all of them; without workers there is one question about each. Questions
    whose answers follow from known labels and links are left out. There are fewer questions than
    ``count`` if no more are left.

    Parameters
    ----------
    result
        A fit.
    kind
        ``Pages(size=12)`` to sort into groups, ``Pairs()``, or ``Labels()``.
    count
        Number of pages, pairs, or items.
    criterion
        ``InformationGain()``, ``WorkerInformation()`` to measure workers, ``Margin()`` (the same
        for all workers), or ``Random()``.
    of
        Items whose clusters are wanted; default: all.
    workers
        Ids of workers who can be asked. New ones first get some items with known clusters, to
        measure them. Default: the workers of the fit who are not trusted. Empty: questions are for
        nobody in particular, and their ``worker`` is missing.
    prices
        Price of a question by worker; 1 for workers who are not listed.
    loads
        Maximal number of questions by worker; no limit for workers who are not listed.
    exploration
        Share of questions that are drawn at random, in case the model is wrong but certain.
    for_new_fit
        Whether a new fit will be made with the answers, so that they may be of a kind that this one
        cannot be updated with, such as the first class labels.
    seed
        Seed of all random numbers, together with the number of answers so far.

    Raises
    ------
    ValueError
        For a result, kind or criterion of another type, numbers out of range, unknown items, a
        result without q(z), and, unless ``for_new_fit``, questions whose answers ``update`` would
        refuse: pages or pairs if the fit has class labels only, and labels if it has none.

    Warns
    -----
    UserWarning
        If the most informative questions are expected to teach nothing, and if workers are to be
        asked who say the opposite of what is true.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust.asking import Pairs, suggest
    >>> from pyro_crowdclust import cluster
    >>> from pyro_crowdclust.mixture import GaussianComponents
    >>> features = np.random.default_rng(0).normal(size=(60, 2)) + 4 * (np.arange(60) % 2)[:, None]
    >>> answers = {"left": [0, 0, 1], "right": [2, 1, 3], "worker": list("aab"), "label": [1, 0, 1]}
    >>> parts = {"components": GaussianComponents, "num_clusters": 4}
    >>> result = cluster(features, answers, **parts, progress=False)
    >>> suggestions = suggest(result, Pairs(), count=5)
    >>> suggestions.frame.columns.tolist(), len(suggestions)
    (['left', 'right', 'worker', 'gain'], 5)
    """
    _check(result, kind, count, criterion, exploration, seed)
    if not for_new_fit:
        _check_supported(kind, result)
    data = result.data
    # Another round of questions has more answers, and with them other random numbers.
    generator = np.random.default_rng([seed, _given_so_far(data)])
    if data.features is None and result.feature_shape is not None:
        warn(
            "the features of the fit are not in its file. Without them, answers about an item give "
            "no information about similar ones, and other questions are chosen: use load(path, "
            "data=data)"
        )
    asked = Asked(data)
    # All workers who have answered, including trusted ones.
    everybody = Crowd.of(result, data.worker_ids)
    num_clusters = result.probabilities.shape[1]
    wanted = _wanted(data, of, asked)
    crowd = Crowd.of(result, workers, prices, loads)
    situation = Situation(
        item_ids=data.item_ids,
        beliefs=Beliefs.of(
            result,
            asked.answered(everybody.reliability(num_clusters)),
            wanted,
            everybody.pair_channels(num_clusters),
            generator,
        ),
        crowd=crowd,
        everybody=everybody,
        asked=asked,
        criterion=criterion,
        exploration=exploration,
        generator=generator,
    )
    frame, beliefs = kind.compose(situation, count)
    if "page" in frame:
        frame["page"] += first_new_number(data.page_ids)
    questions = frame.drop_duplicates("page") if "page" in frame else frame
    table = crowd.table(questions["worker"], num_clusters, seed)
    # Without workers, a question costs 1.
    price = (table["asked"] * table["price"]).sum() if len(table) else len(questions)
    moved = beliefs.expected_moved(float(frame["gain"].sum()))
    _warn_of_no_gain(frame, criterion)
    _warn_of_opposites(crowd.ids[crowd.rates.say_opposite()], table)
    return Suggestions(frame, float(price), moved, table)


def _warn_of_no_gain(frame: pd.DataFrame, criterion: Criterion) -> None:
    """Warn if the questions are the most informative ones, and none gives any information."""
    if isinstance(criterion, InformationGain) and len(frame) and frame["gain"].max() < _NO_GAIN:
        warn(
            "nothing is expected to be learned from any question (gain 0): to the model the "
            "clusters are certain, or the answers of these workers say nothing. Stop asking; to "
            "check the clusters, ask random questions (criterion=Random())"
        )


def _warn_of_opposites(opposites: pd.Index, table: pd.DataFrame) -> None:
    """Warn of workers to ask whose answers are worth something because they are wrong."""
    asked = opposites[opposites.isin(table.index[table["asked"] > 0])]
    if len(asked):
        warn(
            f'{count_of(len(asked), "worker")} to ask ({listed(asked)}) said "same" more often '
            "of pairs that are different. Their answers are read as the opposite, and so they are "
            "worth something: check whether they understood the question before you pay them, or "
            "leave them out of workers="
        )


def first_new_number(page_ids: pd.Index, before: str = "") -> int:
    """The number after those of all existing pages, so that page ids are not used twice.

    In files numbers are texts, and a page that several people sorted is "3 of ann". Numbers with
    more than 15 digits are ignored.

    Parameters
    ----------
    page_ids
        Ids of pages.
    before
        The text before the number.

    Examples
    --------
    >>> first_new_number(pd.Index(["3", "4 of ann", "round 7.0"]))
    5
    >>> first_new_number(pd.Index(["3", "4 of ann", "round 7.0"]), "round ")
    8
    """
    texts = pd.Series(page_ids.astype(str), dtype=object)
    counted = texts.str.extract(rf"^{re.escape(before)}(\d{{1,15}})(?!\d)", expand=False)
    numbers = counted.dropna().astype(np.int64)
    return int(numbers.max()) + 1 if len(numbers) else 0


def _given_so_far(data: CrowdData) -> int:
    """Number of answers about pairs, of sorted pages and of class labels."""
    kinds = (data.answers, data.placements, data.class_labels)
    return sum(len(kind.worker) for kind in kinds if kind is not None)


def _wanted(
    data: CrowdData, of: Iterable[Hashable] | None, asked: Asked
) -> Float[np.ndarray, " item"]:
    """1 for the items ``of``, or for all, except those whose clusters are known; 0 for others."""
    wanted = np.ones(data.num_items)
    if of is not None:
        wanted = np.zeros(data.num_items)
        wanted[data.item_positions(of).numpy()] = 1.0
    wanted[asked.has_class] = 0.0
    return wanted


def _check_supported(kind: Kind, result: FittedModel) -> None:
    """Raise a ``ValueError`` for questions whose answers the fit could not be updated with."""
    data = result.data
    has_labels = data.class_labels is not None
    if has_labels and not data.has_answers and kind.answers != "labels":
        what = type(kind).__name__.lower()
        raise ValueError(f"the fit is of class labels, and cannot use {what}: ask for Labels()")
    if data.has_answers and not has_labels and kind.answers == "labels":
        what = "pairs" if data.placements is None else "sorted pages"
        # A page of groups has no grades.
        kinds = "Pairs()" if len(data.grade_ids) else "Pages() or Pairs()"
        raise ValueError(f"the fit is of {what}, and cannot use class labels: ask for {kinds}")
    if len(data.grade_ids) and kind.answers == "placements":
        raise ValueError(
            "the workers of this fit grade pairs, and a page of groups has no grades: ask for "
            "Pairs()"
        )
    if not has_labels and kind.answers == "labels":
        raise ValueError(
            "the fit has no class labels, and cannot be updated with the first ones: let some "
            "random items be labelled by random workers, and make a new fit by classify(features, "
            "labels), or without features by infer_classes(CrowdData(None, labels=labels, "
            "item_ids=items)); then ask for Labels()"
        )


def _check(
    result: FittedModel,
    kind: Kind,
    count: int,
    criterion: Criterion,
    exploration: float,
    seed: int,
) -> None:
    check_fit(result)
    if isinstance(kind, type) or not callable(getattr(kind, "compose", None)):
        raise ValueError(f"kind is {kind!r}, but must be Pages(size=12), Pairs() or Labels()")
    if isinstance(criterion, type) or not callable(getattr(criterion, "scores", None)):
        raise ValueError(
            f"criterion is {criterion!r}, but must be InformationGain(), WorkerInformation(), "
            "Margin() or Random()"
        )
    check_whole("count", count, least=1)
    if not isinstance(exploration, Real) or not 0 <= exploration <= 1:
        raise ValueError(f"exploration is {exploration!r}, but must be a share from 0 to 1")
    check_whole("seed", seed, least=0)
