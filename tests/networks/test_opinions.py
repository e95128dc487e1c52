"""What classifiers say together, against the formula."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import logsumexp
from torch import nn

from pyro_crowdclust.networks import OpinionPool, ResidualClassifier, SkipMLP


def test_the_pool_is_the_geometric_mean_of_probabilities():
    members = [SkipMLP((3, 5, 4)).double(), nn.Linear(3, 4).double(), nn.Linear(3, 4).double()]
    for parameter in members[0].parameters():
        nn.init.normal_(parameter)
    features = torch.randn(6, 3, dtype=torch.float64)
    logits = np.stack([member(features).detach().numpy() for member in members])
    logs = logits - logsumexp(logits, 2, keepdims=True)
    geometric = np.exp(logs).prod(0) ** (1 / 3)
    expected = geometric / geometric.sum(1, keepdims=True)
    found = OpinionPool(members)(features).softmax(1).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_seed_of_a_fit_draws_every_member():
    pool = OpinionPool([ResidualClassifier((1, 8, 8), 2, width=2) for _ in range(2)])
    torch.manual_seed(3)
    pool.draw_parameters()
    drawn = [parameter.clone() for parameter in pool.parameters()]
    assert not torch.equal(pool.members[0].head.weight, pool.members[1].head.weight)
    torch.manual_seed(3)
    pool.draw_parameters()
    for before, parameter in zip(drawn, pool.parameters(), strict=True):
        assert torch.equal(before, parameter)
