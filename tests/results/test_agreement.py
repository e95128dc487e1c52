"""Whether workers who name classes agree more often than guesses would."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import average_annotator_models, infer_classes
from pyro_crowdclust.results.agreement import agreement_of


def labels_of(says: np.ndarray) -> pd.DataFrame:
    item, worker = np.indices(says.shape)
    return pd.DataFrame({"item": item.ravel(), "worker": worker.ravel(), "label": says.ravel()})


def guesses(rng: np.random.Generator, shares: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return rng.choice(len(shares), size=size, p=shares)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.5, 0.3, 0.2)], ids=str)
def test_agreement_of_guesses_is_that_of_many_draws(shares):
    """Mean and deviation are those of labels that are shuffled among the items of their worker."""
    rng = np.random.default_rng(0)
    says = guesses(rng, np.array(shares), (60, 5))
    found = agreement_of(CrowdData(None, labels=labels_of(says)))
    drawn = []
    for _ in range(3000):
        again = rng.permuted(says, axis=0)
        equal = again[:, :, None] == again[:, None, :]
        drawn.append((equal.sum() - again.size) / 2)
    assert found.pairs == 600
    assert found.expected == pytest.approx(np.mean(drawn), rel=0.01)
    assert found.deviation == pytest.approx(np.std(drawn), rel=0.25)


@pytest.mark.parametrize("call", [infer_classes, average_annotator_models])
def test_guesses_are_warned_of(call):
    rng = np.random.default_rng(1)
    data = CrowdData(None, labels=labels_of(guesses(rng, np.ones(3) / 3, (100, 5))))
    with pytest.warns(
        UserWarning, match=r"agree about the same items as often as by chance: in \d+ of 1000"
    ):
        call(data, epochs=1, **({} if call is infer_classes else {"num_draws": 0}))


@pytest.mark.parametrize("right", [0.75, 0.85])
def test_workers_who_are_mostly_right_are_not(right):
    """Also of a rare class, and of few labels nothing is said."""
    rng = np.random.default_rng(2)
    truth = rng.random(300) < 0.2
    says = truth[:, None] ^ (rng.random((300, 3)) > right)
    assert not agreement_of(CrowdData(None, labels=labels_of(says.astype(int)))).is_by_chance
    few = guesses(rng, np.ones(2) / 2, (15, 5))
    assert not agreement_of(CrowdData(None, labels=labels_of(few))).is_by_chance
