"""Other fits that divide or join clusters make it less sure that these are kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface.candidates.suited_forms import forms_for
from pyro_crowdclust.interface.choosing.rereading import grouped
from pyro_crowdclust.results.cluster_doubt import ClusterDoubt


def one_hot(clusters):
    return nn.functional.one_hot(torch.as_tensor(clusters)).double()


def fitted(seed: int = 0):
    """Three components on three clouds."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(90) % 3
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 9.0]])
    data = CrowdData(centers[kinds] + rng.normal(size=(90, 2)))
    return forms_for(data)[0].recipe(data, 3).fit(progress=False)


def doubted(result=None):
    """A fit whose second component is certainly a kind, and the others are not."""
    together = torch.tensor([[0.8, 0.0, 0.1], [0.0, 1.0, 0.0], [0.1, 0.0, 0.7]]).double()
    doubt = ClusterDoubt(together, torch.tensor([0.9, 1.0, 0.6]).double())
    return replace(fitted() if result is None else result, doubt=doubt)


def test_shares_are_averages_over_the_other_fits():
    rng = np.random.default_rng(0)
    q, *others = (torch.from_numpy(rng.dirichlet(np.ones(number), size=40)) for number in (3, 2, 5))
    cluster = torch.tensor([0, 1, 0])
    doubt = ClusterDoubt.of(q, cluster, others)
    together, whole = np.zeros((3, 3)), np.zeros(3)
    for other in others:
        counts = sum(np.outer(one, two) for one, two in zip(q.numpy(), other.numpy(), strict=True))
        shares = counts / counts.sum(1, keepdims=True)
        together += shares @ shares.T / 2
        most = (counts[0] + counts[2]).argmax(), counts[1].argmax(), None
        whole += np.array([shares[0, most[0]], shares[1, most[1]], shares[2, most[0]]]) / 2
    np.testing.assert_allclose(doubt.together, together)
    np.testing.assert_allclose(doubt.whole, whole)


def test_the_same_clusters_leave_no_doubt():
    doubt = ClusterDoubt.of(one_hot([0, 1, 2, 2]), torch.arange(3), [one_hot([2, 0, 1, 1])] * 2)
    assert torch.equal(doubt.together, torch.eye(3).double())
    assert torch.equal(doubt.whole, torch.ones(3).double())


def test_a_fit_that_joins_clusters_divides_none():
    joined, q = one_hot([0, 0, 1]), one_hot([0, 1, 2])
    doubt = ClusterDoubt.of(q, torch.arange(3), [q, joined])
    assert doubt.together.tolist() == [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert doubt.whole.tolist() == [1.0, 1.0, 1.0]


def test_components_of_one_cluster_are_two_kinds_where_others_divide_it():
    """The smaller is not of the kind that most of the cluster is of."""
    q = one_hot([0, 0, 1])
    doubt = ClusterDoubt.of(q, torch.tensor([1, 1]), [q, one_hot([0, 0, 0])])
    assert doubt.together.tolist() == [[1.0, 0.5], [0.5, 1.0]]
    assert doubt.whole.tolist() == [1.0, 0.5]


def test_components_without_items_stay_finite():
    empty = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).double()
    doubt = ClusterDoubt.of(empty, torch.arange(2), [empty])
    assert doubt.together.tolist() == [[1.0, 0.0], [0.0, 0.0]]


def test_probabilities_of_pairs_and_of_own_clusters_are_averages():
    result = doubted()
    q = result.component_probabilities.numpy()
    left, right = np.triu_indices(90, 1)
    together, whole = result.doubt.together.numpy(), result.doubt.whole.numpy()
    np.testing.assert_allclose(
        result.same_cluster_by_position(left, right), (q @ together @ q.T)[left, right]
    )
    assert result.same_cluster_probability(3, 3) == 1.0
    own = (q * whole)[np.arange(90), q.argmax(1)]
    np.testing.assert_allclose(result.assignment_probabilities, own)
    # What is given the clusters stays.
    plain = replace(result, doubt=None)
    np.testing.assert_array_equal(result.assignments, plain.assignments)
    np.testing.assert_array_equal(result.probabilities, plain.probabilities)
    np.testing.assert_allclose(plain.assignment_probabilities, q.max(1))


def test_components_of_a_cluster_add_up():
    result = doubted(grouped(fitted(), torch.tensor([0, 0, 2])))
    q, whole = result.component_probabilities.numpy(), result.doubt.whole.numpy()
    of_cluster = np.stack([(q * whole)[:, :2].sum(1), (q * whole)[:, 2]], 1)
    is_second = q[:, 2] > 0.5
    np.testing.assert_allclose(
        result.assignment_probabilities, of_cluster[np.arange(90), is_second * 1]
    )


def test_a_file_has_the_doubt(tmp_path):
    result = doubted()
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit")
    items = np.arange(89)
    np.testing.assert_array_equal(again.assignment_probabilities, result.assignment_probabilities)
    np.testing.assert_array_equal(
        again.same_cluster_by_position(items, items + 1),
        result.same_cluster_by_position(items, items + 1),
    )


@pytest.mark.parametrize("size", [2, 4])
def test_a_doubt_of_another_size_is_damage(tmp_path, size):
    wrong = ClusterDoubt(torch.eye(size).double(), torch.ones(size).double())
    replace(fitted(), doubt=wrong).save(tmp_path / "fit")
    with pytest.raises(ValueError, match=r"is damaged \(doubt.together"):
        load(tmp_path / "fit")


def test_new_items_leave_the_doubt():
    result = doubted()
    again = result.update(features=np.zeros((2, 2)), item_ids=["a", "b"], epochs=1)
    assert again.doubt is result.doubt
    assert len(again.assignment_probabilities) == 92


def test_files_of_items_have_the_averaged_probability(tmp_path):
    pytest.importorskip("pyarrow")
    result = doubted()
    result.write_items(tmp_path / "items.parquet")
    found = pd.read_parquet(tmp_path / "items.parquet")
    np.testing.assert_allclose(found["probability"], result.assignment_probabilities, rtol=1e-6)
