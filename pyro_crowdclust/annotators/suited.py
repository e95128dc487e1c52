"""Which annotators suit answers about pairs, and what is known of them where the pairs are."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.graded_pairs import GradedPairs
from pyro_crowdclust.annotators.pairs import TwoCoin
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.protocols import PairAnnotators


def annotators_for(
    data: CrowdData, trust: tuple[float, float] = (2.0, 1.0)
) -> TwoCoin | GradedPairs:
    """Two coins for every worker who answers yes or no, two rows of shares for one who grades.

    Who grades may always be unsure: some of the data may hold what others do not.

    Parameters
    ----------
    data
        Whose answers these are.
    trust
        Pseudo-counts of right and wrong answers.

    Examples
    --------
    >>> said = {"left": [0, 0], "right": [1, 2], "worker": ["a", "b"], "label": [4, None]}
    >>> annotators_for(CrowdData(None, said, grades=[1, 2, 3, 4])).num_grades
    4
    """
    if not len(data.grade_ids):
        return TwoCoin(data.num_workers, trust, trust)
    return GradedPairs(data.num_workers, len(data.grade_ids), trust)


def expected_counts(
    annotators: PairAnnotators,
    same: Float[Tensor, " pair"],
    worker: Int[Tensor, " pair"],
    label: Float[Tensor, " pair"],
) -> dict[str, Float[Tensor, "worker size"]]:
    """What answers about pairs that are the same so probably add to the sites' natural parameters.

    The likelihood is linear in the statistics of the rates: its slopes are expected counts.

    Examples
    --------
    >>> same, worker, label = torch.tensor([0.75]), torch.tensor([0]), torch.tensor([1.0])
    >>> counts = expected_counts(TwoCoin(1), same, worker, label)
    >>> {name: count.tolist() for name, count in counts.items()}
    {'sensitivity': [[0.75, 0.0]], 'specificity': [[0.0, 0.25]]}
    """
    statistics = {
        name: torch.zeros_like(prior.natural_parameters).requires_grad_()
        for name, prior in annotators.priors().items()
    }
    with torch.enable_grad():
        likelihood = annotators.answer(same, statistics, worker).log_prob(label).sum()
        counts = torch.autograd.grad(likelihood, list(statistics.values()))
    return dict(zip(statistics, counts, strict=True))
