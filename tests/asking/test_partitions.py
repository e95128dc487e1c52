"""Drawn partitions of components against sums over all links."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import betaln

from pyro_crowdclust.asking import partitions
from pyro_crowdclust.asking.partitions import _FAR, _LINKED, _Chains, draw_roots


def exact(gain, near):
    """p(two components are one cluster), E[d] and E[f], over all links and whether each is far."""
    number = len(gain)
    total, together, rates = 0.0, np.zeros((number, number)), np.zeros(2)
    choices = [[(one, False)] for one in range(1)]
    for one in range(1, number):
        others = [(other, far) for other in range(one) for far in (False, True)]
        choices.append([(one, False), *others])
    for links in itertools.product(*choices):
        roots, weight = [], 1.0
        linked = far = 0
        for one, (other, is_far) in enumerate(links):
            roots.append(one if other == one else roots[other])
            if other != one:
                linked, far = linked + 1, far + is_far
                weight *= 1 / one if is_far else near[one, other]
        same = np.equal.outer(roots, roots)
        alone = number - 1 - linked
        log_prior = betaln(_LINKED[0] + linked, _LINKED[1] + alone)
        log_prior += betaln(_FAR[0] + far, _FAR[1] + linked - far)
        weight *= np.exp(log_prior + np.triu(gain * same, 1).sum())
        total, together = total + weight, together + weight * same
        counts = [_LINKED[0] + linked, _FAR[0] + far]
        rates += weight * np.array(counts) / [sum(_LINKED) + number - 1, sum(_FAR) + linked]
    return together / total, *(rates / total)


@pytest.mark.parametrize("strength", [0.0, 1.5])
def test_draws_are_of_the_posterior(strength, monkeypatch):
    monkeypatch.setattr(partitions, "_DRAWS", 4000)
    monkeypatch.setattr(partitions, "_SWEEPS", 25)
    rng = np.random.default_rng(3)
    gain = strength * rng.normal(size=(5, 5))
    gain = gain + gain.T
    near = np.tril(rng.random((5, 5)), -1)
    near[1:] /= near[1:].sum(1, keepdims=True)
    roots = draw_roots(gain, near, np.zeros(5, dtype=int), rng)
    together = np.stack([(roots == one[:, None]).mean(0) for one in roots.T])
    np.testing.assert_allclose(together, exact(gain, near)[0], atol=0.035)


def test_how_often_components_are_linked_and_far_is_learned():
    rng = np.random.default_rng(4)
    # All are near the first one, and answers say that they are one without it.
    gain = 4.0 * np.eye(5, k=-1)
    gain[1:, 0] = -4.0
    gain = gain + gain.T
    near = np.tril(np.full((5, 5), 0.02), -1)
    near[1:, 0] = 1 - near[1:, 1:].sum(1)
    chains = _Chains.starting(gain, near, np.arange(5), 4000)
    for _ in range(25):
        chains.sweep(rng)
    together, linked, far = exact(gain, near)
    assert far > 0.13  # and .1 beforehand
    found = np.stack([(chains.roots == one[:, None]).mean(0) for one in chains.roots.T])
    np.testing.assert_allclose(found, together, atol=0.035)
    np.testing.assert_allclose([chains.linked.mean(), chains.far.mean()], [linked, far], atol=0.01)


def test_chains_begin_at_the_partition_that_is_given(monkeypatch):
    monkeypatch.setattr(partitions, "_SWEEPS", 0)
    start, near = np.array([3, 3, 1, 1, 3]), np.tril(np.full((5, 5), 0.25), -1)
    rng = np.random.default_rng(0)
    roots = draw_roots(np.zeros((5, 5)), near, start, rng)
    assert (roots == [0, 0, 2, 2, 0]).all()


def test_roots_are_the_first_of_their_clusters():
    rng = np.random.default_rng(0)
    near = np.tril(np.ones((6, 6)), -1) / np.maximum(np.arange(6), 1)[:, None]
    roots = draw_roots(np.zeros((6, 6)), near, np.arange(6), rng)
    assert (roots <= np.arange(6)).all()
    assert (np.take_along_axis(roots, roots, 1) == roots).all()
