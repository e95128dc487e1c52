"""What is a bound and what is not, where pages contradict each other about the same items."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import betaln, gammaln, logsumexp

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.minibatches import AnswerSampling
from pyro_crowdclust.mixture import BernoulliComponents, DirichletWeights
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..crowds import quiet_fit

ITEMS = 6


def contradiction() -> CrowdData:
    """On one page all items are the same, on the other they are all different."""
    ends = list(itertools.combinations(range(ITEMS), 2))
    rows = [(i, j, page) for page in (0, 1) for i, j in ends]
    left, right, page = np.array(rows).T
    pairs = {"left": left, "right": right, "worker": 0 * page, "label": 1 - page, "page": page}
    return CrowdData(np.tile([[0.0], [1.0]], (3, 1)), pairs)


def model_of() -> SemiCrowdsourcedMixture:
    workers = TwoCoin(1, (9.0, 1.0), (9.0, 1.0))
    components = BernoulliComponents(2, 1)
    return SemiCrowdsourcedMixture(DirichletWeights(2, 1.0), components, Identity(), workers)


def log_evidence(data: CrowdData) -> float:
    """Every assignment in turn, all parameters integrated out."""
    model, x = model_of(), data.features[:, 0]
    a, b = model.components.prior.family.standard(model.components.prior.natural_parameters)
    a, b = float(a.flatten()[0]), float(b.flatten()[0])
    terms = []
    for z in itertools.product(range(2), repeat=ITEMS):
        z = np.array(z)
        counts = np.bincount(z, minlength=2)
        term = gammaln(2) - gammaln(2 + ITEMS) + gammaln(1 + counts).sum()
        for k in range(2):
            ones = x[z == k].sum()
            term += betaln(a + ones, b + counts[k] - ones) - betaln(a, b)
        same = z[data.answers.left] == z[data.answers.right]
        yes = data.answers.label.numpy() == 1
        for together in (same, ~same):
            right = (yes == same)[together].sum()
            term += betaln(9 + right, 1 + together.sum() - right) - betaln(9, 1)
        terms.append(term)
    return float(logsumexp(terms))


@pytest.mark.long
def test_the_elbo_of_all_data_is_a_bound_and_the_average_of_batches_is_none():
    data = contradiction()
    model = model_of()
    result = quiet_fit(
        model,
        MessagePassingGuide(model, solver=LocalSolver(exchanges=50, damping=0.6)),
        data,
        epochs=40,
        answer_sampling=AnswerSampling(15),
        step_size=0.2,
    )
    assert result.elbo < log_evidence(data) < result.history["elbo"].iloc[-1]


def test_of_items_on_one_page_the_average_of_batches_is_the_bound():
    """At parameters that do not move: two pages of other items, one after the other."""
    pairs = {
        **{"left": [0, 1, 3], "right": [1, 2, 4], "worker": [0, 0, 0]},
        **{"label": [1, 1, 0], "page": [0, 0, 1]},
    }
    data = CrowdData(np.tile([[0.0], [1.0]], (3, 1)), pairs)
    model = model_of()
    result = quiet_fit(
        model,
        MessagePassingGuide(model),
        data,
        epochs=1,
        batch_size=1,
        answer_sampling=AnswerSampling(3),
        step_size=1e-12,
    )
    assert result.history["elbo"][0] == pytest.approx(result.elbo, rel=1e-6)
