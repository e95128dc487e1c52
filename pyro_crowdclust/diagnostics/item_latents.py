"""Draws of the continuous latents of items from the guide, jointly with draws of the global sites.

Every draw of Theta comes with one of x ~ q(x | Theta, all data). The guide runs on all data, as in
its ELBO: a latent may be a function of the features and the answers of the whole batch, or a
parameter for each item.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.diagnostics.draws import GlobalDraws, local_plates, run
from pyro_crowdclust.diagnostics.item_likelihood import (
    axis_of_items,
    continuous_sites,
    discrete_sites,
    real_value,
    sites_with_real_draws,
)
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import full_batch
from pyro_crowdclust.protocols import FittedModel


@dataclass(frozen=True)
class LatentsOfItems:
    """The continuous latents of some items under q, at each draw of the global sites.

    Attributes
    ----------
    result
        The result of ``fit``.
    draws
        Draws of Theta.
    batch
        All data.
    rows
        The row of each of the items in the batch.
    local
        Names of the plates of the items.
    discrete, names
        Names of the discrete sites of the items, and of the continuous ones.
    """

    result: FittedModel
    draws: GlobalDraws
    batch: Batch
    rows: Int[Tensor, " item"]
    local: frozenset[str]
    discrete: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, result: FittedModel, draws: GlobalDraws, items: Int[Tensor, " item"]
    ) -> LatentsOfItems:
        """The latents of the items at these positions in the data."""
        batch = full_batch(result.data).to(result.device, result.dtype)
        local, rows = local_plates(result), batch.items.argsort()[items]
        discrete = tuple(discrete_sites(result, batch, local, nested=True))
        names = tuple(continuous_sites(run(result.guide, batch, {}), discrete, local))
        return cls(result, draws, batch, rows, local, discrete, names)

    def at(self, draw: int) -> dict[str, Tensor]:
        """A draw of the latents, by site, given one draw of Theta."""
        of_theta = {name: value[draw] for name, value in self.draws.auxiliary.items()}
        given = self.draws.at(draw) | of_theta
        sites = sites_with_real_draws(self.result, self.batch, self.discrete, given)
        return {
            name: real_value(sites[name]).index_select(
                axis_of_items(sites[name], self.local), self.rows
            )
            for name in self.names
        }
