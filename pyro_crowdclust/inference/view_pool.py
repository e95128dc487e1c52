"""``log sum_v p(k | v(o))``: a classifier averaged over several views of an item."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.inference.views import View


class ViewPool(nn.Module):
    """Logits ``log sum_v p(k | v(o))`` of one classifier, over a fixed set of views.

    For prediction after training: as q(z | o) it also gives a bound, but the cost is multiplied by
    the number of views. If the errors in different views are independent, the average is more
    accurate.

    Parameters
    ----------
    network
        A network from features to logits.
    view
        How views are made.
    amounts
        The random numbers of every view, between -1 and 1; all zero for the unchanged item.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.inference import RandomAffine
    >>> view = RandomAffine((1, 3, 4))
    >>> amounts = 2 * torch.rand(8, view.num_random) - 1
    >>> ViewPool(torch.nn.Linear(12, 2), view, amounts)(torch.rand(5, 12)).shape
    torch.Size([5, 2])
    """

    amounts: Tensor

    def __init__(
        self, network: nn.Module, view: View, amounts: Float[Tensor, "view random"]
    ) -> None:
        super().__init__()
        self.network, self.view = network, view
        self.register_buffer("amounts", amounts.clone())

    def forward(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item output"]:
        """``log sum_v p(k | v(o))``."""
        log_probabilities = [
            self.network(self.view(features, amounts.expand(len(features), -1))).log_softmax(-1)
            for amounts in self.amounts
        ]
        return torch.stack(log_probabilities).logsumexp(0)
