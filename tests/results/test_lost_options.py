"""What stands in a file for options with parts of a user's own, and what is kept beside them."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from pyro_crowdclust.files.description import build, describe
from pyro_crowdclust.interface.answers_alone.partition_search import SearchTraining
from pyro_crowdclust.interface.choosing.choice import ChooseAgain
from pyro_crowdclust.interface.class_labels.candidate_average import TrainMembers
from pyro_crowdclust.minibatches import AnswerSampling
from pyro_crowdclust.results.lost_options import check_nothing_lost, without_own_parts
from pyro_crowdclust.training import PacedAdam, RobbinsMonro, Stopping, Trainer

from ..refusals import refuses
from ..registries import CALLBACKS


def of_own(trainer):
    """A callback of a user's."""


OWN = SearchTraining(0.1, 2, {"callbacks": [of_own], "epochs": 7})
HOLDERS = {
    "options of a search": OWN,
    "members": TrainMembers([OWN, OWN]),
    "a step": ChooseAgain(9, None, 1, 0, {"callbacks": [of_own], "epochs": 7}),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_everything_else_is_kept(holder):
    kept = without_own_parts(HOLDERS[holder])
    read = build(describe(kept, {}), {})
    assert read == kept
    options = read.of_members[1].options if holder == "members" else read.options
    assert options["epochs"] == 7
    with refuses(r"\(callbacks.0 is a .*\.of_own, which .*, update\(..., callbacks=...\)"):
        check_nothing_lost(read, {})
    check_nothing_lost(read, {"callbacks": ()})


@pytest.mark.parametrize(
    "option",
    [
        PacedAdam,
        partial(PacedAdam, lr=0.05),
        partial(torch.optim.Adam, lr=3e-3, fused=True),
        RobbinsMonro(0.5, delay=20.0),
        Stopping(1e-6, steps=3),
        AnswerSampling(),
        *(make() for _, make in CALLBACKS.values()),
    ],
    ids=lambda option: getattr(option, "__name__", type(option).__name__),
)
def test_options_of_the_library_are_kept(option):
    assert without_own_parts(option) is option
    read, wanted = build(describe(option, {}), {}), option
    if not isinstance(option, partial) and option is not PacedAdam:
        assert read == wanted
        return
    wanted = partial(option)
    assert (read.func, read.keywords) == (wanted.func, wanted.keywords)


def test_a_trainer_with_options_is_given_again():
    kept = without_own_parts({"trainer": partial(Trainer, validate=True)})
    assert kept["trainer"].name == "trainer"
