"""Owners of a component of which no item surely is: against a sum over all components of items."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.annotators.sites import sites_in
from pyro_crowdclust.distributions import ConjugatePosterior
from pyro_crowdclust.inference import FixedConditionals, LocalSolver
from pyro_crowdclust.inference.owners import move_owners
from pyro_crowdclust.inference.owners_of_few import has_few, weigh_owners_of_few
from pyro_crowdclust.minibatches import answered_batch, items_alone
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.supervision import Unsupervised

# Three items are of component 0, two of component 2; of the others nobody knows whether they are of
# 0 or 1, and all are the same as the first.
SURE = [[1 - 2e-6, 1e-6, 1e-6]] * 3 + [[1e-6, 1e-6, 1 - 2e-6]] * 2
OPEN = [[0.55, 0.44, 0.01]] * 3
LOG_ALONE = torch.tensor(SURE + OPEN, dtype=torch.float64).log()
PAIRS = {
    "left": [5, 6, 7] * 5,
    "right": [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3,
    "worker": ["a"] * 15,
    "label": [1] * 9 + [0] * 6,
}
RATE = torch.tensor([[math.log(0.9), math.log(0.1)]], dtype=torch.float64)


class Guide:
    """q(z) of items whose log p(z, x) is ``LOG_ALONE``, with its own q(c)."""

    def __init__(self, owners: list[int], max_clusters: int | None = None) -> None:
        self.model = SimpleNamespace(
            annotators=TwoCoin(1),
            ownership=Ownership(3, max_clusters=max_clusters),
            supervision=Unsupervised(),
        )
        posterior = ConjugatePosterior(self.model.ownership.prior)
        posterior.set_natural_parameters(1000.0 * torch.eye(3, dtype=torch.float64)[owners])
        self.posteriors = {"owners": posterior}

    def rate_statistics(self):
        return {"sensitivity": RATE, "specificity": RATE}

    def infer(self, batch):
        own = FixedConditionals(LOG_ALONE[batch.items])
        owners = self.posteriors["owners"].mean()
        sites = sites_in(self.model.annotators, batch, owners)
        rates = self.rate_statistics()
        coupling = None if sites is None else sites.coupling(rates, batch, torch.float64)
        return LocalSolver(exchanges=30).solve(own, coupling)[1]

    def weigh(self):
        data = CrowdData(torch.zeros(8, 1, dtype=torch.float64), PAIRS)
        answered = answered_batch(data)
        alone = items_alone(data, answered.items)
        weigh_owners_of_few(self, alone, answered)
        return answered


def exact() -> torch.Tensor:
    """p(c_1), if component 0 is in cluster 0 and component 2 in cluster 2."""
    weight = math.log(0.9 / 0.1)
    ends = list(zip(PAIRS["left"], PAIRS["right"], PAIRS["label"], strict=True))
    log_p = Ownership(3).prior.natural_parameters[1].clone()
    for name in range(3):
        cluster = [0, name, 2]
        terms = []
        for z in itertools.product(range(3), repeat=8):
            agree = [(cluster[z[i]] == cluster[z[j]], label) for i, j, label in ends]
            said = sum(weight * (1 if label else -1) for same, label in agree if same)
            terms.append(sum(float(LOG_ALONE[i, k]) for i, k in enumerate(z)) + said)
        log_p[name] += torch.tensor(terms, dtype=torch.float64).logsumexp(0)
    return log_p.softmax(0)


def test_mean_field_confirms_itself_and_the_structured_evidence_does_not():
    guide = Guide([0, 0, 2])
    answered = guide.weigh()
    found = guide.posteriors["owners"].mean()[1]
    certain = Guide([0, 0, 2])
    move_owners(certain, answered)
    assert certain.posteriors["owners"].mean()[1, 0] > 0.999
    expected = exact()
    assert 0.3 < expected[0] < 0.6
    torch.testing.assert_close(found, expected, atol=0.01, rtol=0)


def test_it_does_not_depend_on_the_owner_before():
    one, other = Guide([0, 0, 2]), Guide([0, 1, 2])
    one.weigh()
    other.weigh()
    torch.testing.assert_close(*(guide.posteriors["owners"].mean()[1] for guide in (one, other)))


def test_components_with_sure_items_are_unchanged():
    guide = Guide([0, 0, 2])
    before = guide.posteriors["owners"].natural_parameters.clone()
    guide.weigh()
    after = guide.posteriors["owners"].natural_parameters
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert not torch.equal(after[1], before[1])


def test_names_beyond_the_bound_stay_impossible():
    guide = Guide([0, 0, 2], max_clusters=2)
    guide.weigh()
    found = guide.posteriors["owners"].mean()
    assert found[:, 1].tolist() == [0, 0, 0]
    cluster_0, _, cluster_2 = exact().tolist()
    assert found[1, 0] == pytest.approx(cluster_0 / (cluster_0 + cluster_2), abs=0.01)


def test_one_item_that_is_sure_is_enough():
    q = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]])
    assert has_few(q).tolist() == [False, True, True]
