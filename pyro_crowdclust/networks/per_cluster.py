"""Networks that depend on the cluster: one with a code per cluster, or one network per cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.files.parts import described


def _check_sizes(sizes: Sequence[int]) -> None:
    if len(sizes) < 3:
        raise ValueError(
            f"sizes is {tuple(sizes)}, but must have an input size, at least one hidden size and "
            "an output size"
        )


def _set_first(target: Tensor, value: Tensor) -> None:
    """Write a value to the first entries of every axis, and zero to the others."""
    target.zero_()
    target[tuple(slice(size) for size in value.shape)] = value.to(target)


@described
class CodedMLP(nn.Module):
    """``f_k(x) = A x + b + MLP(W x + c_k)``: one network with a learned code c_k per cluster.

    The last layer of the MLP starts at zero, so that the network starts as ``A x + b``.

    Parameters
    ----------
    sizes
        Input size, hidden sizes (at least one), output size.
    num_clusters
        K, the number of clusters.

    Examples
    --------
    >>> import torch
    >>> network = CodedMLP((2, 8, 3), num_clusters=4)
    >>> rows = Rows.of(torch.eye(4))
    >>> network(torch.zeros(4, 2), rows).shape
    torch.Size([4, 3])
    """

    def __init__(self, sizes: Sequence[int], num_clusters: int) -> None:
        super().__init__()
        _check_sizes(sizes)
        self.num_outputs, self.num_clusters = sizes[-1], num_clusters
        self.first = nn.Linear(sizes[0], sizes[1])
        self.code = nn.Parameter(torch.empty(num_clusters, sizes[1]))
        layers = [nn.Linear(*ends) for ends in pairwise(sizes[1:-1])]
        self.hidden = nn.ModuleList(layers)
        self.output = nn.Linear(sizes[-2], sizes[-1], bias=False)
        self.skip = nn.Linear(sizes[0], sizes[-1])
        self.draw_parameters()

    def draw_parameters(self) -> None:
        """Draw weights and codes; the last layer begins at zero."""
        for layer in (self.first, *self.hidden):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        nn.init.normal_(self.code)
        nn.init.zeros_(self.output.weight)
        self.skip.reset_parameters()

    def set_linear(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"]
    ) -> None:
        """Set the linear path to ``A x + b`` of the first inputs, for the first outputs.

        If A has more columns than there are inputs, the last columns are ignored.
        """
        with torch.no_grad():
            _set_first(self.skip.weight, weight[:, : self.skip.in_features])
            _set_first(self.skip.bias, bias)

    def forward(self, x: Float[Tensor, "row input"], rows: Rows) -> Float[Tensor, "row output"]:
        """``f_k(x)`` of every row, with k from ``rows``."""
        hidden = torch.relu(self.first(x) + self.code.index_select(0, rows.cluster))
        for layer in self.hidden:
            hidden = torch.relu(layer(hidden))
        return torch.addmm(self.skip(x), hidden, self.output.weight.mT)


@described
class ClusterMLP(nn.Module):
    """``f_k(x) = A_k x + b_k + MLP_k(x)``: a separate network for every cluster.

    All are evaluated by one batched product per layer. The last layer of every MLP starts at zero.

    Parameters
    ----------
    sizes
        Input size, hidden sizes (at least one), output size.
    num_clusters
        K, the number of clusters.

    Examples
    --------
    >>> import torch
    >>> network = ClusterMLP((2, 8, 3), num_clusters=4)
    >>> network(torch.zeros(5, 2), Rows.of(torch.eye(4)[[0, 0, 3, 1, 3]])).shape
    torch.Size([5, 3])
    """

    def __init__(self, sizes: Sequence[int], num_clusters: int) -> None:
        super().__init__()
        _check_sizes(sizes)
        self.num_outputs, self.num_clusters = sizes[-1], num_clusters

        def table(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(num_clusters, *shape))

        self.weights = nn.ParameterList([table(*ends) for ends in pairwise(sizes[:-1])])
        self.biases = nn.ParameterList([table(1, size) for size in sizes[1:-1]])
        self.output = table(sizes[-2], sizes[-1])
        self.skip_weight = table(sizes[0], sizes[-1])
        self.skip_bias = table(1, sizes[-1])
        self.draw_parameters()

    def draw_parameters(self) -> None:
        """Draw the weights of every cluster; the last layers begin at zero."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            nn.init.normal_(weight, std=math.sqrt(2 / weight.shape[1]))
            nn.init.zeros_(bias)
        nn.init.zeros_(self.output)
        bound = 1 / math.sqrt(self.skip_weight.shape[1])
        nn.init.uniform_(self.skip_weight, -bound, bound)
        nn.init.zeros_(self.skip_bias)

    def set_linear(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"]
    ) -> None:
        """Set the linear paths to ``A x + b`` of the first inputs, for the first outputs.

        If A has more columns than there are inputs, the last columns are ignored.
        """
        first = weight[:, : self.skip_weight.shape[1]]
        with torch.no_grad():
            for skip, value in ((self.skip_weight, first.mT), (self.skip_bias, bias[None])):
                _set_first(skip, value.expand(len(skip), *value.shape))

    def forward(self, x: Float[Tensor, "row input"], rows: Rows) -> Float[Tensor, "row output"]:
        """``f_k(x)`` of every row, with k from ``rows``."""
        hidden = x = rows.by_cluster(x)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            hidden = torch.relu(torch.baddbmm(bias, hidden, weight))
        linear = torch.baddbmm(self.skip_bias, x, self.skip_weight)
        return rows.by_row(torch.baddbmm(linear, hidden, self.output))
