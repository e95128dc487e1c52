"""What is known of the workers who can be asked."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from torch import nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import ConfusionMatrices, TrustedWorkers
from pyro_crowdclust.asking.crowd import Crowd
from pyro_crowdclust.asking.worker_rates import PairRates, PlacementRates
from pyro_crowdclust.distributions import WorkerSummary
from pyro_crowdclust.models import DawidSkene


def crowd_of(rates, num_answers=(9, 10)):
    everybody = np.ones(2)
    return Crowd(
        ids=pd.Index(["ann", "bob"]),
        codes=np.arange(2),
        rates=rates,
        prices=everybody,
        loads=everybody,
        num_answers=np.array(num_answers),
    )


def test_who_gave_few_answers_is_new():
    assert crowd_of(PlacementRates(np.ones((2, 2)))).is_new.tolist() == [True, False]


def test_reliability_in_the_table_is_that_of_draws_of_the_rates():
    """``a - (1 - a) / 3`` of placements among four clusters."""
    counts = np.array([[60.0, 20.0], [300.0, 100.0]])
    found = crowd_of(PlacementRates(counts)).table(pd.Series(["bob", "ann", "bob"]), 4, seed=0)
    assert found["asked"].to_dict() == {"bob": 2, "ann": 1}
    rate = stats.beta(counts[:, 0], counts[:, 1])
    mean, deviation = found.loc[["ann", "bob"], ["reliability", "deviation"]].to_numpy().T
    np.testing.assert_allclose(mean, rate.mean() - (1 - rate.mean()) / 3, atol=0.02)
    np.testing.assert_allclose(deviation, 4 / 3 * rate.std(), rtol=0.15)


CONFUSION = np.array(
    [[[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8]], [[0.2, 0.5, 0.3]] * 3],
)


class Knows:
    """A guide that says something of workers, if it is asked."""

    def __init__(self, **said):
        self._said = said
        for name in said:
            setattr(self, name, lambda name=name: self._said[name])


# The table of Dirichlet rows with these counts.
ROWS = np.array([[30.0, 10.0, 20.0], [4.0, 5.0, 6.0]])[..., None]
MATRICES = pd.DataFrame(
    {
        "mean": CONFUSION.ravel(),
        "sd": np.sqrt(CONFUSION * (1 - CONFUSION) / (ROWS + 1)).ravel(),
    }
)


def test_who_has_not_answered_names_classes_as_all_do_on_average():
    said = {"item": [0, 0, 1], "worker": ["ann", "bob", "bob"], "label": [0, 1, 2]}
    data = CrowdData(None, labels=said)
    guide = Knows(confusion=None)
    result = SimpleNamespace(data=data, guide=guide, model=None, confusion=MATRICES)
    found = Crowd.of(result, ["bob", "new"], None, None)
    np.testing.assert_allclose(found.rates.counts, [(ROWS * CONFUSION)[1], 4 * CONFUSION.mean(0)])
    assert found.num_answers.tolist() == [2, 0]
    assert found.codes.tolist() == [1, -1]


def test_who_is_trusted_is_asked_by_name_and_no_measure_of_strangers():
    said = {"item": [0, 0, 1], "worker": ["ann", "bob", "bob"], "label": [0, 1, 2]}
    result = SimpleNamespace(
        data=CrowdData(None, labels=said),
        guide=Knows(confusion=None),
        confusion=MATRICES,
        model=DawidSkene(TrustedWorkers(ConfusionMatrices(2, 3), [1])),
    )
    by_default, named = (Crowd.of(result, who, None, None) for who in (None, ["bob", "new"]))
    assert [*by_default.ids] == ["ann"]
    assert [*named.ids] == ["bob", "new"]
    np.testing.assert_allclose(named.rates.counts, [(ROWS * CONFUSION)[1], 4 * CONFUSION[0]])
    result.model = DawidSkene(TrustedWorkers(ConfusionMatrices(2, 3), [0, 1]))
    everybody = Crowd.of(result, None, None, None)
    assert [*everybody.ids] == ["ann", "bob"]
    # Who has not answered is no expert for that.
    new = Crowd.of(result, ["new"], None, None)
    np.testing.assert_allclose(new.rates.counts, [np.full((3, 3), 0.5) + 2.5 * np.eye(3)])


@pytest.mark.parametrize(
    ("data", "guide"),
    [
        (CrowdData(np.zeros((3, 1))), Knows(workers=None)),
        (CrowdData(None, labels={"item": [0, 1], "worker": ["ann"] * 2, "label": [0, 1]}), None),
    ],
    ids=["no answers", "no confusion matrices"],
)
def test_everybody_is_a_stranger_to_a_guide_without_workers(data, guide):
    result = SimpleNamespace(data=data, guide=guide, model=None)
    found = Crowd.of(result, ["ann", "bob"], None, None)
    assert isinstance(found.rates, PairRates)
    assert found.rates.counts.tolist() == [[[3.0, 1.0]] * 2] * 2


def without_workers(label, **options):
    """A fit whose guide has no ``workers()``, of two answers by one worker."""
    pairs = {"left": [0, 1], "right": [1, 2], "worker": ["ann", "ann"], "label": label}
    data = CrowdData(None, pairs, **options)
    return SimpleNamespace(
        data=data,
        guide=nn.Module(),
        model=nn.Module(),
        same_cluster_by_position=lambda left, right: np.array([0.9, 0.2]),
    )


def test_workers_of_a_guide_that_does_not_describe_them_have_their_answers():
    result = without_workers([1, 0])
    crowd = Crowd.of(result, ["ann", "new"], None, None)
    assert crowd.num_answers.tolist() == [2, 0]
    # Both say what the clusters say.
    ann = [[3 + 0.9, 1 + 0.2], [3 + 0.8, 1 + 0.1]]
    np.testing.assert_allclose(crowd.rates.counts, [ann, [[3.0, 1.0]] * 2])


def test_workers_with_rates_of_another_kind_have_their_answers():
    """As those of annotators of your own, from which no sensitivity can be read."""

    class Guide(nn.Module):
        def workers(self, interval=0.9):
            return WorkerSummary({"kind": SimpleNamespace()}, np.zeros(1), np.zeros(1))

    result = without_workers([1, 0])
    plain = Crowd.of(result, ["ann", "new"], None, None).rates.counts
    result.guide = Guide()
    np.testing.assert_array_equal(Crowd.of(result, ["ann", "new"], None, None).rates.counts, plain)


def test_grades_cannot_be_read_without_workers():
    result = without_workers([3, 1], grades=[1, 2, 3])
    with pytest.raises(ValueError, match=r"Module has no workers\(\) with .*: define them in the"):
        Crowd.of(result, ["ann"], None, None)
