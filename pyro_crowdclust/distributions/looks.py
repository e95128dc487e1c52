"""What people say of a pair, given what it looks like."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.families import Dirichlet


class GradedAnswer(StatisticValued):
    """``log p(L | y) = sum_s y_s log gamma_msL``: linear in the look y and in every log gamma.

    A label is a grade as a fraction, 0, 1 / (G - 1), ..., 1; NaN where the worker could not tell.

    Parameters
    ----------
    look
        One-hot look of each answer's pair, or probabilities.
    rows
        ``log gamma`` of every look: shares of the G grades, and last of "can't tell".
    worker
        Who answers.
    """

    has_rsample = False

    def __init__(
        self,
        look: Float[Tensor, "answer look"],
        rows: Float[Tensor, "look worker grade"],
        worker: Int[Tensor, " answer"],
    ) -> None:
        self.look, self.rows, self.worker = look, rows, worker
        super().__init__(worker.shape, torch.Size())

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, " answer"]:
        self._one_draw(sample_shape)
        number = self.rows.shape[-1]
        shares = torch.einsum("as,sag->ag", self.look, self.rows[:, self.worker].exp())
        place = Dirichlet(number).sample_observation(shares.log()).argmax(-1)
        return torch.where(place == number - 1, torch.nan, place.double() / (number - 2))

    def log_prob(self, value: Float[Tensor, " answer"]) -> Float[Tensor, " answer"]:
        place = grade_places(value, self.rows.shape[-1] - 1)
        said = self.rows[:, self.worker, place].mT
        return (self.look.to(said.dtype) * said).sum(-1)


def grade_places(label: Float[Tensor, " answer"], num_grades: int) -> Int[Tensor, " answer"]:
    """Which grade a label is, from 0 on; the number of grades where it is NaN."""
    place = (label.nan_to_num() * (num_grades - 1)).round().long()
    return torch.where(label.isnan(), num_grades, place)
