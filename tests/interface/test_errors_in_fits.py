"""An error in one of several fits reaches the caller as it is, whatever its type."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import (
    average_annotator_models,
    classify,
    cluster,
    infer_classes,
)
from pyro_crowdclust.mixture import GaussianComponents
from pyro_crowdclust.training import Trainer

ITEMS = np.arange(12)
FEATURES = np.random.default_rng(0).normal(size=(12, 2)) + ITEMS[:, None] % 2


def said(num_classes: int) -> dict[str, np.ndarray]:
    """Six workers of twelve items, each of whom errs about two."""
    item, worker = np.indices((12, 6)).reshape(2, -1)
    label = (item + (item // 2 == worker)) % num_classes
    return {"item": item, "worker": worker, "label": label}


def labelled(num_classes: int) -> CrowdData:
    return CrowdData(None, labels=said(num_classes))


CALLS = {
    "average, two classes": lambda **o: average_annotator_models(labelled(2), num_draws=1, **o),
    "average, three classes": lambda **o: average_annotator_models(labelled(3), num_draws=0, **o),
    "infer, two classes": lambda **o: infer_classes(labelled(2), **o),
    "infer, three classes": lambda **o: infer_classes(labelled(3), **o),
    "classify": lambda **o: classify(FEATURES, said(2), **o),
    "classify labels": lambda **o: classify(None, said(2), **o),
    "starts": lambda **o: cluster(
        FEATURES, components=GaussianComponents, num_clusters=2, num_starts=2, **o
    ),
}


class FailsInFit:
    """A callback that raises an error in the first epoch of this fit, counted from 0."""

    def __init__(self, error: Exception, number: int) -> None:
        self.error, self.left = error, number

    def __call__(self, trainer: Trainer) -> None:
        if len(trainer.history) == 1:
            self.left -= 1
            if self.left < 0:
                raise self.error


@pytest.mark.parametrize("number", [0, 1])
# What iteration, and the lookup of attributes, take as an answer.
@pytest.mark.parametrize("kind", [IndexError, StopIteration, AttributeError])
@pytest.mark.parametrize("call", CALLS)
def test_an_error_in_a_fit_is_raised(call, kind, number):
    with pytest.raises(kind, match="of a callback"):
        CALLS[call](callbacks=[FailsInFit(kind("of a callback"), number)], epochs=2, progress=False)
