"""Unknown arguments and bad values: named, with what was meant, before anything is fitted."""

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import (
    average_annotator_models,
    classify,
    cluster,
    infer_classes,
    infer_trait,
)
from pyro_crowdclust.mixture import GaussianComponents
from pyro_crowdclust.training import Checkpoint

CALLS = {
    "cluster": lambda **options: cluster(None, **options),
    "classify": lambda **options: classify([[0.0]], None, **options),
    "infer_classes": lambda **options: infer_classes(None, **options),
    "infer_trait": lambda **options: infer_trait(None, **options),
    "average_annotator_models": lambda **options: average_annotator_models(None, **options),
}


MISTAKEN = {
    "epoch": "did you mean 'epochs'",
    "max_iter": "did you mean 'epochs'",
    "random_state": "did you mean 'seed'",
    "verbose": "did you mean 'progress'",
    "n_jobs": "a fit runs in one process",
}


@pytest.mark.parametrize(
    ("call", "name", "hint"),
    [
        *((call, name, hint) for call in CALLS for name, hint in MISTAKEN.items()),
        ("cluster", "k", "did you mean 'num_clusters'"),
        ("cluster", "num_start", "did you mean 'num_starts'"),
        ("cluster", "n_init", "did you mean 'num_starts'"),
        ("cluster", "labels", r"pass class labels by workers to classify\(features, labels\)"),
        ("classify", "k", "the classes are those that workers named"),
        ("classify", "num_clusters", "the classes are those that workers named"),
        ("classify", "known", "pass labels of an expert as labels of one more worker"),
        ("infer_classes", "n_clusters", "the classes are those that workers named"),
    ],
)
def test_an_argument_that_there_is_not(call, name, hint):
    with pytest.raises(TypeError, match=rf"{call}\(\) has no argument '{name}'; {hint}"):
        CALLS[call](**{name: 3})


def test_without_a_hint():
    with pytest.raises(TypeError, match=r"classify\(\) has no argument 'colour'$"):
        CALLS["classify"](colour="red")


NAMED = {"item": [0, 1, 2, 3], "worker": ["a"] * 4, "label": list("xyxy")}
SAID = {"left": [0, 1, 2], "right": [1, 2, 3], "worker": ["a"] * 3, "label": [1, 0, 1]}
SEARCHES = {
    "features": lambda **options: cluster(np.eye(4), **options),
    "answers": lambda **options: cluster(None, SAID, **options),
    "classes": lambda **options: classify(np.eye(4), NAMED, **options),
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs is 0, but must be at least 1"),
        ({"batch_size": -3}, "batch_size is -3, but must be at least 1"),
        ({"dtype": "float32"}, "dtype is float32, but must be torch.float32 or"),
        ({"step_size": 7}, "step_size is 7, but a natural step needs"),
        ({"seed": None}, "seed is None, but must be a whole number"),
        ({"device": "foo"}, "device is 'foo', but must be one that torch knows, such as 'cpu'"),
        (
            {"device": "cuda:99"},
            "device is 'cuda:99', which torch cannot use here .*: leave out device",
        ),
    ],
)
def test_values_that_no_fit_takes(search, options, message, monkeypatch):
    """They are refused before a search."""

    def train(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr("pyro_crowdclust.fitting.call.isolated", train)
    with pytest.raises(ValueError, match=message):
        SEARCHES[search](**options)


def test_a_number_of_starts_is_refused_before_answers_are_held_out(monkeypatch):
    monkeypatch.setattr("pyro_crowdclust.fitting.call.isolated", None)
    with pytest.raises(ValueError, match="num_starts is 0, but must be at least 1"):
        cluster(None, SAID, num_starts=0)


def test_a_device_may_be_an_object():
    options = {"components": GaussianComponents, "epochs": 1, "progress": False}
    assert cluster(np.eye(4), device=torch.device("cpu"), **options).device == torch.device("cpu")


@pytest.mark.parametrize(
    "call",
    [
        lambda x, pairs, labels, **own: cluster(x, pairs, **own),
        lambda x, pairs, labels, **own: classify(x, labels, **own),
        lambda x, pairs, labels, **own: classify(None, labels, **own),
        lambda x, pairs, labels, **own: average_annotator_models(
            CrowdData(None, labels=labels), **own
        ),
    ],
)
def test_a_checkpoint_of_several_fits(call, tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 2))
    pairs = {"left": [0, 1], "right": [2, 3], "worker": ["a", "a"], "label": [1, 0]}
    labels = {"item": [0, 1, 2], "worker": ["a", "a", "b"], "label": ["x", "y", "x"]}
    with pytest.raises(ValueError, match="a file for one fit, but this call compares several"):
        call(x, pairs, labels, checkpoint=tmp_path / "run.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_where_the_fit_is_named(tmp_path):
    labels = {"item": [0, 1, 2], "worker": ["a", "a", "b"], "label": ["x", "y", "x"]}
    path = tmp_path / "run.safetensors"
    data = CrowdData(None, labels=labels)
    options = {"num_communities": [0], "epochs": 3, "progress": False}
    infer_classes(data, checkpoint=path, **options)
    again = infer_classes(data, checkpoint=Checkpoint(path, resume=True), **options)
    assert len(again.history) == 3
