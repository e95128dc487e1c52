"""A start at a classifier that was taught some items' clusters, and taught itself the others'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.inference.views import View
from pyro_crowdclust.minibatches.devices import on_device
from pyro_crowdclust.minibatches.making import item_batches
from pyro_crowdclust.networks.recognition_networks import AmortizedRecognition, GaussianRecognition
from pyro_crowdclust.protocols import part_of
from pyro_crowdclust.starts.descent import descend, features_for, learn_patterns, random_views
from pyro_crowdclust.starts.mixture_start import MixtureStart
from pyro_crowdclust.starts.principal_components import PrincipalComponentStart

# Items that the guide sees at once after training.
_ROWS = 1024
# The probability above which the most probable cluster of an item is taught.
_SURE = 0.9


class Teacher(Protocol):
    """What ``TaughtStart`` takes: ``Teaching``, ``RidgeTeaching``."""

    def teach(
        self,
        network: nn.Module,
        data: CrowdData,
        clusters: Int[Tensor, " item"],
        generator: torch.Generator,
    ) -> None:
        """Train a network to find the clusters that are known, -1 elsewhere, in place."""


@dataclass(frozen=True)
class Teaching:
    """How a classifier is taught, by views of items whose cluster is known and of others.

        - mean_i log p(c_i | v(o_i)) - mean_j sum_k q_jk log p(k | v(o_j)),   q_jk ~ p'(k | o_j)^h

    over items i of known cluster c_i and others j, where p' is the running mean of the network
    over its steps (Tarvainen and Valpola 2017), v a random view, and h above 1 makes what it finds
    surer (Berthelot et al. 2019). What remains is the running mean. Steps are those of AdamW, at a
    rate that rises and falls once.

    Attributes
    ----------
    view
        How views are made, e.g. ``RandomPhoto``.
    steps
        How many.
    batch_size
        Items of known cluster in a step, and others.
    alone
        Share of the steps before the others are looked at.
    sharpness
        h.
    learning_rate, weight_decay
        Of AdamW.
    memory
        Of the running mean: it moves by ``1 - memory`` in a step, by more in the first ones.
    """

    view: View
    steps: int = 1000
    batch_size: int = 96
    alone: float = 0.4
    sharpness: float = 2.0
    learning_rate: float = 3e-3
    weight_decay: float = 0.05
    memory: float = 0.998

    def teach(
        self,
        network: nn.Module,
        data: CrowdData,
        clusters: Int[Tensor, " item"],
        generator: torch.Generator,
    ) -> None:
        """Train a network from features to logits, in place.

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
        learn_patterns(network, data, generator)
        known, others = (which.nonzero().squeeze(1) for which in (clusters >= 0, clusters < 0))

        def loss(step: int, average: nn.Module) -> Tensor:
            drawn = self._some(known, generator)
            views = random_views(self.view, features_for(network, data, drawn), generator)
            logits = network(views)
            told = nn.functional.cross_entropy(logits, clusters[drawn].to(logits.device))
            if not len(others) or step < self.alone * self.steps:
                return told
            features = features_for(network, data, self._some(others, generator))
            with torch.no_grad():
                found = (self.sharpness * average(features).log_softmax(-1)).softmax(-1)
            logits = network(random_views(self.view, features, generator))
            return told + nn.functional.cross_entropy(logits, found)

        descend(
            network,
            loss,
            steps=self.steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            memory=self.memory,
            rising=0.3,
        )

    def _some(self, items: Int[Tensor, " item"], generator: torch.Generator) -> Tensor:
        return items[torch.randint(len(items), (self.batch_size,), generator=generator)]


@dataclass(frozen=True, eq=False)
class TaughtStart:
    """Start at a classifier q(z | o) that was taught the clusters of some items.

    For clusters that people see and pixels do not show: those that ``cluster(None, pairs)`` finds
    from the answers alone, say, or known ones; or for those that another fit found, to teach them
    to a classifier that is better at it. Networks, latents and emission start as ``start``
    has them; the classifier of an ``AmortizedGuide`` or a ``StructuredGuide`` is taught, by views
    of all items or by ridge regression, and the mixture moves to where it then finds them.

    Attributes
    ----------
    clusters
        The cluster of every item of the data, from 0; -1 where it is not known. None: those that
        ``KnownClusters`` knows. Or probabilities of all clusters; what is less than 90 % sure
        counts as not known.
    teaching
        How.
    start
        The start of everything else.
    device
        Where the classifier is taught, e.g. ``"cuda"``; None for the processor.

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
            latent, assignments = _found(guide, data, self.device)
        observed = model.components.observe(latent, False)
        guide.start_at(MixtureStart(observed, assignments, 1.0, data.known))

    def _clusters(self, data: CrowdData, num_clusters: int) -> Int[Tensor, " item"]:
        if self.clusters is None and data.known is None:
            raise ValueError(
                "there is nothing to teach: pass clusters, or data with known classes of some items"
            )
        clusters = torch.as_tensor(data.known if self.clusters is None else self.clusters)
        if clusters.dim() == 2:
            found = clusters.max(1)
            clusters = torch.where(found.values > _SURE, found.indices, -1)
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
def _found(
    guide: Any, data: CrowdData, device: str | None
) -> tuple[Float[Tensor, "item dim"], Float[Tensor, "item cluster"]]:
    """Where all items are by their features, and in which clusters."""
    dtype = next(guide.recognition.parameters()).dtype
    found = [guide.infer(batch.to(device, dtype)) for batch in item_batches(data, _ROWS)]
    latent = torch.cat([part.latent.mean for part in found])
    return latent.cpu(), torch.cat([part.assignments for part in found]).cpu().double()
