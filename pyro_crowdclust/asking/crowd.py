"""The workers who can be asked, with posteriors of their rates, prices and loads."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.annotators.channels import Channels, channels_of
from pyro_crowdclust.asking.worker_counts import (
    STRANGER,
    accuracy_counts,
    agreement_counts,
    confusion_counts,
    grade_counts,
    limited_by_decisions,
    rate_counts,
    with_stranger,
)
from pyro_crowdclust.asking.worker_rates import (
    GradeRates,
    LabelRates,
    PairRates,
    PlacementRates,
    WorkerRates,
    drawn,
)
from pyro_crowdclust.data.alike import refuse_two_types
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.tables import are_blank, to_index
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.errors import did_you_mean, show
from pyro_crowdclust.protocols import (
    FittedModel,
    SupportsConfusion,
    SupportsTrustedWorkers,
    SupportsWorkers,
    part_of,
)

# Workers with fewer answers are new, so that their rates are still to be measured.
_FEW_ANSWERS = 10


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """The workers who can be asked.

    Attributes
    ----------
    ids
        Ids of the workers; empty if there are no workers.
    codes
        The worker's code in the data, -1 for those who have not answered yet.
    rates
        Posteriors of their rates.
    prices, loads
        Price of a question, and how many questions the worker may still be asked.
    num_answers
        Number of answers so far.
    """

    ids: pd.Index
    codes: Int[np.ndarray, " worker"]
    rates: WorkerRates
    prices: Float[np.ndarray, " worker"]
    loads: Float[np.ndarray, " worker"]
    num_answers: Int[np.ndarray, " worker"]

    @classmethod
    def of(
        cls,
        result: FittedModel,
        workers: Iterable[Hashable] | None = None,
        prices: Mapping[Hashable, float] | None = None,
        loads: Mapping[Hashable, float] | None = None,
    ) -> Crowd:
        """The workers of a fit, or those with the given ids, with their posteriors from the fit."""
        who_answered = result.data.worker_ids
        ids = _asked_by_default(result) if workers is None else _named(workers, who_answered)
        codes = np.asarray(who_answered.get_indexer(ids), dtype=np.int64)
        return cls(
            ids=ids,
            codes=codes,
            rates=_rates_of(result, codes),
            prices=_by_worker(ids, who_answered, prices, 1.0, "prices"),
            loads=_by_worker(ids, who_answered, loads, np.inf, "loads"),
            num_answers=_num_answers(result.data, codes),
        )

    def names(self, workers: Sequence[int | None]) -> list[Hashable | None]:
        """Ids of workers; None if no worker is named."""
        return [None if worker is None else self.ids[worker] for worker in workers]

    @property
    def is_new(self) -> Bool[np.ndarray, " worker"]:
        """Workers with few answers, whose rates are still to be measured."""
        return self.num_answers < _FEW_ANSWERS

    def reliability(self, num_clusters: int) -> Float[np.ndarray, " worker"]:
        """The probability that an answer is not by chance, at the posterior means."""
        return self.rates.reliability(self.rates.mean(), num_clusters)

    def pair_channels(self, num_clusters: int) -> Float[np.ndarray, "worker truth outcome"]:
        """``p(L | different), p(L | same)`` of answers about pairs, at the posterior means."""
        return self.rates.pair_channels(self.rates.mean(), num_clusters)

    def label_channels(self, num_clusters: int) -> Float[np.ndarray, "worker class label"]:
        """``p(L | class)`` of class labels, at the posterior means."""
        return self.rates.label_channels(self.rates.mean(), num_clusters)

    def table(self, asked: pd.Series, num_clusters: int, seed: int) -> pd.DataFrame:
        """``Suggestions.workers``, given the worker of every question."""
        generator = np.random.default_rng(seed)
        draws = drawn(lambda: self.rates.draw(generator))
        reliability = np.stack([self.rates.reliability(one, num_clusters) for one in draws])
        found = pd.DataFrame(
            {
                "asked": asked.value_counts().reindex(self.ids, fill_value=0).to_numpy(),
                "answers": self.num_answers,
                "reliability": reliability.mean(0),
                "deviation": reliability.std(0),
                "price": self.prices,
            },
            index=self.ids.rename("worker"),
        )
        return found.sort_values(["asked", "reliability"], ascending=False, kind="stable")


def _rates_of(result: FittedModel, codes: Int[np.ndarray, " worker"]) -> WorkerRates:
    """The posteriors of these workers' rates, by what they answered and what the fit says of it."""
    data, guide = result.data, result.guide
    if data.class_labels is not None and isinstance(guide, SupportsConfusion):
        return LabelRates(confusion_counts(result, codes, _may_err(result)))
    summary = guide.workers() if data.has_answers and isinstance(guide, SupportsWorkers) else None
    if data.placements is not None:
        return PlacementRates(with_stranger(_placement_counts(data, summary))[codes])
    channels = None if summary is None else channels_of(summary)
    if channels is not None and len(data.grade_ids):
        return GradeRates(grade_counts(channels, codes))
    return PairRates(with_stranger(_pair_counts(result, summary, channels))[codes])


def _placement_counts(
    data: CrowdData, summary: WorkerSummary | None
) -> Float[np.ndarray, "annotator 2"]:
    """Pseudo-counts (right, wrong) of placements by those who have answered."""
    if summary is None:
        return np.tile(STRANGER, (data.num_workers, 1))
    return accuracy_counts(summary)


def _pair_counts(
    result: FittedModel, summary: WorkerSummary | None, channels: Channels | None
) -> Float[np.ndarray, "annotator rate 2"]:
    """Pseudo-counts of the rates of those who have answered about pairs."""
    data = result.data
    if data.answers is None:
        return np.tile(STRANGER, (data.num_workers, 2, 1))
    if channels is not None:
        counts = rate_counts(channels)
    elif len(data.grade_ids):
        raise ValueError(
            f"{type(result.guide).__name__} has no workers() with the rates if_different and "
            "if_same, without which it is not known what a worker's grades mean: define them in "
            "the guide, or in the annotators"
        )
    else:
        counts = agreement_counts(result)
    return limited_by_decisions(counts, data)


def _num_answers(data: CrowdData, codes: Int[np.ndarray, " worker"]) -> Int[np.ndarray, " worker"]:
    """How many labels these workers gave, or else answers about pairs or placements."""
    given = data.answers_per_worker
    if data.class_labels is not None:
        given = np.bincount(data.class_labels.worker.numpy(), minlength=data.num_workers)
    return np.append(given, 0)[codes]


def _asked_by_default(result: FittedModel) -> pd.Index:
    """All workers but trusted ones, or all if all are trusted; experts are asked by name."""
    may_err, ids = _may_err(result), result.data.worker_ids
    return ids[may_err] if may_err.any() else ids


def _may_err(result: FittedModel) -> Bool[np.ndarray, " worker"]:
    """Whether workers are not trusted, so that they may err."""
    annotators = part_of(result.model, "annotators", SupportsTrustedWorkers)
    if annotators is None:
        return np.ones(result.data.num_workers, dtype=bool)
    return ~annotators.trusted_workers()


def _named(workers: Iterable[Hashable], who_answered: pd.Index) -> pd.Index:
    """Ids of workers, checked: without duplicates, and of the same type as in the data."""
    ids = to_index(workers, "workers")
    column = ids.to_series()
    missing = (column.isna() | are_blank(column)).to_numpy()
    if missing.any():
        raise ValueError(f"workers has no id at place {missing.argmax()}: remove this entry")
    again = ids[ids.duplicated()]
    if len(again):
        raise ValueError(f"workers has {show(again[0])} more than once: name every worker once")
    refuse_two_types(who_answered.astype(object).union(ids.astype(object), sort=False), "workers")
    return ids


def _by_worker(
    ids: pd.Index,
    who_answered: pd.Index,
    given: Mapping[Hashable, float] | None,
    default: float,
    name: str,
) -> Float[np.ndarray, " worker"]:
    given = given.to_dict() if isinstance(given, pd.Series) else {} if given is None else given
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} is {given!r}, but must have numbers by worker: {{'ann': 2}}")
    for worker in given:
        if worker not in ids and worker not in who_answered:
            others = did_you_mean(worker, [*ids, *who_answered])
            raise ValueError(
                f"{name} has worker {show(worker)}, who has not answered and is not among "
                f"workers{others or ': give new workers also in workers='}"
            )
    values = [given.get(worker, default) for worker in ids]
    for worker, value in zip(ids, values, strict=True):
        if not isinstance(value, Real) or not value > 0:
            raise ValueError(
                f"{name} of worker {show(worker)} is {show(value)}, but must be above 0: if this "
                "worker should not be asked, leave it out of workers="
            )
    return np.array(values, dtype=np.float64)


def allowed_workers(
    named: pd.Series, question: Int[np.ndarray, " row"], num_questions: int, ids: pd.Index
) -> Bool[np.ndarray, "question worker"]:
    """Which worker may be asked which question, from a table with a worker in every row."""
    allowed = np.zeros((num_questions, len(ids)), dtype=bool)
    code = ids.get_indexer(pd.Index(named))
    if len(named) and len(ids) and (code < 0).all():
        raise ValueError(
            f"among has workers such as {show(named.iloc[0])}, but none of them can be asked: pass "
            "suggest(workers=) with all workers who can be asked, including new ones"
        )
    allowed[question[code >= 0], code[code >= 0]] = True
    return allowed
