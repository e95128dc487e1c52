"""Combination of several classifiers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.files.parts import described
from pyro_crowdclust.protocols import SupportsDrawParameters


@described
class OpinionPool(nn.Module):
    """Logits ``mean_m log p_m(k | o)`` of several classifiers: a logarithmic opinion pool.

    Classifiers with different errors are together better than the best one (Genest and Zidek 1986).

    Parameters
    ----------
    members
        Networks from features to logits of the same clusters.

    Examples
    --------
    >>> import torch
    >>> pool = OpinionPool([torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)])
    >>> pool(torch.rand(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def draw_parameters(self) -> None:
        """Draw the parameters of every member that supports it."""
        for member in self.members:
            if isinstance(member, SupportsDrawParameters):
                member.draw_parameters()

    def forward(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item output"]:
        """The mean of the log probabilities of all members."""
        return torch.stack([member(features).log_softmax(-1) for member in self.members]).mean(0)
