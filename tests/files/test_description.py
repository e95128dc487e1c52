"""Files describe values and parts of the library, and nothing else is built of them."""

from __future__ import annotations

import pytest

from pyro_crowdclust.files.description import build, describe
from pyro_crowdclust.mixture import DirichletWeights

from ..refusals import refuses


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:eval",
        "torch.nn:Linear",
        "pyro_crowdclust.files.safetensors_file:write_file",
        "pyro_crowdclust.files.safetensors_file:Path",
        "pyro_crowdclust.files.safetensors_file:pyro_crowdclust.os.system",
        "pyro_crowdclust..files:Path",
        "pyro_crowdclust.nothing:Nothing",
        "pyro_crowdclust.results.fitted:Fitted.save",
        "pyro_crowdclust.data.crowd_data:CrowdData",
        "tests.results.test_saving.Own",
        "Evil",
    ],
)
def test_files_name_parts_of_the_library_alone(name):
    part = {"$part": {"class": name, "number": 0, "arguments": {}}}
    with refuses("is no part of|has no "):
        build(part, {})


@pytest.mark.parametrize(
    "description",
    [{"$lambda": "1"}, {"$float": 1, "more": 2}, {"$dtype": "load"}, {"$float": "two"}],
    ids=str,
)
def test_descriptions_of_nothing(description):
    with refuses("no value is described as|there is no dtype|could not convert"):
        build(description, {})


def test_subclasses_are_somebody_elses():
    class Mine(DirichletWeights):
        def __init__(self) -> None:
            super().__init__(3)

    assert not hasattr(Mine(), "constructor_arguments")
    with refuses("Mine, which is neither a plain value nor a part of"):
        describe(Mine(), {})
