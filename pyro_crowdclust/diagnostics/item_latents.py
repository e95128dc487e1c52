"""Draws of the continuous latents of items and answers from the guide, jointly with global sites.

Every draw of Theta comes with one of x ~ q(x | Theta, all data). The guide runs on all data, as in
its ELBO: a latent may be a function of the features and the answers of the whole batch, or a
parameter for each item or answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.diagnostics.draws import (
    GlobalDraws,
    is_of_answers,
    local_plates,
    run,
    sites_with_density,
)
from pyro_crowdclust.diagnostics.item_likelihood import (
    axis_of_items,
    continuous_sites,
    discrete_sites,
    real_value,
    sites_with_real_draws,
)
from pyro_crowdclust.minibatches.answer_plate import AnswerFrame
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import full_batch
from pyro_crowdclust.protocols import FittedModel


@dataclass(frozen=True)
class LatentsOfItems:
    """The continuous latents of some items and answers under q, at each draw of the global sites.

    Attributes
    ----------
    result
        The result of ``fit``.
    draws
        Draws of Theta.
    batch
        All data.
    rows, answer_rows
        The row of each of the items, and of the answers, in the batch.
    local
        Names of the plates of the items.
    discrete, names, names_of_answers
        Names of the discrete sites of the items, of the continuous ones, and of those of answers.
    """

    result: FittedModel
    draws: GlobalDraws
    batch: Batch
    rows: Int[Tensor, " item"]
    answer_rows: Int[Tensor, " answer"]
    local: frozenset[str]
    discrete: tuple[str, ...]
    names: tuple[str, ...]
    names_of_answers: tuple[str, ...]

    @classmethod
    def of(
        cls,
        result: FittedModel,
        draws: GlobalDraws,
        items: Int[Tensor, " item"],
        answers: Int[Tensor, " answer"],
    ) -> LatentsOfItems:
        """The latents of the items and the answers at these positions in the data."""
        batch = full_batch(result.data).to(result.device, result.dtype)
        local, rows = local_plates(result), batch.items.argsort()[items]
        discrete = tuple(discrete_sites(result, batch, local, nested=True))
        trace = run(result.guide, batch, {})
        names = tuple(continuous_sites(trace, discrete, local))
        sites = sites_with_density(trace).items()
        of_answers = tuple(name for name, site in sites if is_of_answers(site))
        answer_rows = batch.answers.argsort()[answers]
        return cls(result, draws, batch, rows, answer_rows, local, discrete, names, of_answers)

    def at(self, draw: int) -> dict[str, Tensor]:
        """A draw of the latents, by site, given one draw of Theta."""
        of_theta = {name: value[draw] for name, value in self.draws.auxiliary.items()}
        given = self.draws.at(draw) | of_theta
        sites = sites_with_real_draws(self.result, self.batch, self.discrete, given)
        latents = {
            name: real_value(sites[name]).index_select(
                axis_of_items(sites[name], self.local), self.rows
            )
            for name in self.names
        }
        for name in self.names_of_answers:
            site = sites[name]
            (plate,) = [f.name for f in site["cond_indep_stack"] if isinstance(f, AnswerFrame)]
            axis = axis_of_items(site, frozenset({plate}))
            latents[name] = real_value(site).index_select(axis, self.answer_rows)
        return latents
