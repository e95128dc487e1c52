"""Base class of the conjugate guides of mixtures."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators import sample_rates
from pyro_crowdclust.distributions import detached, sample_sites
from pyro_crowdclust.guides.conjugate import ConjugateGuide
from pyro_crowdclust.mixture import MixtureSummary
from pyro_crowdclust.protocols import SiteStatistics

_MIXTURE_SITES = "weights", "components"


class Globals(NamedTuple):
    """Values of the global sites of a mixture, sufficient statistics of theta.

    Attributes
    ----------
    weights, components
        Those of the mixture.
    rates
        Those of the workers, by name.
    others
        Those of the supervision and ``owners`` of components, by name.
    """

    weights: Tensor
    components: Tensor
    rates: dict[str, Tensor]
    others: dict[str, Tensor]

    def detached(self) -> Globals:
        """The same values, detached from the graph of gradients."""
        mixture = self.weights.detach(), self.components.detach()
        return Globals(*mixture, detached(self.rates), detached(self.others))


class MixtureGuide(ConjugateGuide):
    """The conjugate posterior q(Theta) of a mixture, with summaries, starts and structural moves.

    Derived guides add the local sites.

    Parameters
    ----------
    model
        The model whose posterior this approximates, with weights, components, and optionally
        annotators and supervision.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        if "owners" in self.posteriors:
            # Simultaneous steps of all components would overshoot; ``OwnershipMoves`` solves for
            # the owners instead.
            self.posteriors["owners"].requires_grad_(False)

    def sample_globals(self) -> Globals:
        """Run the global sites."""
        mixture = sample_sites({name: self.posteriors[name] for name in _MIXTURE_SITES})
        rates = sample_rates(self.model.annotators, self.posteriors)
        known = mixture | rates
        rest = {name: one for name, one in self.posteriors.items() if name not in known}
        others = sample_sites(rest)
        return Globals(mixture["weights"], mixture["components"], rates, others)

    def mean_globals(self) -> Globals:
        """The values of the same sites, outside of Pyro."""
        rates = self.rate_statistics()
        others = {name: q.mean() for name, q in self.posteriors.items() if name not in rates}
        weights, components = (others.pop(name) for name in _MIXTURE_SITES)
        return Globals(weights, components, rates, others)

    @torch.no_grad()
    def start_at(self, start: SiteStatistics) -> None:
        """Set the posteriors of the mixture to the priors plus the given statistics."""
        for name, counts in start.statistics(self.model).items():
            prior = self.model.priors()[name]
            self.posteriors[name].set_natural_parameters(prior.natural_parameters + counts)

    @torch.no_grad()
    def mixture(self) -> MixtureSummary:
        """Posterior means of the weights and of the components' parameters."""
        weights, theta = (self.posteriors[name].natural_parameters for name in _MIXTURE_SITES)
        components = self.model.components.summary(theta)
        return MixtureSummary(self.model.weights.mean(weights), *components)

    def class_table(self) -> Float[Tensor, "component class"] | None:
        """``E[rho_kc]`` of the supervision's ``ClassTable``, if it is one.

        With an ownership, the row of a component is the expected row of the cluster that owns it.
        """
        if "class_table" not in self.posteriors:
            return None
        alpha = self.posteriors["class_table"].standard().concentration
        table = alpha / alpha.sum(-1, keepdim=True)
        return self.posteriors["owners"].mean() @ table if "owners" in self.posteriors else table

    @torch.no_grad()
    def merge(self, first: int, second: int) -> int:
        """Give the statistics of two clusters to the larger; returns the other, emptied.

        If the supervision numbers clusters by known labels, the one with the smaller number is
        kept, which may be a label.
        """
        weights = self.posteriors["weights"]
        counts = self.model.weights.posterior_counts(weights.natural_parameters)
        names = self.model.supervision.names_clusters
        if first > second if names else counts[second] > counts[first]:
            first, second = second, first
        for posterior, prior in self._cluster_parameters():
            # The sum of the natural parameters has the prior twice.
            posterior[first] += posterior[second] - prior[second]
            posterior[second] = prior[second]
        joined = self.model.weights.merged(weights.natural_parameters, first, second)
        weights.set_natural_parameters(joined)
        self.model.supervision.merge(first, second)
        return second

    @torch.no_grad()
    def empty(self, cluster: int) -> None:
        """Return a cluster to its prior, and take its items from the weights."""
        for posterior, prior in self._cluster_parameters():
            posterior[cluster] = prior[cluster]
        weights = self.posteriors["weights"]
        left = self.model.weights.emptied(weights.natural_parameters, cluster)
        weights.set_natural_parameters(left)
        self.model.supervision.empty(cluster)

    def _cluster_parameters(self) -> list[tuple[Tensor, Tensor]]:
        """Natural parameters of posteriors with a row per cluster, and those of their priors."""
        priors = self.model.priors()
        return [
            (self.posteriors[name].natural_parameters, priors[name].natural_parameters)
            for name in ("components", *self.model.supervision.sites_of_clusters)
        ]

    def set_epoch(self, epoch: float) -> None:
        """Pass q(theta), as it is before a step, to the supervision."""
        components = self.posteriors["components"]
        self.model.supervision.refresh(components.family, components.natural_parameters)
