"""A prior of ownership that knows distances: answers "same" are heard sooner."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize_scalar

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import NearbyOwners, OwnershipMoves
from pyro_crowdclust.distributions.summaries import MixtureSummary
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, Ownership
from pyro_crowdclust.mixture.nearness import near_shares, standardize
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.training import Stopping

# Twenty heaps, of which each four in a row lie together and are one class.
HEAPS = np.arange(200) % 20
RNG = np.random.default_rng(0)
CENTRES = 40.0 * RNG.normal(size=(5, 3))[np.arange(20) // 4] + 8.0 * RNG.normal(size=(20, 3))
FEATURES = CENTRES[HEAPS] + 0.5 * RNG.normal(size=(200, 3))
FEATURES = FEATURES / FEATURES.std()


def fitted(callbacks):
    """A fit to the truth about neighbours: 15 answers "same", and 4 "different"."""
    table = pd.DataFrame({"left": range(19), "right": range(1, 20), "worker": "ann"})
    table["label"] = (table["left"] // 4 == table["right"] // 4).astype(int)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(20),
        GaussianComponents(20, 3, concentration=0.05, scale=0.01, degrees=5.0),
        Identity(),
        TwoCoin(1, (9.0, 1.0), (9.0, 1.0)),
        ownership=Ownership(20, own=0.3),
    )
    return fit(
        model,
        MessagePassingGuide(model),
        CrowdData(FEATURES, table),
        batch_size=None,
        step_size=1.0,
        epochs=30,
        stopping=Stopping(1e-4, 3),
        callbacks=callbacks,
        dtype=torch.float64,
        progress=False,
    )


def test_one_answer_joins_neighbours():
    without, result = (
        fitted(callbacks) for callbacks in ([OwnershipMoves()], [NearbyOwners(), OwnershipMoves()])
    )
    before, found = (clustering_accuracy(HEAPS // 4, one.assignments) for one in (without, result))
    assert found > before + 0.2
    prior = result.model.ownership.prior.natural_parameters.exp()
    torch.testing.assert_close(prior.sum(1), torch.ones(20, dtype=torch.float64))
    assert (prior.diagonal() > 0.3 - 1e-9).all()


def test_distances_are_in_units_of_the_spread_and_leave_out_empty_components():
    places = torch.tensor([[0.0, 0.0], [0.0, 3.0], [1.0, 0.0], [0.0, 0.1]], dtype=torch.float64)
    weights = torch.tensor([0.4, 0.3, 0.3, 0.0], dtype=torch.float64)
    spread = torch.diag(torch.tensor([0.01, 100.0], dtype=torch.float64)).expand(4, 2, 2)
    mixture = MixtureSummary(weights, places, spread)
    near = near_shares(mixture)
    assert near[0, 1] > 0.9
    assert near[:, 3].tolist() == [0.0] * 4
    np.testing.assert_allclose(near.sum(1), 1.0)
    diagonal = MixtureSummary(weights, places, spread.diagonal(dim1=1, dim2=2))
    np.testing.assert_allclose(near_shares(diagonal), near)
    np.testing.assert_allclose(standardize(mixture, places.numpy())[1], [0.0, 0.3])


def test_shares_fall_with_the_square_of_the_distance():
    places = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0], [6.0, 6.0]], dtype=torch.float64)
    weights = torch.tensor([0.5, 0.3, 0.2, 1e-9], dtype=torch.float64)
    squares = np.array([[np.inf, 9, 16, np.inf], [9, np.inf, 25, np.inf], [16, 25, *[np.inf] * 2]])
    nearest = squares.min(1)
    expected = np.exp(-2 * (squares - nearest[:, None]) / nearest.mean())
    near = near_shares(MixtureSummary(weights, places, None))
    np.testing.assert_allclose(near[:3], expected / expected.sum(1, keepdims=True))
    # In one place all are as near; of one that is alone nobody is.
    together = near_shares(MixtureSummary(weights, torch.zeros(4, 2), None))
    np.testing.assert_allclose(together[:3], [[0, 0.5, 0.5, 0], [0.5, 0, 0.5, 0], [0.5, 0.5, 0, 0]])
    alone = near_shares(MixtureSummary(torch.tensor([1.0, 0.0]), places[:2].float(), None))
    np.testing.assert_allclose(alone, [[0, 0], [1, 0]])


def test_a_prior_that_is_none_is_refused():
    with pytest.raises(ValueError, match="far is 1.0, but must be a number between 0 and 1"):
        NearbyOwners(far=1.0)
    with pytest.raises(ValueError, match="strength is 0, but must be above 0"):
        NearbyOwners(strength=0)


@pytest.mark.parametrize("strength", [0.5, 5.0])
def test_a_learned_share_of_own_clusters_maximizes_the_bound_and_its_pseudo_counts(strength):
    owners = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.1, 0.1], [0.3, 0.3, 0.4]]).double()
    mixture = MixtureSummary(torch.full((3,), 1 / 3), torch.eye(3).double(), None)
    ownership = Ownership(3)
    guide = SimpleNamespace(
        mixture=lambda: mixture, posteriors={"owners": SimpleNamespace(mean=lambda: owners)}
    )
    model = SimpleNamespace(ownership=ownership)
    # Far away, with nobody near, a table has a on its diagonal and the rest elsewhere.
    almost_one = 1 - 1e-12
    callback = NearbyOwners(own=0.6, far=almost_one, strength=strength)
    callback(SimpleNamespace(model=model, guide=guide))

    def loss(own):
        eta = np.log(np.where(np.eye(3, dtype=bool), own, (1 - own) / 2))
        counted = strength * (0.6 * eta[0, 0] + 0.4 * eta[0, 1])
        return -float((owners.numpy() * eta).sum() + counted)

    best = minimize_scalar(loss, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-9})
    prior = ownership.prior.natural_parameters.exp()
    np.testing.assert_allclose(prior.diagonal(), best.x, atol=1e-6)
    torch.testing.assert_close(prior.sum(1), torch.ones(3, dtype=torch.float64))
    # With pseudo-counts without end it is as given.
    NearbyOwners(own=0.6, far=almost_one)(SimpleNamespace(model=model, guide=guide))
    np.testing.assert_allclose(ownership.prior.natural_parameters.exp().diagonal(), 0.6)


def test_a_component_is_near_to_the_cluster_of_its_neighbour_whatever_its_name():
    places = torch.tensor([[0.0, 0.0], [4.0, 0.0], [8.0, 0.0], [30.0, 0.0]], dtype=torch.float64)
    mixture = MixtureSummary(torch.full((4,), 0.25), places, None)
    owners = torch.tensor([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]).double()
    ownership = Ownership(4, own=0.3)
    guide = SimpleNamespace(
        mixture=lambda: mixture, posteriors={"owners": SimpleNamespace(mean=lambda: owners)}
    )
    NearbyOwners()(SimpleNamespace(model=SimpleNamespace(ownership=ownership), guide=guide))
    prior = ownership.prior.natural_parameters.exp()
    near = near_shares(mixture)
    for one in range(4):
        for name in range(4):
            of_near = sum(near[one, other] * float(owners[other, name]) for other in range(4))
            expected = 0.3 * (one == name) + 0.7 * (0.8 * of_near + 0.2 * (one != name) / 3)
            assert prior[one, name] == pytest.approx(expected)
    # Next to it is component 1, whose cluster is named after one that is far.
    assert prior[2, 0] > 5 * prior[2, 1]
