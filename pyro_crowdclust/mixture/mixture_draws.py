"""Draws of a mixture's weights and components, given the components of all items (Gibbs)."""

from __future__ import annotations

import copy
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.families import OutsideDomain
from pyro_crowdclust.mixture.components import Components
from pyro_crowdclust.mixture.weights import Weights

_SINGULAR = (
    "a drawn covariance is singular, to rounding: standardize the features, or leave out columns "
    "that are copies of others"
)


class MixtureDraws:
    """``log p(z_i = k, x_i)`` at ``pi, phi | z``, drawn from their conjugate posteriors.

    ``pi ~ eta_0 + c(N)`` with the counts N of all components, and ``phi_k ~ eta_0k + sum_i z_ik
    u(x_i)``. Draws use torch's random numbers.

    Parameters
    ----------
    weights, components
        The priors. The density of the components is linear in their statistics (``is_linear``).
    observed
        The features of all items, as the components have them.
    used
        The components that items may have; all others stay without items.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
    >>> x = torch.linspace(-1, 1, 5, dtype=torch.float64).unsqueeze(1)
    >>> parts = DirichletWeights(2), GaussianComponents(2, 1), x, torch.arange(2)
    >>> MixtureDraws(*parts)(torch.zeros(3, 5, dtype=torch.long)).shape
    torch.Size([3, 5, 2])
    """

    def __init__(
        self,
        weights: Weights,
        components: Components,
        observed: Float[Tensor, "item observation"],
        used: Int[Tensor, " used"],
    ) -> None:
        # Draws are on the processor, wherever the fit is.
        self._weights: Any = copy.deepcopy(weights).cpu()
        self._family = components.family
        self._prior = components.prior.natural_parameters.double().cpu()[used]
        self._observed, self._used = observed.double().cpu(), used

    def __call__(self, component: Int[Tensor, "chain item"]) -> Float[Tensor, "chain item used"]:
        """Draw the mixture of every chain; ``component`` has positions in ``used``.

        Raises
        ------
        OutsideDomain
            If a drawn covariance is singular, to rounding.
        """
        family, number = self._family, len(self._used)
        assigned = nn.functional.one_hot(component, number).double()
        counts = assigned.new_zeros(len(assigned), self._weights.num_clusters)
        counts[:, self._used] = assigned.sum(1)
        prior = self._weights.prior
        natural = prior.natural_parameters + self._weights.count_statistics(counts)
        drawn = prior.family.sufficient_statistics(prior.family.sample(natural))
        log_weights = self._weights.log_weights(drawn)[:, self._used]
        # All chains are so many more components of one mixture.
        side_by_side = assigned.movedim(0, 1).flatten(1)
        of_items = family.weighted_statistics(self._observed, side_by_side)
        natural = self._prior.repeat(len(assigned), 1) + of_items
        try:
            theta = family.sufficient_statistics(family.sample(natural))
        except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]  # torch's stub
            raise OutsideDomain(_SINGULAR) from error
        scores = family.log_likelihoods(theta, self._observed)
        if scores.isnan().any():
            raise OutsideDomain(_SINGULAR)
        return scores.unflatten(1, (-1, number)).movedim(1, 0) + log_weights.unsqueeze(1)
