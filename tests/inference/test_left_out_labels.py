"""Labels left out of draws: one draw, for which the formulas are exact."""

from __future__ import annotations

import numpy as np
import torch

from pyro_crowdclust.data import LabelMatrix
from pyro_crowdclust.inference import LeavingOut


def drawn(labels: LabelMatrix, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log shares of two classes with two states each, rates, and p(k, s) of one draw."""
    torch.manual_seed(seed)
    log_shares = torch.rand(4, dtype=torch.float64).log_softmax(0)
    shape = labels.num_workers, 4, labels.num_classes
    log_answers = torch.randn(shape, dtype=torch.float64).log_softmax(-1).mT
    states = (log_shares + labels.evidence(log_answers)).softmax(-1)
    return log_shares, log_answers, states.unflatten(-1, (2, 2))


# Worker 0 says 1 and 0 of the first item, which count half each, worker 1 says 1; worker 2 is
# alone with the second.
LABELS = LabelMatrix(
    torch.tensor([1, 0, 3, 4]),
    torch.tensor([3, 1]),
    3,
    2,
    weight=torch.tensor([0.5, 0.5, 1.0, 1.0], dtype=torch.float64),
)


def test_the_first_of_repeated_labels_can_be_left_out_if_others_stay():
    assert LABELS.can_be_left_out.tolist() == [True, False, True, False]
    plain = LabelMatrix(LABELS.cell, LABELS.counts, 3, 2)
    assert plain.can_be_left_out.tolist() == [True, True, True, False]


def test_the_others_say_what_the_class_is():
    log_shares, log_answers, states = drawn(LABELS, 0)
    leaving_out = LeavingOut(LABELS)
    leaving_out.add(states[:, None], log_answers[None])
    found = leaving_out.found(2)
    own = {
        0: 0.5 * (log_answers[0, 1] + log_answers[0, 0]),
        1: log_answers[1, 1],
    }
    for row, (other, label) in enumerate([(1, log_answers[0, 1]), (0, log_answers[1, 1])]):
        q = (log_shares + own[other]).softmax(0).view(2, 2)
        np.testing.assert_allclose(found.classes[row], q.sum(1))
        expected = (q * label.exp().view(2, 2)).sum(1) / q.sum(1)
        np.testing.assert_allclose(found.named[row], expected)


def test_draws_that_made_a_label_likely_count_less():
    """As r = 1 / p(a | the others) of each."""
    leaving_out, q, weight = LeavingOut(LABELS), [], []
    for seed in range(3):
        log_shares, log_answers, states = drawn(LABELS, seed)
        leaving_out.add(states[:, None], log_answers[None])
        others = (log_shares + 0.5 * (log_answers[0, 1] + log_answers[0, 0])).softmax(0)
        q.append(others.view(2, 2).sum(1))
        weight.append(1 / (others * log_answers[1, 1].exp()).sum())
    expected = sum(w * one for w, one in zip(weight, q, strict=True)) / sum(weight)
    np.testing.assert_allclose(leaving_out.found(2).classes[1], expected)
