"""A start at a classifier q(z | o) that was trained on the clusters of some items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.minibatches.devices import on_device
from pyro_crowdclust.minibatches.making import item_batches
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.networks.recognition_networks import AmortizedRecognition, GaussianRecognition
from pyro_crowdclust.protocols import part_of
from pyro_crowdclust.starts.descent import ROWS_PER_PASS
from pyro_crowdclust.starts.mixture_start import MixtureStart
from pyro_crowdclust.starts.principal_components import PrincipalComponentStart

# Probability above which the most probable cluster of an item counts as known.
_MIN_PROBABILITY = 0.9


class Teacher(Protocol):
    """Interface of ``TaughtStart``: ``ViewTeaching``, ``RidgeTeaching``, ``Distillation``."""

    def teach(
        self,
        network: nn.Module,
        data: CrowdData,
        clusters: Int[Tensor, " item"],
        generator: torch.Generator,
    ) -> None:
        """Train a network to find the clusters that are known, in place.

        Parameters
        ----------
        network
            The classifier.
        data
            Features of all items.
        clusters
            Cluster of every item, -1 where it is not known.
        generator
            Source of all randomness.
        """


@dataclass(frozen=True, eq=False)
class TaughtStart:
    """Start at a classifier q(z | o) that is trained on the clusters of some items.

    For clusters that people see but distances between pixels do not show: known ones, or those that
    ``cluster(None, pairs)`` finds from the answers alone; or for clusters of another fit, to train
    a better classifier on them. Networks, latents and emission start as ``start`` sets them; then
    the classifier of an ``AmortizedGuide`` or a ``StructuredGuide`` is trained, by views of all
    items or by ridge regression, and the mixture starts at its predictions.

    Attributes
    ----------
    clusters
        The cluster of every item of the data, from 0; -1 where it is not known. Or probabilities of
        all clusters; items whose largest one is below 90 % count as not known. None: the known
        labels of ``KnownClusters``.
    teaching
        How the classifier is trained.
    start
        The start of everything else.
    device
        Device of the training, e.g. ``"cuda"``; None for the CPU.

    Raises
    ------
    ValueError
        When called, if the clusters do not fit the data and the model, none is known, or the guide
        has no classifier of its own.
    """

    clusters: Int[Tensor, " item"] | Float[Tensor, "item cluster"] | None
    teaching: Teacher
    start: Callable[..., None] = field(
        default_factory=lambda: PrincipalComponentStart(partition_steps=0)
    )
    device: str | None = None

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start ``model`` and ``guide``."""
        classifier = _classifier(guide)
        if classifier is None:
            raise ValueError(
                "the guide has no classifier q(z | o) to teach: use an AmortizedGuide, or "
                "AnswersStart() with others"
            )
        clusters = self._clusters(data, model.num_clusters)
        self.start(model, guide, data, generator)
        if self.clusters is not None:
            sizes = torch.bincount(clusters[clusters >= 0], minlength=model.num_clusters).double()
            place = model.weights.preferred_order(sizes).argsort()
            clusters = torch.where(clusters >= 0, place[clusters], -1)
        with on_device(self.device, model, guide):
            self.teaching.teach(classifier, data, clusters, generator)
            latent, assignments = _predictions(guide, data, self.device)
        observed = model.components.observe(latent, False)
        guide.start_at(MixtureStart(observed, assignments, 1.0, data.known))

    def _clusters(self, data: CrowdData, num_clusters: int) -> Int[Tensor, " item"]:
        if self.clusters is None and data.known is None:
            raise ValueError(
                "there are no clusters to teach: pass clusters, or data with known classes of some "
                "items"
            )
        clusters = torch.as_tensor(data.known if self.clusters is None else self.clusters)
        if clusters.dim() == 2:
            found = clusters.max(1)
            clusters = torch.where(found.values > _MIN_PROBABILITY, found.indices, -1)
        num_items = data.num_items
        if clusters.shape != (num_items,):
            raise ValueError(
                f"clusters have the shape {list(clusters.shape)}, but must be [{num_items}]: one "
                "for every item, -1 where it is not known"
            )
        if not 0 <= int(clusters.max()) < num_clusters:
            raise ValueError(
                f"clusters are numbered up to {int(clusters.max())}, but must be known of some "
                f"items and below {num_clusters}, the number of clusters of the model"
            )
        return clusters


def _classifier(guide: Any) -> nn.Module | None:
    """The network behind q(z | o), if the guide has one."""
    amortized = part_of(guide, "recognition", AmortizedRecognition)
    recognition = amortized or part_of(guide, "recognition", GaussianRecognition)
    if recognition is not None:
        return recognition.classifier
    return part_of(guide, "classifier", nn.Module)


@torch.no_grad()
def _predictions(
    guide: Any, data: CrowdData, device: str | None
) -> tuple[Float[Tensor, "item dim"], Float[Tensor, "item cluster"]]:
    """Latents and clusters of all items by their features."""
    dtype = next(guide.recognition.parameters()).dtype
    with evaluating(guide):
        batches = item_batches(data, ROWS_PER_PASS)
        found = [guide.infer(batch.to(device, dtype)) for batch in batches]
    latent = torch.cat([part.latent.mean for part in found])
    return latent.cpu(), torch.cat([part.assignments for part in found]).cpu().double()
