"""Assignments: categories that are impossible, and a softmax that leaves out what is nearly."""

from __future__ import annotations

import math

import pytest
import torch

from pyro_crowdclust.families import Categorical, softmax_without_denormals

from ..comparisons import same


def test_categorical_returns_the_normalized_representative():
    family = Categorical(3)
    eta = torch.randn(4, 3)
    same(family.natural(*family.standard(eta)), eta.log_softmax(-1))


def test_an_impossible_category_is_legal():
    assert Categorical(3).in_domain(torch.tensor([0.0, -math.inf, 1.0]))


def test_an_impossible_category_adds_nothing():
    """Divergences are those of the categories that can occur."""
    family, smaller = Categorical(3), Categorical(2)
    eta, other = torch.tensor([0.3, -math.inf, 1.0]), torch.tensor([-0.2, -math.inf, 2.0])
    kept = torch.tensor([0, 2])
    same(family.entropy(eta), smaller.entropy(eta[kept]))
    same(family.kl_divergence(eta, other), smaller.kl_divergence(eta[kept], other[kept]))
    possible = torch.tensor([0.0, 1.0, 0.0])
    expected = torch.distributions.kl_divergence(
        *(torch.distributions.Categorical(logits=logits) for logits in (eta, possible))
    )
    same(family.kl_divergence(eta, possible), expected)
    assert family.kl_divergence(possible, eta) == math.inf


def test_softmax_without_denormals():
    logits = torch.tensor([[0.0, -1.0, -230.0], [0.0, -300.0, -740.0]], requires_grad=True)
    ours, exact = softmax_without_denormals(logits), logits.softmax(-1)
    same(ours, exact)
    same(softmax_without_denormals(logits + 1_000), exact)
    same(ours[0, 2].log(), exact[0, 2].log())
    assert exact[1, 1] > 0
    assert ours[1].tolist() == [1.0, 0.0, 0.0]
    slope = torch.randn(2, 3)
    gradients = [torch.autograd.grad((slope * q).sum(), logits)[0] for q in (ours, exact)]
    same(*gradients)


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_softmax_without_denormals_has_the_right_gradient(scale):
    logits = (scale * torch.randn(3, 5)).requires_grad_()
    softmax = Categorical(5).expected_statistics
    same(softmax(logits), logits.softmax(-1))
    assert torch.autograd.gradcheck(softmax, logits)
    assert torch.autograd.gradgradcheck(softmax, logits)
