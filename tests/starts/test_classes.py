"""A start at probabilities of the classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.protocols import Start
from pyro_crowdclust.starts import ClassesStart, default_start


def crowd() -> CrowdData:
    rng = np.random.default_rng(0)
    said = {"item": np.repeat(np.arange(12), 3), "worker": np.tile(np.arange(3), 12)}
    return CrowdData(None, labels=pd.DataFrame(said | {"label": rng.integers(3, size=36)}))


def started(data: CrowdData, start: Start) -> np.ndarray:
    """Concentrations of the confusion matrices where training begins."""
    model = DawidSkene(ConfusionMatrices(3, 3))
    guide = ClassLabelGuide(model)
    start(model, guide, data, torch.Generator().manual_seed(0))
    return guide.posteriors["confusion"].standard().concentration.detach().numpy()


def read_only(array: np.ndarray) -> np.ndarray:
    """As probabilities of a result are."""
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("kind", [read_only, torch.tensor])
def test_workers_begin_at_the_counts_of_these_classes(kind):
    data = crowd()
    classes = np.random.default_rng(1).dirichlet(np.ones(3), size=12)
    counts = np.zeros((3, 3, 3))
    labels = data.class_labels
    for item, worker, label in zip(labels.item, labels.worker, labels.label, strict=True):
        counts[worker, :, label] += classes[item]
    prior = 1.0 + 3 * np.eye(3)
    found = started(data, ClassesStart(kind(classes)))
    np.testing.assert_allclose(found, (prior + counts).reshape(9, 3), rtol=1e-10)


def test_the_vote_is_the_default():
    data = crowd()
    votes = np.zeros((12, 3))
    np.add.at(votes, (data.class_labels.item, data.class_labels.label), 1)
    np.testing.assert_allclose(started(data, ClassesStart(votes)), started(data, default_start))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (np.ones((11, 3)), r"shape \[11, 3\], but must be \[12, 3\]"),
        (np.zeros((12, 3)), "one above 0 in every row"),
        (np.full((12, 3), np.nan), "one above 0 in every row"),
    ],
)
def test_classes_that_are_none(classes, message):
    with pytest.raises(ValueError, match=message):
        started(crowd(), ClassesStart(classes))
