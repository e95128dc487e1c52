"""The recognition network of latents that depend on the cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.families import IndependentMoments
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.networks.per_cluster import ClusterMLP, CodedMLP
from pyro_crowdclust.networks.perceptrons import SkipNetwork

# s_0, the standard deviation of q before training.
INITIAL_SCALE = 0.2
# e^w: scales stay between s_0 e^-w and s_0 e^w; otherwise a label term could make wrong clusters
# improbable by scales that explode or vanish.
RANGE_OF_SCALE = 10.0


@described
class ClusterRecognition(nn.Module):
    """``q(h | o, z=k) = prod_l N(h^(l) | mu_k^(l)(o), diag sigma_k^(l)(o)^2)``.

    In Echraibi et al. 2020, section 3.1, every layer has a separate network. Here
    ``(mu, r)_k = head_k(trunk(o))`` and ``log sigma = log s_0 + w tanh(r / w)``: the trunk
    runs once per item, the head once per row. Scales stay within a factor of ten of s_0. At the
    start of training all means are the linear map of the start, for every cluster.

    Parameters
    ----------
    trunk
        Network with a linear skip path from features to at least as many numbers as the top layer
        has dimensions: ``SkipMLP``, ``ConvolutionalEncoder`` and the like.
    head
        Network that depends on the cluster, from the trunk's output to mean and scale of every
        layer, ``2 sum(dims)`` numbers.
    dims
        Dimension of every stochastic layer, the top layer h^(L) first.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.networks import SkipMLP
    >>> recognition = ClusterRecognition(SkipMLP((6, 9, 5)), CodedMLP((5, 8, 4), 3), [2])
    >>> rows = Rows.of(torch.eye(3))
    >>> (top,) = recognition.latents(recognition.trunk(torch.zeros(3, 6)), rows)
    >>> top.mean.shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        trunk: SkipNetwork,
        head: CodedMLP | ClusterMLP,
        dims: Sequence[int],
    ) -> None:
        super().__init__()
        if not isinstance(trunk, SkipNetwork):
            raise ValueError(
                f"the trunk is a {type(trunk).__name__}, but must have a linear skip path, for the "
                "start: use SkipMLP, ConvolutionalEncoder or your own subclass of SkipNetwork"
            )
        self.trunk, self.head = trunk, head
        self.dims = tuple(dims)
        given = head.num_outputs
        if given != 2 * sum(self.dims):
            raise ValueError(
                f"the head returns {given} numbers, but mean and scale in {sum(self.dims)} "
                f"dimensions need {2 * sum(self.dims)}: make that its output size"
            )
        if trunk.skip.out_features < self.dims[0]:
            raise ValueError(
                f"the trunk returns {trunk.skip.out_features} numbers, but the top layer has "
                f"{self.dims[0]} dimensions: let it return at least as many"
            )
        self.draw_parameters()

    def draw_parameters(self) -> None:
        """Means are the first outputs of the trunk, scales s_0, for all clusters."""
        top, width = self.dims[0], self.trunk.skip.out_features
        identity = [torch.eye(dim, top) for dim in self.dims]
        weight = torch.cat([*identity, torch.zeros(sum(self.dims), top)])
        self.head.set_linear(nn.functional.pad(weight, (0, width - top)), torch.zeros(len(weight)))

    def check_sizes(self, num_features: int, dim: int) -> None:
        """Raise a ``ValueError`` unless the sizes fit the features and the model's top layer."""
        if self.trunk.skip.in_features != num_features:
            raise ValueError(
                f"the recognition network takes {self.trunk.skip.in_features} features per item, "
                f"but the data have {num_features}: build it with input size {num_features}"
            )
        if self.dims[0] != dim:
            raise ValueError(
                f"the recognition network's top layer has {self.dims[0]} dimensions, but the "
                f"model's components have {dim}: give both the same"
            )

    def start_at_linear(self, weight: Tensor, bias: Tensor) -> None:
        """Start with means ``A o + b`` for every cluster."""
        with torch.no_grad():
            self.trunk.skip.weight.zero_()
            self.trunk.skip.bias.zero_()
        self.trunk.set_linear(weight, bias)

    def latents(self, seen: Float[Tensor, "item width"], rows: Rows) -> list[IndependentMoments]:
        """q(h^(l) | o, z) of every row, the top layer first, from the trunk's outputs."""
        outputs = self.head(seen.index_select(0, rows.item), rows)
        means, raw = outputs.chunk(2, -1)
        width = math.log(RANGE_OF_SCALE)
        scales = INITIAL_SCALE * (width * torch.tanh(raw / width)).exp()
        parts = zip(means.split(self.dims, -1), scales.split(self.dims, -1), strict=True)
        return [IndependentMoments(mean, scale) for mean, scale in parts]
