"""Fits as ArviZ reads them, one or several: names, dimensions, attributes, and what is refused."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.diagnostics import aligned_order, arviz, pareto_k, to_arviz
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..crowds import quiet_fit
from ..refusals import refuses
from ..registries import PAIRS_OF_MODEL_AND_GUIDE
from .exports import DRAWS, IDS, NUM_ITEMS, one_chain


def test_names_dimensions_and_ids(tree):
    posterior = tree["posterior"]
    dims = {name: values.dims[2:] for name, values in posterior.data_vars.items()}
    assert dims == {
        "weights": ("cluster",),
        "component_mean": ("cluster", "dim"),
        "component_covariance": ("cluster", "dim", "dim_other"),
        "sensitivity": ("worker",),
        "specificity": ("worker",),
    }
    assert posterior["worker"].values.tolist() == [0, 1, 2]
    assert tree["log_likelihood"]["item"].values.tolist() == IDS
    assert posterior.sizes["draw"] == DRAWS
    np.testing.assert_allclose(one_chain(tree, "posterior", "weights").sum(1), 1.0)
    covariance = one_chain(tree, "posterior", "component_covariance")
    assert (np.linalg.eigvalsh(covariance) > 0).all()


def test_it_is_a_method_of_the_result(plain):
    found = plain.to_arviz(4, log_likelihood=False)
    expected = to_arviz(plain, 4, log_likelihood=False)
    np.testing.assert_array_equal(found["posterior"]["weights"], expected["posterior"]["weights"])


def test_history_and_attributes(plain, tree):
    np.testing.assert_array_equal(tree["sample_stats"]["elbo"][0], plain.history["elbo"])
    assert tree["sample_stats"]["epoch"].values.tolist() == list(range(1, 21))
    assert tree.attrs["inference_library"] == "pyro_crowdclust"
    assert tree["posterior"].attrs["seed"] == [0]
    assert tree["posterior"].attrs["guide"] == "MessagePassingGuide"
    assert "equal_draws" not in tree.attrs


def test_fits_that_disagree_show(plain):
    moved = copy.deepcopy(plain.guide)
    with torch.no_grad():
        eta = moved.posteriors["components"].natural_parameters
        eta[0] = eta[1]
    tree = to_arviz([plain, dataclasses.replace(plain, guide=moved)], 100, log_likelihood=False)
    assert arviz().rhat(tree, var_names=["component_mean"])["component_mean"].max() > 1.5


def test_histories_of_different_length(plain):
    shorter = dataclasses.replace(plain, history=plain.history.iloc[:5])
    elbo = to_arviz([shorter, plain], 3, log_likelihood=False)["sample_stats"]["elbo"]
    assert elbo.sizes["epoch"] == 20
    assert np.isnan(elbo.values[0, 5:]).all()
    np.testing.assert_array_equal(elbo.values[1], plain.history["elbo"])


def test_bad_input(plain, known):
    with pytest.raises(ValueError, match="an empty list"):
        to_arviz([])
    with pytest.raises(ValueError, match="num_draws is 0"):
        to_arviz(plain, 0)
    with pytest.raises(ValueError, match="fit 1 has the data CrowdData.*same data"):
        to_arviz([plain, known])
    with pytest.raises(ValueError, match="same number of clusters"):
        aligned_order(np.ones((4, 2)), np.ones((4, 3)))


@pytest.mark.parametrize("kind", ["pairs", "labels", "placements"])
def test_fits_of_other_answers_are_not_joined(kind):
    """Also if everybody answered as often about the same items."""
    if kind == "labels":
        model, guide, data = PAIRS_OF_MODEL_AND_GUIDE["dawid-skene"]()
        other = data.labels.assign(label=1 - data.labels["label"])
    elif kind == "pairs":
        model, guide, data = PAIRS_OF_MODEL_AND_GUIDE["plain mixture"]()
        other = data.pairs.assign(label=1 - data.pairs["label"])
    else:
        model, guide, data = PAIRS_OF_MODEL_AND_GUIDE["sorted pages"]()
        other = data.pages.assign(group=np.arange(len(data.pages)) % 2)
    parts = {"item_ids": data.item_ids}
    same, others = (
        CrowdData(data.features, **{kind: table}, **parts)
        for table in (data.pages if kind == "placements" else getattr(data, kind), other)
    )
    first, again, wrong = (quiet_fit(model, guide, one, epochs=1) for one in (data, same, others))
    assert to_arviz([first, again], 2, log_likelihood=False)["posterior"].sizes["chain"] == 2
    with refuses("fit 1 has the data CrowdData.*same data"):
        to_arviz([first, wrong], 2, log_likelihood=False)


def test_fits_of_other_models_are_not_joined(plain):
    parts = {"emission": plain.model.emission, "annotators": plain.model.annotators}

    def fit_of(weights, components):
        model = SemiCrowdsourcedMixture(weights, components, **parts)
        return quiet_fit(model, MessagePassingGuide(model), plain.data, epochs=1)

    diagonal = fit_of(DirichletWeights(3), DiagonalGaussianComponents(3, 4))
    larger = fit_of(DirichletWeights(4), GaussianComponents(4, 4))
    with refuses("fit 1 has no component_covariance, but .* has component_covariance of the shape"):
        to_arviz([plain, diagonal], 2, log_likelihood=False)
    with refuses("fit 1 has no component_precision, but the first fit has component_precision"):
        to_arviz([diagonal, plain], 2, log_likelihood=False)
    with refuses(r"weights of the shape \[4\], but the first fit has weights of the shape \[3\]"):
        to_arviz([plain, larger], 2, log_likelihood=False)


def test_a_loaded_fit_says_no_more_than_that_it_has_no_features(plain, tmp_path):
    plain.save(tmp_path / "fit.safetensors")
    with pytest.raises(ValueError, match=r"as load\(path, data=CrowdData\(features, ...\)\)$"):
        to_arviz(load(tmp_path / "fit.safetensors"), 3)


def test_exporting_uses_no_generator_of_the_caller(plain):
    before = torch.get_rng_state()
    to_arviz(plain, 3)
    pareto_k(plain, 30)
    assert torch.equal(before, torch.get_rng_state())
    assert full_batch(plain.data).num_items == NUM_ITEMS
