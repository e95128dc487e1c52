"""The sites of answers about pairs."""

from __future__ import annotations

import pyro
import torch
from torch import Tensor

from pyro_crowdclust.annotators.pair_messages import PairCoupling, answer_gain
from pyro_crowdclust.annotators.pair_owners import PairOwners
from pyro_crowdclust.annotators.pair_summaries import summarize_pair_workers
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.pairs import SameCluster, components_together
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import Beta
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import (
    AnswerCoupling,
    LookAnnotators,
    PairAnnotators,
    Rates,
    SupportsCheck,
    SupportsItems,
    WorkerSites,
)


def annotators_about(annotators: PairAnnotators, batch: Batch) -> PairAnnotators:
    """The annotators for the items that the answers of a batch are about, if they need these."""
    if isinstance(annotators, SupportsItems):
        return annotators.about(batch.asked_items)
    return annotators


class PairSites:
    """The verbs of the sites of ``TwoCoin``, and of any other model of pair answers."""

    def __init__(self, annotators: PairAnnotators, owners: Tensor | None = None) -> None:
        self._annotators = annotators
        self._together = None if owners is None else components_together(owners)

    def check(self, data: CrowdData) -> None:
        if isinstance(self._annotators, LookAnnotators):
            raise ValueError(
                f"{type(self._annotators).__name__} need what a pair looks like, which only "
                "AnsweredPartition has: build this model with GradedPairs(data.num_workers, "
                "len(data.grade_ids))"
            )
        if data.placements is not None:
            raise ValueError(
                f"the data are pages sorted into groups, but {type(self._annotators).__name__} "
                "needs answers about pairs: build the model with SortedPages(data.num_workers), or "
                "pass data.as_pairs()"
            )
        if isinstance(self._annotators, SupportsCheck):
            self._annotators.check(data)
        elif len(data.grade_ids):
            raise ValueError(
                f"the labels are grades, but {type(self._annotators).__name__} needs answers yes "
                "and no: build the model with GradedPairs(data.num_workers, len(data.grade_ids))"
            )

    def in_batch(self, batch: Batch) -> bool:
        return batch.num_pairs > 0

    def sample(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        with FullPlate("pairs", batch.num_pairs, batch.pair_weight):
            same = pyro.sample("same", self._same(z, batch))
            answer = annotators_about(self._annotators, batch).answer(same, rates, batch.worker)
            pyro.sample("label", answer, obs=batch.label)

    def sample_guide(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        with FullPlate("pairs", batch.num_pairs, batch.pair_weight):
            pyro.sample("same", self._same(z, batch))

    def _same(self, z: Tensor, batch: Batch) -> SameCluster:
        return SameCluster(z, batch.left, batch.right, batch.num_paired, self._together)

    def coupling(
        self, rates: Rates, batch: Batch, dtype: torch.dtype, weighted: bool = False
    ) -> AnswerCoupling:
        annotators = annotators_about(self._annotators, batch)
        ratio = annotators.log_likelihood_ratio(rates, batch.worker, batch.needed_label)
        weight = (ratio * batch.pair_weight if weighted else ratio).to(dtype)
        return PairCoupling.of_batch(batch, weight, self._together)

    def merge_gain(self, rates: Rates, assignments: Tensor, batch: Batch) -> Tensor:
        annotators = annotators_about(self._annotators, batch)
        weight = annotators.log_likelihood_ratio(rates, batch.worker, batch.needed_label)
        return answer_gain(assignments, batch.left, batch.right, weight)

    def owners_evidence(self, rates: Rates, assignments: Tensor, batch: Batch) -> PairOwners:
        return PairOwners(self.merge_gain(rates, assignments, batch))

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        return summarize_pair_workers(self._annotators, sites, interval)

    def first_points(self, rate: float) -> dict[str, Tensor]:
        return {
            name: torch.full_like(prior.natural_parameters[:, 0], rate)
            if isinstance(prior.family, Beta)
            else torch.from_numpy(prior.family.summary(prior.natural_parameters, 0.9).mean)
            for name, prior in self._annotators.priors().items()
        }
