from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import digamma, gammaln

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.families import NormalInverseWishart
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.supervision import CertainLinks, HiddenMarkovField
from pyro_crowdclust.supervision.field_coupling import FieldCoupling, pairwise_divergence

from ..crowds import quiet_fit
from ..oracles import random_natural


def corrected(q, p) -> float:
    """The symmetric KL of two normal-Wisharts, the paper's last formula without its misprints."""
    (m, kappa, scale, nu), (m2, kappa2, scale2, nu2) = q, p
    dim = len(m)
    L, L2 = np.linalg.inv(scale), np.linalg.inv(scale2)
    away = np.outer(m - m2, m - m2)
    psi = sum(digamma((nu - i) / 2) - digamma((nu2 - i) / 2) for i in range(dim))
    logdet = np.linalg.slogdet(L)[1] - np.linalg.slogdet(L2)[1]
    return (
        dim / 2 * (kappa2 / kappa + kappa / kappa2 - 2)
        + np.trace((kappa2 * nu * L + kappa * nu2 * L2) @ away) / 2
        + (nu - nu2) / 2 * (logdet + psi)
        + np.trace(nu * scale2 @ L + nu2 * scale @ L2) / 2
        - dim / 2 * (nu + nu2)
    )


def printed(q, p) -> float:
    """As printed in appendix A."""
    (m, kappa, scale, nu), (m2, kappa2, scale2, nu2) = q, p
    dim = len(m)
    L, L2 = np.linalg.inv(scale), np.linalg.inv(scale2)
    away = np.outer(m - m2, m - m2)
    psi = [sum(digamma((one - i) / 2) for i in range(dim)) for one in (nu, nu2)]
    return (
        dim * (kappa2 / kappa + kappa / kappa2 - 2)
        + np.trace((nu * L + nu2 * L2) @ away)
        + (nu - nu2) / 2 * psi[0]
        + (nu2 - nu) / 2 * psi[1]
        + np.trace(nu * scale2 @ L + nu2 * scale @ L2) / 2
        - dim / 2 * (nu + nu2)
    )


def test_potential_is_the_symmetric_divergence():
    family = NormalInverseWishart(3)
    eta = random_natural(family, 4)
    divergence = pairwise_divergence(family, eta)
    rows = list(zip(*(part.numpy() for part in family.standard(eta)), strict=True))
    for k, one in enumerate(rows):
        for other, two in enumerate(rows):
            both = family.kl_divergence(eta[k], eta[other])
            both += family.kl_divergence(eta[other], eta[k])
            assert float(divergence[k, other]) == pytest.approx(float(both), abs=1e-9)
            assert float(divergence[k, other]) == pytest.approx(corrected(one, two), abs=1e-8)
            if k != other:
                assert abs(printed(one, two) - corrected(one, two)) > 0.01


def test_corrected_formula_by_quadrature():
    """One dimension: the double integral of (q - p)(log q - log p) over mean and log precision."""
    q = (np.array([0.3]), 1.5, np.array([[1.2]]), 4.0)
    p = (np.array([-0.4]), 0.8, np.array([[0.7]]), 6.0)
    mean, log_precision = np.meshgrid(np.linspace(-14, 14, 3001), np.linspace(-9, 4, 801))
    precision = np.exp(log_precision)

    def log_density(m, kappa, scale, nu):
        normal = (np.log(kappa * precision / 2 / np.pi) - kappa * precision * (mean - m) ** 2) / 2
        shape, rate = nu / 2, scale[0, 0] / 2
        gamma = shape * np.log(rate) - gammaln(shape) + shape * log_precision - rate * precision
        return normal + gamma

    log_q, log_p = log_density(*q), log_density(*p)
    cell = 28 / 3000 * 13 / 800
    integral = ((np.exp(log_q) - np.exp(log_p)) * (log_q - log_p)).sum() * cell
    assert corrected(q, p) == pytest.approx(integral, rel=1e-3)
    assert abs(printed(q, p) - integral) > 0.1


NUM_ITEMS, K = 12, 3
KNOWN = [0, 0, 1, 1, 0, 1, *[-1] * 6]
LINKS = {
    "must_link": {"left": [0, 6], "right": [7, 8]},
    "cannot_link": {"left": [2, 9], "right": [10, 1]},
}


def linked(known=KNOWN) -> CrowdData:
    generator = torch.Generator().manual_seed(0)
    return CrowdData(torch.randn(NUM_ITEMS, 4, generator=generator), known=known, **LINKS)


def test_messages_have_the_precision_of_the_items():
    divergence = torch.rand(K, K, dtype=torch.float64)
    coupling = FieldCoupling(
        torch.arange(NUM_ITEMS), full_batch(linked()), divergence + divergence.mT, 0.5, 2.0, True
    )
    q = torch.rand(NUM_ITEMS, K, dtype=torch.float64).softmax(-1)
    found = coupling.messages(q.float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), coupling.messages(q), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_field", [False, True])
def test_items_behind_networks_of_single_precision_move_each_other(is_field):
    data = linked(KNOWN if is_field else None)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(K),
        GaussianComponents(K, 2),
        NormalEmission(SkipMLP((2, 5, 4)), 4),
        supervision=HiddenMarkovField(K, NUM_ITEMS) if is_field else CertainLinks(K),
    )
    guide = MessagePassingGuide(model, GaussianRecognition(SkipMLP((4, 5, 2 * 2)), 2))
    result = quiet_fit(model, guide, data, dtype=torch.float32)
    assert np.isfinite(result.elbo)
    together, apart = (result.same_cluster_probability(**links) for links in LINKS.values())
    assert together.mean() > apart.mean()
