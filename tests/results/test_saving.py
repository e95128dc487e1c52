"""Results in files: what is read is what was written, and nothing else is ever run."""

from __future__ import annotations

import io
import itertools
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO
from torch import nn

from pyro_crowdclust import CrowdData, Fitted, fit, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import NormalEmission, Standardized
from pyro_crowdclust.files.description import build
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.results import cluster_classes, known_class_probabilities
from pyro_crowdclust.results.saved_data import data_fields
from pyro_crowdclust.results.saving import structure_of
from pyro_crowdclust.training import Checkpoint
from pyro_crowdclust.training.fingerprint import digest

from ..crowds import (
    DIM,
    NUM_FEATURES,
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
from ..refusals import refuses
from ..same_fits import equal, parameters
from .saved_fits import MAKERS, check_same, fitted


@pytest.mark.parametrize("kind", MAKERS)
def test_a_loaded_result_is_the_saved_one(kind, path):
    result = fitted(kind)
    result.save(path)
    loaded = load(path)
    check_same(loaded, result)
    assert loaded.guide.model is loaded.model
    assert loaded.data.features is None
    with refuses(r"features of a new item have shape \[3\], but those of the fit have shape \[4\]"):
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
    recognition = GaussianRecognition(
        SkipMLP((NUM_FEATURES, 2 * DIM)), DIM, scale=torch.full((NUM_FEATURES,), 7.0)
    )
    term = RecognitionTerm(5.0)
    guide = MessagePassingGuide(model, recognition, full_gradient=True, recognition_term=term)
    quiet_fit(model, guide, crowd(), epochs=1).save(path)
    loaded = load(path).guide
    assert loaded.full_gradient is True
    assert loaded.recognition.scale.tolist() == [7.0] * NUM_FEATURES
    assert loaded.recognition_term.weight == 5.0


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
    with refuses("both, or neither"):
        load(path, own_pair()[0])
    with refuses("guide is a str, but must be callable"):
        load(path, own_pair()[0], "guide")
    with refuses(
        r"belongs to another model or guide: .* \(\d+ such parameters\)\. Build both as for"
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
    with refuses("its parts were changed after construction"):
        load(path)


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
        with refuses("DoubledELBO, which files cannot hold"):
            one.elbo_of(full_batch(crowd()))


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
    with refuses("history.figure.values.0 is a _io.BytesIO, which is neither a plain value"):
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
        r"exists already and is not a result, .*: give another path, or save\(path, overwrite="
    ):
        result.save(path)
    assert path.read_text() == "item,worker\n"
    result.save(path, overwrite=True)
    result.save(path)
    quiet_fit(*plain_pair(), crowd(), checkpoint=Checkpoint(checkpoint := path.with_name("run")))
    with refuses("run exists already and is not a result"):
        result.save(checkpoint)
    with refuses("exists already and is not a checkpoint"):
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


@pytest.mark.long
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
