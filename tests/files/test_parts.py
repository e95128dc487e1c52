"""Parts remember their arguments, and files name them by the faces that offer them."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import json
import pkgutil
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pyro_crowdclust
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.files.description import build, describe
from pyro_crowdclust.files.parts import arguments_of, public_name, rebuilt
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP

from ..registries import PAIRS_OF_MODEL_AND_GUIDE
from ..transforms.inner_emissions import EMISSIONS, TRANSFORMS


def classes() -> list[type]:
    """Every class of the library."""
    names = pkgutil.walk_packages(pyro_crowdclust.__path__, f"{pyro_crowdclust.__name__}.")
    modules = [importlib.import_module(module.name) for module in names]
    found = [value for module in modules for value in vars(module).values()]
    own = {value for value in found if isinstance(value, type)}
    return [cls for cls in own if cls.__module__.partition(".")[0] == pyro_crowdclust.__name__]


DESCRIBED = sorted(
    (cls for cls in classes() if vars(cls).get("is_described") == cls.__qualname__),
    key=public_name,
)


def test_there_are_described_classes():
    assert GaussianComponents in DESCRIBED
    assert len(DESCRIBED) >= 40


def test_a_part_is_made_anew_of_all_its_arguments_but_for_changes():
    weights = DirichletWeights(3, concentration=0.5)
    again = rebuilt(weights, num_clusters=4)
    assert arguments_of(again) == {"num_clusters": 4, "concentration": 0.5}

    class Own(DirichletWeights):
        """Of which nobody knows what else it is made of."""

    with pytest.raises(TypeError, match="Own does not remember"):
        rebuilt(Own(3))


@pytest.mark.parametrize("cls", DESCRIBED, ids=public_name)
def test_every_described_class_is_offered_on_a_face(cls):
    face, name = public_name(cls).split(":")
    module = importlib.import_module(face)
    assert face.count(".") == 1
    assert name in {*module.__all__, *getattr(module, "FOR_FILES", ())}
    assert getattr(module, name) is cls


def test_a_file_names_no_file_of_the_library():
    part = GaussianComponents(2, 3)
    description = describe(part, {})
    assert description["$part"]["class"] == "pyro_crowdclust.mixture:GaussianComponents"
    assert json.dumps(description).count("pyro_crowdclust") == 1
    assert build(description, {}).constructor_arguments == {"num_clusters": 2, "dim": 3}


def test_a_move_within_a_room_changes_no_file(monkeypatch):
    before = describe(GaussianComponents(2, 3), {})
    monkeypatch.setattr(GaussianComponents, "__module__", "pyro_crowdclust.mixture.elsewhere")
    assert describe(GaussianComponents(2, 3), {}) == before


def test_records_that_no_face_offers_are_named_by_no_file():
    from pyro_crowdclust.training.trainer import Position

    assert dataclasses.is_dataclass(Position)
    part = {"class": public_name(Position), "number": 0, "arguments": {}}
    with pytest.raises(ValueError, match="has no 'pyro_crowdclust.training:Position'"):
        build({"$part": part}, {})


def test_parts_remember_how_they_were_constructed():
    assert DirichletWeights(3, concentration=2.0).constructor_arguments == {
        "num_clusters": 3,
        "concentration": 2.0,
    }


def test_fields_of_a_reading_are_arguments_of_the_guide():
    guide = ClassLabelGuide(DawidSkene(ConfusionMatrices(2, 3)), temperature=2.0)
    assert arguments_of(guide) == {"model": guide.model, "temperature": 2.0}
    assert arguments_of(guide.read_at(0.5))["feature_weight"] == 0.5


def made_of_tensors() -> dict[str, nn.Module]:
    """Parts of which an argument is a tensor or an array."""
    _, guide, _ = PAIRS_OF_MODEL_AND_GUIDE["class table"]()
    inner, numbers = EMISSIONS["powers"](), torch.ones(3, dtype=torch.float64)
    wholes = [
        *(make(inner) for make in TRANSFORMS.values()),
        EMISSIONS["standardized"](),
        NormalEmission(SkipMLP((2, 4, 3)), 3, location=numbers, scale=numbers),
        GaussianRecognition(SkipMLP((3, 4, 4)), 2, location=numbers, scale=numbers),
        guide,
    ]
    parts = {type(part).__name__: part for whole in wholes for part in whole.modules()}
    return {
        name: part
        for name, part in parts.items()
        if any(isinstance(one, Tensor | np.ndarray) for one in arguments_of(part).values())
    }


MADE_OF_TENSORS = made_of_tensors()


def state_of(part: nn.Module) -> tuple[tuple[dict, dict], Any]:
    """A copy of what a part is and of what a file says of it."""
    tensors: dict[str, Tensor] = {}
    text = describe(part, tensors)
    return copy.deepcopy((dict(part.state_dict()), tensors)), text


@pytest.mark.parametrize("name", MADE_OF_TENSORS)
def test_a_part_and_its_file_do_not_change_with_its_arguments(name):
    given = copy.deepcopy(arguments_of(MADE_OF_TENSORS[name]))
    part = type(MADE_OF_TENSORS[name])(**given)
    before = state_of(part)
    for one in given.values():
        if isinstance(one, Tensor | np.ndarray):
            one[...] = 7
    found, text = state_of(part)
    torch.testing.assert_close(found, before[0], rtol=0, atol=0, equal_nan=True)
    assert text == before[1]


def test_what_a_part_learns_does_not_change_what_its_file_says():
    part = MADE_OF_TENSORS["Standardized"]
    part.location += 1
    assert arguments_of(part)["location"].tolist() == [1.0, -2.0, 0.0]
