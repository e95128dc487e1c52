"""Files of a simulated crowd for the command line, a choice that was made, short searches."""

from __future__ import annotations

import pytest

from pyro_crowdclust.interface.command_line import main

from ..short_searches import shorten
from .small_choices import answered, small, two_rings


@pytest.fixture(scope="module")
def _few_draws():
    """For tests of how a search goes, which name this in place of short searches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyro_crowdclust.guides.answer_draws._STEPS", 15)
        patch.setattr("pyro_crowdclust.interface.choosing.trying.NUM_SPLITS", 1)
        yield


@pytest.fixture(autouse=True, scope="module")
def _short_searches():
    """And few draws of partitions by the answers alone, which have tests of their own."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        yield


@pytest.fixture(scope="session")
def crowd(tmp_path_factory):
    """A folder with features, answers and the truth."""
    folder = tmp_path_factory.mktemp("crowd") / "files"
    size = ["--items", "60", "--true-clusters", "3", "--workers", "4", "--pages", "2"]
    assert main(["simulate", "--out", str(folder), *size, "--seed", "1", "--quiet"]) == 0
    return folder


@pytest.fixture(scope="session")
def rings():
    """What was chosen for two rings with answers, and the ring of every item."""
    features, ring = two_rings()
    with pytest.MonkeyPatch.context() as patch:  # that of a module comes after it, or before
        shorten(patch)
        return small(answered(features, ring), 3, 8, 16).fit(progress=False), ring
