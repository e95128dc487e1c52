"""Files with a right checksum and a wrong content, as a stranger may write them."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import safetensors.torch
import torch

from pyro_crowdclust import load
from pyro_crowdclust.files.allocation import limited_allocation
from pyro_crowdclust.files.safetensors_file import file_digest
from pyro_crowdclust.mixture import DiagonalGaussianComponents, DirichletWeights
from pyro_crowdclust.networks import SkipMLP
from pyro_crowdclust.supervision import Unsupervised
from pyro_crowdclust.training import Checkpoint

from ..crowds import crowd, crowd_of_all_kinds, message_passing_pair, plain_pair, quiet_fit
from ..refusals import refuses


def stop(trainer) -> None:
    """A callback like Ctrl-C."""
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def result_file(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("result") / "fit"
    quiet_fit(*plain_pair(Unsupervised(refuses=False)), crowd_of_all_kinds(), epochs=1).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def checkpoint_file(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("checkpoint") / "fit"

    quiet_fit(
        *message_passing_pair(),
        crowd(),
        batch_size=16,
        callbacks=[stop],
        checkpoint=Checkpoint(path, every=1),
    )
    return path.read_bytes()


Change = Callable[[Any, dict[str, torch.Tensor]], None]


def changed(file: bytes, change: Change) -> bytes:
    """The file with another content, and its right checksum."""
    tensors = safetensors.torch.load(file)
    size = int.from_bytes(file[:8], "little")
    metadata = json.loads(file[8 : 8 + size])["__metadata__"]
    content = json.loads(metadata["content"])
    change(content, tensors)
    metadata["content"] = json.dumps(content)
    metadata["sha256"] = file_digest(metadata["content"], tensors)
    return safetensors.torch.save(tensors, metadata)


def put(*path: str, value: Any) -> Change:
    """A change of one value of the content."""

    def change(content: Any, tensors: dict[str, torch.Tensor]) -> None:
        *above, last = path
        for key in above:
            content = content[key]
        assert last in content
        content[last] = value

    return change


def number(name: str, value: float) -> Change:
    """A change of the first number of a tensor."""

    def change(content: Any, tensors: dict[str, torch.Tensor]) -> None:
        tensors[name] = tensors[name].clone()
        tensors[name].view(-1)[0] = value

    return change


def cut(name: str) -> Change:
    """One row less in a tensor."""

    def change(content: Any, tensors: dict[str, torch.Tensor]) -> None:
        tensors[name] = tensors[name][:-1].clone()

    return change


WRONG = {
    "a text for a number": (put("elbo", value="much"), "elbo is 'much', and not a number"),
    "true for a number": (put("seconds", value=True), "seconds is True, and not a number"),
    "a seed that is none": (put("seed", value=1.5), "seed is of type float, and not int"),
    "a long seed": (put("seed", value=10**40), "seed is .*, and not a whole number from 0 to"),
    "a number for a text": (put("stop_reason", value=3), "stop_reason is of type int"),
    "a dtype that is none": (put("dtype", value="float"), "dtype is of type str"),
    "a negative length": (put("feature_shape", "$tuple", value=[-4]), "feature_shape is -4"),
    "a list for parameters": (put("parameters", value=[1]), "parameters is of type list"),
    "a number for a tensor": (
        lambda content, tensors: content["parameters"].update({"model.new": 3}),
        "parameters.model.new is of type int, and not Tensor",
    ),
    "a history of no columns": (put("history", value=[]), "history is of type list"),
    "a column of no values": (put("history", "elbo", value={"dtype": "f8"}), "it lacks 'values'"),
    "training by another part": (
        put("train_on", value=json.dumps({"$part": {"class": "pyro_crowdclust.families:Beta"}})),
        "'pyro_crowdclust.families:Beta' is not a function that trains a model",
    ),
    "training by a class of others": (
        put("train_on", value=json.dumps({"$part": {"class": "pyro_crowdclust.fitting:Trainer"}})),
        "this version of pyro_crowdclust has no 'pyro_crowdclust.fitting:Trainer'",
    ),
    "training with another optimizer": (
        lambda content, tensors: content.update(
            train_on=content["train_on"].replace('"class": "Adam"', '"class": "Tensor"')
        ),
        "neither torch nor pyro_crowdclust has an optimizer 'Tensor'",
    ),
    "training with a class of the library for an optimizer": (
        lambda content, tensors: content.update(
            train_on=content["train_on"].replace(
                '"class": "Adam"', '"class": "pyro_crowdclust.training:Trainer"'
            )
        ),
        "has an optimizer 'pyro_crowdclust.training:Trainer'",
    ),
    "data that are none": (put("data", value=None), "data is of type NoneType"),
    "data without ids": (put("data", "item_ids", value=["a"]), "item_ids is of type list"),
    "fewer ids": (
        put("data", "item_ids", "$index", "range", value=[0, 5, 1]),
        "known is torch.int64 of shape .60., and not torch.int64 of .5.",
    ),
    "more ids than can be": (
        put("data", "item_ids", "$index", "range", value=[0, 10**30, 1]),
        "too large",
    ),
    "an item below zero": (number("data.answers.left", -3), "answers.left holds -3, and not codes"),
    "an item too high": (number("data.answers.right", 60), "holds 60, .*from 0 to 59"),
    "a worker too high": (number("data.answers.worker", 3), "answers.worker holds 3"),
    "an answer of two": (number("data.answers.label", 2.0), "not valid answers"),
    "fewer answers on one side": (cut("data.answers.right"), "answers.right is torch.int64 of"),
    "a label below -1": (number("data.known", -2), "known holds -2, .*from -1 to 1"),
    "a link to nobody": (number("data.links.left", -1), "links.left holds -1"),
    "a class too high": (number("data.class_labels.label", 2), "class_labels.label holds 2"),
    "more classes": (
        put("data", "class_labels", "num_classes", value=10**12),
        "class_labels.num_classes is 1000000000000, but there are 2 ids",
    ),
    "a count below zero": (put("data", "num_contradictions", value=-1), "num_contradictions is -1"),
    "fewer probabilities": (cut("probabilities"), "probabilities is torch.float64 of shape .59,"),
    "a probability of two": (
        number("probabilities", 2.0),
        r"lie outside of \[0, 1\]",
    ),
    "no probability": (number("probabilities", float("nan")), "probabilities lie outside"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_contents_of_a_result(kind, result_file, tmp_path):
    change, message = WRONG[kind]
    path = tmp_path / "fit"
    path.write_bytes(changed(result_file, change))
    with refuses(f"fit is damaged .*{message}.*: get a whole copy of it"):
        load(path)


def test_the_unchanged_file_is_read(result_file, checkpoint_file, tmp_path):
    path = tmp_path / "fit"
    path.write_bytes(changed(result_file, lambda content, tensors: None))
    assert load(path).data.num_items == 60


def structure(**arguments: int) -> Change:
    """A change of arguments of the parts of a model."""

    def change(content: Any, tensors: dict[str, torch.Tensor]) -> None:
        text = content["structure"]["text"]
        for name, value in arguments.items():
            assert f'"{name}": ' in text
            before, _, after = text.partition(f'"{name}": ')
            text = f'{before}"{name}": {value}{after.lstrip("0123456789")}'
        content["structure"]["text"] = text

    return change


@pytest.mark.parametrize(
    "arguments",
    [{"num_clusters": 10**9}, {"dim": 10**6}, {"num_workers": 10**11}, {"num_clusters": 10**18}],
    ids=str,
)
def test_sizes_are_compared_before_anything_is_allocated(arguments, result_file, tmp_path):
    path = tmp_path / "fit"
    path.write_bytes(changed(result_file, structure(**arguments)))
    tracemalloc.start()
    started = time.process_time()
    reasons = "asks for a tensor of .* bytes, but the whole file has|take about .* GB of the"
    with refuses(rf"cannot be built here \(.*({reasons})"):
        load(path)
    assert time.process_time() - started < 30  # building would take minutes
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


@pytest.mark.parametrize("arguments", [{"num_clusters": -3}, {"dim": -1}], ids=str)
def test_negative_sizes(arguments, result_file, tmp_path):
    path = tmp_path / "fit"
    path.write_bytes(changed(result_file, structure(**arguments)))
    with refuses("cannot be built here"):
        load(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DirichletWeights(10**9),
        lambda: DiagonalGaussianComponents(10**9, 1),
        lambda: DiagonalGaussianComponents(10**5, 10**5),
        lambda: SkipMLP((10**6, 10**6)),
        lambda: [SkipMLP((500, 500)) for _ in range(10**6)],
        lambda: torch.eye(10**6),
        lambda: torch.ones(10**6, 1) @ torch.ones(1, 10**6),
        lambda: torch.ones(10**4).outer(torch.ones(10**4)),
        lambda: torch.ones(3, 1).expand(3, 10**12).contiguous(),
        lambda: torch.ones(10).repeat(10**9),
    ],
)
def test_nothing_large_is_made(make):
    with refuses("its structure asks for"), limited_allocation(1000):
        make()


def test_what_a_file_needs_is_made():
    with limited_allocation(1000):
        weights = DirichletWeights(7)
        weights.to(torch.float32)
        torch.nn.init.normal_(SkipMLP((5, 4)).skip.weight)
    assert weights.prior.natural_parameters.shape == (7,)


WRONG_RUNS = {
    "negative steps": (put("trainer", "steps_done", value=-3), "steps_done is -3, and not a whole"),
    "half a step": (put("trainer", "steps_done", value=1.5), "steps_done is 1.5"),
    "negative epochs": (put("trainer", "epochs_done", value=-1), "epochs_done is -1"),
    "a text for seconds": (put("seconds", value="9"), "seconds is '9', and not a number"),
    "a history of texts": (put("trainer", "history", value=["a"]), "a row of the history is of"),
    "no parameters": (put("trainer", "parameters", value=None), "parameters is of type NoneType"),
    "negative halvings": (put("trainer", "halvings", value=-1), "halvings is -1"),
    "an epoch of a text": (put("trainer", "annealed_to", value="1"), "annealed_to is '1'"),
    "no fingerprint": (put("fingerprint", value=3), "fingerprint is of type int"),
    "no seconds": (lambda content, tensors: content.pop("seconds"), "it lacks 'seconds'"),
    "a moment of another shape": (
        lambda content, tensors: tensors.update(
            {name: torch.zeros(1) for name in tensors if name.endswith("exp_avg")}
        ),
        "exp_avg of parameter 0 is torch.float.* of shape .1., and not",
    ),
    "a state of no generator": (
        lambda content, tensors: tensors.update({"trainer.random.torch": torch.zeros(3)}),
        "the checkpoint .* is of another model or guide",
    ),
}


@pytest.mark.parametrize("kind", WRONG_RUNS)
def test_wrong_contents_of_a_checkpoint(kind, checkpoint_file, tmp_path):
    change, message = WRONG_RUNS[kind]
    path = tmp_path / "fit"
    path.write_bytes(changed(checkpoint_file, change))

    with refuses(message):
        quiet_fit(
            *message_passing_pair(),
            crowd(),
            batch_size=16,
            callbacks=[stop],
            checkpoint=Checkpoint(path, resume=True),
        )
