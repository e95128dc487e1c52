"""Log-probabilities of values between 0 and 1, against Bernoullis."""

from __future__ import annotations

import torch

from pyro_crowdclust.emissions import (
    SoftBernoulli,
)


def test_soft_bernoulli_at_no_and_yes_is_bernoulli():
    logits = 3 * torch.randn(4, 5)
    value = torch.rand(4, 5).round()
    ours, theirs = SoftBernoulli(logits), torch.distributions.Bernoulli(logits=logits)
    torch.testing.assert_close(ours.log_prob(value), theirs.log_prob(value))
    torch.testing.assert_close(ours.mean, theirs.mean)


def test_soft_bernoulli_in_between_is_the_expectation():
    logits, value = 3 * torch.randn(4, 5), torch.rand(4, 5)
    theirs = torch.distributions.Bernoulli(logits=logits)
    yes, no = theirs.log_prob(torch.tensor(1.0)), theirs.log_prob(torch.tensor(0.0))
    expected = value * yes + (1 - value) * no
    torch.testing.assert_close(SoftBernoulli(logits).log_prob(value), expected)


def test_soft_bernoulli_far_out_is_finite():
    logits = torch.tensor([800.0, -800.0])
    assert SoftBernoulli(logits).log_prob(torch.tensor([0.0, 0.0])).tolist() == [-800.0, 0.0]
    assert SoftBernoulli(logits).log_prob(torch.tensor([1.0, 1.0])).tolist() == [0.0, -800.0]


def test_gradient_of_soft_bernoulli_is_value_minus_mean():
    logits = torch.randn(6, requires_grad=True)
    value = torch.rand(6)
    SoftBernoulli(logits).log_prob(value).sum().backward()
    torch.testing.assert_close(logits.grad, (value - logits.sigmoid()).detach())


def test_soft_bernoulli_is_a_pyro_distribution():
    logits = torch.tensor([0.5, -1.0])
    many = SoftBernoulli(logits).expand((10_000, 2))
    assert many.batch_shape == (10_000, 2)
    draws = many.sample()
    assert draws.unique().tolist() == [0, 1]
    error = (logits.sigmoid() * (1 - logits.sigmoid()) / 10_000).sqrt()
    assert ((draws.mean(0) - logits.sigmoid()).abs() < 5 * error).all()
    assert SoftBernoulli(logits).sample((3,)).shape == (3, 2)
    assert SoftBernoulli(logits).log_prob(torch.ones(7, 1)).shape == (7, 2)
    assert SoftBernoulli(logits).to_event(1).log_prob(torch.ones(2)).shape == ()
