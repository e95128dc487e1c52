"""Networks with a linear skip path, and such a multilayer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.files.parts import described


class SkipNetwork(nn.Module):
    """``f(x) = A x + b + B h(x)``, where the last layer B starts at zero.

    The network therefore starts as the linear map ``A x + b``, which a data-dependent start sets to
    PCA. With the usual random initial networks, the posterior of the latents collapses and one
    cluster takes all items.

    Parameters
    ----------
    hidden
        The network h.
    output
        The last layer B, without a bias.
    skip
        The linear map ``A x + b``.
    """

    def __init__(
        self, hidden: nn.Module, output: nn.Linear | nn.Conv2d | nn.ConvTranspose2d, skip: nn.Linear
    ) -> None:
        super().__init__()
        self.hidden, self.output, self.skip = hidden, output, skip
        self.draw_parameters()

    def draw_parameters(self) -> None:
        nn.init.zeros_(self.output.weight)
        self.skip.reset_parameters()

    def set_linear(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"]
    ) -> None:
        """Set the linear path to ``A x + b``, for the first rows of the output."""
        with torch.no_grad():
            self.skip.weight[: len(weight)] = weight.to(self.skip.weight)
            self.skip.bias[: len(bias)] = bias.to(self.skip.bias)

    def residual(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        """``B h(x)``."""
        return self.output(self.hidden(x))

    def forward(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        return self.skip(x) + self.residual(x)


@described
class SkipMLP(SkipNetwork):
    """``f(x) = A x + b + MLP(x)``, where the last layer of the MLP starts at zero.

    Parameters
    ----------
    sizes
        Input size, hidden sizes, output size, e.g. ``(784, 500, 500, 8)``.

    Examples
    --------
    >>> import torch
    >>> network = SkipMLP((3, 5, 2))
    >>> x = torch.randn(4, 3)
    >>> torch.equal(network(x), network.skip(x))
    True
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        if len(sizes) < 2:
            raise ValueError(
                f"sizes is {tuple(sizes)}, but must have at least an input and an output size"
            )
        layers: list[nn.Module] = []
        for size_in, size_out in pairwise(sizes[:-1]):
            layers += [nn.Linear(size_in, size_out), nn.ReLU()]
        output = nn.Linear(sizes[-2], sizes[-1], bias=False)
        super().__init__(nn.Sequential(*layers), output, nn.Linear(sizes[0], sizes[-1]))

    def draw_parameters(self) -> None:
        """Draw the hidden layers and the skip; the last layer begins at zero."""
        for layer in self.hidden.children():
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
        super().draw_parameters()
