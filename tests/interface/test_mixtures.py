"""A fit without choices: what the data make of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.diagnostics.draws import global_draws
from pyro_crowdclust.emissions import BernoulliEmission, Identity, Standardized
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import (
    DeepBernoulli,
    DeepNormal,
    choice_for,
    cluster,
    mixture_for,
)
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import (
    BernoulliComponents,
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    MixedComponents,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.results import known_class_probabilities
from pyro_crowdclust.supervision import CertainLinks, ClassTable

from ..crowds import quiet_fit
from ..mixture_parts import CLUSTERS, COMPONENTS, mixture, simulated
from ..refusals import refuses

PAIRS = {"left": [0, 1, 0], "right": [2, 3, 1], "worker": list("aab"), "label": [1, 1, 0]}


def two_groups(num_items: int = 40) -> np.ndarray:
    groups = np.arange(num_items) % 2
    return 6.0 * groups[:, None] + np.random.default_rng(0).normal(size=(num_items, 3))


def test_plain_mixture_is_the_long_hand_one_on_standardized_features():
    features = two_groups()
    recipe = mixture_for(CrowdData(features, PAIRS), num_clusters=4)
    short = recipe.fit(progress=False, seed=3)
    data = CrowdData((features - features.mean(0)) / features.std(0), PAIRS)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(4), GaussianComponents(4, 3), Identity(), TwoCoin(2)
    )
    long = fit(model, MessagePassingGuide(model), data, seed=3, progress=False, **recipe.options)
    np.testing.assert_allclose(short.probabilities, long.probabilities, atol=1e-9)
    assert short.elbo == pytest.approx(long.elbo, abs=1e-9 * abs(long.elbo))
    assert short.stop_reason == long.stop_reason


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


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden": 16}, r"pass \(16,\) for one layer"),
        ({"hidden": (16, 0)}, "hidden is 0, but must be at least 1"),
        ({"hidden": (1.5,)}, "hidden is 1.5, but must be a whole number"),
        ({"dim": 0}, "dim is 0, but must be at least 1"),
    ],
)
def test_sizes_of_networks_are_whole_numbers(sizes, message):
    with pytest.raises(ValueError, match=message):
        DeepBernoulli(**sizes)


def test_networks_of_ones_own_lack_no_verb():
    class Own:
        dim = 2
        emission = recognition = DeepBernoulli.emission

    with pytest.raises(ValueError, match="what has their verbs, and has no check"):
        mixture_for(CrowdData(np.eye(4)), networks=Own())


def test_images_keep_their_shape():
    rng = np.random.default_rng(0)
    images = rng.uniform(size=(30, 2, 4)) * (np.arange(30) % 2)[:, None, None]
    networks = DeepBernoulli(dim=2, hidden=(8, 6))
    recipe = mixture_for(CrowdData(images, PAIRS), num_clusters=3, networks=networks)
    emission = recipe.model.emission
    assert isinstance(emission, BernoulliEmission)
    assert emission(torch.zeros(5, 2)).event_shape == (2, 4)
    result = recipe.fit(epochs=2, progress=False)
    assert result.latent_means.shape == (30, 2)
    assert "merges" in result.history


def test_networks_are_mirror_images():
    networks = DeepNormal(dim=2, hidden=(8, 6))
    decoder, encoder = networks.decoder(5), networks.recognition((5,)).network
    assert [layer.out_features for layer in decoder.hidden[::2]] == [6, 8]
    assert [layer.out_features for layer in encoder.hidden[::2]] == [8, 6]
    assert (decoder.output.out_features, encoder.output.out_features) == (5, 4)


def test_data_too_large_for_one_step_come_in_minibatches():
    small, large = (
        mixture_for(CrowdData(np.random.default_rng(0).normal(size=(n, 100)))) for n in (50, 2000)
    )
    assert small.options["batch_size"] is None
    assert large.options["batch_size"] == 1024


def test_networks_train_longer_on_few_items():
    epochs = [
        mixture_for(
            CrowdData(np.ones((n, 2)) * np.arange(n)[:, None] / n), networks=DeepNormal()
        ).options["epochs"]
        for n in (100, 30_000, 100_000)
    ]
    assert epochs == [40, 18, 10]


@pytest.mark.parametrize("name", COMPONENTS)
def test_components_of_every_kind(name):
    features, _ = simulated(mixture("dirichlet", name))
    made = COMPONENTS[name]()

    def components(num_clusters: int, num_features: int):
        assert (num_clusters, num_features) == (CLUSTERS, features.shape[1])
        return made

    recipe = mixture_for(CrowdData(features), num_clusters=CLUSTERS, components=components)
    emission = recipe.model.emission
    real = made.is_continuous
    mean, deviation = features.mean(0), features.std(0, correction=0)
    torch.testing.assert_close(emission.location, torch.where(real, mean, 0.0))
    torch.testing.assert_close(emission.scale, torch.where(real, deviation, 1.0))
    result = recipe.fit(epochs=5, progress=False)
    assert np.isfinite(result.elbo)
    assert result.components.shape == (CLUSTERS, len(made.column_labels()))


def test_mixed_rows_are_real_in_their_real_columns():
    made = COMPONENTS["mixed"]()
    assert made.columns == [[1], [0]]  # a Gaussian and a Poisson
    assert made.is_continuous.tolist() == [False, True]


def test_assignments_are_summed_out_where_nothing_ties_items():
    features = two_groups()
    alone, asked = (
        mixture_for(CrowdData(features, pairs), num_clusters=4) for pairs in (None, PAIRS)
    )
    linked = mixture_for(CrowdData(features, must_link=LINK), num_clusters=4)
    summed = [recipe.model.sum_out_assignments for recipe in (alone, asked, linked)]
    assert summed == [torch.float64, None, None]
    data = CrowdData((features - features.mean(0)) / features.std(0))
    model = SemiCrowdsourcedMixture(DirichletWeights(4), GaussianComponents(4, 3), Identity())
    long = fit(model, MessagePassingGuide(model), data, progress=False, **alone.options)
    short = alone.fit(progress=False)
    np.testing.assert_allclose(short.probabilities, long.probabilities, atol=1e-9)


LINK = {"left": [0], "right": [2]}
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
    with pytest.raises(ValueError, match="n_clusters is 3 and num_clusters 4, which is the same"):
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
        ({"dtype": np.float32}, "dtype is <class 'numpy.float32'>, but must be one of torch's"),
        ({"dtype": torch.int64}, "dtype is torch.int64, but must be one of torch's"),
        ({"components": "gaussian"}, "components is 'gaussian', but must make them from .*a class"),
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


def test_draws_of_mixed_rows_have_the_names_of_their_columns():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "height": rng.normal(size=40),
        "smokes": rng.random(40) < 0.5,
        "weight": rng.normal(size=40),
        "visits": rng.poisson(4, 40),
    })  # fmt: skip
    data = CrowdData(table, kinds={"visits": "count"})
    result = mixture_for(data, num_clusters=2).fit(epochs=2, progress=False)
    drawn = result.to_arviz(10)["posterior"]
    assert {dim: own.values.tolist() for dim, own in drawn.coords.items() if "dim" in dim} == {
        **dict.fromkeys(("dim_0", "dim_other_0"), ["height", "weight"]),
        **{"dim_1": ["visits"], "dim_2": ["smokes"]},
    }


def test_options_of_the_recipe_can_be_changed():
    recipe = mixture_for(CrowdData(two_groups()), num_clusters=2)
    assert len(recipe.fit(epochs=2, progress=False).history) == 2


def test_standardized_is_identity_in_other_units():
    location, scale = torch.tensor([1.0, -2.0]), torch.tensor([2.0, 0.5])
    x = torch.randn(7, 2)
    expected = Identity().latent((x - location) / scale)
    assert torch.equal(Standardized(location, scale).latent(x), expected)


def test_bad_input_is_refused():
    with refuses("the data have no features to cluster by: pass features"):
        mixture_for(CrowdData(None, PAIRS))
    with refuses("features have no second axis: pass a column"):
        mixture_for(CrowdData(np.arange(5.0)))
    with refuses("pass components or networks, not both"):
        mixture_for(CrowdData(two_groups()), components=GaussianComponents, networks=DeepNormal())
    with refuses("num_starts is 0, but must be at least 1"):
        mixture_for(CrowdData(two_groups())).fit(num_starts=0)
    for name, wrong in (("epochs", "5"), ("epochs", 2.5), ("batch_size", 7.5)):
        with refuses(f"{name} is {wrong!r}, but must be a whole number"):
            mixture_for(CrowdData(two_groups())).fit(**{name: wrong})
    with refuses("num_clusters is 0, but must be at least 1"):
        cluster(two_groups(), num_clusters=0)
    with refuses(r"DeepNormal takes one row of numbers per item, but .*\[2, 2\]: .*\[item, 4\]"):
        mixture_for(CrowdData(np.ones((3, 2, 2))), networks=DeepNormal())
    with refuses(
        "column 0 has a mean of .* deviation of .*e-40, but networks take numbers between"
    ):
        mixture_for(CrowdData(1e-40 * two_groups()), networks=DeepNormal())
    with refuses("scale 0 is not above zero: give features that are constant a scale of 1"):
        Standardized(torch.zeros(2), torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1e4, -30.0)])
def test_networks_standardize_for_themselves(scale, shift):
    torch.set_default_dtype(torch.float64)
    networks = DeepNormal(dim=2, hidden=(8,))
    features = two_groups(60)
    before, after = (
        mixture_for(CrowdData(own), num_clusters=3, networks=networks).fit(
            epochs=3, dtype=torch.float64, progress=False
        )
        for own in (features, scale * features + shift)
    )
    np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-5)
    # The bound is that of the features in their own units.
    jacobian = 60 * 3 * np.log(scale)
    assert after.elbo == pytest.approx(before.elbo - jacobian, abs=1e-3)


def test_networks_keep_the_units_in_a_file(tmp_path):
    features = 100 * two_groups(60) + 7
    networks = DeepNormal(dim=2, hidden=(8,))
    result = cluster(features, networks=networks, num_clusters=3, epochs=2, progress=False)
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(features), result.predict_proba(features))
    torch.testing.assert_close(loaded.model.emission.location, result.model.emission.location)


def test_fits_with_a_start_of_their_own_are_unchanged():
    """The partition of the start is of the latents, which without units are the features."""
    features = two_groups()
    model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 3), Identity())
    result = quiet_fit(model, MessagePassingGuide(model), CrowdData(features))
    assert len(np.unique(result.assignments)) == 2
