"""Networks that drop out, or are normalized over a batch, are read in evaluation mode."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import DropMoves, MergeMoves, RateMoves
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.plots import plot_cluster_samples
from pyro_crowdclust.protocols import name_of
from pyro_crowdclust.simulation import simulate_pages

NUM_ITEMS, FEATURES, DIM, K = 40, 5, 2, 3


def network(size_in, size_out):
    return nn.Sequential(
        nn.Linear(size_in, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, size_out)
    ).double()


def problem():
    generator = torch.Generator().manual_seed(0)
    kinds = torch.arange(NUM_ITEMS) % K
    features = 3 * torch.randn(K, FEATURES, generator=generator, dtype=torch.float64)[kinds]
    features += torch.randn(NUM_ITEMS, FEATURES, generator=generator, dtype=torch.float64)
    rates = [0.9, 0.8]
    pairs = simulate_pages(kinds, rates, rates, pages_per_worker=2, page_size=8, seed=0)
    return CrowdData(features, pairs)


def parts(guide):
    torch.manual_seed(0)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(K),
        GaussianComponents(K, DIM),
        NormalEmission(network(DIM, FEATURES), FEATURES),
        TwoCoin(2),
    )
    if guide is MessagePassingGuide:
        return model, guide(model, GaussianRecognition(network(FEATURES, 2 * DIM), DIM))
    recognition = AmortizedRecognition((FEATURES, 8), DIM, K, trunk=network(FEATURES, 8))
    return model, guide(model, recognition.double())


def train(guide, **options):
    return fit(
        *parts(guide),
        problem(),
        epochs=2,
        batch_size=16,
        dtype=torch.float64,
        progress=False,
        **options,
    )


@pytest.mark.parametrize("guide", [MessagePassingGuide, AmortizedGuide])
def test_what_is_read_of_an_item_hangs_on_no_other(guide):
    result = train(guide)
    features = problem().features
    together = result.predict_proba(features)
    for rows in (slice(0, 1), slice(5, 20)):
        alone = result.predict_proba(features[rows])
        torch.testing.assert_close(alone, together[rows], rtol=0, atol=1e-12)
    torch.testing.assert_close(
        result.transform(features[:1]), result.transform(features)[:1], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("guide", [MessagePassingGuide, AmortizedGuide])
def test_reading_leaves_networks_as_they_are(guide):
    result = train(guide)
    before = {name: tensor.clone() for name, tensor in result.guide.state_dict().items()}
    _ = result.elbo, result.probabilities, result.latent_means
    result.to_arviz(3)
    plot_cluster_samples(result, (1, FEATURES))
    after = result.guide.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert all(module.training for module in result.guide.modules())


@pytest.mark.parametrize("callback", [MergeMoves(), DropMoves(), RateMoves()], ids=name_of)
def test_callbacks_that_look_leave_networks_as_they_are(callback):
    guide = AmortizedGuide if isinstance(callback, RateMoves) else MessagePassingGuide
    networks = [
        {
            name: tensor
            for name, tensor in train(guide, callbacks=callbacks).guide.state_dict().items()
            if "running" in name
        }
        for callbacks in ([], [NothingMoves(callback)])
    ]
    assert networks[0]
    assert all(torch.equal(tensor, networks[1][name]) for name, tensor in networks[0].items())


class NothingMoves:
    """Runs a callback after the last epoch, when it can change what networks see no more."""

    def __init__(self, callback):
        self.callback = callback

    def __call__(self, trainer):
        if trainer.epochs_done == 2:
            self.callback(trainer)


def test_modes_are_as_they_were_also_after_an_error():
    root = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())

    def read():
        with evaluating(root, root, print):
            assert not root[0].training
            raise KeyError

    with pytest.raises(KeyError):
        read()
    assert [module.training for module in root.modules()] == [True, True, False]
