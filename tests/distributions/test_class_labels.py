"""q(z) of many items by parts of their rows, against torch's own."""

from __future__ import annotations

import torch

from pyro_crowdclust.distributions import class_labels
from pyro_crowdclust.distributions.class_labels import AssignmentAtMean


def test_assignments_are_categorical(monkeypatch):
    monkeypatch.setattr(class_labels, "_ROWS", 3)
    logits = 3 * torch.randn(8, 4)
    site, categorical = AssignmentAtMean(logits), torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(site.sample(), categorical.probs)
    torch.testing.assert_close(site.log_prob(site.sample()), -categorical.entropy())
    other = torch.randn(8, 4).softmax(-1)
    torch.testing.assert_close(site.log_prob(other), (other * logits.log_softmax(-1)).sum(-1))
