"""Workers whose grades say no more than in which half of the scale they are.

    y_ij in {0, 1}                                  what a pair looks like: different or the same
    L_ij^m | y_ij = s ~ kappa_ms(h(L)) lambda_mh(L),      h the half in which a grade is
    kappa_ms ~ Dir(a_s),   lambda_mh ~ Dir(1) for every worker m

kappa_ms are the shares of the lower half, of the upper half and of neither, for pairs that look
different or the same; the middle one of an odd number of grades, and "can't tell", are in neither.
lambda_mh are the shares of the grades within a half, whatever the pair looks like.

With ``GradedAnswers`` every step of the scale is evidence, so that clusters may be coarser than the
upper grades say: they tell "somewhat alike" from "not at all", and not from "the same".
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.drawn_rates import DrawnShares, shares_of_relations
from pyro_crowdclust.annotators.graded import check_workers_and_grades, weight_of_looks
from pyro_crowdclust.annotators.look_priors import concentration_of_two_looks
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import grade_places
from pyro_crowdclust.distributions.looks import GradedAnswer
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import Dirichlet
from pyro_crowdclust.files.parts import described

# Pseudo-counts of the half that a pair looks like, and of every other answer.
_OWN, _OTHER = 4.0, 0.5
HALVES = ("lower", "upper", "neither")
# Axes of the grades within each of them.
GRADES_OF_HALVES = tuple(f"grade_{name}" for name in HALVES)


@described
class HalvedGrades(nn.Module):
    """Grades of which the upper half means "same", and the lower half "different".

    Parameters
    ----------
    num_workers
        M.
    num_grades
        G, at least 3.

    Examples
    --------
    >>> workers = HalvedGrades(13, num_grades=4)
    >>> sorted(workers.priors())
    ['halves_1', 'halves_2', 'within_lower', 'within_upper']
    >>> workers.half_of.tolist()
    [0, 0, 1, 1, 2]
    """

    half_of: Tensor

    def __init__(self, num_workers: int, num_grades: int) -> None:
        super().__init__()
        if num_grades < 3:
            raise ValueError(
                f"num_grades is {num_grades}, but must be at least 3: two grades are halves already"
            )
        self.num_workers, self.num_grades = num_workers, num_grades
        self.register_buffer("half_of", halves_of_grades(num_grades))
        own = torch.full((2, 3), _OTHER, dtype=torch.float64)
        own[:, :2] += torch.eye(2) * (_OWN - _OTHER)
        sizes = torch.bincount(self.half_of, minlength=3).tolist()
        sites = {
            f"halves_{number}": _prior_of_shares(row, num_workers, "half")
            for number, row in enumerate(own, start=1)
        } | {
            f"within_{name}": _prior_of_shares(torch.ones(size).double(), num_workers, axis)
            for name, axis, size in zip(HALVES, GRADES_OF_HALVES, sizes, strict=True)
            if size > 1
        }
        self._sites = nn.ModuleDict(sites)

    def priors(self) -> dict[str, ConjugatePrior]:
        """Each worker's shares of the halves by look, and of the grades within a half."""
        return dict(self._sites.items())  # type: ignore[arg-type]

    @property
    def num_looks(self) -> int:
        """2: a pair looks different or the same."""
        return 2

    def look_concentration(self, hard: bool, of_records: bool) -> Float[Tensor, "relation look"]:
        """Pseudo-pairs of both looks."""
        return concentration_of_two_looks(hard, of_records)

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
        within = torch.zeros(len(rates["halves_1"]), len(self.half_of), dtype=torch.float64)
        within = within.to(rates["halves_1"])
        for place, name in enumerate(HALVES):
            if f"within_{name}" in rates:
                within = within.index_add(
                    1, torch.where(self.half_of == place)[0], rates[f"within_{name}"]
                )
        rows = [rates[f"halves_{number}"][:, self.half_of] + within for number in (1, 2)]
        return GradedAnswer(look, torch.stack(rows), worker, self.num_grades)

    def first_looks(self, label: Float[Tensor, " answer"]) -> Float[Tensor, "answer look"]:
        """The halves themselves, one-hot; both are equally likely where it is neither."""
        half = self.half_of[grade_places(label, self.num_grades)]
        like = torch.where(half == 2, 0.5, half.double())
        return torch.stack([1 - like, like], 1)

    def summary_of_draws(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        given: Mapping[str, Float[Tensor, "draw worker grade"]],
        looks: Float[Tensor, "draw relation look"],
        counts: Float[Tensor, "draw relation look"],
        interval: float,
    ) -> WorkerSummary:
        """Shares of the grades over all draws, for pairs that are the same and different.

        The weight is that of an answer in the upper half over one in the lower half, under q.
        """
        halves = [DrawnShares.of(given[name]) for name in ("halves_1", "halves_2")]
        within = self._within(given)
        different, same = (
            _product(shares, within, self.half_of)
            for shares in shares_of_relations(halves, looks, counts)
        )
        rates = {"if_same": same.summary(interval), "if_different": different.summary(interval)}
        sites = [posteriors[f"halves_{number}"] for number in (1, 2)]
        direction = torch.tensor([-1.0, 1.0, 0.0], dtype=torch.float64).expand(self.num_workers, 3)
        return WorkerSummary(rates, *weight_of_looks(sites[0], sites[1], direction))

    def _within(self, given: Mapping[str, Float[Tensor, "draw worker grade"]]) -> DrawnShares:
        """Shares of all grades within their halves, 1 where a half has a single one."""
        first = given["halves_1"]
        mean = first.new_ones(*first.shape[:-1], len(self.half_of))
        variance = torch.zeros_like(mean)
        for place, name in enumerate(HALVES):
            if f"within_{name}" in given:
                shares = DrawnShares.of(given[f"within_{name}"])
                mean[..., self.half_of == place] = shares.mean
                variance[..., self.half_of == place] = shares.variance
        return DrawnShares(mean, variance)


def halves_of_grades(num_grades: int) -> Int[Tensor, " outcome"]:
    """The half of each of the grades: 0 lower, 1 upper, 2 neither; "can't tell" comes last.

    Examples
    --------
    >>> halves_of_grades(5).tolist()
    [0, 0, 2, 1, 1, 2]
    """
    twice = 2 * torch.arange(num_grades) - (num_grades - 1)
    half = torch.where(twice == 0, 2, (twice > 0).long())
    return torch.cat([half, half.new_tensor([2])])


def _prior_of_shares(
    counts: Float[Tensor, " share"], num_workers: int, axis: str
) -> ConjugatePrior:
    family = Dirichlet(len(counts))
    return ConjugatePrior(family, family.natural(counts), num_workers, dims=("worker", axis))


def _product(
    halves: DrawnShares, within: DrawnShares, half: Int[Tensor, " outcome"]
) -> DrawnShares:
    """Shares of the grades, from independent shares of the halves and within them."""
    mean, variance = (part[..., half] for part in halves)
    both = mean * within.mean
    square = (variance + mean**2) * (within.variance + within.mean**2)
    return DrawnShares(both, square - both**2)
