"""The plate of the answers: rows of parameters by row of the table of pairs, and weights."""

from __future__ import annotations

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.minibatches import (
    AnswerPlate,
    AnswerSampling,
    MinibatchSampler,
    full_batch,
)

LEFT, OTHERS = np.triu_indices(6, 1)
PAIRS = {"left": LEFT, "right": OTHERS, "worker": np.arange(15) % 4, "label": [1, 0, 1] * 5}
PAIRS["page"] = np.arange(15)  # so that minibatches draw every answer on its own
DATA = CrowdData(torch.eye(6), PAIRS)


@pytest.fixture(autouse=True)
def own_parameters():
    with pyro.get_param_store().scope():
        yield


def minibatches(**options):
    generator = torch.Generator().manual_seed(0)
    sampling = AnswerSampling(**options)
    sampler = MinibatchSampler(
        DATA,
        batch_size=2,
        answers_per_step=sampling.answers_per_step,
        generator=generator,
    )
    return list(sampler)


SOME = minibatches(answers_per_step=4)
ALL_SHUFFLED = minibatches()


@pytest.mark.parametrize("batch", [full_batch(DATA), *SOME, *ALL_SHUFFLED])
def test_positions_are_those_of_the_rows_of_pairs(batch):
    rows = batch.answers.numpy()
    assert batch.num_answers == 15
    assert batch.asked_items[:, 0].tolist() == LEFT[rows].tolist()
    assert batch.asked_items[:, 1].tolist() == OTHERS[rows].tolist()
    assert batch.worker.tolist() == PAIRS["worker"][rows].tolist()
    assert batch.label.tolist() == np.array(PAIRS["label"])[rows].tolist()


def test_some_batches_hold_all_answers_in_another_order():
    assert any(
        len(one.answers) == 15 and one.answers.tolist() != [*range(15)] for one in ALL_SHUFFLED
    )


@pytest.mark.parametrize("batch", [full_batch(DATA), *SOME, *ALL_SHUFFLED])
def test_rows_of_parameters_and_weights_are_those_of_the_answers(batch):
    table = torch.arange(15.0).double()
    with poutine.trace() as run, AnswerPlate("pairs", batch):
        rows = pyro.param("rows", table, event_dim=0)
        pyro.sample("x", dist.Normal(rows, 1.0))
    assert torch.equal(rows, table[batch.answers])
    assert torch.all(torch.as_tensor(run.trace.nodes["x"]["scale"]) == batch.pair_weight)


@pytest.mark.parametrize(
    "batch", [full_batch(DATA).without_answers(), full_batch(CrowdData(torch.eye(2)))]
)
def test_no_rows_are_taken_where_there_are_no_answers(batch):
    """Nor are there any among new items; results run models and guides without Pyro's checks."""
    with pyro.validation_enabled(False), AnswerPlate("pairs", batch):
        rows = pyro.param("rows", torch.arange(15.0), event_dim=0)
        assert pyro.sample("x", dist.Normal(rows, 1.0)).shape == (0,)


def test_other_numbers_of_rows_are_refused():
    said = (
        r"'rows' has 5 rows, but must have one for each of the 15 answers: .*AnswerPlate\('pairs'"
    )
    with AnswerPlate("pairs", full_batch(DATA)), pytest.raises(ValueError, match=said):
        pyro.param("rows", torch.zeros(5), event_dim=0)
