"""Data-dependent starts: where training begins decides where it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.minibatches.item_order import random_items
from pyro_crowdclust.networks.perceptrons import GaussianRecognition
from pyro_crowdclust.protocols import (
    SupportsDrawParameters,
    SupportsStart,
    SupportsStartAt,
    SupportsStartAtPartition,
    part_of,
)
from pyro_crowdclust.starts.k_means import k_means


@dataclass(frozen=True)
class MixtureStart:
    """A partition of some latents, as a start for the posterior of a mixture.

    Attributes
    ----------
    latent
        Values of the site ``x`` without spread, as ``Components.observe`` returns them; of data
        with gaps the rows, of which some entries may be NaN.
    responsibilities
        Soft or hard assignments, ``[item, K]``.
    multiplicity
        How many items of the data every item here stands for.
    known
        Known labels of the items, -1 where unknown, or None.
    """

    latent: Float[Tensor, "item observation"]
    responsibilities: Float[Tensor, "item cluster"]
    multiplicity: float
    known: Int[Tensor, " item"] | None = None

    def statistics(self, model: Any) -> dict[str, Tensor]:
        """Expected counts of the sites ``weights`` and ``components``: ``sum_n r_nk u(.)``."""
        counts = self.responsibilities.sum(0)
        labels = model.supervision.expected_counts(self.responsibilities, self.known)
        return {
            "weights": model.weights.count_statistics(self.multiplicity * counts),
            "components": self.multiplicity * self._of_components(model.components),
            **{name: self.multiplicity * table for name, table in labels.items()},
        }

    def _of_components(self, components: Any) -> Float[Tensor, "cluster size"]:
        """``sum_n r_nk E[u(x_n)]``; of gaps under the components that what was seen gives."""
        # Of data with gaps these are rows of features, also where these rows have none.
        are_rows = self.latent.shape[1] != components.family.observation_size
        if not (are_rows or self.latent.isnan().any()):
            observed = components.family.observation_statistics(self.latent)
            return self.responsibilities.mT @ observed
        prior = components.prior.natural_parameters
        counts = torch.zeros_like(prior)
        # First under the prior, then under the posterior that this leads to.
        for _ in range(2):
            mean = components.family.expected_statistics(prior + counts)
            with torch.enable_grad():
                mean = mean.detach().requires_grad_()
                scores = components.family.log_marginals(mean, self.latent)
                (counts,) = torch.autograd.grad((self.responsibilities * scores).sum(), mean)
        return counts


def without_gaps(features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
    """Features whose gaps hold the median of their column, for distances between items.

    It is a value that somebody has: a code, a count, yes or no.
    """
    missing = features.isnan()
    if not missing.any():
        return features
    median = features.nanmedian(0).values.nan_to_num()
    return torch.where(missing, median, features)


@dataclass(frozen=True)
class PrincipalComponentStart:
    """PCA for the networks' skip paths, k-means on the PCA latents for the mixture.

    The recognition network starts as the projection on the first d principal components, the
    emission as its inverse, and the mixture at a k-means partition of the projections (k-means++
    seeds). Without networks (``Identity`` emission) only the partition is made, in the coordinates
    that the components name for it: roots of counts, one-hot codes, and so on.

    Attributes
    ----------
    latent_scale
        Standard deviation of the first latent dimension. The prior of a component expects
        covariances near the identity, so this says how many components fit side by side.
    sample_size
        At most this many items are looked at.
    reset_networks
        Draw the weights of the library's own networks anew, so that the seed of ``fit`` decides
        them; False keeps them, e.g. if they have been trained before.
    partition_steps
        Steps on 256 items in which q(z given o) learns the partition, where it is a network, and
        any recognition network a ``partition``; fewer for networks that are large.
    partition
        ``(features, K, generator) -> assignments``, e.g. a ``NeighborPartition``, in place of
        k-means on the latents.
    """

    latent_scale: float = 2.0
    sample_size: int = 10_000
    reset_networks: bool = True
    partition_steps: int = 300
    partition: Callable[[Tensor, int, torch.Generator], Tensor] | None = None

    @torch.no_grad()
    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start ``model`` and ``guide``; those without a ``start_at`` verb stay as they are."""
        if not isinstance(guide, SupportsStartAt) or data.features is None:
            return
        if self.reset_networks:
            _reset_networks(model, guide)
        chosen = random_items(data, self.sample_size, generator)
        features = data.rows(chosen).flatten(1).double()
        recognition: Any = part_of(guide, "recognition", nn.Module)
        if recognition is None:
            points = model.emission.latent(features)
            near = model.components.coordinates(without_gaps(points))
            partition = self._partition_of(model, without_gaps(features), near, generator)
        else:
            seen = features
            if isinstance(recognition, GaussianRecognition):
                seen = recognition.standardized(features)
            weight, bias, inverse, mean = _principal_components(
                seen, model.components.dim, self.latent_scale
            )
            recognition.start_at_linear(weight, bias)
            model.emission.start_at_linear(inverse, mean)
            points = seen @ weight.mT + bias
            partition = self._partition_of(model, features, points, generator)
        observed = model.components.observe(points, data.has_gaps)
        known = None if data.known is None else data.known[chosen]
        partition = model.supervision.start_partition(partition, without_gaps(points), known)
        guide.start_at(MixtureStart(observed, partition, data.num_items / len(points), known))
        # A linear recognition network knows a k-means partition of its own latents.
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
        """The partition of items with these latents, in the order that suits the weights."""
        if self.partition is None:
            return self._partition(model, points, generator)
        with torch.enable_grad():
            partition = self.partition(features, model.num_clusters, generator).double()
        return partition[:, model.weights.preferred_order(partition.sum(0))]

    @staticmethod
    def _partition(model: Any, points: Tensor, generator: torch.Generator) -> Tensor:
        """A k-means partition, in the order that suits the prior of the weights."""
        found = k_means(points, model.num_clusters, generator)
        labels = torch.as_tensor(found.labels_, dtype=torch.int64)
        partition = nn.functional.one_hot(labels, model.num_clusters).double()
        return partition[:, model.weights.preferred_order(partition.sum(0))]


def _has_classifier(recognition: nn.Module) -> bool:
    """Whether Gaussian potentials come with a network of z, which is not linear."""
    return isinstance(recognition, GaussianRecognition) and recognition.classifier is not None


def default_start(model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
    """The guide's own ``start(data, generator)`` if it has one, else the principal components."""
    if isinstance(guide, SupportsStart):
        guide.start(data, generator)
    else:
        PrincipalComponentStart()(model, guide, data, generator)


def _drawn_networks(*roots: Any) -> list[Any]:
    """Networks in these modules that start anew with every fit, parts before the whole."""
    modules = [m for root in roots if isinstance(root, nn.Module) for m in root.modules()]
    parts_first = dict.fromkeys(reversed(modules))
    return [module for module in parts_first if isinstance(module, SupportsDrawParameters)]


def cast_networks(model: Any, guide: Any, dtype: torch.dtype) -> None:
    """Give networks that a fit draws the precision of the features that they will see."""
    for network in _drawn_networks(model, guide):
        network.to(dtype)


def _reset_networks(model: Any, guide: Any) -> None:
    # A whole has the last word about the weights of its parts.
    for network in _drawn_networks(model, guide):
        network.draw_parameters()


def _principal_components(
    features: Float[Tensor, "item feature"], dim: int, latent_scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Projection ``A o + b`` on d components, its inverse ``W x + mean``; first latent has sd s."""
    mean = features.mean(0)
    centered = features - mean
    if len(centered) < centered.shape[1]:
        # The matrix of the features would be large and singular.
        vectors = torch.linalg.svd(centered, full_matrices=False).Vh.mT[:, :dim]
    else:
        _, vectors = torch.linalg.eigh(centered.mT @ centered)
        vectors = vectors.flip(-1)[:, :dim]
    # The sign of an eigenvector is arbitrary; fix it, so that every machine starts alike.
    largest = vectors.abs().argmax(0)
    vectors = vectors * vectors.gather(0, largest[None]).sign()
    along = centered @ vectors[:, 0]
    spread = along.std() if len(along) > 1 else along.new_zeros(())
    # Features that are constant have no direction to stretch.
    scale = latent_scale / torch.where(spread > 1e-12, spread, latent_scale)
    missing = dim - vectors.shape[1]
    vectors = nn.functional.pad(vectors, (0, max(missing, 0)))
    weight = scale * vectors.mT
    return weight, -weight @ mean, vectors / scale, mean
