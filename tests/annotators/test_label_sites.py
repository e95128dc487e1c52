"""The sites of class labels, which model and guide share."""

from __future__ import annotations

import pyro
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import item_batches
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.training.elbo import PlainELBO


def test_a_step_computes_what_answers_say_once(monkeypatch):
    calls = []
    log_answers = ConfusionMatrices.log_answers
    monkeypatch.setattr(
        ConfusionMatrices,
        "log_answers",
        lambda self, values: calls.append(values) or log_answers(self, values),
    )
    data = CrowdData(None, labels={"item": [0, 0, 1], "worker": [0, 1, 0], "label": [0, 1, 1]})
    model = DawidSkene(ConfusionMatrices(data.num_workers, data.num_classes))
    (batch,) = item_batches(data, 2, torch.arange(2), class_labels=True)
    with pyro.validation_enabled(False):
        PlainELBO().differentiable_loss(model, ClassLabelGuide(model), batch)
    assert len(calls) == 1
