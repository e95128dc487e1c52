"""Results in files: what is read is what was written, and nothing else is ever run."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import pickle
import warnings
import zipfile
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import pyro.distributions as dist
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyro.infer import Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from torch import nn

from pyro_crowdclust import CrowdData, Fitted, fit, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import NormalEmission, Standardized
from pyro_crowdclust.files.description import build, describe
from pyro_crowdclust.files.safetensors_file import file_digest
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import ExponentialAnnealing, RecognitionTerm
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.results import cluster_classes, known_class_probabilities
from pyro_crowdclust.results.saved_data import data_fields
from pyro_crowdclust.results.saving import structure_of
from pyro_crowdclust.supervision import Supervision
from pyro_crowdclust.training import Checkpoint
from pyro_crowdclust.training.fingerprint import digest

from ..crowds import (
    DIM,
    NUM_FEATURES,
    amortized_pair,
    blobs,
    crowd,
    deep_mixture,
    message_passing_pair,
    plain_pair,
    quiet_fit,
)
from ..diagnostics.test_class_labels import MODELS as LABEL_MODELS
from ..diagnostics.test_class_labels import labelled, trained
from ..mixture_parts import (
    COMPONENTS,
    EMISSIONS,
    SUPERVISION,
    WEIGHTS,
    guide_of,
    mixture,
    simulated,
)
from ..problems import location_guide, location_model
from ..test_fitting import equal, parameters

MAKERS = {
    "plain": plain_pair,
    "message passing": message_passing_pair,
    "amortized": amortized_pair,
}
IDS = [f"item ☃ {(7 * i) % 60:02d}" for i in range(60)]
NEW = blobs(9, seed=4)[0]


def refuses(message: str):
    return pytest.raises(ValueError, match=message)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "result.safetensors"


@cache
def fitted(kind: str) -> Fitted:
    return quiet_fit(*MAKERS[kind](), crowd(item_ids=IDS))


def check_same(one: Fitted, other: Fitted) -> None:
    """Whether everything that can be read is the same, bit for bit."""
    assert equal(parameters(one.model, one.guide), parameters(other.model, other.guide))
    for table in ("history", "workers", "clusters"):
        pd.testing.assert_frame_equal(getattr(one, table), getattr(other, table), check_exact=True)
    for name in ("elbo", "stop_reason", "seconds", "seed", "dtype"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("probabilities", "assignments", "latent_means"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for verb in ("predict", "predict_proba"):
        assert np.array_equal(getattr(one, verb)(NEW), getattr(other, verb)(NEW)), verb
    assert one.data.item_ids.equals(other.data.item_ids)
    pd.testing.assert_frame_equal(one.data.pairs, other.data.pairs)
    ids = list(one.data.item_ids)
    assert np.array_equal(
        one.same_cluster_probability(ids[:5], ids[5:10]),
        other.same_cluster_probability(ids[:5], ids[5:10]),
    )


@pytest.mark.parametrize("kind", MAKERS)
def test_a_loaded_result_is_the_saved_one(kind, path):
    result = fitted(kind)
    result.save(path)
    loaded = load(path)
    check_same(loaded, result)
    assert loaded.guide.model is loaded.model
    assert loaded.data.features is None
    with refuses(r"new items have features of shape \[3\], but those of the fit have shape \[4\]"):
        loaded.predict(np.ones((2, 3)))
    # Once more round, and with structure and data of the user's.
    loaded.save(path)
    model, guide = MAKERS[kind]()
    before = parameters(model, guide)
    again = load(path, model, guide, result.data)
    check_same(again, result)
    assert again.data is result.data
    assert equal(parameters(model, guide), before)
    trained_on = quiet_fit(again.model, again.guide, again.data, initialize=None, epochs=1)
    assert trained_on.stop_reason.startswith("budget")


def test_what_is_read_cannot_be_changed():
    for array in (fitted("amortized").probabilities, fitted("amortized").latent_means):
        with refuses("read-only"):
            array[0] = 0.0


def test_data_with_labels_and_links(path):
    data = CrowdData(
        crowd().features,
        crowd().pairs,
        known=["a", None, "b"] * 20,
        labels={"item": [3, 4], "worker": [0, 2], "label": ["x", "y"]},
        must_link={"left": [0], "right": [7]},
    )
    quiet_fit(*plain_pair(Supervision()), data, epochs=1).save(path)
    loaded = load(path).data
    assert digest(data_fields(loaded)) == digest(data_fields(data))
    assert torch.equal(loaded.known, data.known)
    assert torch.equal(loaded.links.left, data.links.left)
    assert torch.equal(loaded.class_labels.label, data.class_labels.label)
    assert repr(loaded) == repr(data).replace("features float64 [4]", "no features")


def test_precision_is_kept(path):
    torch.set_default_dtype(torch.float32)
    result = fit(*message_passing_pair(), crowd(), epochs=1, progress=False)
    result.save(path)
    torch.set_default_dtype(torch.float64)
    loaded = load(path)
    assert loaded.guide.recognition.network.skip.weight.dtype == torch.float32
    assert loaded.guide.posteriors["weights"].natural_parameters.dtype == torch.float64
    check_same(loaded, result)


def test_options_of_parts_are_kept(path):
    model = deep_mixture()
    recognition = GaussianRecognition(SkipMLP((NUM_FEATURES, 2 * DIM)), DIM, initial_precision=7.0)
    term = RecognitionTerm(ExponentialAnnealing(20.0, 0.5, 1.0))
    guide = MessagePassingGuide(model, recognition, full_gradient=True, recognition_term=term)
    quiet_fit(model, guide, crowd(), epochs=1).save(path)
    loaded = load(path).guide
    assert loaded.full_gradient is True
    assert loaded.recognition.initial_precision == 7.0
    assert loaded.recognition_term.weight(2) == 5.0


@pytest.mark.parametrize(
    "ids",
    [
        range(60),
        range(120, 0, -2),
        np.arange(60) * 2.5,
        pd.date_range("2026-01-01", periods=60),
        [("box", i) for i in range(60)],
        [i if i % 2 else f"i{i}" for i in range(60)],
        pd.Index([f"{i}" for i in range(60)], name="picture"),
        np.arange(60, dtype=np.uint16),
        pd.date_range("2020", periods=60, tz="Europe/Rome").to_series().dt.date,
        pd.date_range("2020", periods=60, freq="1ns", tz="Europe/Rome"),
        pd.Index([UUID(int=i) for i in range(60)]),
        pd.Index([Decimal(i) / 2 for i in range(60)]),
        pd.Index([bytes([i]) for i in range(60)]),
        pd.interval_range(0, 60),
        pd.period_range("2020-01", periods=60, freq="M"),
        pd.period_range("1950", periods=60, freq="Y-MAR").astype(object),
        [timedelta(seconds=i, microseconds=1) for i in range(60)],
        [datetime(2020, 1, 1, 0, i, fold=1) for i in range(60)],
    ],
    ids=["range", "numbers", "floats", "dates", "tuples", "mixed", "named", "unsigned"]
    + [
        "days",
        "zones",
        "uuids",
        "decimals",
        "bytes",
        "intervals",
        "months",
        "years",
        "times",
        "folds",
    ],
)
def test_ids_of_every_kind(ids, path):
    features, pairs = crowd().features, crowd().pairs
    index = CrowdData(features, item_ids=ids).item_ids
    pairs = pairs.assign(
        left=pd.Series(list(index[pairs["left"]]), dtype=object),
        right=pd.Series(list(index[pairs["right"]]), dtype=object),
        worker=pairs["worker"].map({0: "zoë", 1: "ann", 2: "李"}),
    )
    data = CrowdData(features, pairs, item_ids=ids)
    result = quiet_fit(*plain_pair(), data, epochs=1)
    result.save(path)
    loaded = load(path)
    pd.testing.assert_index_equal(loaded.data.item_ids, data.item_ids)
    pd.testing.assert_index_equal(loaded.workers.index, result.workers.index)
    pd.testing.assert_frame_equal(loaded.data.pairs, data.pairs)


class Own(nn.Module):
    """An emission of a user's."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Linear(DIM, NUM_FEATURES)

    def forward(self, latent):
        return dist.Normal(self.network(latent), 1.0).to_event(1)


def own_pair():
    model = deep_mixture(Own())
    recognition = GaussianRecognition(SkipMLP((NUM_FEATURES, 2 * DIM)), DIM)
    return model, MessagePassingGuide(model, recognition)


def test_parts_of_a_users_own(path):
    result = quiet_fit(*own_pair(), crowd())
    result.save(path)
    with refuses(r"emission is a tests.results.test_saving.Own, .*load\(.*, model, guide\)"):
        load(path)
    check_same(load(path, *own_pair()), result)
    with refuses("both or neither"):
        load(path, own_pair()[0])
    with refuses("guide is a str, but must be callable"):
        load(path, own_pair()[0], "guide")
    with refuses(
        r"of another model or guide: .* \(\d+ such parameters\)\. Build both as they were"
    ):
        load(path, *plain_pair())
    model = deep_mixture(Own())
    wide = GaussianRecognition(SkipMLP((NUM_FEATURES + 1, 2 * DIM)), DIM)
    with refuses(r"has shape \[4, 4\] in the file, but \[4, 5\] here"):
        load(path, model, MessagePassingGuide(model, wide))


def test_parts_that_were_exchanged(path):
    model, guide = message_passing_pair()
    result = quiet_fit(model, guide, crowd(), epochs=1)
    result.model.emission = NormalEmission(SkipMLP((DIM, NUM_FEATURES)), NUM_FEATURES)
    result.save(path)
    with refuses("its parts are not those that it was constructed with"):
        load(path)


@pytest.mark.parametrize(
    "make_guide",
    [lambda: location_guide, lambda: AutoNormal(location_model)],
    ids=["pyro.param", "AutoNormal"],
)
def test_plain_pyro_models(make_guide, path):
    data = crowd()
    result = quiet_fit(location_model, make_guide(), data, elbo=Trace_ELBO(num_particles=3))
    result.save(path)
    with refuses(r"location_model, no plain value .*pass them as they were for the fit"):
        load(path)
    with refuses("for an autoguide or a guide with pyro.param pass data=, too"):
        load(path, location_model, make_guide())
    loaded = load(path, location_model, make_guide(), data)
    assert loaded.elbo == result.elbo
    assert type(loaded.elbo_objective) is Trace_ELBO
    assert loaded.elbo_objective.num_particles == 3
    stores = [one.parameter_store["params"] for one in (loaded, result)]
    assert equal(*stores)
    pd.testing.assert_frame_equal(loaded.history, result.history)
    with refuses(r"has no infer\(\)"):
        _ = loaded.probabilities


class DoubledELBO(Trace_ELBO):
    """A bound of a user's."""

    def loss(self, *args, **kwargs):
        return 2 * super().loss(*args, **kwargs)


@pytest.mark.parametrize("kind", ["plain", "amortized"])
def test_a_bound_stays_what_it_was(kind, path):
    result = fitted(kind)
    result.save(path)
    loaded = load(path)
    assert type(loaded.elbo_objective) is type(result.elbo_objective)
    loaded.save(path)
    assert type(load(path).elbo_objective) is type(result.elbo_objective)
    batch = full_batch(result.data)
    assert loaded.elbo_of(batch) == result.elbo_of(batch) == result.elbo


def test_another_bound_does_not_stand_in_for_a_users_own(path):
    model, guide = plain_pair()
    result = quiet_fit(model, guide, crowd(), elbo=DoubledELBO(max_plate_nesting=1))
    result.save(path)
    loaded = load(path)
    loaded.save(path)
    for one in (loaded, load(path)):
        assert one.elbo == result.elbo
        with refuses("DoubledELBO, which its file does not hold"):
            one.elbo_of(full_batch(crowd()))


def test_data_of_another_fit(path):
    result = fitted("plain")
    result.save(path)
    for other in (
        crowd(),
        CrowdData(result.data.features, item_ids=IDS),
        CrowdData(result.data.features[:, :3], result.data.pairs, item_ids=IDS),
    ):
        with refuses("the data are not those of the fit"):
            load(path, data=other)
    with refuses("data is a list, but must be the CrowdData of the fit"):
        load(path, data=[1])


def test_histories_of_every_kind(path):
    def note(trainer) -> None:
        row = {"text": "ü", "truth": True, "nothing": float("nan"), "big": np.float32(1e30)}
        trainer.history[-1] |= row | ({"late": 3} if trainer.epochs_done > 1 else {})

    result = quiet_fit(*plain_pair(), crowd(), callbacks=[note])
    result.save(path)
    pd.testing.assert_frame_equal(load(path).history, result.history, check_exact=True)


def test_results_that_cannot_be_saved(tmp_path):
    def draw(trainer) -> None:
        trainer.history[-1]["figure"] = io.BytesIO()

    result = quiet_fit(*plain_pair(), crowd(), callbacks=[draw], epochs=1)
    with refuses("history.figure.values.0 is a _io.BytesIO, no plain value"):
        result.save(tmp_path / "result")
    with refuses("there is no folder"):
        fitted("plain").save(tmp_path / "no" / "result")
    with refuses("is a folder: name a file in it"):
        fitted("plain").save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_files_that_are_no_results_are_not_written_over(path):
    result = fitted("plain")
    path.write_text("item,worker\n")
    with refuses(
        r"is there already and is no result, .*: name another file, or save\(path, overwrite=True\)"
    ):
        result.save(path)
    assert path.read_text() == "item,worker\n"
    result.save(path, overwrite=True)
    result.save(path)
    quiet_fit(*plain_pair(), crowd(), checkpoint=Checkpoint(checkpoint := path.with_name("run")))
    with refuses("run is there already and is no result"):
        result.save(checkpoint)
    with refuses("is there already and is no checkpoint"):
        quiet_fit(*plain_pair(), crowd(), checkpoint=Checkpoint(path))
    # As a program leaves it that asked for a name of its own.
    path.write_bytes(b"")
    result.save(path)
    check_same(load(path), result)


def test_links_and_modes_are_kept(path):
    target, result = path.with_name("target"), fitted("plain")
    path.symlink_to(target)
    result.save(path)
    target.chmod(0o640)
    result.save(path)
    assert path.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    check_same(load(path), result)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> bytes:
    """A whole file of a result."""
    path = tmp_path_factory.mktemp("saved") / "result"
    fit(*plain_pair(), crowd(), epochs=1, progress=False).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "result"


@given(share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_files_cut_short(saved, damaged, share):
    damaged.write_bytes(saved[: int(share * len(saved))])
    with refuses("is no result of pyro_crowdclust: .*cut short|is damaged or cut short"):
        load(damaged)


@given(share=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_files_with_a_wrong_byte(saved, damaged, share, change):
    content = bytearray(saved)
    content[int(share * len(saved))] ^= change
    damaged.write_bytes(content)
    # A byte may stand in what nothing depends on, such as the library's version.
    with contextlib.suppress(ValueError):
        assert load(damaged).stop_reason.startswith("budget")


@given(content=st.binary(max_size=200))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_files_of_random_bytes(damaged, content):
    damaged.write_bytes(content)
    with refuses("is no result of pyro_crowdclust: made by another program"):
        load(damaged)


class Evil:
    """What a pickle would run."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return Path.write_text, (self.witness, "it ran")


def _zip(witness: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data.pkl", pickle.dumps(Evil(witness)))
    return buffer.getvalue()


def _torch_file(witness: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(Evil(witness), buffer)
    return buffer.getvalue()


def _safetensors(metadata: dict[str, str] | None) -> bytes:
    return safetensors.torch.save({"weight": torch.ones(2)}, metadata)


FOREIGN = {
    "empty": lambda witness: b"",
    "text": lambda witness: b"item,worker,label\n" * 9,
    "json": lambda witness: json.dumps({"format": "pyro_crowdclust result"}).encode(),
    "deep json": lambda witness: (100_000).to_bytes(8, "little") + b"[" * 100_000,
    "list": lambda witness: (2).to_bytes(8, "little") + b"[]",
    "pickle": lambda witness: pickle.dumps(Evil(witness)),
    "zip": _zip,
    "torch": _torch_file,
    "safetensors": lambda witness: _safetensors(None),
    "other metadata": lambda witness: _safetensors({"format": "pt"}),
    "wrong version": lambda witness: _safetensors(
        {"format": "pyro_crowdclust result", "version": "?", "content": "{}", "sha256": ""}
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files(kind, path, tmp_path):
    witness = tmp_path / "witness"
    path.write_bytes(FOREIGN[kind](witness))
    with refuses(f"{path.name} is no result of pyro_crowdclust: made by another program, damaged"):
        load(path)
    assert not witness.exists()


def written(path: Path, saved: bytes, change) -> Path:
    """A file of a result with other metadata."""
    tensors = safetensors.torch.load(saved)
    size = int.from_bytes(saved[:8], "little")
    metadata = json.loads(saved[8 : 8 + size])["__metadata__"]
    change(metadata)
    path.write_bytes(safetensors.torch.save(tensors, metadata))
    return path


def test_files_of_a_newer_version(saved, path):
    def newer(metadata: dict[str, str]) -> None:
        metadata |= {"version": "2", "library": "9.1"}

    with refuses(
        r"format version 2 \(of pyro_crowdclust 9.1\), .* reads 1 at most: install a newer"
    ):
        load(written(path, saved, newer))


def test_files_that_do_not_exist(tmp_path):
    with refuses("cannot read .*nothing: No such file"):
        load(tmp_path / "nothing")
    with refuses("cannot read .*: Is a directory"):
        load(tmp_path)


def test_a_checkpoint_is_no_result(saved, path, tmp_path):
    quiet_fit(*plain_pair(), crowd(), checkpoint=path)
    with refuses("is no result but a pyro_crowdclust checkpoint: go on from it with fit"):
        load(path)
    path.write_bytes(saved)
    with refuses(
        "is no checkpoint but a pyro_crowdclust result: read it with pyro_crowdclust.load"
    ):
        quiet_fit(*plain_pair(), crowd(), checkpoint=Checkpoint(path, resume=True))


@pytest.mark.parametrize(
    "content",
    ["[1, 2", "[]", "3", "{}", '{"structure": null}', "[" * 100_000, '{"$tensor": "nothing"}'],
    ids=range(7),
)
def test_wrong_json(content, saved, path):
    """With the right checksum: somebody's own work."""
    tensors = safetensors.torch.load(saved)

    def change(metadata: dict[str, str]) -> None:
        metadata["content"] = content
        metadata["sha256"] = file_digest(content, tensors)

    with refuses("is damaged"):
        load(written(path, saved, change))


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
    with refuses("Mine, no plain value and no part of"):
        describe(Mine(), {})


def test_parts_remember_how_they_were_constructed():
    assert DirichletWeights(3, concentration=2.0).constructor_arguments == {
        "num_clusters": 3,
        "concentration": 2.0,
    }


@pytest.mark.parametrize("components", COMPONENTS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_every_mixture_describes_itself(weights, components):
    model = mixture(weights, components)
    guide = guide_of(model)
    structure, reason = structure_of(model, guide)
    assert reason == ""
    rebuilt, its_guide = build(json.loads(structure["text"]), structure["tensors"])
    assert its_guide.model is rebuilt
    assert its_guide.solver == guide.solver
    assert equal(parameters(rebuilt, its_guide), parameters(model, guide))


@pytest.mark.parametrize("emission", [name for name in EMISSIONS if name != "identity"])
def test_every_emission_describes_itself(emission):
    model = mixture("dirichlet", "gaussian", emission)
    assert structure_of(model, guide_of(model))[1] == ""


def test_scaled_features_describe_themselves(path):
    data = crowd()
    emission = Standardized(torch.full((NUM_FEATURES,), 2.0), torch.full((NUM_FEATURES,), 3.0))
    parts = DirichletWeights(3), GaussianComponents(3, NUM_FEATURES), emission
    model = SemiCrowdsourcedMixture(*parts, TwoCoin(data.num_workers, (3.0, 1.0)))
    result = quiet_fit(model, MessagePassingGuide(model), data)
    result.save(path)
    check_same(load(path), result)


def check_read_alike(path: Path, result: Fitted, new: np.ndarray | None) -> None:
    """Everything a mixture or a model of class labels says is the same from its file."""
    result.save(path)
    for data in (None, result.data):
        loaded = load(path, data=data)
        assert equal(parameters(loaded.model, loaded.guide), parameters(result.model, result.guide))
        assert np.array_equal(loaded.probabilities, result.probabilities)
        pd.testing.assert_frame_equal(loaded.history, result.history, check_exact=True)
        assert digest(data_fields(loaded.data)) == digest(data_fields(result.data))
        if new is not None:
            assert np.array_equal(loaded.predict_proba(new), result.predict_proba(new))
    # Nothing that the bound depends on was left behind.
    batch = full_batch(result.data)
    assert loaded.elbo_of(batch) == result.elbo_of(batch) == result.elbo


def of_prior(model: SemiCrowdsourcedMixture, supervision: str) -> CrowdData:
    features, clusters = simulated(model)
    with warnings.catch_warnings():
        # Simulated pages hold pairs more than once.
        warnings.filterwarnings("ignore", ".*repeats an earlier answer")
        return SUPERVISION[supervision].helped(features, clusters)


MIXTURES = [
    *((*parts, "identity", "nobody") for parts in itertools.product(WEIGHTS, COMPONENTS)),
    *(("dirichlet", "gaussian", emission, "two-coin workers") for emission in EMISSIONS),
    *(("stick-breaking", "diagonal gaussian", "identity", kind) for kind in SUPERVISION),
]  # fmt: skip


@pytest.mark.parametrize(("weights", "components", "emission", "supervision"), MIXTURES)
def test_every_mixture_is_read_as_it_was_written(weights, components, emission, supervision, path):
    model = mixture(weights, components, emission, supervision)
    data = of_prior(model, supervision)
    result = quiet_fit(model, guide_of(model), data, batch_size=None, step_size=0.5)
    check_read_alike(path, result, data.features[:7])
    loaded = load(path)
    for table in ("clusters", "components"):
        pd.testing.assert_frame_equal(getattr(loaded, table), getattr(result, table))
    if data.num_pairs:
        pd.testing.assert_frame_equal(loaded.workers, result.workers, check_exact=True)
    if data.known is not None:
        pd.testing.assert_frame_equal(cluster_classes(loaded), cluster_classes(result))
        assert np.array_equal(known_class_probabilities(loaded), known_class_probabilities(result))


def test_summed_out_assignments_are_read_as_they_were_written(path):
    spelled_out = mixture("dirichlet", "gaussian")
    parts = spelled_out.weights, spelled_out.components, spelled_out.emission
    model = SemiCrowdsourcedMixture(*parts, sum_out_assignments=torch.float64)
    features, _ = simulated(spelled_out)
    result = quiet_fit(model, guide_of(model), CrowdData(features), batch_size=None)
    check_read_alike(path, result, features[:7])
    assert load(path).model.sum_out_assignments == torch.float64


@pytest.mark.parametrize("kind", LABEL_MODELS)
def test_models_of_class_labels_are_read_as_they_were_written(kind, path):
    num_classes = 2 if kind == "two_coin" else 3
    data = labelled(num_classes)
    result = trained(LABEL_MODELS[kind](num_classes), data)
    knows_features = kind in ("momresp", "logresp")
    check_read_alike(path, result, data.features[:7] if knows_features else None)
    loaded = load(path)
    for table in ("confusion", "class_probabilities"):
        pd.testing.assert_frame_equal(
            getattr(loaded, table), getattr(result, table), check_exact=True
        )
