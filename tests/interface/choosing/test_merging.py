import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface.choosing.merging import joined_partition
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.starts import PartitionStart


def fitted(data, partition, epochs=30):
    number = partition.shape[1]
    model = SemiCrowdsourcedMixture(
        DirichletWeights(number), GaussianComponents(number, 2), Identity()
    )
    return fit(
        model,
        MessagePassingGuide(model),
        data,
        epochs=epochs,
        batch_size=None,
        step_size=1.0,
        dtype=torch.float64,
        initialize=PartitionStart(partition),
        progress=False,
    )


@pytest.fixture(scope="module")
def blobs():
    """Four groups of items: two of one kind, cut in the middle, and two of kinds of their own."""
    rng = np.random.default_rng(0)
    one, *others = (
        center + rng.normal(size=(size, 2))
        for center, size in ((0.0, 60), (np.array([9.0, 0.0]), 20), (np.array([0.0, 9.0]), 50))
    )
    one = one[np.argsort(one[:, 0])]
    data = CrowdData(np.concatenate([one, *others]))
    groups = torch.tensor([0] * 30 + [1] * 30 + [2] * 20 + [3] * 50)
    return data, torch.nn.functional.one_hot(groups).double()


def test_the_halves_of_one_kind_are_joined_first(blobs):
    data, partition = blobs
    joined = joined_partition(fitted(data, partition, epochs=1), 3)
    assert joined.shape == (130, 3)
    torch.testing.assert_close(joined.sum(1), torch.ones(130, dtype=torch.float64))
    assert joined.argmax(1).bincount().tolist() == [60, 20, 50]


def test_the_union_is_that_with_the_largest_elbo(blobs):
    data, partition = blobs
    larger = fitted(data, partition)
    q = larger.component_probabilities
    first, second = np.triu_indices(4, 1)
    unions = []
    for one, other in zip(first, second, strict=True):
        union = q.clone()
        union[:, one] += union[:, other]
        unions.append(union[:, [k for k in range(4) if k != other]])
    best = max(unions, key=lambda union: fitted(data, union, epochs=1).elbo)
    torch.testing.assert_close(joined_partition(larger, 3), best)


def test_components_are_joined_until_one_is_left(blobs):
    data, partition = blobs
    joined = joined_partition(fitted(data, partition, epochs=1), 1)
    torch.testing.assert_close(joined, torch.ones(130, 1, dtype=torch.float64))


def test_a_partition_of_the_same_number_stays(blobs):
    data, partition = blobs
    larger = fitted(data, partition, epochs=1)
    torch.testing.assert_close(joined_partition(larger, 4), larger.component_probabilities)
