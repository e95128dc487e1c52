"""Moments of Gaussians, against their parameters, finite differences and noise by their root."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyro_crowdclust.families import (
    Gaussian,
    IndependentMoments,
    Moments,
    NormalInverseWishart,
)

from ..comparisons import same
from ..oracles import random_natural, random_standard


def test_gaussian_moments_are_those_of_the_natural_parameters():
    family = Gaussian(3)
    mean, covariance = random_standard(family, 4)
    moments = family.moments(family.natural(mean, covariance))
    same(moments.mean, mean)
    same(moments.root @ moments.root.mT, covariance)
    same(moments.root, moments.root.triu())
    assert (moments.root.diagonal(dim1=-2, dim2=-1) > 0).all()
    same(moments.second, covariance + mean[:, :, None] * mean[:, None, :])


@pytest.mark.parametrize("dim", [1, 2, 5, 24])
def test_the_length_of_moments_gives_their_dimension(dim):
    moments = Moments.with_root(torch.randn(3, dim), torch.randn(3, dim, dim))
    for ours, theirs in zip(Moments.of(moments.flat()), moments, strict=True):
        same(ours, theirs)


def test_draws_of_moments_are_their_mean_and_noise_by_their_root():
    mean, root, scale, noise = torch.randn(3, 4), torch.randn(3, 4, 4), *torch.rand(2, 3, 4)
    drawn = Moments.with_root(mean, root).draw(noise)
    same(drawn, mean + torch.einsum("nij,nj->ni", root, noise))
    independent = IndependentMoments(mean, scale)
    same(independent.draw(noise), mean + scale * noise)
    full = independent.full()
    same(full.draw(noise), mean + scale * noise)
    same(full.second, torch.einsum("ni,nj->nij", mean, mean) + scale.square().diag_embed())


def test_gaussian_moments_have_the_right_gradient():
    family = Gaussian(3)
    eta = random_natural(family, 4).requires_grad_()

    def value(eta: Tensor) -> Tensor:
        # Finite differences move one entry of a matrix at a time; its precision stays symmetric.
        linear, quadratic = family.unpack(eta)
        return family.moments(family.pack(linear, (quadratic + quadratic.mT) / 2)).flat()

    assert torch.autograd.gradcheck(value, eta)


def test_gaussian_moments_name_an_indefinite_precision():
    family = Gaussian(2)
    eta = family.pack(torch.zeros(2), torch.eye(2))
    with pytest.raises(ValueError, match="precision of a Gaussian latent is not positive definite"):
        family.moments(eta)


def test_second_moments_are_the_expectations():
    family = NormalInverseWishart(3)
    mean, root = torch.randn(2, 4, 3), torch.randn(2, 4, 3, 3)
    moments = Moments.with_root(mean, root)
    expected = torch.einsum("bni,bnj->bnij", mean, mean)
    expected = expected + torch.einsum("bnik,bnjk->bnij", root, root)
    same(moments.second, expected)
    statistics = torch.cat([moments.expected_statistics(), torch.ones(2, 4, 2)], -1)
    same(family.observation_statistics(moments.flat()), statistics)
