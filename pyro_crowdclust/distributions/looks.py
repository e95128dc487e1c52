"""``p(L | y)``: graded answers about pairs, given the look of the pair."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.pair_answers import Outcomes
from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.families import Dirichlet


class GradedAnswer(StatisticValued):
    """``log p(L | y) = sum_s y_s log gamma_msL``: linear in look y and in log gamma.

    A label is a grade as a fraction, 0, 1 / (G - 1), ..., 1; NaN where the worker could not tell.

    Parameters
    ----------
    look
        One-hot look of each answer's pair, or probabilities.
    rows
        ``log gamma`` of every look: probabilities of the G grades and, where workers may be unsure,
        last the probability of "can't tell".
    worker
        The worker of every answer.
    num_grades
        G.
    """

    has_rsample = False

    def __init__(
        self,
        look: Float[Tensor, "*enumerated answer look"],
        rows: Float[Tensor, "look worker grade"],
        worker: Int[Tensor, " answer"],
        num_grades: int,
    ) -> None:
        self.look, self.rows, self.worker = look, rows, worker
        self.outcomes = Outcomes(num_grades, rows.shape[-1])
        super().__init__(look.shape[:-1], torch.Size())

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, " answer"]:
        self._one_draw(sample_shape)
        rows = self.rows[:, self.worker].exp()
        shares = torch.einsum("as,sag->ag", self.look.to(rows.dtype), rows)
        place = Dirichlet(rows.shape[-1]).sample_observation(shares.log()).argmax(-1)
        return self.outcomes.labels(place)

    def log_prob(self, value: Float[Tensor, " answer"]) -> Float[Tensor, "*enumerated answer"]:
        place = self.outcomes.places(value)
        log_gamma = self.rows[:, self.worker, place].mT
        return (self.look.to(log_gamma.dtype) * log_gamma).sum(-1)
