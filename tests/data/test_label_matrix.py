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
