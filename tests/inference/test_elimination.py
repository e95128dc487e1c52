"""Sites in plates are summed out as the sum over all of their joint values says."""

from __future__ import annotations

import itertools

import torch

from pyro_crowdclust.inference.elimination import Factor, product, summed_out

A, B = 3, 2
S, T = 1, 2


def test_sites_in_plates_in_plates_against_all_joint_values():
    """s in plate a, t in plates a and b: 2^3 values of all s, 2^6 of all t."""
    own, pair, alone = torch.randn(A, 2), torch.randn(A, B, 2, 2), torch.randn(A, B)
    factors = [Factor(own, ("a", S)), Factor(pair, ("a", "b", S, T)), Factor(alone, ("a", "b"))]
    left = summed_out(summed_out(factors, T, {"a", "b"}), S, {"a"})
    found = product([factor.within(()) for factor in left])
    terms = [
        sum(own[a, s[a]] for a in range(A))
        + sum(pair[a, b, s[a], t[a * B + b]] for a in range(A) for b in range(B))
        for s in itertools.product(range(2), repeat=A)
        for t in itertools.product(range(2), repeat=A * B)
    ]
    assert found.axes == ()
    torch.testing.assert_close(found.log_density, torch.stack(terms).logsumexp(0) + alone.sum())


def test_factors_that_favour_different_values_do_not_underflow():
    one, other = torch.tensor([0.0, -2000.0]), torch.tensor([-2500.0, 0.0])
    (left,) = summed_out([Factor(one, (S,)), Factor(other, (S,))], S, ())
    torch.testing.assert_close(left.log_density, torch.tensor(-2000.0))


def test_a_site_that_nothing_hangs_on_leaves_all_as_it_is():
    factors = [Factor(torch.randn(A), ("a",))]
    assert summed_out(factors, S, {"a"}) == factors
    assert product([]).log_density == 0


def test_axes_are_in_the_order_that_is_asked_for():
    value = torch.randn(2, 3)
    aligned = Factor(value, ("a", S)).aligned([S, T, "a"])
    torch.testing.assert_close(aligned, value.mT.unsqueeze(1))
