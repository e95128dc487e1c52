from __future__ import annotations

import numpy as np
import torch

from pyro_crowdclust.data import LabelMatrix


def test_products_and_their_gradient_are_those_of_the_dense_matrix():
    rng = np.random.default_rng(0)
    counts = torch.from_numpy(rng.integers(0, 9, size=9))
    cells = torch.from_numpy(rng.integers(4 * 3, size=int(counts.sum())))
    matrix = LabelMatrix(cells, counts, 4, 3)
    dense = torch.zeros(9, 4 * 3, dtype=torch.float64)
    for item, worker, label in zip(matrix.item, matrix.worker, matrix.label, strict=True):
        dense[item, worker * 3 + label] += 1
    table = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    evidence = matrix.evidence(table)
    torch.testing.assert_close(evidence, dense @ table.flatten(0, 1))
    torch.autograd.gradcheck(matrix.evidence, table)


def test_relabelled_keeps_who_was_asked_about_what():
    labels = LabelMatrix(torch.tensor([0, 5, 3]), torch.tensor([1, 2]), 2, 3)
    other = labels.relabelled(torch.tensor([2, 1, 0]))
    assert other.item.tolist() == labels.item.tolist()
    assert other.worker.tolist() == labels.worker.tolist()
    assert other.label.tolist() == [2, 1, 0]


def test_weighted_answers_are_counted_by_their_weights():
    """Two answers of worker 0 about item 0, and two of worker 1 about item 1."""
    weight = torch.tensor([0.5, 0.5, 1.0, 0.8, 0.8], dtype=torch.float64)
    cells, counts = torch.tensor([0, 1, 4, 3, 3]), torch.tensor([3, 2])
    labels = LabelMatrix(cells, counts, 2, 3, weight=weight)
    dense = torch.zeros(2, 6, dtype=torch.float64)
    dense.index_put_((labels.item, cells), weight, accumulate=True)
    table = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(labels.evidence(table), dense @ table.flatten(0, 1))
    torch.autograd.gradcheck(labels.evidence, table)
    assert labels.votes().tolist() == [[0.5, 1.5, 0], [1.6, 0, 0]]
    assert labels.size.tolist() == [2, 1.6]
    assert labels.relabelled(labels.label).weight is weight
    column = torch.tensor([[1.0], [2], [3], [4], [5]], dtype=torch.float64)
    np.testing.assert_allclose(labels.of_source(column).flatten(), [1.5, 1.5, 3, 7.2, 7.2])
    named = labels.of_source(column, same_label=True).flatten()
    np.testing.assert_allclose(named, [0.5, 1, 3, 7.2, 7.2])
    assert labels.has_others.tolist() == [True, True, True, False, False]
