"""Few known labels do not make the clusters collapse."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.interface.choosing.trying import Candidates
from pyro_crowdclust.results import known_class_probabilities
from pyro_crowdclust.training import Stopping

PLACES = np.linspace(0, 1, 30)
SHAPES = [
    np.sin(2 * np.pi * PLACES),
    np.sin(4 * np.pi * PLACES),
    2 * PLACES - 1,
    np.exp(-((PLACES - 0.5) ** 2) / 0.02),
]


@pytest.fixture(scope="module")
def curves():
    """Curves of four shapes, and their shapes: with many columns that go together."""
    rng = np.random.default_rng(0)
    shape = rng.integers(0, 4, 160)
    drift = np.cumsum(rng.normal(0, 0.15, (160, 30)), 1) + rng.normal(0, 0.5, (160, 1))
    return rng.normal(1, 0.3, (160, 1)) * np.array(SHAPES)[shape] + drift, shape


@pytest.fixture(scope="module")
def labelled(curves):
    features, shape = curves
    known = {int(item): str(shape[item]) for kind in range(4) for item in of(shape, kind)}
    return CrowdData(features, known=known)


def of(shape, kind):
    return np.flatnonzero(shape == kind)[:3]


def test_labels_make_no_class_vanish(curves, labelled):
    _, shape = curves
    choice = choice_for(labelled)
    form = choice.forms[0]
    choice = dataclasses.replace(choice, forms=(form,), sizes=[4], first_size=4)
    usual = form.recipe(labelled, 4).fit(progress=False)
    result = choice.fit(num_starts=1, progress=False)
    tried = Candidates(choice, 0, progress=False).fit_of(form, 4, labelled)
    assert min(result.elbo, tried.elbo) > usual.elbo + 5
    others = labelled.known.numpy() < 0
    assert adjusted_rand_score(shape, result.assignments) > 0.6
    assert (known_class_probabilities(result).argmax(1) == shape)[others].mean() > 0.8


@pytest.mark.parametrize(("of_trial", "most"), [(60, 100), (115, 115)])
def test_the_fit_may_take_as_long_as_its_trial(labelled, of_trial, most):
    choice = choice_for(labelled)
    form = dataclasses.replace(choice.forms[0], epochs=of_trial)
    choice = dataclasses.replace(choice, forms=(form,), sizes=[4], first_size=4)
    result = choice.fit(num_starts=1, progress=False, stopping=Stopping(tolerance=None))
    assert len(result.history) == most
