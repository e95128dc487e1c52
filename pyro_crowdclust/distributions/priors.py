"""Conjugate priors of the global sites, and the conjugate posteriors of guides."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyro
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.at_mean import ConjugateAtMean
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.statistics import Conjugate
from pyro_crowdclust.families import ExponentialFamily, PosteriorSummary


class ConjugatePrior(nn.Module):
    """p(theta) of a global site: a family and its fixed natural parameters.

    Parameters
    ----------
    family
        The exponential family.
    natural_parameters
        eta0, shape ``[size]`` or ``[plate, size]``.
    plate_size
        Number of independent thetas in the site's plate, or None for a site without a plate.
    dims
        Names of the axes of draws of theta in diagnostics: that of the plate, then those within one
        theta, such as ``("worker", "label")``. Axes with names like ``cluster``, ``worker``,
        ``class`` and ``label`` get the user's ids. Axes without a name here are named after the
        plate, or numbered.
    start
        Natural parameters where a posterior begins; by default those of the prior.
    """

    natural_parameters: Tensor
    log_normalizer: Tensor

    def __init__(
        self,
        family: ExponentialFamily,
        natural_parameters: Float[Tensor, "*plate size"],
        plate_size: int | None = None,
        dims: tuple[str, ...] = (),
        start: Float[Tensor, "*plate size"] | None = None,
    ) -> None:
        super().__init__()
        self.start = None if start is None else start.clone()
        self.family = family
        self.plate_size = plate_size
        self.dims = dims
        shape = (family.size,) if plate_size is None else (plate_size, family.size)
        # A copy, since set_natural_parameters writes into it.
        eta = natural_parameters.double().expand(shape)
        eta = eta.clone(memory_format=torch.contiguous_format)
        if not bool(family.in_domain(eta).all()):
            raise ValueError(
                f"prior parameters {family.standard(natural_parameters)} lie outside the domain "
                f"of {family}"
            )
        self.register_buffer("natural_parameters", eta)
        # The prior is fixed, so its normalizer is computed only once, not in every step.
        self.register_buffer("log_normalizer", family.log_normalizer(eta))

    @torch.no_grad()
    def set_natural_parameters(self, natural_parameters: Float[Tensor, "*#plate size"]) -> None:
        """Replace the prior by another one of the same family, such as a learned one.

        Raises
        ------
        ValueError
            If the parameters lie outside the family's domain.
        """
        # One row may be given for all of them.
        if not bool(self.family.in_domain(natural_parameters).all()):
            raise ValueError(f"natural parameters outside the domain of {self.family}")
        self.natural_parameters.copy_(natural_parameters)
        self.log_normalizer.copy_(self.family.log_normalizer(natural_parameters))

    def distribution(self) -> Conjugate:
        """The statistic-valued Pyro distribution of the site."""
        return Conjugate(self.family, self.natural_parameters, self.log_normalizer)

    def plate(self, name: str) -> AbstractContextManager:
        """The plate of the site, if it has one; the same in model and guide."""
        if self.plate_size is None:
            return nullcontext()
        return FullPlate(name, self.plate_size)


class ConjugatePosterior(nn.Module):
    """q(theta | eta) of a global site, whose ``natural_parameters.grad`` is a natural gradient.

    Natural parameters are a plain ``nn.Parameter`` in float64, without a Pyro constraint, which
    would step another coordinate. ``NaturalGradient`` steps them.

    Parameters
    ----------
    prior
        The site's prior; the posterior starts there, or at its ``start``.
    """

    def __init__(self, prior: ConjugatePrior) -> None:
        super().__init__()
        self.family = prior.family
        eta = prior.natural_parameters if prior.start is None else prior.start
        self.natural_parameters = nn.Parameter(eta.detach().clone())

    def distribution(self) -> ConjugateAtMean:
        """The statistic-valued Pyro distribution of the guide's site."""
        return ConjugateAtMean(self.family, self.natural_parameters, natural_gradient=True)

    @torch.no_grad()
    def mean(self) -> Float[Tensor, "*plate size"]:
        """E_q[t(theta)]."""
        return self.family.expected_statistics(self.natural_parameters)

    @torch.no_grad()
    def log_expected(self) -> Float[Tensor, "*plate size"]:
        """``log E_q[exp t]``, entry by entry: for Betas and Dirichlets the log of the mean.

        Examples
        --------
        >>> from pyro_crowdclust.families import Beta
        >>> beta = Beta().natural(torch.tensor(3.0), torch.tensor(1.0))
        >>> ConjugatePosterior(ConjugatePrior(Beta(), beta)).log_expected().exp()
        tensor([0.7500, 0.2500], dtype=torch.float64)
        """
        family, eta = self.family, self.natural_parameters
        steps = torch.eye(family.size, dtype=eta.dtype)
        higher = family.log_normalizer(eta.unsqueeze(-2) + steps)
        return higher - family.log_normalizer(eta).unsqueeze(-1)

    @torch.no_grad()
    def standard(self) -> Any:
        """Standard parameters of q, a named tuple of the family."""
        return self.family.standard(self.natural_parameters.detach())

    @torch.no_grad()
    def summary(self, interval: float) -> PosteriorSummary:
        """Mean, deviation and central interval of every entry of theta."""
        return self.family.summary(self.natural_parameters, interval)

    def variance(self, direction: Float[Tensor, "*plate size"]) -> Float[Tensor, "*plate"]:
        """``Var_q <c, t(theta)>``, with c the ``direction``."""
        return self.family.variance(self.natural_parameters, direction)

    @torch.no_grad()
    def set_natural_parameters(self, natural_parameters: Float[Tensor, "*plate size"]) -> None:
        """Move q to other natural parameters.

        Raises
        ------
        ValueError
            If they lie outside the family's domain.
        """
        if not bool(self.family.in_domain(natural_parameters).all()):
            raise ValueError(f"natural parameters outside the domain of {self.family}")
        self.natural_parameters.copy_(natural_parameters)


def conjugate_posteriors(priors: Mapping[str, ConjugatePrior]) -> nn.ModuleDict:
    """A posterior for each of these priors, by the names of the sites."""
    return nn.ModuleDict({name: ConjugatePosterior(prior) for name, prior in priors.items()})


def sample_sites(sites: Mapping[str, ConjugatePrior | ConjugatePosterior]) -> dict[str, Tensor]:
    """Run a Pyro site for each of them, in a plate ``NAME_plate`` where there are many thetas.

    With priors this is the global part of a model, with posteriors that of its guide.
    """
    values = {}
    for name, site in sites.items():
        distribution = site.distribution()
        plate: AbstractContextManager = nullcontext()
        if distribution.batch_shape:
            plate = FullPlate(f"{name}_plate", *distribution.batch_shape)
        with plate:
            values[name] = pyro.sample(name, distribution)
    return values


def set_to_counts(
    posteriors: Mapping[str, Any],
    priors: Mapping[str, ConjugatePrior],
    counts: Mapping[str, Tensor],
) -> None:
    """``eta = eta0 + E[counts]`` of the sites that have counts: one update of coordinate ascent."""
    for name, count in counts.items():
        posteriors[name].set_natural_parameters(priors[name].natural_parameters + count)


def detached(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values of sites, detached from the graph of gradients."""
    return {name: value.detach() for name, value in values.items()}
