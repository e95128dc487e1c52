"""Workers who grade how similar two items are, in models of clusters.

    L_ij^m | same ~ Cat(gamma_m1),      L_ij^m | different ~ Cat(gamma_m0)
    gamma_ms ~ Dir(a_s),    a_1g = 2 / G (w + (r - w) g / (G - 1)),    a_0g = a_1,(G - 1 - g)

The labels are the G grades g = 0, ..., G - 1 from "different" to "same", and "can't tell", which is
an answer like the others: if a worker hesitates more often about pairs that are the same, it is
evidence. Every worker has two rows, so that the meaning of their grades is learned, wherever their
thresholds are; under the prior, with pseudo-counts r and w, higher grades mean "same". Two grades
without "can't tell" are the two coins of ``TwoCoin``.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import Outcomes
from pyro_crowdclust.distributions.looks import GradedAnswer
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.families import Dirichlet
from pyro_crowdclust.files.parts import described

# Pseudo-count of "can't tell", the same for pairs that are the same and for others.
_UNSURE = 0.5


@described
class GradedPairs(nn.Module):
    """Two distributions of grades for every worker: of pairs that are the same, and of others.

    Parameters
    ----------
    num_workers
        M.
    num_grades
        G, at least 2.
    trust
        Pseudo-counts r and w of right and wrong answers, spread over the grades: for pairs that are
        the same, the highest grade has most of them and the lowest least; for others, the reverse.
    unsure
        Whether "can't tell" is one of the answers.

    Examples
    --------
    >>> workers = GradedPairs(13, num_grades=4)
    >>> {name: prior.family.size for name, prior in workers.priors().items()}
    {'if_same': 5, 'if_different': 5}
    """

    def __init__(
        self,
        num_workers: int,
        num_grades: int,
        trust: tuple[float, float] = (2.0, 1.0),
        unsure: bool = True,
    ) -> None:
        super().__init__()
        if num_grades < 2:
            raise ValueError(f"num_grades is {num_grades}, but must be at least 2")
        self.num_workers, self.num_grades, self.unsure = num_workers, num_grades, unsure
        right, wrong = trust
        grades = torch.linspace(wrong, right, num_grades, dtype=torch.float64) * 2 / num_grades
        rest = grades.new_full((1 if unsure else 0,), _UNSURE)
        family = Dirichlet(num_grades + len(rest))
        self.if_same, self.if_different = (
            ConjugatePrior(
                family,
                family.natural(torch.cat([row, rest])),
                num_workers,
                dims=("worker", "grade"),
            )
            for row in (grades, grades.flip(0))
        )

    @property
    def outcomes(self) -> Outcomes:
        """The possible answers."""
        return Outcomes(self.num_grades, self.num_grades + self.unsure)

    def with_trust(self, trust: tuple[float, float]) -> GradedPairs:
        """The same workers with these pseudo-counts of right and wrong answers."""
        return GradedPairs(self.num_workers, self.num_grades, trust, self.unsure)

    def priors(self) -> dict[str, ConjugatePrior]:
        """The distributions of each worker's grades for pairs that are the same, and for others."""
        return {"if_same": self.if_same, "if_different": self.if_different}

    def answer(
        self,
        same: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker grade"]],
        worker: Int[Tensor, " pair"],
    ) -> GradedAnswer:
        """Likelihood of the answers, linear in ``same`` and in every log share."""
        rows = torch.stack([rates["if_different"], rates["if_same"]])
        return GradedAnswer(torch.stack([1 - same, same], -1), rows, worker, self.num_grades)

    def log_likelihood_ratio(
        self,
        rates: Mapping[str, Float[Tensor, "worker grade"]],
        worker: Int[Tensor, " pair"],
        label: Float[Tensor, " pair"],
    ) -> Float[Tensor, " pair"]:
        """``w = log gamma_m1L - log gamma_m0L``: the weight of a message."""
        ratios = rates["if_same"] - rates["if_different"]
        return ratios[worker, self.outcomes.places(label)]

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have such grades; yes and no are two."""
        answers, number = data.answers, len(data.grade_ids) or 2
        if number != self.num_grades:
            raise ValueError(
                f"the annotators have {self.num_grades} grades, but the answers have {number}: "
                f"build the model with GradedPairs(data.num_workers, {number})"
            )
        if answers is not None and not self.unsure and bool(answers.label.isnan().any()):
            raise ValueError(
                'some answers are "can\'t tell", but the annotators have only grades: build the '
                f"model with GradedPairs(data.num_workers, {number}), and fit anew"
            )
