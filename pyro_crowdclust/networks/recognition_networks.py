"""Recognition networks, from features to Gaussian potentials, or to q(z | o) and q(x | z, o)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.errors import first_line, place_in_users_code
from pyro_crowdclust.families import IndependentMoments, Moments
from pyro_crowdclust.families.potential import GaussianPotential
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.networks.assignment_outputs import check_outputs
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.networks.perceptrons import SkipNetwork
from pyro_crowdclust.networks.row_steps import descend_on_rows
from pyro_crowdclust.protocols import SupportsDrawParameters

# Precision of a recognition potential at a raw output of zero.
_INITIAL_PRECISION = 20.0
# Standard deviation of q(x | z, o) before training.
_INITIAL_SCALE = 0.2


def learn_partition(
    logits: Callable[[Tensor], Tensor],
    parameters: Iterable[nn.Parameter],
    features: Float[Tensor, "item feature"],
    responsibilities: Float[Tensor, "item cluster"],
    generator: torch.Generator,
    steps: int,
) -> None:
    """Minimize ``- mean_i sum_k r_ik log q(z_i = k | o_i)`` by steps of Adam on 256 items each."""

    def loss(rows: Tensor) -> Tensor:
        found = logits(features[rows])
        check_outputs(found.shape[-1], responsibilities.shape[-1])
        return nn.functional.cross_entropy(found, responsibilities[rows].to(found.dtype))

    descend_on_rows(loss, parameters, len(features), generator, steps)


def _check_features(found: int, needed: int) -> None:
    if found != needed:
        raise ValueError(
            f"the recognition network takes {found} features per item, but the data have {needed}: "
            f"build it with input size {needed}"
        )


def _dtype_of(network: nn.Module) -> torch.dtype:
    """The precision of a network's parameters."""
    return next((one.dtype for one in network.parameters()), torch.get_default_dtype())


@torch.no_grad()
def _num_outputs(network: nn.Module, num_features: int) -> int:
    """The number of outputs of a network of unknown sizes."""
    parameter = next(network.parameters(), torch.zeros(0))
    zeros = parameter.new_zeros(2, num_features)
    try:
        with evaluating(network):
            return network(zeros).shape[-1]
    except RuntimeError as error:
        own = place_in_users_code(traceback.walk_tb(error.__traceback__))
        remedy = (
            f"Build it with input size {num_features}" if own is None else f"The error is in {own}"
        )
        raise ValueError(
            f"the recognition network cannot run on {num_features} features per item, which the "
            f"data have: {first_line(error)}. {remedy}"
        ) from error


def _check_latent(found: int, needed: int) -> None:
    if found != needed:
        raise ValueError(
            f"the recognition network is for latents of dimension {found}, but the model's "
            f"components have dimension {needed}: give both the same"
        )


@described
class GaussianRecognition(nn.Module):
    """Recognition potentials ``r(o) = (lambda m, -diag(lambda) / 2)`` of Luo et al. 2018, eq. 9.

    The network returns a mean m(o) and a raw precision; ``lambda = softplus(raw + offset)``. The
    offset makes the initial precision large, so that at first features dominate the prior.

    Parameters
    ----------
    network
        Maps features to ``2 dim`` numbers; a ``SkipNetwork`` starts at PCA, other networks are
        trained to.
    dim
        Dimension d of the latent.
    location, scale
        For every feature: the network's input is ``(o - location) / scale``. None: it is o.
    classifier
        Maps features, without location and scale, to a logit for every cluster: q(z | o), which
        then does not depend on the latent. It is combined with the answers.

    Raises
    ------
    ValueError
        If the network is not an ``nn.Module``.
    """

    def __init__(
        self,
        network: nn.Module,
        dim: int,
        location: Float[Tensor, " feature"] | None = None,
        scale: Float[Tensor, " feature"] | None = None,
        classifier: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(network, nn.Module):
            raise ValueError(
                f"network is a {type(network).__name__}, but must be an nn.Module: fit would not "
                "train the networks that a function calls"
            )
        self.location: Tensor | None
        self.scale: Tensor | None
        self.register_buffer("location", location)
        self.register_buffer("scale", scale)
        self.network = network
        self.classifier = classifier
        self.dim = dim
        offset = torch.tensor(_INITIAL_PRECISION, dtype=torch.float64).expm1().log()
        self.register_buffer("offset", offset.float())

    def check_sizes(self, num_features: int, dim: int) -> None:
        """Raise a ``ValueError`` unless the sizes fit the features and the model's latents.

        A network that is not a ``SkipNetwork`` is run on two rows of zeros.
        """
        _check_latent(self.dim, dim)
        if isinstance(self.network, SkipNetwork):
            _check_features(self.network.skip.in_features, num_features)
            returned = self.network.skip.out_features
        else:
            returned = _num_outputs(self.network, num_features)
        if returned != 2 * dim:
            raise ValueError(
                f"the recognition network returns {returned} numbers, but mean and precision "
                f"in {dim} dimensions need {2 * dim}: make that its output size"
            )

    def forward(self, features: Float[Tensor, "item ..."]) -> GaussianPotential:
        """The potential of every item."""
        seen = self.standardized(features.flatten(1))
        raw_mean, raw_precision = self.network(seen).chunk(2, -1)
        precision = nn.functional.softplus(raw_precision + self.offset)
        return GaussianPotential(precision * raw_mean, precision)

    def log_assignments(
        self, features: Float[Tensor, "item ..."]
    ) -> Float[Tensor, "item cluster"] | None:
        """``log q(z | o)`` of the classifier; None without one."""
        if self.classifier is None:
            return None
        return self.classifier(features.flatten(1)).log_softmax(-1)

    def set_classifier(self, network: nn.Module) -> None:
        """Replace the classifier q(z | o) by another network.

        Raises
        ------
        ValueError
            If there is no classifier, since the guide then does not use one.
        """
        if self.classifier is None:
            raise ValueError(
                "the recognition network has no classifier q(z | o) that could be replaced: build "
                "it with a classifier, and the guide with this recognition network"
            )
        self.classifier = network

    def standardized(self, features: Float[Tensor, "item feature"]) -> Tensor:
        """The input of the network: features minus location, divided by scale."""
        if self.location is None or self.scale is None:
            return features
        return (features - self.location.to(features)) / self.scale.to(features)

    def start_at_linear(self, weight: Tensor, bias: Tensor) -> bool:
        """Start a ``SkipNetwork`` with mean ``A o + b`` and constant precision.

        Here o are the standardized features. False if the network is another one, which
        ``start_at_points`` can train.
        """
        if not isinstance(self.network, SkipNetwork):
            return False
        skip = self.network.skip
        with torch.no_grad():
            skip.weight.zero_()
            skip.bias.zero_()
        self.network.set_linear(weight, bias)
        return True

    def start_at_points(
        self,
        features: Float[Tensor, "item feature"],
        points: Float[Tensor, "item dim"],
        generator: torch.Generator,
        steps: int = 300,
    ) -> None:
        """Train the network to return given means, and the initial precision.

        It minimizes the mean square of ``(m(o_i) - x_i, raw precision of o_i)``.

        Parameters
        ----------
        features
            o, standardized.
        points
            x.
        generator
            Source of the items of every step.
        steps
            Number of steps.
        """
        dtype = _dtype_of(self.network)
        features, wanted = features.to(dtype), nn.functional.pad(points, (0, self.dim)).to(dtype)

        def loss(rows: Tensor) -> Tensor:
            return (self.network(features[rows]) - wanted[rows]).square().mean()

        descend_on_rows(loss, self.network.parameters(), len(features), generator, steps)


@described
class AmortizedRecognition(nn.Module):
    """``q(z | o) = Cat(net(o))`` and ``q(x | z, o) = N(net(z, o), diag)``; Luo et al., section 2.3.

    Both share a trunk; the assignment enters the second branch through one more hidden layer, so
    that the trunk runs once per item for all K values of z.

    Parameters
    ----------
    sizes
        Input size and hidden sizes, e.g. ``(784, 500, 500)``; the last is also the size of the
        layer with z as an input.
    dim
        Dimension d of the latent.
    num_clusters
        K, the number of clusters.
    trunk
        Network from ``sizes[0]`` to ``sizes[-1]`` numbers that replaces the perceptron.
    classifier
        Network from features to K logits of q(z | o), which then does not share the trunk.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        dim: int,
        num_clusters: int,
        trunk: nn.Module | None = None,
        classifier: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if trunk is None:
            layers: list[nn.Module] = []
            for size_in, size_out in pairwise(sizes):
                layers += [nn.Linear(size_in, size_out), nn.ReLU()]
            trunk = nn.Sequential(*layers)
        self.trunk = trunk
        self.shares_trunk = classifier is None
        self.num_clusters = num_clusters
        self.logits = classifier or nn.Linear(sizes[-1], num_clusters)
        self.hidden = nn.Linear(sizes[-1], sizes[-1])
        self.assignment = nn.Linear(num_clusters, sizes[-1], bias=False)
        self.moments = nn.Linear(sizes[-1], 2 * dim)
        self.skip = nn.Linear(sizes[0], dim)
        self.draw_parameters()

    def draw_parameters(self) -> None:
        """Draw all layers; q(x | o) begins at the linear path, with the initial scale."""
        of_trunk = self.trunk if isinstance(self.trunk, nn.Sequential) else [self.trunk]
        own = self.logits, self.hidden, self.assignment, self.moments, self.skip
        for layer in [*of_trunk, *own]:
            if isinstance(layer, SupportsDrawParameters):
                layer.draw_parameters()
            elif isinstance(layer, nn.Linear):
                layer.reset_parameters()
        nn.init.zeros_(self.moments.weight)
        nn.init.zeros_(self.moments.bias)

    def check_sizes(self, num_features: int, dim: int) -> None:
        """Raise a ``ValueError`` unless the sizes fit the features and the model."""
        _check_features(self.skip.in_features, num_features)
        _check_latent(self.skip.out_features, dim)

    def check_clusters(self, num_clusters: int) -> None:
        """Raise a ``ValueError`` unless the model has as many clusters."""
        if self.num_clusters != num_clusters:
            raise ValueError(
                f"the recognition network has {self.num_clusters} clusters, but the model has "
                f"{num_clusters}: give both the same number"
            )

    def start_at_linear(self, weight: Tensor, bias: Tensor) -> None:
        """Start with mean ``A o + b`` for every z."""
        with torch.no_grad():
            self.skip.weight.copy_(weight)
            self.skip.bias.copy_(bias)

    def start_at_partition(
        self,
        features: Float[Tensor, "item feature"],
        responsibilities: Float[Tensor, "item cluster"],
        generator: torch.Generator,
        steps: int = 300,
    ) -> None:
        """Train q(z | o) to find a given partition, so that training begins with all clusters."""
        features, classifier = features.to(self.skip.weight.dtype), self.classifier
        parameters = classifier.parameters()
        learn_partition(classifier, parameters, features, responsibilities, generator, steps)

    @property
    def classifier(self) -> nn.Module:
        """The network from features to the logits of q(z | o)."""
        return nn.Sequential(self.trunk, self.logits) if self.shares_trunk else self.logits

    def set_classifier(self, network: nn.Module) -> None:
        """Replace q(z | o) by another network from features to logits, without the trunk."""
        self.logits, self.shares_trunk = network, False

    def assignment_logits(
        self, features: Float[Tensor, "item ..."]
    ) -> tuple[Float[Tensor, "item cluster"], Float[Tensor, "item hidden"]]:
        """Logits of q(z | o), and the trunk's output, an argument of ``latent``."""
        trunk = self.trunk(features.flatten(1))
        seen = trunk if self.shares_trunk else features.flatten(1)
        return self.logits(seen), trunk

    def latent(
        self,
        features: Float[Tensor, "item ..."],
        trunk: Float[Tensor, "item hidden"],
        assignments: Float[Tensor, "*value item_or_1 cluster"],
    ) -> Moments:
        """q(x | z, o) for one-hot z (all values at once if z is enumerated)."""
        hidden = self.hidden(trunk) + self.assignment(assignments.to(trunk.dtype))
        return self._latent(hidden, self.skip(features.flatten(1)))

    def latent_of_rows(
        self,
        features: Float[Tensor, "item ..."],
        trunk: Float[Tensor, "item hidden"],
        rows: Rows,
    ) -> Moments:
        """q(x | z, o) of every row."""
        of_items = self.hidden(trunk), self.skip(features.flatten(1))
        hidden, linear = (part.index_select(0, rows.item) for part in of_items)
        of_clusters = self.assignment.weight.mT
        return self._latent(hidden + of_clusters.index_select(0, rows.cluster), linear)

    def _latent(self, hidden: Tensor, linear: Tensor) -> Moments:
        shift, raw_scale = self.moments(torch.relu(hidden)).double().chunk(2, -1)
        scale = _INITIAL_SCALE * raw_scale.exp()
        return IndependentMoments(linear.double() + shift, scale).full()
