"""Hand-written gradients against autograd and finite differences, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyro_crowdclust.families import Gaussian, Moments, NormalInverseWishart
from pyro_crowdclust.families.moment_statistics import MomentStatistics
from pyro_crowdclust.last_round import last_round
from pyro_crowdclust.messages import LocalConditionals

from .oracles import random_natural

FAMILY = NormalInverseWishart(3)
LOCAL = Gaussian(3)
N, K = 4, 5


def problem(paired: int) -> tuple[LocalConditionals, tuple[Tensor, Tensor, Tensor]]:
    conditionals = LocalConditionals(
        FAMILY,
        torch.randn(K),
        FAMILY.expected_statistics(random_natural(FAMILY, K)),
        random_natural(LOCAL, N).requires_grad_(),
    )
    alone, assignments = torch.randn(paired, K).softmax(-1), torch.randn(N, K).softmax(-1)
    return conditionals, (alone, assignments, torch.randn(paired, K))


def outputs(conditionals: LocalConditionals, arguments: tuple[Tensor, ...]) -> list[Tensor]:
    posteriors = conditionals.last_round(*arguments)
    return [part for local in posteriors for part in (local.logits, *local.latent)]


@pytest.mark.parametrize("paired", [0, 2, N])
def test_the_last_round_is_that_of_autograd(paired):
    """Autograd runs where the global parameters learn, too."""
    conditionals, arguments = problem(paired)
    globals_learn = LocalConditionals(
        FAMILY,
        conditionals.log_weights.clone().requires_grad_(),
        conditionals.components,
        conditionals.potential,
    )
    found = []
    for way in (conditionals, globals_learn):
        parts = outputs(way, arguments)
        torch.manual_seed(3)
        loss = sum((torch.randn_like(part) * part).sum() for part in parts)
        found.append((*parts, *torch.autograd.grad(loss, conditionals.potential)))
    # Autograd leaves the two triangles of a precision's gradient unlike; only their mean matters.
    gradients = [LOCAL.unpack(way[-1]) for way in found]
    symmetric = [(linear, quadratic + quadratic.mT) for linear, quadratic in gradients]
    ours, theirs = ((*way[:-1], *own) for way, own in zip(found, symmetric, strict=True))
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("part", range(6))
def test_every_output_of_the_last_round_has_the_right_gradient(part):
    """One output at a time, so that the others have no gradient at all."""
    conditionals, arguments = problem(2)

    def value(potential: Tensor) -> Tensor:
        # Finite differences move one entry of a matrix at a time; its precision stays symmetric.
        linear, quadratic = LOCAL.unpack(potential)
        symmetric = LOCAL.pack(linear, (quadratic + quadratic.mT) / 2)
        way = conditionals.log_weights, conditionals.components
        return last_round(LOCAL, *way, symmetric, *arguments)[part]

    assert torch.autograd.gradcheck(value, conditionals.potential)


def test_moment_statistics_are_the_expectations():
    value = torch.randn(2, N, 12)
    statistics = MomentStatistics.apply(value)
    assert statistics.shape == (2, N, FAMILY.size)
    mean, second = Moments.of(statistics[..., :-2])
    torch.testing.assert_close(mean, Moments.of(value).mean)
    torch.testing.assert_close(second, Moments.of(value).second_moment())
    torch.testing.assert_close(statistics[..., -2:], torch.ones(2, N, 2))


def test_moment_statistics_have_the_right_gradient():
    value = torch.randn(2, 3, 6, requires_grad=True)
    assert torch.autograd.gradcheck(MomentStatistics.apply, value)
    assert torch.autograd.gradgradcheck(MomentStatistics.apply, value)
