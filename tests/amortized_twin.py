"""The bound of an amortized guide written out: sums over all clusters, with NumPy and scipy."""

from __future__ import annotations

import math

import numpy as np
import scipy.stats
import torch
from pyro.infer import TraceEnum_ELBO
from torch import Tensor, nn

from pyro_crowdclust.emissions import BernoulliEmission, Emission, NormalEmission
from pyro_crowdclust.families import GaussianParameters
from pyro_crowdclust.guides import AmortizedGuide
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.networks import AmortizedRecognition, SkipMLP

from .oracles import log_density, random_covariance
from .problems import DIM, NUM_CLUSTERS, NUM_FEATURES, NUM_WORKERS, some_batch, some_model

NUM_ITEMS = 5


# At the mean of z no site is enumerated.
STOCK = TraceEnum_ELBO(max_plate_nesting=1, strict_enumeration_warning=False)


def normal_emission() -> Emission:
    return NormalEmission(SkipMLP((DIM, 6, NUM_FEATURES)), NUM_FEATURES)


def bernoulli_emission() -> Emission:
    return BernoulliEmission(SkipMLP((DIM, 6, NUM_FEATURES)))


def problem(
    make_emission=normal_emission, scale: float = 0.4, **options: object
) -> tuple[AmortizedGuide, Batch]:
    """Points and networks anywhere; binary features, so that either emission takes them."""
    model = some_model(make_emission())
    recognition = AmortizedRecognition((NUM_FEATURES, 6, 5), DIM, NUM_CLUSTERS)
    guide = AmortizedGuide(model, recognition, **options)
    for parameter in [*recognition.parameters(), *model.emission.parameters()]:
        nn.init.normal_(parameter, std=0.4)
    with torch.no_grad():  # the standard deviation is 0.2 exp(raw)
        recognition.moments.bias[DIM:] += math.log(scale / 0.2)
    guide.points["weights"].set_value(torch.randn(NUM_CLUSTERS).softmax(-1))
    means = torch.randn(NUM_CLUSTERS, DIM)
    covariances = random_covariance(NUM_CLUSTERS, dim=DIM)
    guide.points["components"].set_value(GaussianParameters(means, covariances))
    for name in ("sensitivity", "specificity"):
        guide.points[name].set_value(0.2 + 0.7 * torch.rand(NUM_WORKERS))
    return guide, some_batch(torch.rand(NUM_ITEMS, NUM_FEATURES).round())


def elbo(guide: AmortizedGuide, batch: Batch) -> float:
    return -STOCK.loss(guide.model, guide, batch)


def numpy_of(value: object) -> np.ndarray:
    return np.asarray(value.detach())


def probabilities(guide: AmortizedGuide, batch: Batch) -> np.ndarray:
    """q(z | o) from the layers of the network."""
    net = guide.recognition
    return numpy_of(net.logits(net.trunk(batch.features)).softmax(-1))


def latent(guide: AmortizedGuide, features: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviations of q(x | z = k, o), item by item from the layers."""
    net = guide.recognition
    hidden = net.hidden(net.trunk(features)) + net.assignment.weight[:, k]
    shift, raw = net.moments(hidden.relu()).chunk(2, -1)
    return numpy_of(net.skip(features) + shift), numpy_of(0.2 * raw.exp())


def log_emission(guide: AmortizedGuide, x: np.ndarray, features: Tensor) -> float:
    """log p(o | x) of one item."""
    emission, o = guide.model.emission, numpy_of(features)
    output = numpy_of(emission.network(torch.tensor(x)))
    if isinstance(emission, NormalEmission):
        scale = numpy_of(emission.log_scale.exp()) + 1e-3
        return scipy.stats.norm.logpdf(o, output, scale).sum()
    return scipy.stats.bernoulli.logpmf(o, scipy.special.expit(output)).sum()


def items_term(guide: AmortizedGuide, batch: Batch, noise: np.ndarray) -> float:
    """sum_i w_i sum_k q_ik (log pi_k / q_ik + E[log N(x | k) / q(x | k, o)] + log p(o | x_ik))."""
    q = probabilities(guide, batch)
    weights = numpy_of(guide.points["weights"].value())
    means, covariances = (numpy_of(part) for part in guide.points["components"].value())
    total = 0.0
    for k in range(NUM_CLUSTERS):
        of_items = latent(guide, batch.features, k)
        component = scipy.stats.multivariate_normal(means[k], covariances[k])
        for i, weight in enumerate(batch.item_weight.tolist()):
            mean, scale = (part[i] for part in of_items)
            expected = component.logpdf(mean)
            expected -= np.trace(np.linalg.solve(covariances[k], np.diag(scale**2))) / 2
            entropy = np.log(scale).sum() + DIM * (1 + math.log(2 * math.pi)) / 2
            score = math.log(weights[k]) - math.log(q[i, k]) + expected + entropy
            score += log_emission(guide, mean + scale * noise[k, i], batch.features[i])
            total += weight * q[i, k] * score
    return total


def log_answer(guide: AmortizedGuide, worker: int, label: float, same: bool) -> float:
    name = "sensitivity" if same else "specificity"
    right = guide.points[name].value()[worker].item()
    return math.log(right if bool(label) == same else 1 - right)


def answers(batch: Batch) -> list[tuple[int, int, int, float, float]]:
    columns = (batch.left, batch.right, batch.worker, batch.label, batch.pair_weight)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def answers_term(guide: AmortizedGuide, batch: Batch) -> float:
    """sum_ij w_ij E_q[log p(L_ij | z_i, z_j)]."""
    q, total = probabilities(guide, batch), 0.0
    for i, j, worker, label, weight in answers(batch):
        agree = sum(q[i, k] * q[j, k] for k in range(NUM_CLUSTERS))
        total += weight * agree * log_answer(guide, worker, label, same=True)
        total += weight * (1 - agree) * log_answer(guide, worker, label, same=False)
    return total


def log_prior(guide: AmortizedGuide) -> float:
    """Of everything but the weights, which stay at maximum likelihood; of rates in the logits."""
    priors = guide.model.priors()
    means, covariances = (part.detach() for part in guide.points["components"].value())
    total = sum(
        log_density(
            priors["components"].family,
            priors["components"].natural_parameters[k],
            GaussianParameters(means[k], covariances[k]),
        )
        for k in range(NUM_CLUSTERS)
    )
    for name in ("sensitivity", "specificity"):
        for eta, rate in zip(
            priors[name].natural_parameters, guide.points[name].value().detach(), strict=True
        ):
            total += log_density(priors[name].family, eta, rate) + math.log(rate * (1 - rate))
    return total
