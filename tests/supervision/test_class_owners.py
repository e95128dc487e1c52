"""What known labels say of which components are one cluster."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.special import gammaln

from pyro_crowdclust.inference.owners import best_near, join, owners_bound
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.supervision import ClassTable
from pyro_crowdclust.supervision.class_owners import ClassOwners

COMPONENTS, CLASSES = 4, 2


def evidence_of(seed: int = 0) -> ClassOwners:
    counts = 3 * torch.rand(COMPONENTS, CLASSES, generator=torch.Generator().manual_seed(seed))
    return ClassOwners(ClassTable(COMPONENTS, CLASSES, concentration=0.7).prior, counts.double())


def one_hot(groups) -> torch.Tensor:
    return torch.eye(COMPONENTS, dtype=torch.float64)[torch.as_tensor(groups)]


def log_evidence(counts: torch.Tensor) -> float:
    """``log p(y)`` of the labels of one cluster, its distribution of classes summed out."""
    a, n = np.full(CLASSES, 0.35), counts.numpy()
    return float(gammaln(a + n).sum() - gammaln((a + n).sum()) - gammaln(a).sum() + gammaln(0.7))


def test_the_bound_is_the_evidence_of_every_cluster():
    evidence = evidence_of()
    for groups in itertools.product(range(COMPONENTS), repeat=COMPONENTS):
        owners = one_hot(groups)
        expected = sum(log_evidence(row) for row in owners.mT @ evidence.counts)
        assert evidence.bound(owners) == pytest.approx(expected)


def test_the_gain_is_what_two_components_add_as_one():
    evidence = evidence_of()
    alone = evidence.bound(one_hot(range(COMPONENTS)))
    for first, second in itertools.combinations(range(COMPONENTS), 2):
        groups = [first if one == second else one for one in range(COMPONENTS)]
        gained = evidence.bound(one_hot(groups)) - alone
        assert float(evidence.gain[first, second]) == pytest.approx(gained)
        assert float(evidence.gain[second, first]) == pytest.approx(gained)


def test_the_slope_is_the_gradient_and_a_tangent_from_below():
    evidence, generator = evidence_of(), torch.Generator().manual_seed(1)
    draws = torch.randn(2, COMPONENTS, COMPONENTS, generator=generator).double().softmax(-1)
    here, there = draws
    direction, step = there - here, 1e-5
    difference = evidence.bound(here + step * direction) - evidence.bound(here - step * direction)
    along = float((evidence.slope(here) * direction).sum())
    assert difference / (2 * step) == pytest.approx(along, rel=1e-5)
    assert evidence.bound(there) >= evidence.bound(here) + along


def test_components_of_one_class_are_one_cluster_and_of_two_are_not():
    counts = torch.tensor([[9.0, 0.0], [0.0, 7.0], [6.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    evidence = ClassOwners(ClassTable(COMPONENTS, CLASSES).prior, counts)
    assert join(evidence.gain).tolist()[:3] == [0, 1, 0]
    prior = Ownership(COMPONENTS).prior.natural_parameters
    start = prior.clone()
    for _ in range(5):
        found = best_near(evidence, prior, start.softmax(1))
        assert owners_bound(evidence, found, prior) >= owners_bound(evidence, start, prior) - 1e-9
        start = found
