"""The default start, without labels: PCA for the networks, k-means for the mixture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.imputation import median_imputed
from pyro_crowdclust.emissions import has_gaps
from pyro_crowdclust.minibatches.item_order import random_items
from pyro_crowdclust.networks.drawn_again import reset_networks
from pyro_crowdclust.networks.recognition_networks import GaussianRecognition
from pyro_crowdclust.networks.row_steps import descend_on_rows
from pyro_crowdclust.protocols import SiteStatistics, SupportsFeaturesOf, part_of
from pyro_crowdclust.starts.k_means import k_means
from pyro_crowdclust.starts.mixture_start import MixtureStart
from pyro_crowdclust.starts.projection import principal_projection


@runtime_checkable
class SupportsStartAt(Protocol):
    """A guide that can begin at a partition of the items."""

    def start_at(self, start: SiteStatistics) -> None:
        """Set the posteriors of the global sites to the priors plus the statistics."""


@runtime_checkable
class SupportsStartAtPartition(Protocol):
    """A guide, or a recognition network, that can learn a partition before training."""

    def start_at_partition(
        self,
        features: Float[Tensor, "item feature"],
        responsibilities: Float[Tensor, "item cluster"],
        generator: torch.Generator,
        steps: int = 300,
    ) -> None:
        """Train the networks of q(z | o) to find the partition."""


@dataclass(frozen=True)
class PrincipalComponentStart:
    """PCA for the networks, k-means on the PCA latents for the mixture.

    The recognition network starts as the projection on the first d principal components, the
    emission as its inverse, and the mixture at a k-means partition of the projections (k-means++
    seeds). Networks with a linear skip path become these maps. Others are trained to: the
    recognition network by least squares, the emission to make the features likely given the
    projections. Otherwise the latents of most items would be far from the mixture, and one cluster
    would take them all. Without networks (``Identity`` emission) only the partition is computed,
    in the components' ``coordinates``: roots of counts, one-hot codes, and so on.

    Attributes
    ----------
    sample_size
        Maximum number of items used.
    reset_networks
        Draw the weights of the library's own networks again, so that the seed of ``fit`` determines
        them; False keeps them, e.g. if they have been trained before.
    network_steps
        Number of steps on 256 items in which networks without a linear skip path learn the
        projection or its inverse; fewer for large networks, 0 to keep trained ones as they are.
    partition_steps
        Number of steps on 256 items in which q(z given o), if it is a network, learns the
        partition, as does any recognition network if a ``partition`` is given; fewer for large
        networks.
    partition
        ``(features, K, generator) -> assignments``, e.g. a ``NeighborPartition``, to replace
        k-means on the latents.
    """

    sample_size: int = 10_000
    reset_networks: bool = True
    network_steps: int = 300
    partition_steps: int = 300
    partition: Callable[[Tensor, int, torch.Generator], Tensor] | None = None

    @torch.no_grad()
    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start ``model`` and ``guide``; parts without a ``start_at`` verb stay as they are."""
        if not isinstance(guide, SupportsStartAt) or data.features is None:
            return
        if self.reset_networks:
            reset_networks(model, guide)
        chosen = random_items(data, self.sample_size, generator)
        rows = data.rows(chosen)
        features = rows.flatten(1).double()
        recognition: Any = part_of(guide, "recognition", nn.Module)
        if recognition is None:
            points = model.emission.latent(features)
            near = model.components.coordinates(median_imputed(points))
            partition = self._partition_of(model, median_imputed(features), near, generator)
        else:
            seen = features
            if isinstance(recognition, GaussianRecognition):
                seen = recognition.standardized(features)
            weight, bias, inverse, mean = principal_projection(seen, model.components.dim)
            points = seen @ weight.mT + bias
            if recognition.start_at_linear(weight, bias) is False:
                with torch.enable_grad():
                    recognition.start_at_points(seen, points, generator, steps=self.network_steps)
            is_linear = model.emission.start_at_linear(inverse, mean) is not False
            partition = self._partition_of(model, features, points, generator)
            if not is_linear:
                clusters = partition.argmax(1)
                _teach_emission(model, points, clusters, rows, generator, self.network_steps)
        observed = model.components.observe(points, has_gaps(model.emission, data))
        known = None if data.known is None else data.known[chosen]
        partition = model.supervision.start_partition(partition, median_imputed(points), known)
        guide.start_at(MixtureStart(observed, partition, data.num_items / len(points), known))
        # A linear recognition network can already represent a k-means partition of its latents.
        learner = recognition
        if recognition is not None and (self.partition is not None or _has_classifier(recognition)):
            learner = guide
        if isinstance(learner, SupportsStartAtPartition):
            with torch.enable_grad():
                learner.start_at_partition(
                    features, partition, generator, steps=self.partition_steps
                )

    def _partition_of(
        self, model: Any, features: Tensor, points: Tensor, generator: torch.Generator
    ) -> Tensor:
        """The partition of items with these latents, in the order preferred by the weights."""
        if self.partition is None:
            found = k_means(points, model.num_clusters, generator)
            labels = torch.as_tensor(found.labels_, dtype=torch.int64)
            partition = nn.functional.one_hot(labels, model.num_clusters).double()
        else:
            with torch.enable_grad():
                partition = self.partition(features, model.num_clusters, generator).double()
        return partition[:, model.weights.preferred_order(partition.sum(0))]


@torch.enable_grad()
def _teach_emission(
    model: Any,
    points: Float[Tensor, "item dim"],
    clusters: Int[Tensor, " item"],
    features: Float[Tensor, "item ..."],
    generator: torch.Generator,
    steps: int,
) -> None:
    """Maximize ``mean_i log p(o_i | x_i, z_i)`` over the emission's networks."""
    parameters = model.emission.network_parameters()
    if not parameters or not isinstance(model, SupportsFeaturesOf):
        return
    points, features = points.to(parameters[0].dtype), features.to(parameters[0].dtype)

    def loss(rows: Tensor) -> Tensor:
        return -model.features_of(points[rows], clusters[rows]).log_prob(features[rows]).mean()

    descend_on_rows(loss, parameters, len(points), generator, steps)


def _has_classifier(recognition: nn.Module) -> bool:
    """Whether Gaussian potentials come with a network for z, which is not linear."""
    return isinstance(recognition, GaussianRecognition) and recognition.classifier is not None
