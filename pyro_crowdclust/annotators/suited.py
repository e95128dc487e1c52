"""Chooses annotator models that suit the answers of the data, and counts answers for them."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.graded import GradedAnswers
from pyro_crowdclust.annotators.graded_pairs import GradedPairs
from pyro_crowdclust.annotators.halved_grades import HalvedGrades
from pyro_crowdclust.annotators.lapsing import LapsingWorkers
from pyro_crowdclust.annotators.sorted_pages import SortedPages
from pyro_crowdclust.annotators.two_coin import TwoCoin
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import Sessions
from pyro_crowdclust.protocols import PairAnnotators

# With fewer answers per page, on average, lapses cannot be distinguished from errors.
_MIN_PAGE_SIZE = 5


def annotators_for(
    data: CrowdData, trust: tuple[float, float] = (2.0, 1.0)
) -> TwoCoin | GradedPairs:
    """``TwoCoin`` for answers yes and no, ``GradedPairs`` for grades.

    With grades "can't tell" is always allowed, as it may occur in only some of the data.

    Parameters
    ----------
    data
        The data with the answers.
    trust
        Pseudo-counts of right and wrong answers.

    Examples
    --------
    >>> answers = {"left": [0, 0], "right": [1, 2], "worker": ["a", "b"], "label": [4, None]}
    >>> annotators_for(CrowdData(None, answers, grades=[1, 2, 3, 4])).num_grades
    4
    """
    if not len(data.grade_ids):
        return TwoCoin(data.num_workers, trust, trust)
    return GradedPairs(data.num_workers, len(data.grade_ids), trust)


def annotators_of_looks(
    data: CrowdData, *, halves: bool = False
) -> TwoCoin | GradedAnswers | HalvedGrades:
    """Annotators for clusters from answers alone: ``TwoCoin``, or ``GradedAnswers`` for grades.

    If only the ``halves`` of the scale count, these are ``HalvedGrades``. With few answers,
    intervals cover and probabilities are calibrated if people are expected to be right about four
    pairs in five (docs/experiments/answers.md).
    """
    if len(data.grade_ids):
        if halves:
            return HalvedGrades(data.num_workers, len(data.grade_ids))
        return GradedAnswers(data.num_workers, len(data.grade_ids))
    return TwoCoin(data.num_workers, (4.0, 1.0), (4.0, 1.0))


def annotators_on_pages(
    data: CrowdData, trust: tuple[float, float] = (2.0, 1.0)
) -> TwoCoin | GradedPairs | LapsingWorkers | SortedPages:
    """Those of ``annotators_for``, who may lapse if pages have five answers or more on average.

    Placements have annotators of their own, ``SortedPages``. Sorted pages of pairs have no lapses:
    their pairs are right or wrong together anyway.

    Examples
    --------
    >>> answers = {"left": [0] * 5, "right": range(1, 6), "worker": ["a"] * 5, "label": [1] * 5}
    >>> data = CrowdData(None, answers | {"page": ["monday"] * 5})
    >>> type(annotators_on_pages(data)).__name__
    'LapsingWorkers'
    """
    if data.placements is not None:
        return SortedPages(data.num_workers)
    annotators, answers = annotators_for(data, trust), data.answers
    if answers is None or answers.page is None or data.is_sorted:
        return annotators
    sessions = Sessions.of(answers.page, answers.worker)
    are_large = answers.num_pairs >= _MIN_PAGE_SIZE * len(sessions.worker)
    return LapsingWorkers(annotators) if are_large else annotators


def expected_counts(
    annotators: PairAnnotators,
    same: Float[Tensor, " pair"],
    worker: Int[Tensor, " pair"],
    label: Float[Tensor, " pair"],
) -> dict[str, Float[Tensor, "worker size"]]:
    """What answers add to the sites' natural parameters, given P(same) of their pairs.

    The likelihood is linear in the statistics of the rates: its slopes are expected counts. These
    are where the annotators are, also if the answers are on another device.

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
    device = next(iter(statistics.values())).device
    same, worker, label = (one.to(device) for one in (same, worker, label))
    with torch.inference_mode(False):
        likelihood = annotators.answer(same, statistics, worker).log_prob(label).sum()
        counts = torch.autograd.grad(likelihood, list(statistics.values()))
    return dict(zip(statistics, counts, strict=True))
