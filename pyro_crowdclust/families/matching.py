"""Moment matching: the member of a family with given E[t]."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.functional import hessian

from pyro_crowdclust.families.family import ExponentialFamily

_STEPS = 50
_MAX_HALVINGS = 30


def natural_at_mean(
    family: ExponentialFamily, mean: Float[Tensor, " size"], start: Float[Tensor, " size"]
) -> Float[Tensor, " size"]:
    """eta of ``E_eta[t] = mean``, the maximum of ``<eta, mean> - log Z(eta)``, by Newton's method.

    With the mean of t over many thetas this is the prior that maximizes their likelihood (type II
    maximum likelihood).

    Parameters
    ----------
    family
        The family; its log Z is strictly convex.
    mean
        A mean that the family can have.
    start
        Initial natural parameters, in the domain.

    Examples
    --------
    >>> from pyro_crowdclust.families import Beta
    >>> eta = torch.tensor([3.0, 0.5], dtype=torch.float64)
    >>> natural_at_mean(Beta(), Beta().expected_statistics(eta), torch.zeros_like(eta))
    tensor([3.0000, 0.5000], dtype=torch.float64)
    """
    # A copy, since the start may be a view of the tensor to which the result is written.
    eta = start.clone()

    def loss(point: Tensor) -> Tensor:
        return family.log_normalizer(point) - (point * mean).sum()

    for _ in range(_STEPS):
        gradient = family.expected_statistics(eta) - mean
        step = torch.linalg.solve(hessian(family.log_normalizer, eta), gradient)
        size = 1.0
        for _ in range(_MAX_HALVINGS):
            point = eta - size * step
            if bool(family.in_domain(point)) and bool(loss(point) <= loss(eta)):
                eta = point
                break
            size /= 2
        if float((size * step).abs().max()) < 1e-9:
            break
    return eta
