"""The default start, without labels: PCA for the networks, k-means for the mixture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.emissions import has_gaps
from pyro_crowdclust.minibatches.item_order import random_items
from pyro_crowdclust.networks.recognition_networks import GaussianRecognition
from pyro_crowdclust.protocols import SupportsStartAt, SupportsStartAtPartition, part_of
from pyro_crowdclust.starts.imputation import median_imputed
from pyro_crowdclust.starts.k_means import k_means
from pyro_crowdclust.starts.mixture_start import MixtureStart
from pyro_crowdclust.starts.networks import reset_networks
from pyro_crowdclust.starts.projection import principal_projection


@dataclass(frozen=True)
class PrincipalComponentStart:
    """PCA for the networks' skip paths, k-means on the PCA latents for the mixture.

    The recognition network starts as the projection on the first d principal components, the
    emission as its inverse, and the mixture at a k-means partition of the projections (k-means++
    seeds). Without networks (``Identity`` emission) only the partition is computed, in the
    components' ``coordinates``: roots of counts, one-hot codes, and so on.

    Attributes
    ----------
    latent_scale
        Standard deviation of the first latent dimension. The prior of a component expects
        covariances near the identity, so this determines how many components fit next to each
        other.
    sample_size
        Maximum number of items used.
    reset_networks
        Draw the weights of the library's own networks again, so that the seed of ``fit`` determines
        them; False keeps them, e.g. if they have been trained before.
    partition_steps
        Number of steps on 256 items in which q(z given o), if it is a network, learns the
        partition, as does any recognition network if a ``partition`` is given; fewer for large
        networks.
    partition
        ``(features, K, generator) -> assignments``, e.g. a ``NeighborPartition``, to replace
        k-means on the latents.
    """

    latent_scale: float = 2.0
    sample_size: int = 10_000
    reset_networks: bool = True
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
        features = data.rows(chosen).flatten(1).double()
        recognition: Any = part_of(guide, "recognition", nn.Module)
        if recognition is None:
            points = model.emission.latent(features)
            near = model.components.coordinates(median_imputed(points))
            partition = self._partition_of(model, median_imputed(features), near, generator)
        else:
            seen = features
            if isinstance(recognition, GaussianRecognition):
                seen = recognition.standardized(features)
            weight, bias, inverse, mean = principal_projection(
                seen, model.components.dim, self.latent_scale
            )
            recognition.start_at_linear(weight, bias)
            model.emission.start_at_linear(inverse, mean)
            points = seen @ weight.mT + bias
            partition = self._partition_of(model, features, points, generator)
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


def _has_classifier(recognition: nn.Module) -> bool:
    """Whether Gaussian potentials come with a network for z, which is not linear."""
    return isinstance(recognition, GaussianRecognition) and recognition.classifier is not None
