"""The start of a fit: PCA for the networks, k-means for the mixture."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.distributions import Rows
from pyro_crowdclust.emissions import BernoulliEmission, NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP
from pyro_crowdclust.starts import PrincipalComponentStart

from .. import deep_problems
from ..crowds import (
    NUM_CLUSTERS,
    NUM_FEATURES,
    amortized_pair,
    blobs,
    classifier_pair,
    crowd,
    message_passing_pair,
    plain_pair,
)

every_pair = pytest.mark.parametrize(
    "make",
    [plain_pair, message_passing_pair, amortized_pair],
    ids=["plain", "message passing", "amortized"],
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def deep_pair(dim: int) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    model = SemiCrowdsourcedMixture(
        DirichletWeights(NUM_CLUSTERS, 1.0),
        GaussianComponents(NUM_CLUSTERS, dim),
        NormalEmission(SkipMLP((dim, 5, NUM_FEATURES)), NUM_FEATURES),
        TwoCoin(3),
    )
    recognition = GaussianRecognition(SkipMLP((NUM_FEATURES, 5, 2 * dim)), dim)
    return model, MessagePassingGuide(model, recognition)


def started_latent(guide: MessagePassingGuide, features: np.ndarray) -> torch.Tensor:
    """The mean that the recognition network starts with."""
    network = guide.recognition.network
    return network(torch.tensor(features)).chunk(2, -1)[0].detach()


@pytest.mark.parametrize("dim", [NUM_FEATURES, NUM_FEATURES + 2])
def test_all_principal_components_reconstruct_the_features(dim):
    data = crowd()
    model, guide = deep_pair(dim)
    PrincipalComponentStart()(model, guide, data, generator())
    latent = started_latent(guide, data.features)
    back = model.emission(latent).mean.detach().numpy()
    np.testing.assert_allclose(back, data.features, atol=1e-9)
    assert not latent[:, NUM_FEATURES:].any()


def test_the_start_is_the_principal_components_of_sklearn():
    data = crowd()
    model, guide = deep_pair(2)
    PrincipalComponentStart()(model, guide, data, generator())
    latent = started_latent(guide, data.features).numpy()
    theirs = PCA(2).fit(data.features)
    expected = theirs.transform(data.features)
    expected *= 2.0 / expected[:, 0].std(ddof=1)
    np.testing.assert_allclose(np.abs(latent), np.abs(expected), atol=1e-9)
    assert latent[:, 0].std(ddof=1) == pytest.approx(2.0)
    back = model.emission(torch.tensor(latent)).mean.detach().numpy()
    their_back = theirs.inverse_transform(theirs.transform(data.features))
    np.testing.assert_allclose(back, their_back, atol=1e-9)


def test_signs_are_fixed():
    """The largest loading of every component is positive, whatever the solver returns."""
    data = crowd()
    for turned in (data.features, -data.features, data.features[:, ::-1].copy()):
        model, guide = deep_pair(3)
        PrincipalComponentStart()(model, guide, CrowdData(turned), generator())
        weight = guide.recognition.network.skip.weight[:3].detach()
        largest = weight.gather(1, weight.abs().argmax(1, keepdim=True))
        assert (largest > 0).all()


@every_pair
def test_the_start_is_deterministic(make):
    data, started = crowd(), []
    for _ in range(2):
        pair = make()  # other networks
        torch.manual_seed(4)
        PrincipalComponentStart()(*pair, data, generator(1))
        started.append(nn.ModuleList(pair).state_dict())
    for name, value in started[0].items():
        assert torch.equal(value, started[1][name]), name


def test_networks_are_drawn_anew_only_if_asked():
    model, guide = deep_pair(2)
    nn.init.normal_(guide.recognition.network.output.weight)
    nn.init.normal_(model.emission.log_scale)
    kept, drawn = copy.deepcopy((model, guide)), (model, guide)
    PrincipalComponentStart(reset_networks=False)(*kept, crowd(), generator())
    PrincipalComponentStart()(*drawn, crowd(), generator())
    assert kept[1].recognition.network.output.weight.any()
    assert not drawn[1].recognition.network.output.weight.any()
    assert kept[0].emission.log_scale.unique().numel() > 1
    assert drawn[0].emission.log_scale.unique().numel() == 1


@every_pair
def test_the_mixture_starts_at_the_clusters(make):
    model, guide = make()
    data = crowd()
    PrincipalComponentStart()(model, guide, data, generator())
    inferred = guide.infer(full_batch(CrowdData(data.features)))
    assert clustering_accuracy(blobs()[1], inferred.assignments.argmax(1).numpy()) > 0.95
    shares = np.bincount(blobs()[1]) / 60
    weights = guide.mixture().weights.detach().numpy()
    assert sorted(weights) == pytest.approx(sorted(shares), abs=0.05)


def test_a_network_of_z_starts_at_the_clusters():
    features, labels = blobs()
    data = CrowdData(features)
    model, guide = classifier_pair()
    PrincipalComponentStart()(model, guide, data, generator())
    found = guide.infer(full_batch(CrowdData(data.all_rows()))).assignments
    assert clustering_accuracy(labels, found.argmax(1)) > 0.95
    assert float(found.max(1).values.mean()) > 0.9


def test_a_sample_stands_for_all_items():
    data = CrowdData(np.tile(crowd().features, (4, 1)))
    model, guide = plain_pair()
    PrincipalComponentStart(sample_size=50)(model, guide, data, generator())
    excess = guide.posteriors["weights"].natural_parameters
    excess = excess - model.weights.prior.natural_parameters
    assert excess.sum().item() == pytest.approx(data.num_items)


def test_fewer_different_points_than_clusters():
    points = np.array([[0.0, 0, 0, 0], [5, 5, 5, 5]])
    data = CrowdData(np.repeat(points, 10, axis=0))
    for make in (plain_pair, message_passing_pair, amortized_pair):
        model, guide = make()
        PrincipalComponentStart()(model, guide, data, generator())
        assignments = guide.infer(full_batch(CrowdData(data.features))).assignments.argmax(1)
        assert (assignments[:10] == assignments[0]).all()
        assert (assignments[10:] == assignments[10]).all()
        assert assignments[0] != assignments[10]


def test_items_that_are_all_the_same():
    data = CrowdData(np.ones((12, NUM_FEATURES)))
    for make in (plain_pair, message_passing_pair, amortized_pair):
        model, guide = make()
        PrincipalComponentStart()(model, guide, data, generator())
        assert guide.infer(full_batch(CrowdData(data.features))).assignments.isfinite().all()


def test_nothing_to_start():
    """A guide without the verb, and data without features, are left as they are."""

    def guide(batch):
        return None

    PrincipalComponentStart()(None, guide, crowd(), generator())
    model, plain = plain_pair()
    before = plain.posteriors["weights"].natural_parameters.clone()
    PrincipalComponentStart()(model, plain, CrowdData(None, crowd().pairs), generator())
    assert torch.equal(plain.posteriors["weights"].natural_parameters, before)


def test_images_start_like_their_pixels():
    features = crowd().features
    pairs = [deep_pair(2) for _ in range(2)]
    for (model, guide), shape in zip(pairs, [(60, 4), (60, 2, 2)], strict=True):
        torch.manual_seed(0)
        data = CrowdData(features.reshape(shape))
        PrincipalComponentStart()(model, guide, data, generator())
    (_, flat), (_, image) = pairs
    for one, other in zip(flat.parameters(), image.parameters(), strict=True):
        assert torch.equal(one, other)


def test_single_precision_networks_start_like_double_ones():
    data = crowd()
    model, guide = deep_pair(2)
    single = SemiCrowdsourcedMixture(
        DirichletWeights(NUM_CLUSTERS, 1.0),
        GaussianComponents(NUM_CLUSTERS, 2),
        NormalEmission(SkipMLP((2, 5, NUM_FEATURES)), NUM_FEATURES).float(),
        TwoCoin(3),
    )
    recognition = AmortizedRecognition((NUM_FEATURES, 5), 2, NUM_CLUSTERS).float()
    single_guide = AmortizedGuide(single, recognition)
    PrincipalComponentStart()(model, guide, data, generator())
    PrincipalComponentStart()(single, single_guide, data, generator())
    torch.testing.assert_close(
        recognition.skip.weight.double(),
        guide.recognition.network.skip.weight[:2],
        rtol=1e-6,
        atol=1e-6,
    )


def other_network(num_inputs: int, num_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(num_inputs, 16), nn.ReLU(), nn.Linear(16, num_outputs))


def other_pair(dim: int = 2) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    """A pair with networks that have no linear skip path, always with the same weights."""
    torch.manual_seed(0)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(NUM_CLUSTERS, 1.0),
        GaussianComponents(NUM_CLUSTERS, dim),
        NormalEmission(other_network(dim, NUM_FEATURES), NUM_FEATURES),
        TwoCoin(3),
    )
    recognition = GaussianRecognition(other_network(NUM_FEATURES, 2 * dim), dim)
    return model, MessagePassingGuide(model, recognition)


def test_other_networks_learn_the_projection_and_its_inverse():
    data = crowd()
    (model, guide), (linear, of_linear) = other_pair(), deep_pair(2)
    PrincipalComponentStart()(linear, of_linear, data, generator())
    PrincipalComponentStart()(model, guide, data, generator())
    features = torch.tensor(data.features)
    wanted = started_latent(of_linear, data.features)
    error = (started_latent(guide, data.features) - wanted).square().mean()
    assert error < 0.02 * wanted.var()
    back, best = (one.emission(wanted).mean.detach() for one in (model, linear))
    assert (back - features).square().mean() < 1.5 * (best - features).square().mean()
    assert torch.equal(model.emission.log_scale, linear.emission.log_scale)


def test_the_start_of_other_networks_is_deterministic_and_takes_their_weights():
    started = []
    for seed in (1, 1, 2):
        pair = other_pair()
        PrincipalComponentStart(network_steps=5)(*pair, crowd(), generator(seed))
        started.append(torch.cat([one.flatten() for one in pair[1].recognition.parameters()]))
    assert torch.equal(started[0], started[1])
    assert not torch.equal(started[0], started[2])


def test_trained_networks_can_be_kept():
    pair = other_pair()
    before = copy.deepcopy(pair[1].recognition.state_dict())
    PrincipalComponentStart(network_steps=0)(*pair, crowd(), generator())
    after = pair[1].recognition.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_frozen_networks_stay_as_they_are():
    model, guide = other_pair()
    guide.recognition.requires_grad_(False)
    before = copy.deepcopy(guide.recognition.state_dict())
    PrincipalComponentStart()(model, guide, crowd(), generator())
    after = guide.recognition.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_fit_with_other_networks_finds_all_clusters():
    """Without a start the latents collapse, and one cluster takes all items."""
    data = crowd()
    result = fit(*other_pair(), data, epochs=10, step_size=0.2, dtype=torch.float64, progress=False)
    assert len(np.unique(result.assignments)) == NUM_CLUSTERS
    assert clustering_accuracy(blobs()[1], result.assignments) > 0.9


class CodeOnly(nn.Module):
    """Logits that depend on the cluster alone, and not on the latent."""

    def __init__(self) -> None:
        super().__init__()
        self.code = nn.Embedding(deep_problems.CLUSTERS, deep_problems.FEATURES)

    def forward(self, latent: torch.Tensor, rows: Rows) -> torch.Tensor:
        return self.code(rows.cluster)


def test_emissions_that_depend_on_the_cluster_learn_with_the_partition():
    guide = deep_problems.make_guide()
    guide.model.emission = BernoulliEmission(CodeOnly())
    features = torch.tensor(np.repeat(np.eye(deep_problems.FEATURES)[:2], 30, axis=0))

    def halves(features, num_clusters, generator):
        return torch.eye(num_clusters)[torch.arange(60) // 30]

    start = PrincipalComponentStart(partition=halves, network_steps=2000, partition_steps=0)
    start(guide.model, guide, CrowdData(features), generator())
    probabilities = guide.model.emission.network.code.weight.sigmoid().detach()
    for kind in np.eye(deep_problems.FEATURES)[:2]:
        assert (probabilities - torch.tensor(kind)).abs().amax(1).min() < 0.1
