"""Clusters that own components: the agreement of items, and what is left where each owns one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import TwoCoin, annotators_on_pages
from pyro_crowdclust.callbacks import LearnedPrior, OwnershipMoves
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.diagnostics.predictive import same_cluster_draws
from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.distributions.pairs import components_together
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import PairCoupling
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.plots import plot_calibration
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements
from pyro_crowdclust.starts import TrustingStart
from pyro_crowdclust.training import RobbinsMonro, default_elbo

COMPONENTS, ITEMS = 3, 4
LEFT, RIGHT = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 3, 3])


def random_q() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(ITEMS, COMPONENTS, generator=generator).double().softmax(1)
    owners = torch.randn(COMPONENTS, COMPONENTS, generator=generator).double().softmax(1)
    return z, owners


def brute_force(z: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
    """``E[c_zi = c_zj]`` of every pair, summed over all assignments and all owners."""
    expected = torch.zeros(len(LEFT), dtype=torch.float64)
    values = range(COMPONENTS)
    for of_components in itertools.product(values, repeat=COMPONENTS):
        weight = torch.stack([owners[k, c] for k, c in enumerate(of_components)]).prod()
        for pair, (i, j) in enumerate(zip(LEFT, RIGHT, strict=True)):
            for k, m in itertools.product(values, repeat=2):
                if of_components[k] == of_components[m]:
                    expected[pair] += weight * z[i, k] * z[j, m]
    return expected


def test_the_agreement_is_the_sum_over_all_assignments_and_owners():
    z, owners = random_q()
    together = components_together(owners)
    same = SameCluster(z, LEFT, RIGHT, ITEMS, together).rsample()
    torch.testing.assert_close(same, brute_force(z, owners))


def test_messages_are_the_derivative_of_the_agreement():
    z, owners = random_q()
    z, weight = z.requires_grad_(), torch.tensor([1.0, -2.0, 0.5, 3.0]).double()
    (gradient,) = torch.autograd.grad(weight @ brute_force(z, owners), z)
    coupling = PairCoupling(LEFT, RIGHT, weight, ITEMS, components_together(owners))
    torch.testing.assert_close(coupling.messages(z.detach()), gradient)


def test_the_name_of_a_cluster_of_one_component_is_no_matter_of_doubt():
    """Of components with items 0 is alone, 1 and 2 are one cluster; 3 and 4 have no items."""
    owners = torch.tensor(
        [
            [0.6, 0.1, 0.0, 0.2, 0.1],
            [0.0, 0.7, 0.1, 0.2, 0.0],
            [0.1, 0.8, 0.0, 0.0, 0.1],
            [0.0, 0.0, 0.0, 1.0, 0.0],
            [0.2, 0.2, 0.2, 0.2, 0.2],
        ],
        dtype=torch.float64,
    )
    sizes = torch.tensor([5.0, 3.0, 4.0, 0.1, 0.0])
    named = Ownership.by_name(owners, sizes)
    torch.testing.assert_close(named[0], torch.tensor([0.9, 0.1, 0, 0, 0]).double())
    torch.testing.assert_close(named[1:], owners[1:])
    # What empty components are called changes nothing, and where all have items nothing changes.
    order = torch.tensor([0, 1, 2, 4, 3])
    renamed = Ownership.by_name(owners[order][:, order], sizes[order])
    torch.testing.assert_close(renamed, named[order][:, order])
    torch.testing.assert_close(Ownership.by_name(owners, torch.ones(5)), owners)


def blobs(num_items: int = 90) -> tuple[np.ndarray, np.ndarray]:
    kinds = np.arange(num_items) % 3
    noise = np.random.default_rng(0).normal(size=(num_items, 2))
    return np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[kinds] + noise, kinds


def model_of(data: CrowdData, ownership: Ownership | None) -> SemiCrowdsourcedMixture:
    return SemiCrowdsourcedMixture(
        DirichletWeights(COMPONENTS),
        GaussianComponents(COMPONENTS, 2),
        Identity(),
        annotators_on_pages(data, (1.0, 1.0)),
        ownership=ownership,
    )


@pytest.mark.parametrize("of_pages", [False, True], ids=["pairs", "pages"])
def test_one_component_in_every_cluster_is_the_model_without(of_pages):
    features, kinds = blobs()
    data = CrowdData(
        features, simulate_pairs(kinds, [0.9] * 2, [0.8] * 2, pairs_per_worker=60, seed=0)
    )
    if of_pages:
        pages = simulate_placements(kinds, [0.9] * 2, pages_per_worker=3, page_size=12, seed=0)
        data = CrowdData(features, placements=pages)
    batch = full_batch(data).to(None, torch.float64)
    found = []
    for ownership in (None, Ownership(COMPONENTS)):
        model = model_of(data, ownership)
        guide = MessagePassingGuide(model)
        TrustingStart()(model, guide, data, torch.Generator().manual_seed(0))
        divergence = 0.0
        if ownership is not None:
            eta = torch.full((COMPONENTS, COMPONENTS), -300.0, dtype=torch.float64)
            guide.posteriors["owners"].set_natural_parameters(eta.fill_diagonal_(300.0))
            family, posterior = guide.posteriors["owners"].family, guide.posteriors["owners"]
            divergence = family.kl_divergence(
                posterior.natural_parameters, ownership.prior.natural_parameters
            ).sum()
        elbo = -default_elbo(False).loss(model, guide, batch)
        found.append((float(elbo + divergence), guide.infer(batch).assignments))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-8)
    torch.testing.assert_close(found[0][1], found[1][1])


def test_items_of_clear_clusters_are_sure_beside_components_without_items(tmp_path):
    """Some of seven components have none; a tenth of the numbers is missing."""
    features, kinds = blobs()
    features = np.where(np.random.default_rng(1).random(features.shape) < 0.1, np.nan, features)
    data = CrowdData(
        features, simulate_pairs(kinds, [0.95] * 4, [0.95] * 4, pairs_per_worker=150, seed=0)
    )
    model = SemiCrowdsourcedMixture(
        DirichletWeights(7),
        GaussianComponents(7, 2),
        Identity(),
        TwoCoin(4, (2.0, 1.0), (2.0, 1.0)),
        ownership=Ownership(7),
    )
    result = fit(
        model,
        MessagePassingGuide(model),
        data,
        epochs=40,
        batch_size=None,
        dtype=torch.float64,
        initialize=TrustingStart(),
        callbacks=[OwnershipMoves()],
        progress=False,
    )
    assert clustering_accuracy(kinds, result.assignments) > 0.98
    assert int((result.component_probabilities.sum(0) < 0.5).sum()) >= 1
    assert result.probabilities.max(1).mean() > 0.98
    np.testing.assert_allclose(result.probabilities.sum(1), 1.0)
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=data)
    np.testing.assert_allclose(again.probabilities, result.probabilities, rtol=0, atol=1e-12)


def two_rings(num_items: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    ring = np.arange(num_items) % 2
    angle, radius = rng.uniform(0, 2 * np.pi, num_items), 1 + 2 * ring
    radius = radius + 0.15 * rng.normal(size=num_items)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), ring


def fit_rings(of_pages: bool, num_components: int = 16, **changes):
    features, ring = two_rings()
    pairs = simulate_pairs(ring, [0.9] * 4, [0.8] * 4, pairs_per_worker=150, seed=0)
    pages = simulate_placements(ring, [0.9] * 4, pages_per_worker=6, page_size=20, seed=0)
    data = CrowdData(features, placements=pages) if of_pages else CrowdData(features, pairs)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(num_components),
        GaussianComponents(num_components, 2, scale=0.8, degrees=4.0),
        Identity(),
        annotators_on_pages(data),
        ownership=Ownership(num_components),
    )
    result = fit(
        model,
        MessagePassingGuide(model),
        data,
        **{"epochs": 40, "batch_size": None, "step_size": 1.0, **changes},
        dtype=torch.float64,
        progress=False,
        initialize=TrustingStart(),
        callbacks=[LearnedPrior(), OwnershipMoves()],
    )
    return result, ring


@pytest.fixture(scope="module", params=[False, True], ids=["pairs", "pages"])
def rings(request):
    return fit_rings(request.param)


def test_clusters_of_many_components_are_found(rings):
    result, ring = rings
    assert clustering_accuracy(ring, result.assignments) > 0.97
    assert result.history["clusters_in_use"].iloc[-1] == 2
    assert (result.clusters["assigned_items"] > 0).sum() == 2
    assert len(np.unique(result.owners.argmax(1))) < 6


@pytest.mark.long
@pytest.mark.parametrize("of_pages", [False, True], ids=["pairs", "pages"])
def test_clusters_of_many_components_are_found_in_minibatches(of_pages):
    result, ring = fit_rings(of_pages, batch_size=100, step_size=RobbinsMonro(0.5, delay=20.0))
    assert clustering_accuracy(ring, result.assignments) > 0.97


def test_tables_and_predictions_are_about_clusters(rings):
    result, _ = rings
    items = result.probabilities
    np.testing.assert_allclose(items.sum(1), 1.0)
    assert result.clusters["weight"].sum() == pytest.approx(1.0)
    predicted = result.predict(result.data.features)
    assert (predicted == result.assignments).mean() > 0.97


def test_the_probability_of_the_same_cluster_counts_a_shared_component(rings):
    result, _ = rings
    components = result.component_probabilities.numpy()
    together = components_together(torch.tensor(result.owners)).numpy()
    expected = components[3] @ together @ components[8]
    assert result.same_cluster_probability(3, 8) == pytest.approx(expected)


def test_pairs_in_pictures_and_exports_count_a_shared_component():
    result, ring = fit_rings(False, num_components=6, epochs=1)
    posterior = result.guide.posteriors["owners"]
    posterior.set_natural_parameters(torch.randn(6, 6, dtype=torch.float64))
    pairs, q = result.data.pairs, result.probabilities
    left, right, label = pairs["left"], pairs["right"], pairs["label"].to_numpy()
    same = result.same_cluster_probability(left, right)
    assert np.abs((q[left] * q[right]).sum(1) - same).max() > 0.1

    rng = np.random.default_rng(0)
    drawn = rng.integers(400, size=50_000)
    other = (drawn + rng.integers(1, 400, size=50_000)) % 400
    said = result.same_cluster_probability(drawn.tolist(), other.tolist())
    shown = plot_calibration(result, ring).axes[0].lines[1].get_xdata()
    tens = (said * 10).astype(int)
    np.testing.assert_allclose(shown, [said[tens == ten].mean() for ten in np.unique(tens)])

    tree = to_arviz(result, 5)
    rates, likelihood = (tree[group] for group in ("posterior", "log_likelihood"))
    of_worker = pairs["worker"].to_numpy()
    yes_if_same = rates["sensitivity"].values[0][:, of_worker]
    yes_if_different = 1 - rates["specificity"].values[0][:, of_worker]
    if_same, if_different = (
        np.where(label == 1, yes, 1 - yes) for yes in (yes_if_same, yes_if_different)
    )
    expected = -np.log(same / if_same + (1 - same) / if_different)
    np.testing.assert_allclose(likelihood["answers"].values[0], expected, rtol=1e-6)
    with result.inside(0):
        shares = same_cluster_draws(result, torch.arange(len(pairs)), 4000).mean(0)
    np.testing.assert_allclose(shares, same, atol=5 * 0.5 / np.sqrt(4000))


def test_a_simulation_draws_owners():
    features, kinds = blobs(12)
    data = CrowdData(features, simulate_pairs(kinds, [0.9], [0.9], pairs_per_worker=20, seed=0))
    z = model_of(data, Ownership(COMPONENTS))(full_batch(data))
    assert z.shape == (12, COMPONENTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "at least 2"),
        ((3, 0.0), "must be in"),
        ((3, 1.0), "must be in"),
        ((3, 0.8, 0), "max_clusters is 0, but must be at least 1"),
    ],
)
def test_what_cannot_own(arguments, message):
    with pytest.raises(ValueError, match=message):
        Ownership(*arguments)


def test_as_many_owners_as_components():
    data = CrowdData(np.eye(2), {"left": [0], "right": [1], "worker": [0], "label": [1]})
    with pytest.raises(ValueError, match="has 4 components, but the weights have 3"):
        model_of(data, Ownership(4))
