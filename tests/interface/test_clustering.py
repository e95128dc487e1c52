"""The first call: units, names and options, and what it hears."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.diagnostics.draws import global_draws
from pyro_crowdclust.interface import (
    DeepNormal,
    choice_for,
    cluster,
    mixture_for,
)
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import (
    BernoulliComponents,
    DiagonalGaussianComponents,
    GaussianComponents,
    MixedComponents,
)
from pyro_crowdclust.results import known_class_probabilities
from pyro_crowdclust.supervision import CertainLinks, ClassTable

from .small_choices import LINK, PAIRS, two_groups


@pytest.fixture(scope="module")
def in_own_units():
    return cluster(two_groups(), PAIRS, num_clusters=2, num_starts=1, progress=False)


@pytest.mark.long
@pytest.mark.parametrize(("scale", "shift"), [(1e8, 1e14), (1e-8, 0.0)])
def test_units_of_the_features_do_not_matter(scale, shift, in_own_units):
    features, before = two_groups(), in_own_units
    moved = scale * features + shift
    after = cluster(moved, PAIRS, num_clusters=2, num_starts=1, progress=False)
    np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-5)


@pytest.mark.long
def test_a_constant_feature_says_nothing():
    features = two_groups()
    constant = np.column_stack([features, np.full(len(features), 0.1)])
    with_it = cluster(constant, num_clusters=2, num_starts=1, progress=False)
    without = cluster(features, num_clusters=2, num_starts=1, progress=False)
    # Which of two clusters of one size comes first means nothing.
    assert clustering_accuracy(with_it.assignments, without.assignments) == 1


@pytest.mark.parametrize("num_clusters", [1, 60])
def test_any_number_of_clusters(num_clusters):
    parts = {"components": GaussianComponents, "num_clusters": num_clusters}
    result = cluster(two_groups(), **parts, epochs=3, progress=False)
    assert result.probabilities.shape == (40, num_clusters)


KNOWN = ["odd" if i % 2 else "even" for i in range(4)] + [None] * 36


@pytest.mark.long
def test_known_labels_and_links_are_heard():
    features = two_groups()
    few = {"num_clusters": 4, "num_starts": 1, "progress": False}
    by_labels = cluster(features, known=KNOWN, **few)
    assert isinstance(by_labels.model.supervision, ClassTable)
    classes = known_class_probabilities(by_labels).argmax(1)
    assert np.array_equal(classes, np.arange(40) % 2)  # "even" comes first
    by_links = cluster(features, must_link=LINK, **few)
    assert isinstance(by_links.model.supervision, CertainLinks)
    own = ClassTable(4, 2, concentration=0.5)
    data = CrowdData(features, known=KNOWN)
    assert mixture_for(data, num_clusters=4, supervision=own).model.supervision is own
    deep = mixture_for(data, num_clusters=4, networks=DeepNormal(dim=2, hidden=(4,)))
    assert isinstance(deep.model.supervision, ClassTable)


@pytest.mark.long
def test_answers_and_links_go_together():
    """All data in every step, however many: a field and answers draw minibatches differently."""
    links = {"must_link": {"left": [4, 5], "right": [6, 7]}}
    result = cluster(two_groups(), PAIRS, **links, num_clusters=3, progress=False)
    assert result.probabilities.sum(1) == pytest.approx(1)
    assert result.same_cluster_probability(4, 6) > 0.99
    assert result.workers.index.tolist() == ["a", "b"]
    many = np.random.default_rng(0).normal(size=(200_000, 40)).astype(np.float32)
    recipe = mixture_for(CrowdData(many, PAIRS, **links))
    assert recipe.options["batch_size"] is None
    assert mixture_for(CrowdData(many, PAIRS)).options["batch_size"] == 1024


def test_the_number_of_clusters_has_two_names():
    parts = {"components": GaussianComponents, "epochs": 2, "progress": False}
    result = cluster(two_groups(), n_clusters=3, **parts)
    assert result.probabilities.shape == (40, 3)
    with pytest.raises(
        ValueError, match="n_clusters is 3 and num_clusters is 4, but these are two names"
    ):
        cluster(two_groups(), n_clusters=3, num_clusters=4)


def test_a_seed_may_be_a_narrow_integer_of_numpy():
    parts = {"components": GaussianComponents, "epochs": 2, "num_starts": 2, "progress": False}
    narrow, wide = (cluster(two_groups(), seed=seed, **parts) for seed in (np.uint8(255), 255))
    np.testing.assert_array_equal(narrow.probabilities, wide.probabilities)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_clusters": "3"}, "num_clusters is '3', but must be a whole number"),
        ({"num_clusters": 3.0}, "num_clusters is 3.0, but must be a whole number"),
        ({"seed": None}, "seed is None, but must be a whole number"),
        ({"num_starts": 1.5}, "num_starts is 1.5, but must be a whole number"),
        ({"dtype": np.float32}, "dtype is <class 'numpy.float32'>, but must be torch.float32 or"),
        ({"dtype": torch.int64}, "dtype is torch.int64, but must be torch.float32 or"),
        (
            {"components": "gaussian"},
            "components is 'gaussian', but must be a class, such as .*or a",
        ),
        ({"components": GaussianComponents(3, 3)}, "components is an object of GaussianComponents"),
        ({"networks": DeepNormal}, r"networks is <class .*, but must be DeepNormal\(\), Deep"),
        ({"networks": "deep"}, "networks is 'deep', but must be DeepNormal"),
    ],
    ids=repr,
)
def test_parts_and_options_that_are_none(options, message):
    given = {} if {"num_clusters", "networks"} & {*options} else {"components": GaussianComponents}
    with pytest.raises(ValueError, match=message):
        cluster(two_groups(), progress=False, **given | options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tensors_of_low_precision(dtype):
    features = torch.from_numpy(two_groups()).to(dtype).requires_grad_()
    choice = choice_for(CrowdData(features))
    choice = dataclasses.replace(choice, forms=choice.forms[:1], sizes=(2,), first_size=2)
    result = choice.fit(num_starts=1, progress=False)
    assert sorted(np.bincount(result.assignments)) == [20, 20]


def test_means_are_in_the_units_and_under_the_names_of_the_table():
    features = 100 * two_groups() + [5.0, 0.0, -7.0]
    frame = pd.DataFrame(features, columns=["length", "width", "mass"])
    result = cluster(frame, num_clusters=2, progress=False)
    assert result.components.columns.tolist() == ["length", "width", "mass"]
    means = frame.groupby(result.assignments).mean()
    np.testing.assert_allclose(result.components, means, rtol=0.05, atol=10)
    tree = result.to_arviz(200, log_likelihood=False)
    drawn = tree["posterior"]["component_mean"]
    assert drawn["dim"].values.tolist() == ["length", "width", "mass"]
    np.testing.assert_allclose(drawn.mean(("chain", "draw")), means, rtol=0.1, atol=20)
    with result.inside():
        own = global_draws(result, 200).sites["components"].value.covariance
    scale = frame.std(ddof=0).to_numpy()
    covariance = tree["posterior"]["component_covariance"].values[0]
    expected = own.numpy()[:, result.cluster_order] * np.outer(scale, scale)
    np.testing.assert_allclose(covariance, expected, rtol=1e-9)


def test_units_of_mixed_rows():
    kinds = np.arange(60) % 2
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ill": rng.random(60) < 0.2 + 0.6 * kinds, "height": 20.0 * kinds + 160})
    frame["height"] += rng.normal(size=60)

    def components(num_clusters, num_features):
        parts = [DiagonalGaussianComponents(num_clusters, 1), BernoulliComponents(num_clusters, 1)]
        return MixedComponents(parts, [[1], [0]])

    result = cluster(frame.astype(float), components=components, num_clusters=2, progress=False)
    assert result.components.columns.tolist() == ["height", "ill"]
    means = frame.groupby(result.assignments).mean()[["height", "ill"]]
    np.testing.assert_allclose(result.components, means, rtol=0.02, atol=0.05)


def test_data_may_be_made_already():
    features = two_groups()
    options = {"num_clusters": 2, "components": GaussianComponents, "progress": False}
    of_data = cluster(CrowdData(features, PAIRS), **options)
    of_tables = cluster(features, PAIRS, **options)
    np.testing.assert_array_equal(of_data.probabilities, of_tables.probabilities)
    with pytest.raises(ValueError, match="pairs beside a CrowdData, which holds all tables: pass"):
        cluster(CrowdData(features), PAIRS)
    labels = {"item": [0, 1], "worker": ["ann", "bob"], "label": ["x", "y"]}
    with pytest.raises(ValueError, match="class labels, which cluster does not read: .* classify"):
        cluster(CrowdData(features, labels=labels))


@pytest.mark.parametrize("answers", [None, PAIRS], ids=["features", "answers"])
def test_features_without_an_axis_are_refused(answers):
    with pytest.raises(ValueError, match="no second axis: pass a column"):
        cluster(np.arange(40.0), answers, progress=False)
