"""The mapping of a network's outputs to clusters in q(z | o), which changes by merges."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


def check_outputs(found: int, num_clusters: int) -> None:
    """Raise a ``ValueError`` unless a classifier returns a logit for every cluster."""
    if found != num_clusters:
        raise ValueError(
            f"the classifier returns {found} logits, but the model has {num_clusters} clusters: "
            "make that its output size"
        )


class AssignmentOutputs(nn.Module):
    """``q(z=k | o) prop. to sum_{j: c_j = k} q_j(o)``: outputs j of a network, of clusters c_j.

    At first every output is a cluster. Outputs of an emptied cluster have none and are left out.

    Parameters
    ----------
    num_clusters
        K, the number of clusters and of outputs.

    Examples
    --------
    >>> import torch
    >>> outputs = AssignmentOutputs(3)
    >>> outputs.merge(kept=0, emptied=2)
    >>> outputs(torch.tensor([[0.5, 0.2, 0.3]]).log()).exp()
    tensor([[0.8000, 0.2000, 0.0000]])
    """

    clusters: Tensor
    cluster_of_output: Tensor

    def __init__(self, num_clusters: int) -> None:
        super().__init__()
        clusters = torch.arange(num_clusters)
        self.register_buffer("clusters", clusters)
        self.register_buffer("cluster_of_output", clusters.clone())
        self._changed: tuple[tuple[int, int], bool] | None = None

    def forward(
        self, log_probabilities: Float[Tensor, "item output"]
    ) -> Float[Tensor, "item cluster"]:
        """log q(z | o), from the log-probabilities of the outputs.

        Raises
        ------
        ValueError
            If there are more or fewer outputs than clusters.
        """
        check_outputs(log_probabilities.shape[-1], len(self.clusters))
        if not self._is_changed():
            return log_probabilities
        members = torch.eq(self.cluster_of_output, self.clusters.unsqueeze(-1))
        # -inf would give 0 * -inf for an empty cluster; this is a probability of 1e-130.
        nothing = torch.full_like(log_probabilities[0], -300.0)
        of_clusters = torch.where(members, log_probabilities.unsqueeze(-2), nothing).logsumexp(-1)
        return of_clusters.log_softmax(-1)

    def _is_changed(self) -> bool:
        """Whether the outputs differ from the clusters; read from the device only after changes."""
        codes = self.cluster_of_output
        state = codes.data_ptr(), codes._version
        if self._changed is None or self._changed[0] != state:
            self._changed = state, not torch.equal(codes, self.clusters)
        return self._changed[1]

    def merge(self, kept: int, emptied: int) -> None:
        """Assign the outputs of one cluster to another."""
        self.cluster_of_output[self.cluster_of_output == emptied] = kept

    def empty(self, cluster: int) -> None:
        """Assign the outputs of a cluster to none."""
        self.cluster_of_output[self.cluster_of_output == cluster] = -1
