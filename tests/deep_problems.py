"""Small deep mixtures with their guides, and data for them."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.stats
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from torch import nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import BernoulliEmission, NormalEmission
from pyro_crowdclust.guides import StructuredGuide
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import DiagonalGaussianComponents, GaussianComponents
from pyro_crowdclust.models import DeepLatentMixture
from pyro_crowdclust.networks import ClusterMLP, ClusterRecognition, SkipMLP
from pyro_crowdclust.networks.cluster_recognition import INITIAL_SCALE, RANGE_OF_SCALE
from pyro_crowdclust.results import Fitted

from .mixture_parts import CLUSTERS, WEIGHTS
from .networks.test_per_cluster import NETWORKS
from .oracles import random_natural

DIM, FEATURES = 2, 4
COMPONENTS = {
    "full": lambda: GaussianComponents(CLUSTERS, DIM, location=torch.tensor([0.3, -0.5])),
    "diagonal": lambda: DiagonalGaussianComponents(CLUSTERS, DIM, location=0.2, degrees=3.0),
}
EMISSIONS = {
    "bernoulli": lambda network: BernoulliEmission(network),
    "normal": lambda network: NormalEmission(network, FEATURES, num_clusters=CLUSTERS),
}
ELBO = Trace_ELBO(max_plate_nesting=1)


def make_guide(
    weights: str = "stick-breaking",
    components: str = "diagonal",
    emission: str = "normal",
    network: str = "coded",
    num_layers: int = 1,
    annotators: TwoCoin | None = None,
    supervision: nn.Module | None = None,
    **options: object,
) -> StructuredGuide:
    make, dims = NETWORKS[network], [DIM, 3][:num_layers]
    layers = [NormalEmission(make((DIM, 5, 3), CLUSTERS), 3, num_clusters=CLUSTERS)]
    model = DeepLatentMixture(
        WEIGHTS[weights](),
        COMPONENTS[components](),
        EMISSIONS[emission](make((dims[-1], 6, FEATURES), CLUSTERS)),
        layers[: num_layers - 1],
        annotators,
        supervision,
    )
    head = make((5, 6, 2 * sum(dims)), CLUSTERS)
    recognition = ClusterRecognition(SkipMLP((FEATURES, 6, 5)), head, dims)
    return StructuredGuide(model, recognition, **options)


def randomize(guide: StructuredGuide) -> StructuredGuide:
    for posterior in guide.posteriors.values():
        plate = posterior.natural_parameters.shape[:-1]
        posterior.set_natural_parameters(random_natural(posterior.family, *plate))
    natural = {id(p) for p in guide.posteriors.parameters()}
    for parameter in guide.parameters():
        if id(parameter) not in natural:
            nn.init.normal_(parameter, std=0.4)
    return guide


def q_of(guide: StructuredGuide, batch: Batch) -> np.ndarray:
    return poutine.trace(guide).get_trace(batch).nodes["z"]["value"].detach().numpy()


def elbo(guide: StructuredGuide, batch: Batch) -> torch.Tensor:
    return -ELBO.differentiable_loss(guide.model, guide, batch)


def linear_gaussian(supervision: nn.Module | None = None, **options: object) -> StructuredGuide:
    """``h ~ N(m_k, v_k)``, ``o ~ N(a_k h + b_k, s_k^2)`` with its exact posterior as q(h | o, k).

    The components are as good as known: their posteriors are those of 10^10 items.
    """
    components = DiagonalGaussianComponents(CLUSTERS, 1, degrees=3.0)
    emission = NormalEmission(
        ClusterMLP((1, 2, FEATURES), CLUSTERS), FEATURES, num_clusters=CLUSTERS
    )
    model = DeepLatentMixture(WEIGHTS["dirichlet"](), components, emission, supervision=supervision)
    head = ClusterMLP((FEATURES, 2, 2), CLUSTERS)
    recognition = ClusterRecognition(SkipMLP((FEATURES, 2, FEATURES)), head, [1])
    guide = StructuredGuide(model, recognition, threshold=0.0, **options)
    guide.posteriors["weights"].set_natural_parameters(
        random_natural(guide.posteriors["weights"].family)
    )
    mean, variance = torch.randn(CLUSTERS, 1), 0.5 + torch.rand(CLUSTERS, 1)
    many = torch.full_like(mean, 1e10)
    eta = components.family.natural(mean, many, many / 2, many / 2 * variance)
    guide.posteriors["components"].set_natural_parameters(eta)
    slope, offset = torch.randn(CLUSTERS, 1, FEATURES), torch.randn(CLUSTERS, 1, FEATURES)
    with torch.no_grad():
        network = emission.network
        network.skip_weight.copy_(slope)
        network.skip_bias.copy_(offset)
        emission.log_scale.copy_((0.5 + torch.rand(CLUSTERS, FEATURES)).log())
        noise = (emission.log_scale.exp() + 1e-3).square()
        # The trunk shows the features as they are; p(h | o, k) is Gaussian with this precision.
        recognition.start_at_linear(torch.eye(FEATURES), torch.zeros(FEATURES))
        slope, offset = slope[:, 0], offset[:, 0]
        precision = (slope.square() / noise).sum(1) + 1 / variance[:, 0]
        gain = slope / noise / precision[:, None]
        constant = mean[:, 0] / variance[:, 0] / precision - (gain * offset).sum(1)
        head.skip_weight.zero_()
        head.skip_weight[:, :, 0] = gain
        head.skip_bias[:, 0, 0] = constant
        width = np.log(RANGE_OF_SCALE)
        head.skip_bias[:, 0, 1] = width * torch.atanh(
            (-precision.log() / 2 - np.log(INITIAL_SCALE)) / width
        )
    guide.exact = mean, variance, slope, offset, noise.detach()
    return guide


def exact_log_likelihoods(guide: StructuredGuide, features: torch.Tensor) -> np.ndarray:
    """log p(o | k), each a Gaussian of the features."""
    columns = []
    for mean, variance, slope, offset, noise in zip(*guide.exact, strict=True):
        center = slope * mean + offset
        covariance = variance * torch.outer(slope, slope) + noise.diag()
        columns.append(scipy.stats.multivariate_normal(center, covariance).logpdf(features))
    return np.stack(columns, 1)


def two_moons_of_four(count: int = 240, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """Four clusters on curves in four dimensions."""
    rng = np.random.default_rng(seed)
    cluster, along = rng.integers(4, size=count), rng.uniform(-1, 1, count)
    centers = 2.5 * np.array([[1, 1, 0, 0], [-1, 1, 0, 0], [1, -1, 0, 0], [-1, -1, 0, 0]])
    curve = np.stack([along, along**2, np.sin(2 * along), along], 1)
    x = centers[cluster] + curve + 0.15 * rng.normal(size=(count, 4))
    return torch.tensor(x), cluster


FAST = partial(torch.optim.Adam, lr=5e-3)


def fitted(guide: StructuredGuide, data: CrowdData, **options: object) -> Fitted:
    settings = {"optim": FAST, "dtype": torch.float64, "progress": False} | options
    return fit(guide.model, guide, data, **settings)
