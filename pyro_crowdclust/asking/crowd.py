"""The workers who can be asked, with posteriors of their rates, prices and loads."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.annotators.channels import Channels, channels_of
from pyro_crowdclust.annotators.sorted_pages import pair_rates
from pyro_crowdclust.asking.worker_counts import (
    LEAST_SHARE,
    STRANGER,
    accuracy_counts,
    agreement_counts,
    best_reading,
    confusion_counts,
    grade_counts,
    limited_by_decisions,
    normalized,
    rate_counts,
)
from pyro_crowdclust.data.alike import refuse_two_types
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

# Draws of the rates, for the mean and deviation of a worker's reliability.
_SAMPLES = 256
# Workers with fewer answers are new, so that their rates are still to be measured.
_FEW_ANSWERS = 10


@dataclass(kw_only=True)
class Crowd:
    """The workers who can be asked.

    Attributes
    ----------
    ids
        Ids of the workers; empty if there are no workers.
    codes
        The worker's code in the data, -1 for those who have not answered yet.
    counts
        Pseudo-counts (right, wrong) of each worker's rates, ``[worker, rate, 2]``: sensitivity and
        specificity, or a single rate twice.
    confusion
        Pseudo-counts of ``p(label | class)`` of each worker, if they label items.
    prices, loads
        Price of a question, and how many questions the worker may still be asked.
    num_answers
        Number of answers so far.
    is_placing
        Whether the rate is the accuracy of placements, rather than the two rates of pairs.
    grades
        Pseudo-counts of every worker's grades and "can't tell", given that pairs are different or
        the same; None if workers do not grade. ``counts`` then come from reading each grade as
        "same" if it is more probable for pairs that are the same.
    """

    ids: pd.Index
    codes: Int[np.ndarray, " worker"]
    counts: Float[np.ndarray, "worker rate 2"]
    confusion: Float[np.ndarray, "worker class label"] | None
    prices: Float[np.ndarray, " worker"]
    loads: Float[np.ndarray, " worker"]
    num_answers: Int[np.ndarray, " worker"]
    is_placing: bool
    grades: Float[np.ndarray, "worker truth outcome"] | None = None

    @classmethod
    def of(
        cls,
        result: FittedModel,
        workers: Iterable[Hashable] | None,
        prices: Mapping[Hashable, float] | None,
        loads: Mapping[Hashable, float] | None,
    ) -> Crowd:
        """The workers of a fit, or those with the given ids, with their posteriors from the fit."""
        data = result.data
        ids = _asked_by_default(result) if workers is None else _named(workers, data.worker_ids)
        codes = np.asarray(data.worker_ids.get_indexer(ids), dtype=np.int64)
        known = codes >= 0
        counts = np.broadcast_to(STRANGER, (len(ids), 2, 2)).copy()
        num_answers = np.zeros(len(ids), dtype=np.int64)
        is_placing = data.placements is not None
        confusion, grades = None, None
        if data.class_labels is not None and isinstance(result.guide, SupportsConfusion):
            confusion = confusion_counts(result, codes, _may_err(result))
            given = np.bincount(data.class_labels.worker.numpy(), minlength=data.num_workers)
            num_answers[known] = given[codes[known]]
        elif data.has_answers:
            num_answers[known] = data.answers_per_worker[codes[known]]
            summary = result.guide.workers() if isinstance(result.guide, SupportsWorkers) else None
            channels = None if summary is None else channels_of(summary)
            if channels is not None and len(data.grade_ids):
                grades = grade_counts(channels, codes)
                counts = best_reading(grades)
            elif summary is not None or data.answers is not None:
                found = _counts_of_rates(result, summary, channels)
                counts[known] = limited_by_decisions(found, data)[codes[known]]
        return cls(
            ids=ids,
            codes=codes,
            counts=counts,
            confusion=confusion,
            prices=_by_worker(ids, data.worker_ids, prices, 1.0, "prices"),
            loads=_by_worker(ids, data.worker_ids, loads, np.inf, "loads"),
            num_answers=num_answers,
            is_placing=is_placing,
            grades=grades,
        )

    def names(self, workers: Sequence[int | None]) -> list[Hashable | None]:
        """Ids of workers; None if no worker is named."""
        return [None if worker is None else self.ids[worker] for worker in workers]

    @property
    def rates(self) -> Float[np.ndarray, "worker rate"]:
        """Posterior means of the rates."""
        return self.counts[..., 0] / self.counts.sum(-1)

    def pseudo_counts(self, worker: int) -> tuple[float, float]:
        """(right, wrong) of a worker's answers, as means over the rates."""
        right, wrong = self.counts[worker].mean(0)
        return float(right), float(wrong)

    @property
    def is_new(self) -> Bool[np.ndarray, " worker"]:
        """Workers with few answers, whose rates are still to be measured."""
        return self.num_answers < _FEW_ANSWERS

    def reliability(
        self, rates: Float[np.ndarray, "*worker rate"], num_clusters: int
    ) -> Float[np.ndarray, "*worker"]:
        """r of ``placement_information``: the probability that a placement is not by chance.

        For placements with accuracy a among C clusters it is ``a - (1 - a) / (C - 1)``; for two
        coins over pairs ``(sensitivity + specificity - 1)^(1/2)``, which agrees under
        ``pair_rates``.
        """
        if self.is_placing:
            others = max(num_clusters - 1, 1)
            return np.asarray(np.clip(rates[..., 0] - (1 - rates[..., 0]) / others, 0.0, 1.0))
        return np.asarray(np.sqrt(np.clip(rates.sum(-1) - 1.0, 0.0, 1.0)))

    def mean_reliability(self, num_clusters: int) -> Float[np.ndarray, " worker"]:
        """The probability that an answer is not by chance, at the posterior means.

        With confusion matrices it is that of a label, as a mean over the classes; otherwise
        ``reliability`` at ``rates``.
        """
        if self.confusion is None:
            return self.reliability(self.rates, num_clusters)
        chance = 1 / self.confusion.shape[1]
        diagonal = np.diagonal(normalized(self.confusion), axis1=1, axis2=2).mean(1)
        return np.clip((diagonal - chance) / (1 - chance), 0.0, 1.0)

    def channels(self, num_clusters: int) -> Float[np.ndarray, "worker truth outcome"]:
        """``p(L | different), p(L | same)`` of every worker, at the posterior means."""
        if self.grades is not None:
            return normalized(self.grades)
        return self.pair_channels(self.rates, num_clusters)

    def drawn_rates(self, generator: np.random.Generator) -> Float[np.ndarray, "worker rate"]:
        """A draw of the rates from their posteriors, for the choice of one worker.

        Workers with uncertain rates are then sometimes asked (Thompson sampling).
        """
        drawn = generator.beta(self.counts[..., 0], self.counts[..., 1])
        if self.is_placing:
            drawn[:, 1] = drawn[:, 0]
        return drawn

    def drawn_channels(
        self, num_clusters: int, generator: np.random.Generator
    ) -> Float[np.ndarray, "worker truth outcome"]:
        """``channels`` at a draw of the rates, or of the shares of grades."""
        if self.grades is not None:
            return normalized(generator.standard_gamma(self.grades))
        return self.pair_channels(self.drawn_rates(generator), num_clusters)

    def pair_channels(
        self, rates: Float[np.ndarray, "worker rate"], num_clusters: int
    ) -> Float[np.ndarray, "worker outcome label"]:
        """``p(L | different), p(L | same)`` of binary answers with these rates."""
        sensitivity, specificity = rates[..., 0], rates[..., 1]
        if self.is_placing:
            sensitivity, specificity = pair_rates(sensitivity, max(num_clusters, 2))
        rows = [[specificity, 1 - specificity], [1 - sensitivity, sensitivity]]
        return np.moveaxis(np.array(rows), (0, 1), (-2, -1))

    def table(self, asked: pd.Series, num_clusters: int, seed: int) -> pd.DataFrame:
        """``Suggestions.workers``, given the worker of every question."""
        generator = np.random.default_rng(seed)
        drawn = generator.beta(
            self.counts[..., 0], self.counts[..., 1], (_SAMPLES, *self.rates.shape)
        )
        reliability = self.reliability(drawn, num_clusters)
        mean, deviation = reliability.mean(0), reliability.std(0)
        if self.confusion is not None:
            mean, deviation = self.mean_reliability(num_clusters), np.full(len(self.ids), np.nan)
        found = pd.DataFrame(
            {
                "asked": asked.value_counts().reindex(self.ids, fill_value=0).to_numpy(),
                "answers": self.num_answers,
                "reliability": mean,
                "deviation": deviation,
                "price": self.prices,
            },
            index=self.ids.rename("worker"),
        )
        return found.sort_values(["asked", "reliability"], ascending=False, kind="stable")

    def label_channels(self, num_clusters: int) -> Float[np.ndarray, "worker class label"]:
        """Confusion matrices; computed from the rates for workers without one."""
        if self.confusion is not None and self.confusion.shape[1] == num_clusters:
            return normalized(self.confusion)
        return self._even_channels(self.rates, num_clusters)

    def drawn_label_channels(
        self, num_clusters: int, generator: np.random.Generator
    ) -> Float[np.ndarray, "worker class label"]:
        """``label_channels`` at a draw of every row, or of the rates."""
        if self.confusion is not None and self.confusion.shape[1] == num_clusters:
            return normalized(generator.standard_gamma(self.confusion) + LEAST_SHARE)
        return self._even_channels(self.drawn_rates(generator), num_clusters)

    def _even_channels(
        self, rates: Float[np.ndarray, "worker rate"], num_clusters: int
    ) -> Float[np.ndarray, "worker class label"]:
        """Confusion matrices of workers who guess evenly where they do not know."""
        reliability = self.reliability(rates, num_clusters)[:, None, None]
        return reliability * np.eye(num_clusters) + (1 - reliability) / num_clusters


def _counts_of_rates(
    result: FittedModel, summary: WorkerSummary | None, channels: Channels | None
) -> Float[np.ndarray, "worker rate 2"]:
    """Pseudo-counts of the workers' rates, or of how often they agree with the clusters."""
    if channels is not None:
        return rate_counts(channels)
    if summary is not None and "accuracy" in summary.rates:
        return accuracy_counts(summary)
    if len(result.data.grade_ids):
        raise ValueError(
            f"{type(result.guide).__name__} has no workers() with the rates if_different and "
            "if_same, without which it is not known what a worker's grades mean: define them in "
            "the guide, or in the annotators"
        )
    return agreement_counts(result)


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
