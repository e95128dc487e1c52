"""The bound of the deep latent mixture, written out item by item and cluster by cluster in NumPy.

Echraibi et al. 2020, the unnumbered bound under eq. 2, with conjugate priors of the top layer. The
noise of every draw is the same known number, so that draws are ``m + NOISE s``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.stats
from scipy.special import digamma
from torch import Tensor

from pyro_crowdclust.families import NormalInverseWishart
from pyro_crowdclust.guides import StructuredGuide
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import DirichletWeights
from pyro_crowdclust.networks.cluster_recognition import INITIAL_SCALE, RANGE_OF_SCALE

from .looped_twin import BetaTwin, DirichletTwin, NormalInverseWishartTwin, kl_divergence

NOISE = 0.7


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def weights_of(prior_or_posterior: object) -> list[DirichletTwin]:
    standard = prior_or_posterior.family.standard(prior_or_posterior.natural_parameters)
    if hasattr(standard, "concentration"):
        return [DirichletTwin(_numpy(standard.concentration))]
    return [BetaTwin(row) for row in np.stack([_numpy(part) for part in standard], -1)]


def components_of(prior_or_posterior: object) -> list[list[NormalInverseWishartTwin]]:
    """One Gaussian in d dimensions for every cluster, or d in one dimension."""
    family, eta = prior_or_posterior.family, prior_or_posterior.natural_parameters
    standard = [_numpy(part) for part in family.standard(eta)]
    if isinstance(family, NormalInverseWishart):
        return [[NormalInverseWishartTwin(*row)] for row in zip(*standard, strict=True)]
    location, kappa, shape, rate = standard
    return [
        [
            NormalInverseWishartTwin(
                location[k, [j]], kappa[k, j], 2 * rate[k, [[j]]], 2 * shape[k, j]
            )
            for j in range(family.dim)
        ]
        for k in range(len(location))
    ]


class DeepTwin:
    """Everything that is read of a guide, once."""

    def __init__(self, guide: StructuredGuide, batch: Batch, network: Callable) -> None:
        self.guide, self.model, self.batch, self.network = guide, guide.model, batch, network
        self.weights = weights_of(guide.posteriors["weights"])
        self.components = components_of(guide.posteriors["components"])

    def log_weights(self) -> np.ndarray:
        """E[log pi_k]."""
        if isinstance(self.model.weights, DirichletWeights):
            return self.weights[0].mean()
        total, left = [], 0.0
        for stick in self.weights:
            log_stick, log_rest = stick.mean()
            total.append(left + log_stick)
            left += log_rest
        return np.array([*total, left])

    def latents(self, n: int, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Mean and deviations of q(h | o_n, k), the top layer first."""
        recognition = self.guide.recognition
        seen = recognition.trunk(self.batch.features[n].flatten())
        outputs = _numpy(self.network(recognition.head, seen, k))
        means, raw = np.split(outputs, 2)
        width = math.log(RANGE_OF_SCALE)
        scales = INITIAL_SCALE * np.exp(width * np.tanh(raw / width))
        ends = np.cumsum(recognition.dims)[:-1]
        return list(zip(np.split(means, ends), np.split(scales, ends), strict=True))

    def log_ratio(self, n: int, k: int) -> float:
        """E[log p(o, h | k) - log q(h | o, k)]."""
        layers = self.latents(n, k)
        total = sum((np.log(scale) + 0.5 + math.log(2 * math.pi) / 2).sum() for _, scale in layers)
        (mean, scale), *below = layers
        total += self._expected_top(k, mean, scale)
        draw = mean + NOISE * scale
        for layer, (mean, scale) in zip(self.model.layers, below, strict=True):
            center = _numpy(self.network(layer.network, self.batch.features.new_tensor(draw), k))
            spread = np.exp(_numpy(layer.log_scale)[k]) + 1e-3
            density = scipy.stats.norm(center, spread).logpdf(mean)
            total += (density - scale**2 / (2 * spread**2)).sum()
            draw = mean + NOISE * scale
        emission, observed = self.model.emission, _numpy(self.batch.features[n]).ravel()
        out = _numpy(self.network(emission.network, self.batch.features.new_tensor(draw), k))
        if hasattr(emission, "log_scale"):
            spread = np.exp(_numpy(emission.log_scale)[k]) + 1e-3
            return total + scipy.stats.norm(out, spread).logpdf(observed).sum()
        return total + (observed * out - np.logaddexp(0, out)).sum()

    def _expected_top(self, k: int, mean: np.ndarray, scale: np.ndarray) -> float:
        """E_{q(theta)} E_{q(h)}[log N(h | m_k, Sigma_k)]: quadratic forms and digammas."""
        total, start = 0.0, 0
        for twin in self.components[k]:
            part = slice(start, start + twin.dim)
            start += twin.dim
            precision = twin.nu * np.linalg.inv(twin.scale)
            away = mean[part] - twin.location
            psi = sum(digamma((twin.nu - i) / 2) for i in range(twin.dim))
            log_determinant = psi + twin.dim * math.log(2) - np.linalg.slogdet(twin.scale)[1]
            squares = away @ precision @ away + twin.dim / twin.kappa
            squares += (np.diag(precision) * scale[part] ** 2).sum()
            total += (log_determinant - twin.dim * math.log(2 * math.pi) - squares) / 2
        return total

    def log_ratios(self) -> np.ndarray:
        clusters = range(self.model.num_clusters)
        return np.array(
            [[self.log_ratio(n, k) for k in clusters] for n in range(len(self.batch.items))]
        )

    def elbo(self, assignments: np.ndarray) -> float:
        """The bound without the terms of workers."""
        log_weights, ratios, total = self.log_weights(), self.log_ratios(), 0.0
        for n, weight in enumerate(self.batch.item_weight.tolist()):
            for k, q in enumerate(assignments[n]):
                if q > 0:
                    total += weight * q * (log_weights[k] + ratios[n, k] - math.log(q))
        pairs = list(zip(self.weights, weights_of(self.model.weights.prior), strict=True))
        for ours, theirs in zip(
            self.components, components_of(self.model.components.prior), strict=True
        ):
            pairs += zip(ours, theirs, strict=True)
        return total - sum(kl_divergence(q, p) for q, p in pairs)
