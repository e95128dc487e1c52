"""What a user reads from q(z), by the verbs that draws of a partition have, too."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from pyro_crowdclust.results.cluster_numbers import ClusterNumbers
from pyro_crowdclust.results.drawn_partition import DrawnPartition
from pyro_crowdclust.results.inferred_partition import InferredPartition

# Items of three components, the second and third of which are one cluster but for a doubt.
Q = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.0, 0.0, 1.0], [0.1, 0.8, 0.1]]).double()
OWNERS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.9, 0.1], [0.0, 0.9, 0.1]]).double()


class Owners(nn.Module):
    def mean(self) -> torch.Tensor:
        return OWNERS


class OwningGuide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.posteriors = nn.ModuleDict({"owners": Owners()})

    def mixture(self) -> SimpleNamespace:
        return SimpleNamespace(weights=Q.mean(0))


def partition_of(guide: nn.Module) -> InferredPartition:
    data = SimpleNamespace(features=None, class_labels=None)
    result = SimpleNamespace(
        model=nn.Module(), guide=guide, data=data, component_probabilities=Q, has_assignments=True
    )
    numbers = ClusterNumbers(result)
    result.cluster_order = numbers.by_size()
    return InferredPartition(result, numbers)


def test_clusters_are_numbered_by_size_and_their_components_count_together():
    found = partition_of(OwningGuide())
    table = found.probabilities()
    np.testing.assert_allclose(table.sum(1), 1)
    assert found.assignments.tolist() == [1, 0, 0, 0]
    np.testing.assert_allclose(found.own_shares, table.max(1))
    np.testing.assert_allclose(found.probabilities(np.array([3, 1])), table[[3, 1]])
    assert found.clusters()["assigned_items"].tolist()[:2] == [3, 1]
    np.testing.assert_allclose(found.clusters()["expected_items"], table.sum(0))
    np.testing.assert_allclose(found.clusters()["weight"], table.mean(0))
    with pytest.raises(ValueError, match="read-only"):
        table[0] = 0


def test_two_items_are_together_as_their_components_are():
    same = partition_of(OwningGuide()).same(np.array([0, 2]), np.array([1, 2]))
    # Two components are one cluster with 0.9^2 + 0.1^2, and each is one with itself.
    apart, between = 0.9**2 + 0.1**2, 0.6 * 0.1 + 0.3 * 0.2 + 0.1 * 0.7
    expected = between + apart * (0.3 * 0.7 + 0.1 * 0.2)
    np.testing.assert_allclose(same, [expected, 1.0])


def test_draws_and_probabilities_are_read_by_the_same_verbs():
    verbs = {name for name in vars(InferredPartition) if not name.startswith("_")}
    assert verbs <= {*vars(DrawnPartition)}
