"""Every registered part against its contract: its verbs, and what they promise."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from pyro import poutine
from torch import Tensor

import pyro_crowdclust
from pyro_crowdclust import CrowdData, Fitted, load, protocols
from pyro_crowdclust.annotators import (
    GradedAnswers,
    HalvedGrades,
    LabelLikelihood,
    looks_of,
    summarize_workers,
)
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.distributions import ConjugatePosterior
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import ClassLabelGuide, MessagePassingGuide, PartitionGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import Components, DirichletWeights, GaussianComponents
from pyro_crowdclust.models import AnsweredPartition, DawidSkene, SemiCrowdsourcedMixture
from pyro_crowdclust.partitions import PitmanYor
from pyro_crowdclust.training import Callback, Trainer

from .crowds import crowd, fit_plain, in_double, plain_mixture, quiet_fit
from .mixture_parts import COMPONENTS
from .registries import (
    CALLBACKS,
    CLASS_ANNOTATORS,
    CLASSES,
    CLUSTERS,
    FEATURES,
    PAIR_ANNOTATORS,
    PAIRS_OF_MODEL_AND_GUIDE,
    STARTS,
    WORKERS,
    classed,
    labelled,
)


def optional_contracts() -> list[type]:
    """All contracts called ``Supports...``, in ``protocols/`` and in files that ask for one."""
    names = [room.name for room in walk_packages(pyro_crowdclust.__path__, "pyro_crowdclust.")]
    return [
        contract
        for module in (import_module(name) for name in names if ".interface" not in name)
        for name, contract in vars(module).items()
        if name.startswith("Supports")
        and contract.__module__ == module.__name__
        and getattr(contract, "_is_runtime_protocol", False)
    ]


# A verb may mean something else in annotators than in guides; whose it is, a contract says first.
OPTIONAL = optional_contracts()
OF_ANNOTATORS = [one for one in OPTIONAL if "nnotators" in one.__doc__.partition(".")[0]]
OF_OTHERS = [one for one in OPTIONAL if one not in OF_ANNOTATORS]

each_pair_annotators = pytest.mark.parametrize("name", PAIR_ANNOTATORS)
each_class_annotators = pytest.mark.parametrize("name", CLASS_ANNOTATORS)


def verbs(contract: type) -> list[str]:
    """What a contract asks for."""
    bases = [base for base in contract.__mro__ if getattr(base, "_is_protocol", False)]
    members = {name for base in bases for name in (*vars(base), *base.__annotations__)}
    return sorted(name for name in members if not name.startswith("_") or name == "__call__")


def assert_keeps(part: object, contract: type) -> None:
    """The part has every verb, and each can be called as the contract calls it."""
    for name in verbs(contract):
        assert name in dir(part), f"{type(part).__name__} has no {name}"
        promised = inspect.getattr_static(contract, name, None)
        if not inspect.isfunction(promised):
            continue
        wanted = list(inspect.signature(promised).parameters.values())[1:]
        given = inspect.signature(getattr(part, name))
        by_position = [p for p in wanted if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        given.bind(*by_position, **{p.name: p for p in wanted if p not in by_position})
        optional = {p.name for p in by_position if p.default is not inspect.Parameter.empty}
        assert optional <= given.parameters.keys(), (type(part).__name__, name)


def assert_keeps_optional(part: object, contracts: list[type]) -> int:
    """The part keeps all of these that it has; how many these are."""
    kept = [contract for contract in contracts if isinstance(part, contract)]
    for contract in kept:
        assert_keeps(part, contract)
        for name in verbs(contract):
            # So isinstance looks for it from Python 3.12 on: a submodule or a buffer is not found.
            inspect.getattr_static(part, name)
    return len(kept)


def test_a_missing_verb_and_a_wrong_signature_are_seen():
    class Wrong:
        def check(self) -> None: ...

    with pytest.raises(AssertionError, match="has no infer"):
        assert_keeps(Wrong(), protocols.SupportsInfer)
    with pytest.raises(TypeError, match="too many"):
        assert_keeps(Wrong(), protocols.SupportsCheck)


def draw_sites(priors: dict) -> dict[str, Tensor]:
    """Statistics of a real theta for every site."""
    return {
        name: prior.family.sufficient_statistics(prior.family.sample(prior.natural_parameters))
        for name, prior in priors.items()
    }


class TestPairAnnotators:
    @each_pair_annotators
    def test_contract(self, name):
        annotators = PAIR_ANNOTATORS[name](WORKERS)
        assert_keeps(annotators, protocols.PairAnnotators)
        assert_keeps_optional(annotators, OF_ANNOTATORS)
        for prior in annotators.priors().values():
            assert prior.natural_parameters.shape[0] == WORKERS
            assert prior.dims[0] == "worker"

    @each_pair_annotators
    def test_answers_are_linear_and_weighed_by_their_ratio(self, name):
        annotators = PAIR_ANNOTATORS[name](WORKERS)
        first, second = (draw_sites(annotators.priors()) for _ in range(2))
        worker = torch.arange(WORKERS).repeat(2)
        label = torch.tensor([1.0, 0.0]).repeat_interleave(WORKERS)
        same = torch.rand(2 * WORKERS)

        def log_prob(same: Tensor, rates: dict[str, Tensor]) -> Tensor:
            return annotators.answer(same, rates, worker).log_prob(label)

        ends = log_prob(torch.ones_like(same), first), log_prob(torch.zeros_like(same), first)
        ratio = annotators.log_likelihood_ratio(first, worker, label)
        torch.testing.assert_close(ends[0] - ends[1], ratio)
        torch.testing.assert_close(log_prob(same, first), same * ends[0] + (1 - same) * ends[1])
        for end in ends:  # "same" and "different" are all that can be said
            torch.testing.assert_close(end.exp().view(2, -1).sum(0), torch.ones(WORKERS))
        mixed = {site: 0.3 * first[site] + 0.7 * second[site] for site in first}
        torch.testing.assert_close(
            log_prob(same, mixed), 0.3 * log_prob(same, first) + 0.7 * log_prob(same, second)
        )

    @pytest.mark.long
    @each_pair_annotators
    def test_weight_and_its_deviation_are_those_of_draws(self, name):
        annotators = PAIR_ANNOTATORS[name](WORKERS)
        posteriors = {site: ConjugatePosterior(p) for site, p in annotators.priors().items()}
        summary = summarize_workers(annotators, posteriors, interval=0.9)
        worker = torch.arange(WORKERS)
        weights = []
        for _ in range(4000):
            rates = draw_sites(annotators.priors())
            yes, no = (
                annotators.log_likelihood_ratio(rates, worker, torch.full([WORKERS], label))
                for label in (1.0, 0.0)
            )
            weights.append(yes - no)
        drawn = torch.stack(weights).numpy()
        error = drawn.std(0) / 4000**0.5
        assert (np.abs(drawn.mean(0) - summary.weight) < 5 * error).all()
        np.testing.assert_allclose(drawn.std(0), summary.weight_sd, rtol=0.1)

    @each_pair_annotators
    def test_a_fit_and_what_is_read_from_it(self, name):
        data = crowd()
        model = SemiCrowdsourcedMixture(
            DirichletWeights(CLUSTERS, 1.0),
            GaussianComponents(CLUSTERS, FEATURES),
            Identity(),
            PAIR_ANNOTATORS[name](data.num_workers),
        )
        result = fit_plain(model, MessagePassingGuide(model), data, epochs=8)
        assert (result.history["elbo"].diff().dropna() > -1e-6).all()
        assert np.isfinite(result.workers.to_numpy()).all()
        assert result.workers["weight"].min() > 0  # all of them are good
        posterior = to_arviz(result, num_draws=10)["posterior"]
        for site, prior in model.annotators.priors().items():
            assert posterior[site].dims[2 : 2 + len(prior.dims)] == prior.dims


LOOK_ANNOTATORS: dict[str, Callable[[int], Any]] = PAIR_ANNOTATORS | {
    "two grades of looks": lambda workers: GradedAnswers(workers, 2),
    "three grades of looks": lambda workers: GradedAnswers(workers, 3),
    "halves of three grades": lambda workers: HalvedGrades(workers, 3),
    "halves of four grades": lambda workers: HalvedGrades(workers, 4),
    "halves of five grades": lambda workers: HalvedGrades(workers, 5),
}
each_look_annotators = pytest.mark.parametrize("name", LOOK_ANNOTATORS)


def answers_to(annotators: Any) -> CrowdData:
    """The answers of a crowd alone; of grades the ends of the scale, now and then another."""
    pairs = crowd().pairs
    if not isinstance(annotators, GradedAnswers | HalvedGrades):
        return CrowdData(None, pairs)
    label = pairs["label"].to_numpy() * (annotators.num_grades - 1)
    label[::5] = np.arange(len(label[::5])) % annotators.num_grades
    return CrowdData(None, pairs.assign(label=label), grades=range(annotators.num_grades))


class TestLookAnnotators:
    @each_look_annotators
    def test_contract(self, name):
        workers = looks_of(LOOK_ANNOTATORS[name](WORKERS))
        assert_keeps(workers, protocols.LookAnnotators)
        for hard in (False, True):
            counts = workers.look_concentration(hard, of_records=False)
            assert counts.shape == (2, workers.num_looks)
            torch.testing.assert_close(counts.sum(1), torch.full((2,), 20.0).double())
            torch.testing.assert_close(counts[0].flip(0), counts[1])
            assert (counts[1].diff() > 0).all()
        label = torch.tensor([0.0, 1.0, torch.nan]).double()
        looks = workers.first_looks(label)
        torch.testing.assert_close(looks.sum(1), torch.ones(3).double())
        assert looks.argmax(1)[:2].tolist() == [0, workers.num_looks - 1]
        rates, worker = draw_sites(workers.priors()), torch.zeros(2, dtype=torch.int64)
        sure = torch.eye(workers.num_looks).double()[[0, -1]]
        ends, mixed = (
            workers.answer(look, rates, worker).log_prob(label[:2])
            for look in (sure, 0.5 * (sure + sure.flip(0)))
        )
        swapped = workers.answer(sure.flip(0), rates, worker).log_prob(label[:2])
        torch.testing.assert_close(mixed, 0.5 * (ends + swapped))

    @each_look_annotators
    def test_a_fit_and_what_is_read_from_it(self, name, tmp_path):
        annotators = LOOK_ANNOTATORS[name](WORKERS)
        data = answers_to(annotators)
        model = AnsweredPartition(annotators, PitmanYor())
        guide = PartitionGuide(model, data.num_items, num_draws=2)
        result = quiet_fit(model, guide, data, batch_size=None)
        assert np.isfinite(result.workers.to_numpy()).all()
        assert result.workers["weight"].min() > 0  # all of them are good
        posterior = to_arviz(result, num_draws=3)["posterior"]
        for site, prior in annotators.priors().items():
            assert posterior[site].dims[2 : 2 + len(prior.dims)] == prior.dims
        if type(annotators).__module__.startswith("pyro_crowdclust."):
            result.save(tmp_path / "fit")
            loaded = load(tmp_path / "fit")
            pd.testing.assert_frame_equal(loaded.workers, result.workers)


class TestClassAnnotators:
    @each_class_annotators
    def test_contract(self, name):
        annotators = CLASS_ANNOTATORS[name](WORKERS, CLASSES)
        assert_keeps(annotators, protocols.ClassAnnotators)
        assert_keeps_optional(annotators, OF_ANNOTATORS)

    @each_class_annotators
    def test_draws_are_confusion_matrices(self, name):
        annotators = CLASS_ANNOTATORS[name](WORKERS, CLASSES)
        with pyro.validation_enabled(True), torch.no_grad():
            trace = poutine.trace(annotators.sample).get_trace()
        values = trace.nodes["_RETURN"]["value"]
        assert values.keys() == annotators.priors().keys()
        confusion = LabelLikelihood(annotators, values).log_confusion().exp()
        assert confusion.shape == (WORKERS, CLASSES, CLASSES)
        torch.testing.assert_close(confusion.sum(1), torch.ones(WORKERS, CLASSES))

    @each_class_annotators
    def test_a_fit_and_what_is_read_from_it(self, name):
        model = DawidSkene(CLASS_ANNOTATORS[name](WORKERS, CLASSES))
        data = labelled(features=False)
        result = fit_plain(model, ClassLabelGuide(model, start_steps=3), data, epochs=3)
        table = result.confusion
        assert len(table) == WORKERS * CLASSES**2
        assert table["mean"].between(table["lower"], table["upper"]).all()
        np.testing.assert_allclose(table.groupby(["worker", "class"])["mean"].sum(), 1)
        posterior = to_arviz(result, num_draws=5)["posterior"]
        assert posterior["confusion"].dims[2:] == ("worker", "class", "label")
        assert not [dim for dim in posterior.dims if str(dim).endswith("_plate")]


@pytest.mark.parametrize("name", COMPONENTS)
def test_components(name):
    assert isinstance(COMPONENTS[name](), Components)


def with_half_the_answers(data: CrowdData) -> CrowdData:
    """The same items, with every other answer of each kind left out."""
    columns = {"answers": "left", "class_labels": "item", "placements": "item"}
    given = {name: getattr(data, name) for name in columns if getattr(data, name) is not None}
    numbers = {name: len(getattr(part, columns[name])) for name, part in given.items()}
    halves = {name: part.at(torch.arange(numbers[name]) % 2 == 0) for name, part in given.items()}
    return data.with_parts(**halves)


@pytest.fixture(scope="module", params=PAIRS_OF_MODEL_AND_GUIDE)
def fitted(request):
    def short_fit() -> Fitted:
        torch.manual_seed(0)
        model, guide, data = PAIRS_OF_MODEL_AND_GUIDE[request.param]()
        return quiet_fit(model, guide, data, batch_size=None)

    return in_double(short_fit)


class TestModelsAndGuides:
    def test_contracts(self, fitted):
        recognition = getattr(fitted.guide, "recognition", None)
        parts = fitted.model, fitted.guide, recognition
        assert sum(assert_keeps_optional(part, OF_OTHERS) for part in parts) >= 4
        assert_keeps_optional(getattr(fitted.model, "annotators", None), OF_ANNOTATORS)

    def test_result(self, fitted):
        assert_keeps(fitted, protocols.FittedModel)
        probabilities = fitted.probabilities
        assert probabilities.shape[0] == fitted.data.num_items
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-9)

    def test_infer_is_a_distribution_in_any_batch(self, fitted):
        np.testing.assert_allclose(fitted.probabilities.sum(1), 1)
        if isinstance(fitted.guide, protocols.SupportsPartition):
            return
        batch = full_batch(fitted.data).to(fitted.device, fitted.dtype)
        with fitted.inside():
            local = fitted.guide.infer(batch)
        assert local.assignments.shape == fitted.probabilities.shape

    def test_tables_are_of_the_data(self, fitted):
        guide, data = fitted.guide, fitted.data
        if isinstance(guide, protocols.SupportsMixture):
            summary = guide.mixture()
            assert summary.weights.sum().item() == pytest.approx(1)
            assert summary.location.shape[0] == len(summary.weights)
            if protocols.part_of(fitted.model, "components", Components) is not None:
                assert len(fitted.components.columns) == summary.location.shape[1]
        if data.answers is not None:
            assert fitted.workers.index.tolist() == data.worker_ids.tolist()
        if data.class_labels is not None:
            assert fitted.confusion.shape == (data.num_workers * data.num_classes**2, 4)

    def test_axes_of_draws_have_names(self, fitted):
        posterior = to_arviz(fitted, num_draws=3, log_likelihood=False)["posterior"]
        found = {str(dim) for variable in posterior.values() for dim in variable.dims}
        assert not {dim for dim in found if dim.endswith("_plate") or dim in ("workers", "items")}

    def test_saved_and_loaded_it_is_the_same(self, fitted, tmp_path):
        path = tmp_path / "fit"
        fitted.save(path)
        loaded = load(path)
        np.testing.assert_array_equal(loaded.probabilities, fitted.probabilities)
        assert type(loaded.guide) is type(fitted.guide)

    def test_it_goes_on_with_other_data_as_what_was_loaded(self, fitted, tmp_path):
        """A file has tensors alone; whatever else a fit remembers of its data is no part of it."""
        fitted.save(tmp_path / "fit")
        loaded, other = load(tmp_path / "fit"), with_half_the_answers(fitted.data)
        options = {"batch_size": None, "initialize": None}
        further, expected = (
            quiet_fit(one.model, one.guide, other, **options) for one in (fitted, loaded)
        )
        np.testing.assert_array_equal(further.history["elbo"], expected.history["elbo"])
        np.testing.assert_array_equal(further.probabilities, expected.probabilities)


@pytest.mark.parametrize("name", [name for name in PAIRS_OF_MODEL_AND_GUIDE if "pages" in name])
def test_a_page_without_items_says_nothing(name):
    """Beside workers' habits: they judge a page more, of which they are as sure as of a new one."""
    model, guide, data = PAIRS_OF_MODEL_AND_GUIDE[name]()
    on_first_page = data.placements.item[data.placements.page == 0]
    place = torch.arange(data.num_items).index_fill(0, on_first_page, -1)
    emptied = data.with_parts(placements=data.placements.among(place))
    assert emptied.placements.page_sizes[0] == 0
    result = quiet_fit(model, guide, emptied, batch_size=None)
    assert np.isfinite(result.history["elbo"]).all()
    np.testing.assert_allclose(result.probabilities.sum(1), 1, rtol=1e-9)
    assert np.isfinite(result.workers.select_dtypes("number").to_numpy()).all()


class TestStarts:
    def started(self, name: str, seed: int) -> tuple[MessagePassingGuide, CrowdData]:
        model, data = plain_mixture(None), classed()
        guide = MessagePassingGuide(model)
        STARTS[name](model, guide, data, torch.Generator().manual_seed(seed))
        return guide, data

    @pytest.mark.parametrize("name", STARTS)
    def test_contract(self, name):
        assert_keeps(STARTS[name], protocols.Start)

    @pytest.mark.parametrize("name", STARTS)
    def test_moves_the_guide_by_the_generator_alone(self, name):
        torch.manual_seed(1)
        guide, data = self.started(name, seed=3)
        torch.manual_seed(2)
        again, _ = self.started(name, seed=3)
        untouched = MessagePassingGuide(plain_mixture(None))
        for site, posterior in guide.posteriors.items():
            eta = posterior.natural_parameters
            torch.testing.assert_close(eta, again.posteriors[site].natural_parameters)
            assert posterior.family.in_domain(eta).all()
            assert not torch.equal(eta, untouched.posteriors[site].natural_parameters)
        assert torch.isfinite(guide.infer(full_batch(data)).logits).all()


class TestCallbacks:
    @pytest.mark.parametrize("name", CALLBACKS)
    def test_contract_and_state(self, name):
        make_pair, make = CALLBACKS[name]
        callback = make()
        assert_keeps(callback, Callback)
        result = quiet_fit(*make_pair(), crowd(), callbacks=[callback])
        assert len(result.history) == 2
        (used,) = result.callbacks
        if isinstance(used, protocols.SupportsState):
            assert_keeps(used, protocols.SupportsState)
            other = make()
            other.load_state_dict(json.loads(json.dumps(used.state_dict())))
            assert json.dumps(other.state_dict()) == json.dumps(used.state_dict())

    def test_the_trainer_is_what_callbacks_find(self):
        seen = []
        quiet_fit(*PAIRS_OF_MODEL_AND_GUIDE["plain mixture"](), callbacks=[seen.append])
        assert isinstance(seen[0], Trainer)
