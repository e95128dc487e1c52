"""Workers who grade how similar two items are, on a common scale, or say "can't tell".

    y_ij in {1, ..., G}                              what a pair looks like, on a common scale
    L_ij^m | y_ij = s ~ Cat(gamma_ms),               gamma_ms ~ Dir(a_s) for every worker m

The labels are the G grades and "can't tell". Every worker has thresholds of their own on the common
scale: gamma_ms is the distribution of their grades for pairs at level s, around a_s, which all
workers have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.drawn_rates import DrawnShares, shares_of_relations
from pyro_crowdclust.annotators.look_priors import (
    concentration_of_grades,
    concentration_of_two_looks,
)
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import grade_places
from pyro_crowdclust.distributions.looks import GradedAnswer
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import Dirichlet
from pyro_crowdclust.files.parts import described

# Pseudo-counts of the grade that a pair looks like, of every other, and of "can't tell".
_OWN, _OTHER = 4.0, 0.5


@described
class GradedAnswers(nn.Module):
    """Grades on a common scale, and "can't tell", which is an answer like others.

    Parameters
    ----------
    num_workers
        M.
    num_grades
        G, at least 2.

    Examples
    --------
    >>> sorted(GradedAnswers(13, num_grades=4).priors())
    ['grades_1', 'grades_2', 'grades_3', 'grades_4']
    """

    def __init__(self, num_workers: int, num_grades: int) -> None:
        super().__init__()
        if num_grades < 2:
            raise ValueError(f"num_grades is {num_grades}, but must be at least 2")
        self.num_workers, self.num_grades = num_workers, num_grades
        family = Dirichlet(num_grades + 1)
        counts = torch.full((num_grades, num_grades + 1), _OTHER, dtype=torch.float64)
        counts[:, :-1] += torch.eye(num_grades) * (_OWN - _OTHER)
        dims = ("worker", "grade")
        self.rows = nn.ModuleList(
            ConjugatePrior(family, family.natural(row), num_workers, dims=dims) for row in counts
        )

    def priors(self) -> dict[str, ConjugatePrior]:
        """The distribution of each worker's grades at every level of the scale, lowest first."""
        rows: Any = self.rows
        return {f"grades_{level + 1}": prior for level, prior in enumerate(rows)}

    @property
    def num_looks(self) -> int:
        """G: a pair looks like one of the grades."""
        return self.num_grades

    def look_concentration(self, hard: bool, of_records: bool) -> Float[Tensor, "relation look"]:
        """Pseudo-pairs of every grade; two grades are "different" and "same"."""
        if self.num_grades == 2:
            return concentration_of_two_looks(hard, of_records)
        return concentration_of_grades(self.num_grades, hard)

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have such workers and grades."""
        check_workers_and_grades(self, data)

    def answer(
        self,
        look: Float[Tensor, "answer look"],
        rates: Mapping[str, Float[Tensor, "worker grade"]],
        worker: Int[Tensor, " answer"],
    ) -> GradedAnswer:
        """Likelihood of the answers; linear in the looks and in every site."""
        rows = torch.stack([rates[name] for name in self.priors()])
        return GradedAnswer(look, rows, worker, self.num_grades)

    def first_looks(self, label: Float[Tensor, " answer"]) -> Float[Tensor, "answer look"]:
        """The grades themselves, one-hot; all are equally likely where it is "can't tell"."""
        place = grade_places(label, self.num_grades)
        one_hot = nn.functional.one_hot(place, self.num_grades + 1)[:, :-1].double()
        return one_hot + (1 - one_hot.sum(-1, keepdim=True)) / self.num_grades

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> WorkerSummary:
        """Shares of the grades at every level; the weight of the highest grade over the lowest.

        The weight is ``log gamma_G(G) / gamma_1(G) - log gamma_G(1) / gamma_1(1)``, with the lowest
        level 1 and the highest level G: posterior mean and deviation.
        """
        sites = [posteriors[name] for name in self.priors()]
        rates = {
            name: posterior.summary(interval)
            for name, posterior in zip(self.priors(), sites, strict=True)
        }
        direction = torch.zeros(self.num_workers, self.num_grades + 1, dtype=torch.float64)
        direction[:, self.num_grades - 1], direction[:, 0] = 1.0, -1.0
        return WorkerSummary(rates, *weight_of_looks(sites[0], sites[-1], direction))

    def summary_of_draws(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        given: Mapping[str, Float[Tensor, "draw worker grade"]],
        looks: Float[Tensor, "draw relation look"],
        counts: Float[Tensor, "draw relation look"],
        interval: float,
    ) -> WorkerSummary:
        """Shares over all draws: for pairs that are the same and different, then for every look.

        The weight is that under q.
        """
        found = self.summary(posteriors, interval)
        by_look = {name: DrawnShares.of(given[name]) for name in self.priors()}
        different, same = shares_of_relations([*by_look.values()], looks, counts)
        every = {"if_same": same, "if_different": different} | by_look
        rates = {name: shares.summary(interval) for name, shares in every.items()}
        return WorkerSummary(rates, found.weight, found.weight_sd)


def weight_of_looks(
    lowest: ConjugatePosterior,
    highest: ConjugatePosterior,
    direction: Float[Tensor, "worker grade"],
) -> tuple[Float[np.ndarray, " worker"], Float[np.ndarray, " worker"]]:
    """Mean and deviation under q of ``<direction, log gamma_highest - log gamma_lowest>``.

    gamma are the shares of a worker's grades if a pair looks like the lowest level and the highest.
    """
    mean = ((highest.mean() - lowest.mean()) * direction).sum(-1)
    variance = highest.variance(direction) + lowest.variance(direction)
    return mean.numpy(), variance.sqrt().numpy()


def check_workers_and_grades(annotators: nn.Module, data: CrowdData) -> None:
    """Raise a ``ValueError`` unless the data have the workers and grades of the annotators."""
    sizes: Any = annotators.num_workers, annotators.num_grades
    if sizes != (data.num_workers, len(data.grade_ids)):
        raise ValueError(
            f"the annotators are {sizes[0]} with {sizes[1]} grades, but the data have "
            f"{data.num_workers} with {len(data.grade_ids)}: build the model with "
            f"{type(annotators).__name__}(data.num_workers, len(data.grade_ids)), and the data "
            "with grades"
        )
