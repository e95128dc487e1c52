"""The bound of BayesSCDC and its natural gradients, written out item by item in NumPy.

Luo et al. 2018, eq. 19-29 as printed in appendix A.5, with the constants of 2 pi that the paper
leaves out. Nothing here is fast, and nothing but standard parameters is read from the library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, multigammaln
from torch import Tensor

from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import Batch


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


@dataclass(frozen=True)
class DirichletTwin:
    """Appendix A.1-A.3 for pi."""

    alpha: np.ndarray

    def natural(self) -> np.ndarray:
        return self.alpha - 1

    def mean(self) -> np.ndarray:
        return digamma(self.alpha) - digamma(self.alpha.sum())

    def log_normalizer(self) -> float:
        return gammaln(self.alpha).sum() - gammaln(self.alpha.sum())


class BetaTwin(DirichletTwin):
    """A Beta is the Dirichlet of two."""


@dataclass(frozen=True)
class NormalInverseWishartTwin:
    """Appendix A.1-A.3 for (mu, Sigma)."""

    location: np.ndarray
    kappa: float
    scale: np.ndarray
    nu: float

    @property
    def dim(self) -> int:
        return len(self.location)

    def natural(self) -> np.ndarray:
        second = self.scale + self.kappa * np.outer(self.location, self.location)
        last = [self.kappa, self.nu + self.dim + 2]
        return np.concatenate([self.kappa * self.location, second.ravel(), last])

    def mean(self) -> np.ndarray:
        precision = self.nu * np.linalg.inv(self.scale)
        psi = sum(digamma((self.nu + 1 - i) / 2) for i in range(1, self.dim + 1))
        third = -(self.dim / self.kappa + self.location @ precision @ self.location) / 2
        fourth = (psi + self.dim * math.log(2) - np.linalg.slogdet(self.scale)[1]) / 2
        return np.concatenate([precision @ self.location, -precision.ravel() / 2, [third, fourth]])

    def log_normalizer(self) -> float:
        determinant = np.linalg.slogdet(self.scale)[1]
        return (
            self.nu / 2 * (self.dim * math.log(2) - determinant)
            + multigammaln(self.nu / 2, self.dim)
            - self.dim / 2 * math.log(self.kappa)
            + self.dim / 2 * math.log(2 * math.pi)
        )


def kl_divergence(q: Any, p: Any) -> float:
    """Eq. 23-25."""
    inner = (q.natural() - p.natural()) @ q.mean()
    return inner - (q.log_normalizer() - p.log_normalizer())


@dataclass(frozen=True)
class Globals:
    """One distribution per global site, prior or posterior."""

    weights: DirichletTwin
    components: list[NormalInverseWishartTwin]
    sensitivity: list[BetaTwin]
    specificity: list[BetaTwin]

    @staticmethod
    def read(parameters: dict[str, Any]) -> Globals:
        """From the named tuples of standard parameters."""
        rates = {
            name: [
                BetaTwin(row) for row in np.stack([_numpy(part) for part in parameters[name]], 1)
            ]
            for name in ("sensitivity", "specificity")
        }
        components = zip(*(_numpy(part) for part in parameters["components"]), strict=True)
        return Globals(
            DirichletTwin(_numpy(parameters["weights"].concentration)),
            [NormalInverseWishartTwin(*row) for row in components],
            **rates,
        )

    def rows(self) -> dict[str, list]:
        return {
            "weights": [self.weights],
            "components": self.components,
            "sensitivity": self.sensitivity,
            "specificity": self.specificity,
        }


@dataclass(frozen=True)
class LoopedTwin:
    """The bound at given local posteriors.

    Attributes
    ----------
    prior, posterior
        p(Theta) and q(Theta).
    assignments
        q(z).
    mean, covariance
        Of q(x); covariance is None where x is observed.
    batch
        Answers and weights.
    """

    prior: Globals
    posterior: Globals
    assignments: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray | None
    batch: Batch

    @staticmethod
    def read(guide: MessagePassingGuide, batch: Batch) -> LoopedTwin:
        prior = {
            name: prior.family.standard(prior.natural_parameters)
            for name, prior in guide.model.priors().items()
        }
        posterior = {name: q.standard() for name, q in guide.posteriors.items()}
        local = guide.infer(batch)
        mean, covariance = _numpy(batch.features), None
        if local.latent is not None:
            mean = _numpy(local.latent.mean)
            covariance = _numpy(local.latent.root @ local.latent.root.mT)
        read = Globals.read
        q = _numpy(local.assignments)
        return LoopedTwin(read(prior), read(posterior), q, mean, covariance, batch)

    def _second_moment(self, i: int) -> np.ndarray:
        outer = np.outer(self.mean[i], self.mean[i])
        return outer if self.covariance is None else outer + self.covariance[i]

    def _statistics(self, i: int) -> np.ndarray:
        """E[(t(x), 1)]."""
        return np.concatenate([self.mean[i], self._second_moment(i).ravel(), [1.0, 1.0]])

    def _pairs(self) -> list[tuple[int, int, int, float, float]]:
        batch = self.batch
        columns = (batch.left, batch.right, batch.worker, batch.label, batch.pair_weight)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def answers(self) -> float:
        """Eq. 20."""
        total = 0.0
        for i, j, m, label, weight in self._pairs():
            log_alpha, log_not_alpha = self.posterior.sensitivity[m].mean()
            log_beta, log_not_beta = self.posterior.specificity[m].mean()
            w = log_not_alpha - log_beta
            w += label * (log_alpha - log_not_alpha + log_beta - log_not_beta)
            agreement = sum(
                self.assignments[i, k] * self.assignments[j, k]
                for k in range(self.assignments.shape[1])
            )
            total += weight * (w * agreement + label * (log_not_beta - log_beta) + log_beta)
        return total

    def local_divergence(self) -> float:
        """Eq. 21-22; where x is observed, minus its expected log-density takes the place of KL."""
        log_weights = self.posterior.weights.mean()
        dim = self.mean.shape[1]
        total = 0.0
        for i, weight in enumerate(self.batch.item_weight.tolist()):
            divergence = 0.0
            if self.covariance is not None:
                entropy = np.linalg.slogdet(2 * math.pi * math.e * self.covariance[i])[1] / 2
                divergence -= entropy
            for k, component in enumerate(self.posterior.components):
                q = self.assignments[i, k]
                log_density = component.mean() @ self._statistics(i)
                log_density -= dim / 2 * math.log(2 * math.pi)
                divergence += q * (math.log(q) - log_weights[k] - log_density)
            total += weight * divergence
        return total

    def global_divergence(self) -> float:
        """Eq. 23-25."""
        posterior, prior = self.posterior.rows(), self.prior.rows()
        return sum(
            kl_divergence(q, p)
            for name in posterior
            for q, p in zip(posterior[name], prior[name], strict=True)
        )

    def elbo(self, log_emission: np.ndarray | None = None) -> float:
        """Eq. 19; ``log_emission`` is log p(o_i | x_i) at the draws of x."""
        features = 0.0
        if log_emission is not None:
            features = float(log_emission @ self.batch.item_weight.numpy())
        return features + self.answers() - self.local_divergence() - self.global_divergence()

    def natural_gradients(self) -> dict[str, np.ndarray]:
        """Eq. 26-29, of the bound."""
        posterior, prior = self.posterior.rows(), self.prior.rows()
        gradient = {
            name: np.array(
                [
                    p.natural() - q.natural()
                    for q, p in zip(posterior[name], prior[name], strict=True)
                ]
            )
            for name in posterior
        }
        for i, weight in enumerate(self.batch.item_weight.tolist()):
            for k, q in enumerate(self.assignments[i]):
                gradient["weights"][0, k] += weight * q
                gradient["components"][k] += weight * q * self._statistics(i)
        for i, j, m, label, weight in self._pairs():
            agreement = self.assignments[i] @ self.assignments[j]
            answer = np.array([label, 1 - label])
            gradient["sensitivity"][m] += weight * agreement * answer
            gradient["specificity"][m] += weight * (1 - agreement) * answer[::-1]
        return {**gradient, "weights": gradient["weights"][0]}
