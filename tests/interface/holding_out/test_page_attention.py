"""Answers on pages that workers may not have looked at, against Bayes' rule written out."""

from __future__ import annotations

import numpy as np
import torch

from pyro_crowdclust.data.pair_answers import Answers, Outcomes
from pyro_crowdclust.interface.holding_out.page_attention import page_probabilities


def answers(worker: list[int], page: list[int], label: list[float]) -> Answers:
    left = torch.zeros(len(worker), dtype=torch.int64)
    codes = torch.tensor(worker), torch.tensor(label), torch.tensor(page)
    return Answers(left, left + 1, *codes)


def test_an_answer_is_as_likely_as_its_page_is_attentive():
    known = answers([0, 0, 0, 1], [5, 5, 5, 5], [1.0, 1.0, 0.0, 1.0])
    other = answers([0, 1, 1], [5, 5, 6], [1.0, 0.0, 0.0])
    attention = np.array([0.9, 0.6])
    of_known, of_other = np.array([0.3, 0.2, 0.4, 0.7]), np.array([0.8, 0.5, 0.25])
    found = page_probabilities(known, other, Outcomes(2, 2), (of_known, of_other), attention)
    # Two of "same" and one of "different", each order of which has B(3, 2) = 1 / 12.
    looks = 0.9 * 0.3 * 0.2 * 0.4
    looks /= looks + 0.1 / 12
    np.testing.assert_allclose(found[0], looks * 0.8 + (1 - looks) * 3 / 5)
    looks = 0.6 * 0.7
    looks /= looks + 0.4 / 2
    np.testing.assert_allclose(found[1], looks * 0.5 + (1 - looks) / 3)
    np.testing.assert_allclose(found[2], 0.6 * 0.25 + 0.4 / 2)
