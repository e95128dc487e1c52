"""Supervision by labels that name the clusters themselves: q(z) of a labelled item is one-hot."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.supervision.supervision import Supervision


@described
class KnownClusters(Supervision):
    """``q(z_n = c) = 1`` for an item with the known label c; Echraibi et al. 2020, section 4.1.

    The first clusters are the labels, in the order of ``CrowdData.known_ids``; further clusters are
    for classes without labelled items. Where one label may have several clusters, use
    ``ClassTable``.

    Parameters
    ----------
    num_clusters
        T.

    Examples
    --------
    >>> import torch
    >>> KnownClusters(3).of_label(torch.tensor([1, -1]))
    tensor([[False,  True, False],
            [ True,  True,  True]])
    """

    names_clusters = True
    num_clusters: int

    def __init__(self, num_clusters: int) -> None:
        super().__init__()
        self.num_clusters = num_clusters

    def check(self, data: CrowdData) -> None:
        if data.known is None:
            raise ValueError("the data have no known labels: pass CrowdData(..., known=labels)")
        if data.num_known_classes > self.num_clusters:
            raise ValueError(
                f"the labels have {data.num_known_classes} classes, but there are only "
                f"{self.num_clusters} clusters, one for each class: use at least "
                f"{data.num_known_classes} clusters"
            )
        if data.links is not None:
            raise ValueError(
                "known clusters do not use must-links and cannot-links: use HiddenMarkovField, or "
                "drop the links"
            )

    def of_label(self, known: Int[Tensor, " item"]) -> Bool[Tensor, "item cluster"]:
        """Which clusters an item with this label can be in."""
        clusters = torch.arange(self.num_clusters, device=known.device)
        return (known.unsqueeze(-1) == clusters) | (known < 0).unsqueeze(-1)

    def local_log_weights(
        self,
        log_weights: Float[Tensor, "... cluster"],
        statistics: Mapping[str, Tensor],
        batch: Batch,
    ) -> Float[Tensor, "*item cluster"]:
        if batch.known is None:
            return log_weights
        possible = self.of_label(batch.known)
        return torch.where(possible, log_weights, -torch.inf)

    def start_partition(
        self,
        partition: Float[Tensor, "item cluster"],
        points: Float[Tensor, "item dim"],
        known: Int[Tensor, " item"] | None,
    ) -> Float[Tensor, "item cluster"]:
        """Give every item the label whose labelled items are nearest on average."""
        if known is None or bool((known < 0).all()):
            return partition
        labels = known[known >= 0].unique()
        means = torch.stack([points[known == label].mean(0) for label in labels])
        nearest = labels[torch.cdist(points, means).argmin(1)]
        return nn.functional.one_hot(torch.where(known >= 0, known, nearest), self.num_clusters).to(
            partition.dtype
        )

    def groups(self, batch: Batch) -> Int[Tensor, " item"] | None:
        return None if batch.known is None else batch.known + 1

    def grouped_log_weights(
        self, log_weights: Float[Tensor, " cluster"], statistics: Mapping[str, Tensor]
    ) -> Float[Tensor, "group cluster"]:
        # Group 0 contains the items without a label.
        labels = torch.arange(-1, self.num_clusters, device=log_weights.device)
        return torch.where(self.of_label(labels), log_weights, -torch.inf)
