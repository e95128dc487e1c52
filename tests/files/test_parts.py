"""Parts remember their arguments, and files name them by the faces that offer them."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil

import pytest

import pyro_crowdclust
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.files.description import build, describe
from pyro_crowdclust.files.parts import arguments_of, public_name, rebuilt
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import DawidSkene


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
    assert name in module.__all__
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
    assert arguments_of(guide.read_at(0.5))["sharpness"] == 0.5
