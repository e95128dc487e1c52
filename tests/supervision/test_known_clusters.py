"""Known labels that are clusters: what they make certain, alone and together with answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.supervision import KnownClusters

from ..crowds import fit_plain

CLUSTERS = 4
# Items 0 to 2 are of the first label, 3 and 4 of the second; nobody named the others.
KNOWN = ["a", "a", "a", "b", "b", *[None] * 25]
PAIRS = {
    "left": [0, 5, 6, 3, 5],
    "right": [5, 6, 7, 8, 9],
    "worker": [0, 0, 0, 0, 0],
    "label": [1, 1, 1, 1, 0],
}


def data(answers: bool) -> CrowdData:
    features = np.random.default_rng(0).standard_normal((30, 2))
    return CrowdData(features, PAIRS if answers else None, known=KNOWN)


def model(answers: bool) -> SemiCrowdsourcedMixture:
    workers = TwoCoin(1, (50.0, 1.0), (50.0, 1.0)) if answers else None
    parts = DirichletWeights(CLUSTERS), GaussianComponents(CLUSTERS, 2), Identity()
    return SemiCrowdsourcedMixture(*parts, workers, KnownClusters(CLUSTERS))


@pytest.mark.parametrize("answers", [False, True])
def test_labelled_items_are_in_their_cluster_and_nowhere_else(answers):
    made = model(answers)
    result = fit_plain(made, MessagePassingGuide(made), data(answers), epochs=6)
    assert result.stop_reason.startswith("budget")
    # In the numbers of the guide, which are those of the labels.
    batch = full_batch(result.data)
    q = torch.empty(30, CLUSTERS)
    q[batch.items] = result.guide.infer(batch).assignments
    assert torch.equal(q[:5], torch.eye(CLUSTERS)[[0, 0, 0, 1, 1]])
    assert bool(((q[5:] > 0) & (q[5:] < 1)).any())
    torch.testing.assert_close(q.sum(1), torch.ones(30))
    elbos = result.history["elbo"].to_numpy()
    assert np.isfinite(elbos).all()
    assert elbos[-1] > elbos[0]
    if answers:
        # Told together with a named item, and with each other.
        assert (q[[5, 6, 7]].argmax(1) == 0).all()
        assert q[8].argmax() == 1
        assert q[9].argmax() != q[5].argmax()


def test_what_a_label_leaves_possible():
    supervision, log_weights = KnownClusters(CLUSTERS), torch.randn(CLUSTERS).log_softmax(-1)
    batch = full_batch(data(answers=False))
    local = supervision.local_log_weights(log_weights, {}, batch)
    for row, known in zip(local, batch.known.tolist(), strict=True):
        expected = log_weights.clone()
        if known >= 0:
            expected[torch.arange(CLUSTERS) != known] = -torch.inf
        assert torch.equal(row, expected)
    # The same by groups, of which the first are the items without a label.
    grouped = supervision.grouped_log_weights(log_weights, {})
    assert torch.equal(grouped[supervision.groups(batch)], local)


def test_a_start_gives_every_item_the_nearest_label():
    points = torch.tensor([[0.0], [1.0], [10.0], [11.0], [4.0], [7.0]])
    known = torch.tensor([0, 0, 1, 1, -1, -1])
    partition = torch.eye(3)[torch.tensor([2, 2, 2, 2, 2, 2])]
    started = KnownClusters(3).start_partition(partition, points, known)
    assert started.argmax(1).tolist() == [0, 0, 1, 1, 0, 1]
    for nothing in (None, torch.full((6,), -1)):
        assert KnownClusters(3).start_partition(partition, points, nothing) is partition


def test_a_merge_keeps_the_cluster_that_may_be_a_label():
    """However few items it holds; the statistics are pooled in it."""
    made = model(answers=False)
    guide = MessagePassingGuide(made)
    weights = guide.posteriors["weights"]
    weights.set_natural_parameters(weights.natural_parameters + torch.tensor([1.0, 2.0, 3.0, 40.0]))
    before = made.weights.posterior_counts(weights.natural_parameters.detach()).clone()
    assert guide.merge(3, 1) == 3
    after = made.weights.posterior_counts(weights.natural_parameters.detach())
    assert after[1] == before[1] + before[3]
    assert after[3] == 0
