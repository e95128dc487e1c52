"""What does not fit together is refused before training, in words; for tables see tests/data."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from torch import nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.distributions import ConjugatePosterior
from pyro_crowdclust.emissions import BernoulliEmission, Identity, NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.minibatches import AnswerSampling, MinibatchSampler
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP
from pyro_crowdclust.training import RobbinsMonro, Stopping

from ..crowds import (
    DIM,
    NUM_CLUSTERS,
    NUM_FEATURES,
    NUM_WORKERS,
    crowd,
    deep_mixture,
    message_passing_pair,
    plain_mixture,
    plain_pair,
    quiet_fit,
)
from ..plain_pyro import guide_of, two_sites
from ..refusals import refuses


def bernoulli_pair() -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    model = deep_mixture(BernoulliEmission(SkipMLP((DIM, 5, NUM_FEATURES))))
    recognition = GaussianRecognition(SkipMLP((NUM_FEATURES, 5, 2 * DIM)), DIM)
    return model, MessagePassingGuide(model, recognition)


@pytest.mark.parametrize(("value", "shown"), [(255.0, "255"), (-0.25, "-0.25"), (1.001, "1.001")])
@pytest.mark.parametrize("row", [0, 4096 + 7])
def test_features_outside_the_support_of_the_emission(value, shown, row):
    features = np.zeros((5000, NUM_FEATURES), dtype=np.float32)
    features[row, 2] = value
    features[4999, 0] = 7
    message = rf"needs features in \[0, 1\], but row {row} has {shown}: .*divide by 255"
    with refuses(message):
        quiet_fit(*bernoulli_pair(), CrowdData(features))


def test_features_on_the_edge_of_the_support_are_inside():
    features = np.zeros((20, NUM_FEATURES))
    features[::2] = 1
    bernoulli_pair()[0].check(CrowdData(features))


@pytest.mark.parametrize("num_clusters", [0, -3])
@pytest.mark.parametrize("part", [DirichletWeights, lambda k: GaussianComponents(k, 2)])
def test_too_few_clusters(num_clusters, part):
    with refuses(f"num_clusters is {num_clusters}, but a mixture needs at least 1: choose"):
        part(num_clusters)


def test_weights_and_components_that_disagree():
    with refuses("weights have 3 clusters, components 4: give both the same number"):
        SemiCrowdsourcedMixture(DirichletWeights(3), GaussianComponents(4, 2), Identity())


def test_priors_outside_their_domain():
    with refuses("lie outside the domain"):
        DirichletWeights(3, concentration=0.0)
    with refuses("lie outside the domain"):
        GaussianComponents(3, 2, degrees=1.0)
    with refuses("lie outside the domain"):
        TwoCoin(2, sensitivity=(1.0, -1.0))


@pytest.mark.parametrize("what", ["model", "guide"])
@pytest.mark.parametrize("bad", [None, 3, "model.pt", {"weights": 1}], ids=repr)
def test_something_that_cannot_be_called(what, bad):
    model, guide = plain_pair()
    parts = {"model": model, "guide": guide} | {what: bad}
    with refuses(f"{what} is a {type(bad).__name__}, but must be callable: a Pyro function"):
        fit(**parts, data=crowd())


def test_an_emission_that_cannot_be_called():
    with refuses("emission is a str, but must be an Emission or a callable"):
        SemiCrowdsourcedMixture(DirichletWeights(3), GaussianComponents(3, 2), "normal")


@pytest.mark.parametrize(
    "data", [np.ones((5, 2)), pd.DataFrame({"x": [1.0]}), None, [1, 2]], ids=lambda d: str(type(d))
)
def test_data_in_no_container(data):
    with refuses(f"data is a {type(data).__name__}, but must be a CrowdData: wrap"):
        fit(*plain_pair(), data)


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("epochs", lambda value: {"epochs": value}),
        ("batch_size", lambda value: {"batch_size": value}),
        ("steps", lambda value: {"stopping": Stopping(steps=value)}),
        ("patience", lambda value: {"stopping": Stopping(patience=value)}),
        ("answers_per_step", lambda value: {"answer_sampling": AnswerSampling(value)}),
    ],
)
def test_counts_below_one(name, options, value):
    with refuses(f"{name} is {value}.* must be at least 1"):
        quiet_fit(*plain_pair(), crowd(), **options(value))


@pytest.mark.parametrize("step_size", [0, -0.1, 1.5, float("nan")])
@pytest.mark.parametrize("as_function", [False, True])
def test_step_sizes_outside_their_range(step_size, as_function):
    given = (lambda step: step_size) if as_function else step_size
    with refuses(f"step_size is {step_size}, but a natural step needs 0 < step_size <= 1"):
        quiet_fit(*plain_pair(), crowd(), step_size=given)


@pytest.mark.parametrize(
    "arguments", [{"initial": 0.0}, {"initial": 1.1}, {"delay": 0.0}, {"forgetting": 1.5}], ids=repr
)
def test_schedules_outside_their_range(arguments):
    with refuses("needs 0 < initial <= 1, delay > 0 and 0 <= forgetting <= 1"):
        RobbinsMonro(**arguments)


def test_a_guide_that_misses_a_site():
    with refuses("the guide lacks the model's site 'scale': sample every latent site"):
        quiet_fit(two_sites, guide_of("mean"), crowd())
    with refuses("the guide lacks the model's sites 'mean', 'scale': sample every"):
        quiet_fit(two_sites, guide_of(), crowd())


def test_a_guide_with_a_site_too_many():
    with refuses("the guide samples 'sacle', which the model does not have: rename the site"):
        quiet_fit(two_sites, guide_of("mean", "scale", "sacle"), crowd())


def test_a_guide_with_a_misspelt_site():
    with refuses("lacks the model's site 'scale': it samples 'sacle', which .* the same names"):
        quiet_fit(two_sites, guide_of("mean", "sacle"), crowd())


def test_a_model_that_takes_no_batch():
    with refuses(
        r"the model mistaken\(\) cannot be called with a batch alone: too many positional"
    ):
        quiet_fit(mistaken, guide_of("mean"), crowd())
    with refuses(r"the guide mistaken\(\) cannot be called with a batch alone"):
        quiet_fit(two_sites, poutine.block(mistaken), crowd())


def mistaken():
    """A model that forgot its batch."""


@pytest.mark.parametrize("handler", [poutine.trace, partial(poutine.scale, scale=0.5)])
def test_a_fit_inside_a_handler(handler):
    with handler(), refuses("fit is called inside a handler of Pyro.*call it outside"):
        quiet_fit(*plain_pair(), crowd())


@pytest.mark.parametrize("is_enumerated", [True, False])
def test_a_plate_of_the_items_of_another_size(is_enumerated):
    def model(batch):
        location = pyro.param("location", torch.zeros(NUM_FEATURES, dtype=torch.float64))
        with pyro.plate("items", 7):
            if is_enumerated:
                pyro.sample("z", dist.Categorical(torch.ones(2)), infer={"enumerate": "parallel"})
            pyro.sample("o", dist.Normal(location, 1.0).to_event(1), obs=batch.features)

    with refuses(r"site 'o' observes .* \(plates: 'items' of 7\).*len\(batch.items\) members"):
        quiet_fit(model, guide_of(), crowd(90), batch_size=None)


def test_numbers_of_items_with_an_axis_too_many():
    def model(batch):
        location = pyro.param("location", torch.zeros(()))
        with pyro.plate("items", len(batch.items)):
            pyro.sample("o", dist.Normal(location, 1.0), obs=batch.features[:, :1])

    with refuses(r"'o' observes values \[90, 1\], .* or observe batch.features\[:, 0\] if"):
        quiet_fit(model, guide_of(), crowd(90), batch_size=None)


def test_a_model_in_place_of_a_guide():
    with refuses("the guide observes 'o', but only the model may observe data: call fit.model"):
        quiet_fit(guide_of("mean", "scale"), two_sites, crowd())


def test_a_class_in_place_of_a_guide():
    with refuses("guide is the class AutoNormal, but must be an object of it: call AutoNormal"):
        quiet_fit(two_sites, AutoNormal, crowd())


@pytest.mark.parametrize(
    ("returned", "kind"),
    [
        (
            lambda mean: torch.distributions.Normal(mean, 1.0),
            "Normal of torch.distributions.normal",
        ),
        (lambda mean: mean, "Tensor of torch"),
    ],
)
@pytest.mark.parametrize("has_network", [True, False])
def test_emissions_that_return_no_distribution_of_pyro(returned, kind, has_network):
    class OwnEmission(nn.Module):
        def __init__(self):
            super().__init__()
            network = nn.Linear(NUM_FEATURES, NUM_FEATURES).double()
            self.network = network if has_network else nn.Identity()

        def forward(self, latent):
            return returned(self.network(latent))

    parts = DirichletWeights(2), GaussianComponents(2, NUM_FEATURES), OwnEmission()
    model = SemiCrowdsourcedMixture(*parts, TwoCoin(NUM_WORKERS))
    recognition = GaussianRecognition(SkipMLP((NUM_FEATURES, 2 * NUM_FEATURES)), NUM_FEATURES)
    with refuses(rf"returns a {kind}, but must return a Pyro distribution.*Normal\(mean, 1.0\)"):
        quiet_fit(model, MessagePassingGuide(model, recognition), crowd())


def test_data_of_another_size_than_the_model_says():
    def model(batch):
        location = pyro.param("location", torch.tensor(0.0))
        pyro.sample("o", dist.Normal(location, 1.0).expand([7]), obs=batch.features[:, 0])

    with refuses(r"the site 'o' observes values .*, but has the axes \[7\] \(plates: none\)"):
        quiet_fit(model, guide_of(), crowd())


def test_a_guide_of_the_library_that_misses_a_site():
    model, guide = plain_pair()
    with refuses("the guide lacks the model's site 'same'"):
        quiet_fit(model, poutine.block(guide, hide=["same"]), crowd(), batch_size=None)


def test_a_guide_of_another_model():
    (model, _), (_, guide) = message_passing_pair(), message_passing_pair()
    message = "made for another model than the one that is passed.*pass guide.model, or make the M"
    with refuses(message):
        quiet_fit(model, guide, crowd())
    wrapper = nn.Sequential(guide.model)
    result = quiet_fit(wrapper, guide, crowd(), epochs=1, initialize=None)
    assert result.guide.model is result.model[0]


def test_model_and_guide_the_other_way_round():
    for model, guide in (plain_pair(), message_passing_pair()):
        with refuses(r"which is a guide, and the guide is its model .*: pass the model first"):
            quiet_fit(guide, model, crowd())


def test_a_guide_without_a_recognition_network():
    with refuses("latents are not observed: give the guide a recognition network, e.g. Gaussian"):
        MessagePassingGuide(deep_mixture())


def test_nothing_to_amortize():
    recognition = AmortizedRecognition((NUM_FEATURES, 5), NUM_FEATURES, NUM_CLUSTERS)
    with refuses(r"there is nothing to amortize: use MessagePassingGuide\(model\)"):
        AmortizedGuide(plain_mixture(), recognition)


@pytest.mark.parametrize("num_workers", [NUM_WORKERS - 1, NUM_WORKERS + 1])
def test_answers_of_another_number_of_workers(num_workers):
    model = plain_mixture(num_workers)
    message = f"the model has {num_workers} workers, but the answers come from {NUM_WORKERS}: build"
    with refuses(message):
        quiet_fit(model, MessagePassingGuide(model), crowd())


def test_answers_that_no_annotator_gave():
    model = plain_mixture(num_workers=None)
    with refuses("the data have 90 answers, but the model has no annotators: build it with TwoCoi"):
        quiet_fit(model, MessagePassingGuide(model), crowd())


def test_annotators_may_have_no_answers():
    data = CrowdData(crowd().features)
    result = quiet_fit(*plain_pair(), data)
    assert result.stop_reason.startswith("budget")
    with refuses("there are no workers: the model has no annotators, or the data have no answers"):
        _ = result.workers


def test_no_features():
    data = CrowdData(None, crowd().pairs)
    for pair in (plain_pair(), message_passing_pair()):
        with refuses("the data have no features, but this model needs them: pass features"):
            quiet_fit(*pair, data)


def test_features_in_one_row():
    with refuses(r"features have no second axis: pass a column, features\[:, None\]"):
        quiet_fit(*plain_pair(), CrowdData(np.arange(5.0)))


def test_components_of_another_dimension_than_the_features():
    message = "have dimension 4, but every item has 7 features.*build GaussianComponents for 7"
    with refuses(message):
        quiet_fit(*plain_pair(), CrowdData(np.eye(7)))


class Flat(nn.Module):
    """A user's emission that forgot ``to_event``."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Linear(DIM, NUM_FEATURES)

    def forward(self, x):
        return dist.Normal(self.network(x), 1.0)


@pytest.mark.parametrize(
    ("emission", "message"),
    [
        (
            lambda: NormalEmission(SkipMLP((DIM, 5, 7)), 7),
            r"makes features of shape \[7\], but those of the data have shape \[4\]: change",
        ),
        (
            lambda: BernoulliEmission(SkipMLP((DIM, 5, 4)), event_shape=(2, 2)),
            r"makes features of shape \[2, 2\], but those of the data have shape \[4\]",
        ),
        (Flat, r"makes features of shape \[\], .* \[4\]: .*to_event"),
        (
            lambda: NormalEmission(SkipMLP((DIM + 1, 5, NUM_FEATURES)), NUM_FEATURES),
            f"does not take latents of dimension {DIM}, which the components have",
        ),
    ],
    ids=["too many", "image", "no event", "latent"],
)
def test_emissions_that_do_not_fit(emission, message):
    model = deep_mixture(emission())
    recognition = GaussianRecognition(SkipMLP((NUM_FEATURES, 2 * DIM)), DIM)
    with refuses(message):
        quiet_fit(model, MessagePassingGuide(model, recognition), crowd())


@pytest.mark.parametrize(
    ("recognition", "message"),
    [
        (
            lambda: GaussianRecognition(SkipMLP((7, 5, 2 * DIM)), DIM),
            "takes 7 features per item, but the data have 4: build it with input size 4",
        ),
        (
            lambda: GaussianRecognition(SkipMLP((NUM_FEATURES, 5, DIM)), DIM),
            "returns 2 numbers, but mean and precision in 2 dimensions need 4: make that",
        ),
        (
            lambda: GaussianRecognition(SkipMLP((NUM_FEATURES, 5, 2 * 5)), 5),
            "is for latents of dimension 5, but the model's components have dimension 2: give",
        ),
        (
            lambda: GaussianRecognition(nn.Linear(7, 2 * DIM), DIM),
            "the recognition network cannot run on 4 features per item.*Build it with input size 4",
        ),
        (
            lambda: GaussianRecognition(nn.Linear(NUM_FEATURES, 2 * DIM).float(), DIM),
            r"the guide cannot run .*float64.*pass their dtype",
        ),
    ],
    ids=["features", "outputs", "latent", "own network", "dtype"],
)
def test_recognition_networks_that_do_not_fit(recognition, message):
    model = deep_mixture()
    with refuses(message):
        quiet_fit(model, MessagePassingGuide(model, recognition()), crowd())


def test_an_error_in_a_users_own_part_says_where():
    class Odd(nn.Module):
        def forward(self, features):
            return features.reshape(7, 11)

    model = deep_mixture()
    guide = MessagePassingGuide(model, GaussianRecognition(Odd(), DIM))
    with refuses(
        r"the recognition network cannot run .*: shape .*in forward, test_bad_input.py line"
    ):
        quiet_fit(model, guide, crowd())


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (((7, 5), DIM, NUM_CLUSTERS), "takes 7 features per item, but the data have 4"),
        (((NUM_FEATURES, 5), 5, NUM_CLUSTERS), "latents of dimension 5, .* have dimension 2"),
        (((NUM_FEATURES, 5), DIM, 9), "has 9 clusters, but the model has 3: give both the same"),
    ],
    ids=["features", "latent", "clusters"],
)
def test_amortized_networks_that_do_not_fit(sizes, message):
    model = deep_mixture()
    with refuses(message):
        quiet_fit(model, AmortizedGuide(model, AmortizedRecognition(*sizes)), crowd())


def test_a_network_with_one_size():
    with refuses(r"sizes is \(3,\), but must have at least an input and an output size"):
        SkipMLP((3,))


def test_natural_parameters_outside_their_domain():
    posterior = ConjugatePosterior(DirichletWeights(3).prior)
    with refuses("natural parameters outside the domain of Dirichlet"):
        posterior.set_natural_parameters(torch.tensor([1.0, -2.0, 1.0]))


def test_new_items_of_another_shape():
    result = quiet_fit(*plain_pair(), crowd())
    for verb in (result.predict, result.predict_proba, result.transform):
        with refuses(
            r"features of a new item have shape \[3\], but those of the fit have shape \[4"
        ):
            verb(np.ones((2, 3)))
    with refuses("features row 1, column 0 is infinite"):
        result.predict(np.full((2, NUM_FEATURES), [[1.0], [np.inf]]))


def test_missing_features_where_nothing_integrates_them_out():
    features = crowd().features.copy()
    features[3, 1] = np.nan
    message = "1 feature of the data are missing .*, which SemiCrowdsourcedMixture does not"
    with refuses(message):
        quiet_fit(*bernoulli_pair(), CrowdData(features))
    with refuses("which two_sites does not integrate out: fill them in"):
        quiet_fit(two_sites, guide_of("mean", "scale"), CrowdData(features))
    result = quiet_fit(*message_passing_pair(), crowd(), epochs=1)
    with refuses(message):
        result.predict(features)


def test_a_sampler_needs_sizes():
    with refuses("batch_size is 0, but must be at least 1"):
        MinibatchSampler(crowd(), batch_size=0, generator=torch.Generator())
