"""``fit``: same seed same answer, nothing shared, every reason to stop, anybody's model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from functools import cache, partial

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO, TraceEnum_ELBO
from pyro.infer.autoguide import AutoDelta, AutoGuideList, AutoNormal
from torch import nn

from pyro_crowdclust import CrowdData, Fitted, fit, load
from pyro_crowdclust.minibatches import (
    AnswerSampling,
    Batch,
    ConnectedBlocks,
    PageBlocks,
    SinglePairs,
)
from pyro_crowdclust.protocols import unwrapped
from pyro_crowdclust.starts import KMeansStart
from pyro_crowdclust.training import Stopping

from .control_c import press_in_start
from .crowds import (
    NUM_CLUSTERS,
    amortized_pair,
    crowd,
    fit_plain,
    message_passing_pair,
    plain_pair,
    quiet_fit,
)
from .problems import location_guide, location_model

every_pair = pytest.mark.parametrize(
    "make", [message_passing_pair, amortized_pair], ids=["message passing", "amortized"]
)


def parameters(*parts: object) -> dict[str, torch.Tensor]:
    """A copy of everything in modules."""
    return {
        f"{number}.{name}": value.clone()
        for number, part in enumerate(parts)
        for name, value in part.state_dict().items()
    }


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def same_fit(one: Fitted, other: Fitted) -> bool:
    """Whether two fits agree bit for bit."""
    histories = [result.history.drop(columns="seconds") for result in (one, other)]
    return (
        equal(parameters(one.model, one.guide), parameters(other.model, other.guide))
        and histories[0].equals(histories[1])
        and (one.probabilities == other.probabilities).all()
        and one.elbo == other.elbo
    )


@cache
def alone(make: Callable, data_seed: int) -> Fitted:
    """A fit with nothing around it, to compare others with."""
    return quiet_fit(*make(), crowd(seed=data_seed))


@every_pair
def test_same_seed_gives_the_same_answer_bit_for_bit(make):
    # The networks are drawn under the seed of the fit, whatever they were before.
    result = quiet_fit(*make(), crowd(), seed=0)
    assert same_fit(result, alone(make, 0))
    assert not same_fit(result, quiet_fit(*make(), crowd(), seed=1))


@every_pair
def test_the_arguments_are_left_as_they_were(make):
    model, guide = make()
    before = parameters(model, guide)
    result = quiet_fit(model, guide, crowd())
    assert equal(before, parameters(model, guide))
    assert guide.recognition_term.epoch == 0
    assert not equal(before, parameters(result.model, result.guide))
    assert result.guide.model is result.model


@every_pair
def test_the_process_is_left_as_it_was(make):
    pair, data = make(), crowd()
    mine = pyro.param("components", torch.tensor(1.0))
    random = torch.get_rng_state()
    result = quiet_fit(*pair, data)
    _ = result.probabilities, result.elbo, result.workers, result.clusters
    kept = dict(pyro.get_param_store().items())
    pyro.clear_param_store()
    assert torch.equal(torch.get_rng_state(), random)
    assert list(kept) == ["components"]
    assert torch.equal(kept["components"], mine)


@every_pair
def test_a_second_fit_does_not_touch_the_first(make):
    data, other = crowd(seed=1), crowd(seed=2)
    pair = make()
    first = quiet_fit(*pair, data)
    second = quiet_fit(*pair, other)
    # Only now is anything computed from the first.
    assert same_fit(first, alone(make, 1))
    assert same_fit(second, alone(make, 2))


@every_pair
def test_a_fit_inside_another_does_not_touch_it(make):
    pair, data, other = make(), crowd(seed=1), crowd(seed=2)
    inner = []

    def fit_another(trainer):
        inner.append(quiet_fit(*pair, other))

    outer = quiet_fit(*pair, data, callbacks=[fit_another])
    assert same_fit(outer, alone(make, 1))
    assert len(inner) == 2
    assert all(same_fit(result, alone(make, 2)) for result in inner)


def noise_around(center: float, num_items: int = 40) -> CrowdData:
    generator = torch.Generator().manual_seed(0)
    return CrowdData(center + torch.randn(num_items, 1, generator=generator))


def hand_guide_location(result: Fitted) -> float:
    return result.parameter_store["params"]["loc"].item()


def autoguide_location(result: Fitted) -> float:
    return dict(result.guide.named_parameters())["locs.mean_unconstrained"].item()


@pytest.mark.parametrize(
    ("make_guide", "location"),
    [
        (lambda: location_guide, hand_guide_location),
        (lambda: AutoNormal(location_model), autoguide_location),
    ],
    ids=["pyro.param", "AutoNormal"],
)
def test_plain_pyro_models_share_nothing_by_name(make_guide, location):
    train = partial(
        quiet_fit, epochs=30, batch_size=10, optim=partial(torch.optim.Adam, lr=0.05), seed=1
    )
    guide, low, high = make_guide(), noise_around(-2.0), noise_around(2.0)
    one = train(location_model, guide, low)
    other = train(location_model, guide, high)
    assert isinstance(one.elbo_objective, Trace_ELBO)
    assert location(one) == pytest.approx(low.features.mean().item(), abs=0.2)
    assert location(other) == pytest.approx(high.features.mean().item(), abs=0.2)
    alone = train(location_model, make_guide(), low)
    assert location(alone) == location(one)
    assert alone.elbo == one.elbo > -80
    assert not pyro.get_param_store().keys()


def test_autoguides_keep_their_model():
    """Copying a Pyro autoguide makes it forget; a fit must not."""
    guide = AutoGuideList(location_model)
    guide.append(AutoNormal(location_model))
    inner = guide[0].model
    result = quiet_fit(location_model, guide, noise_around(1.0))
    assert guide.model is result.guide.model is location_model
    assert guide[0].model is inner
    assert callable(result.guide[0].model)
    assert guide[0].master() is guide
    assert result.guide[0].master() is result.guide
    assert guide[0].prototype_trace is None
    assert "mean" in result.guide[0].prototype_trace.nodes


def mixture_model(batch: Batch) -> None:
    """A Pyro mixture of a user's; z is enumerated in the model and has no site in the guide."""
    with pyro.plate("components", 2):
        location = pyro.sample("location", dist.Normal(0.0, 5.0))
    # Pyro sums over z only under one common scale.
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_scale):
        weights = torch.tensor([0.5, 0.5])
        z = pyro.sample("z", dist.Categorical(weights), infer={"enumerate": "parallel"})
        pyro.sample("o", dist.Normal(location[z], 0.5), obs=batch.features[:, 0])


def test_a_plain_pyro_mixture_is_enumerated():
    halves = noise_around(0.0).features * 0.3
    data = CrowdData(torch.cat([halves - 2, halves + 3]))
    guide = AutoNormal(poutine.block(mixture_model, hide=["z"]), init_loc_fn=init_apart)
    result = quiet_fit(
        mixture_model,
        guide,
        data,
        epochs=40,
        batch_size=20,
        optim=partial(torch.optim.Adam, lr=0.05),
    )
    assert isinstance(result.elbo_objective, TraceEnum_ELBO)
    locations = dict(result.guide.named_parameters())["locs.location_unconstrained"]
    means = [part.mean().item() for part in (halves - 2, halves + 3)]
    assert locations.tolist() == pytest.approx(means, abs=0.2)
    truth = np.repeat([0, 1], len(halves))
    np.testing.assert_array_equal(result.assignments, truth)
    np.testing.assert_array_equal(result.predict(data.features), truth)


def init_apart(site: dict) -> torch.Tensor:
    return torch.tensor([-0.5, 0.5])


class TestTensorsOfTheUser:
    """Where parameters begin they are, under no constraint, the user's own tensors."""

    FIRST = torch.tensor(0.5)

    def by_param(self, batch: Batch) -> None:
        pyro.sample("mean", dist.Normal(pyro.param("loc", self.FIRST), 0.1))

    def by_function(self, batch: Batch) -> None:
        pyro.sample("mean", dist.Normal(pyro.param("loc", lambda: self.FIRST), 0.1))

    @pytest.mark.parametrize("kind", ["AutoDelta", "AutoNormal", "by_param", "by_function"])
    def test_are_left_as_they_were(self, kind):
        guide: Callable = getattr(self, kind, None)
        if guide is None:
            make = {"AutoDelta": AutoDelta, "AutoNormal": AutoNormal}[kind]
            guide = make(location_model, init_loc_fn=lambda site: self.FIRST)
        results = [quiet_fit(location_model, guide, noise_around(2.0), seed=1) for _ in range(2)]
        assert self.FIRST.detach() == 0.5
        assert results[0].elbo == results[1].elbo
        elbo = results[0].history["elbo"]
        assert elbo.iloc[0] != elbo.iloc[1]


def in_handlers(part: Callable) -> Callable:
    return poutine.scale(poutine.block(part, hide=["nothing"]), 1.0)


@every_pair
def test_handlers_around_model_and_guide_change_nothing_by_themselves(make, tmp_path):
    """They are started, trained, restored and named as the modules inside."""
    model, guide = make()
    result = quiet_fit(in_handlers(model), in_handlers(guide), crowd())
    inner = unwrapped(result.model), unwrapped(result.guide)
    assert inner[1].model is inner[0] is not model
    found, expected = parameters(*inner), parameters(alone(make, 0).model, alone(make, 0).guide)
    assert equal(found, expected)
    assert result.elbo == alone(make, 0).elbo
    names = type(model).__name__, type(guide).__name__
    assert ", ".join(names) in repr(result)
    assert ", ".join(names) in result._repr_html_()
    with pytest.raises(ValueError, match=f"around the guide {names[1]} hide its infer"):
        _ = result.assignments
    in_model = quiet_fit(in_handlers(model), guide, crowd())
    assert (in_model.probabilities == alone(make, 0).probabilities).all()
    file = tmp_path / "fit.safetensors"
    in_model.save(file)
    with pytest.raises(ValueError, match=r"cannot tell how .* 0 is a pyro.*pass them as they were"):
        load(file)
    assert load(file, in_handlers(model), guide, data=in_model.data).elbo == in_model.elbo
    assert in_model.to_arviz(2).posterior.attrs["model"] == names[0]


def test_a_function_around_the_model_of_a_guide_is_refused():
    model, guide = plain_pair()
    with pytest.raises(ValueError, match="model is the function <lambda>, but MessagePassingGuide"):
        quiet_fit(lambda batch: model(batch), guide, crowd())


def test_autoguides_in_handlers_keep_their_model():
    guide = poutine.scale(AutoNormal(location_model), 1.0)
    train = partial(quiet_fit, data=noise_around(1.0))
    result, other = train(location_model, guide), train(location_model, unwrapped(guide))
    assert (
        autoguide_location(other)
        == dict(unwrapped(result.guide).named_parameters())["locs.mean_unconstrained"]
    )
    assert repr(result).splitlines()[1].startswith("location_model, AutoNormal")


def test_interrupted_between_epochs():
    def stop(trainer):
        if trainer.epochs_done == 2:
            raise KeyboardInterrupt

    data = crowd()
    result = quiet_fit(*message_passing_pair(), data, epochs=5, callbacks=[stop])
    assert result.stop_reason == "interrupted by the user after 4 steps"
    assert list(result.history["epoch"]) == [1, 2]
    assert same_fit(result, quiet_fit(*message_passing_pair(), data, epochs=2))


class Faulty(nn.Module):
    """A model that goes wrong from a call on; each step of training is one call."""

    def __init__(self, fault: str, call: int) -> None:
        super().__init__()
        self.fault, self.call, self.calls = fault, call, 0
        self.shift = nn.Parameter(torch.tensor(0.0))

    def forward(self, batch: Batch) -> None:
        self.calls += 1
        wrong = self.calls >= self.call
        if wrong and self.fault == "interrupt":
            raise KeyboardInterrupt
        nan = torch.tensor(float("nan") if wrong else 1.0)
        mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
        mean = mean * nan if self.fault == "argument" else mean
        weight = batch.item_weight
        with pyro.plate("items", len(weight)), poutine.scale(scale=weight):
            pyro.sample("o", dist.Normal(mean + self.shift, 1.0), obs=batch.features[:, 0])
        if self.fault == "factor":
            pyro.factor("penalty", self.shift**2 * nan)


class TestModelsThatTakeAMinibatchForAll:
    """How many items there are is told by weights, which a model of one's own may forget."""

    DATA = CrowdData(torch.randn(20, 1, generator=torch.Generator().manual_seed(0)))

    @staticmethod
    def by_factor(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("items", len(batch.items)):
            density = dist.Normal(mean, 1.0).log_prob(batch.features[:, 0])
            pyro.factor("o", batch.item_weight * density)

    @staticmethod
    def by_plate(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("items", batch.num_items, subsample=batch.items):
            pyro.sample("o", dist.Normal(mean, 1.0), obs=batch.features[:, 0])

    @staticmethod
    def of_items_alone(batch):
        with pyro.plate("items", len(batch.items)):
            mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
            pyro.sample("o", dist.Normal(mean, 1.0), obs=batch.features[:, 0])

    @staticmethod
    def of_each(batch):
        scale = pyro.param("scale", torch.tensor(0.7))
        with pyro.plate("items", len(batch.items)):
            pyro.sample("mean", dist.Normal(batch.features[:, 0] / 2, scale))

    def test_is_told(self):
        model = partial(location_model, scale=lambda batch: 1.0)
        said = "takes the 5 items of a minibatch for all of the 20 that there are, at site 'o'"
        with pytest.warns(UserWarning, match=said):
            quiet_fit(model, AutoNormal(model), self.DATA, batch_size=5, epochs=1)
        quiet_fit(model, AutoNormal(model), self.DATA, batch_size=None, epochs=1)

    @pytest.mark.parametrize("name", ["weight", "by_factor", "by_plate", "of_items_alone"])
    def test_others_are_not(self, name):
        model = location_model if name == "weight" else getattr(self, name)
        guide = self.of_each if name == "of_items_alone" else AutoNormal(model)
        quiet_fit(model, guide, self.DATA, batch_size=5, epochs=1)


def test_interrupted_in_a_start(monkeypatch):
    """What the start has found is kept; who does not want to wait for it presses twice."""
    data, (model, guide) = crowd(), plain_pair()
    train = partial(quiet_fit, model, guide, data, batch_size=None, dtype=torch.float64)
    press_in_start(monkeypatch, 1)
    result = train(initialize=KMeansStart())
    KMeansStart()(model, guide, data, torch.Generator().manual_seed(0))
    assert result.stop_reason == "interrupted by the user after 0 steps"
    assert result.history.empty
    assert equal(parameters(result.guide), parameters(guide))
    press_in_start(monkeypatch, 1)
    press_in_start(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        train()


def test_interrupted_inside_a_step():
    # One call checks the sites before training.
    result = quiet_fit(Faulty("interrupt", 1 + 3), location_guide, noise_around(1.0), batch_size=10)
    assert result.stop_reason == "interrupted by the user after 2 steps"
    assert result.history.empty
    assert hand_guide_location(result) != 0.5


@pytest.mark.parametrize(
    ("fault", "site"), [("argument", "site 'o'"), ("factor", "site 'penalty'")]
)
@pytest.mark.parametrize(("step", "whole_epochs"), [(1, 0), (2, 0), (11, 2)])
def test_a_loss_that_is_no_number_stops_the_fit(fault, site, step, whole_epochs):
    data = noise_around(1.0)
    train = partial(quiet_fit, guide=location_guide, data=data, batch_size=10)
    with pytest.warns(UserWarning, match=f"not finite after {step - 1} steps: .*{site}.*kept"):
        result = train(Faulty(fault, 1 + step), epochs=5)
    assert result.stop_reason.startswith(f"not finite after {step - 1} steps: the log-density of")
    assert site in result.stop_reason
    assert len(result.history) == whole_epochs
    if whole_epochs:
        healthy = train(Faulty(fault, 10**6), epochs=whole_epochs)
        assert hand_guide_location(result) == hand_guide_location(healthy)
        assert torch.equal(result.model.shift, healthy.model.shift)
    else:
        assert hand_guide_location(result) == 0.5
        assert result.model.shift == 0


@pytest.mark.parametrize("seed", [6, 8, 9, 11])
def test_the_site_that_failed_is_named_and_none_that_other_draws_would_fail_at(seed):
    failed = []

    def guide(batch):
        mean = pyro.param("mean", torch.tensor(0.0))
        pyro.sample("location", dist.Normal(mean, 1.0))

    def model(batch):
        place = pyro.sample("location", dist.Normal(0.0, 1.0))
        side = "left" if place < 0 else "right"
        if torch.is_grad_enabled():  # in a step, and not where the site is looked for
            failed.append(side)
        pyro.factor(side, 0 * place + float("nan"))

    with pytest.warns(UserWarning, match="not finite after 0 steps"):
        result = quiet_fit(model, guide, noise_around(1.0), batch_size=None, seed=seed)
    assert f"the log-density of site '{failed[0]}' in the model" in result.stop_reason


@every_pair
def test_networks_that_explode_stop_the_fit(make):
    """The first step throws them far away; the second finds no finite latent."""
    model, guide = make()
    throw = partial(torch.optim.SGD, lr=1e300)
    with pytest.warns(UserWarning, match="not finite after 1 steps"):
        result = quiet_fit(model, guide, crowd(), optim=throw)
    assert "not finite after 1 steps" in result.stop_reason
    for name, value in parameters(result.model, result.guide).items():
        assert value.isfinite().all(), name


def test_converged():
    result = fit_plain(*plain_pair(), crowd(), epochs=200, stopping=Stopping(1e-7, patience=3))
    assert result.stop_reason == "converged: less than 1e-07 nats per item in 3 epochs"
    elbo = result.history["elbo"] / 60
    gains = [elbo[: i + 1].max() - elbo[: i - 2].max() for i in range(3, len(elbo))]
    assert gains[-1] < 1e-7
    assert min(gains[:-1]) >= 1e-7


@pytest.mark.parametrize(
    ("elbos", "converged"),
    [
        ([0, 100, 200, 300], False),
        ([300, 290, 310, 295], False),  # the best of two is 10 above the best before
        ([300, 310, 290, 305], True),  # no better than before
        ([0, 300, 305, 304], True),
        ([300, 301], False),  # too few epochs to tell
    ],
)
def test_convergence_compares_the_best_epochs(elbos, converged):
    """Ten items, patience 2, tolerance 0.6 nats per item; noise must not look like progress."""
    per_item = [elbo / 10 for elbo in elbos]
    assert Stopping(0.6, patience=2).has_converged(per_item) is converged
    assert not Stopping(None, patience=2).has_converged(per_item)


def test_budgets():
    data, pair = crowd(), plain_pair()  # 2 steps an epoch
    for budget, reason in [
        ({"epochs": 3}, "budget: 6 steps in 3 epochs"),
        ({"epochs": None, "stopping": Stopping(steps=5)}, "budget: 5 steps in 3 epochs"),
        ({"epochs": 3, "stopping": Stopping(steps=99)}, "budget: 6 steps in 3 epochs"),
        ({"epochs": 3, "stopping": Stopping(steps=1)}, "budget: 1 steps in 1 epochs"),
        ({"epochs": 3, "stopping": Stopping(max_time=timedelta(0))}, "budget: time for 1 epochs"),
        (
            {"epochs": None, "stopping": Stopping(max_time=timedelta(days=1))},
            "budget: 40 steps in 20 epochs",
        ),
    ]:
        result = quiet_fit(*pair, data, **budget)
        assert result.stop_reason == reason
        assert f"{result.history['step'].iloc[-1]} steps" in reason or "time" in reason
    assert list(result.history["epoch"]) == list(range(1, 21))
    assert (result.history["seconds"] > 0).all()
    assert result.seconds >= result.history["seconds"].sum()


def test_callbacks_see_the_trainer_and_add_to_the_history():
    data, seen = crowd(), []

    def score(trainer):
        seen.append((trainer.epochs_done, trainer.steps_done))
        probabilities = trainer.predict_proba(data.features)
        trainer.history[-1]["confidence"] = probabilities.max(1).values.mean().item()

    result = quiet_fit(*message_passing_pair(), data, callbacks=[score, score])
    assert seen == [(1, 2), (1, 2), (2, 4), (2, 4)]
    assert result.history["confidence"].between(1 / NUM_CLUSTERS, 1).all()
    silent = quiet_fit(*message_passing_pair(), data)
    pd.testing.assert_frame_equal(
        result.history.drop(columns=["seconds", "confidence"]),
        silent.history.drop(columns="seconds"),
    )


def test_the_step_size_may_be_a_function_of_the_step():
    asked = []

    def halving(step):
        asked.append(step)
        return 0.5**step

    one = quiet_fit(*plain_pair(), crowd(), step_size=halving)
    assert asked == [0, 1, 2, 3]
    assert not same_fit(one, quiet_fit(*plain_pair(), crowd(), step_size=1.0))
    assert same_fit(
        quiet_fit(*plain_pair(), crowd(), step_size=lambda step: 0.25),
        quiet_fit(*plain_pair(), crowd(), step_size=0.25),
    )


def test_full_batch_ascends():
    result = fit_plain(*plain_pair(), crowd(), epochs=15)
    assert list(result.history["step"]) == list(range(1, 16))
    assert result.history["elbo"].diff().dropna().min() > -1e-9
    assert result.elbo >= result.history["elbo"].iloc[-1] - 1e-9


@pytest.mark.parametrize(
    "blocks", [None, PageBlocks(), ConnectedBlocks(num_items=4), SinglePairs()], ids=repr
)
def test_every_way_to_sample_answers(blocks):
    data, batches = crowd(), []

    def watch(trainer):
        batches.extend(trainer.batches)

    result = quiet_fit(
        *message_passing_pair(), data, answer_sampling=AnswerSampling(30, blocks), callbacks=[watch]
    )
    assert result.stop_reason.startswith("budget")
    sizes = {batch.num_pairs for batch in batches}
    if blocks is None or isinstance(blocks, PageBlocks):
        assert sizes == {2 * 15}  # whole pages of six
    elif isinstance(blocks, SinglePairs):
        assert sizes == {30}
    assert result.workers["sensitivity"].between(0, 1).all()


def test_training_goes_on_from_where_it_ended():
    data = crowd()
    first = fit_plain(*plain_pair(), data, epochs=8)
    second = fit_plain(first.model, first.guide, data, epochs=1, initialize=None)
    assert second.history["elbo"][0] == pytest.approx(first.elbo, rel=1e-12)
    assert second.elbo >= first.elbo - 1e-9


def test_the_users_bound_optimizer_and_start():
    asked = {}

    def sgd(parameters):
        asked["optim"] = len(list(parameters))
        return torch.optim.SGD(parameters, lr=0.0)

    def start(model, guide, data, generator):
        asked["start"] = torch.rand(1, generator=generator).item()
        guide.recognition.network.skip.bias.data.fill_(asked["start"])

    elbo = Trace_ELBO(num_particles=2, vectorize_particles=False)
    model, guide = message_passing_pair()
    result = quiet_fit(model, guide, crowd(), optim=sgd, initialize=start, elbo=elbo, seed=5)
    expected = torch.rand(1, generator=torch.Generator().manual_seed(5)).item()
    assert asked["start"] == expected
    assert (result.guide.recognition.network.skip.bias == expected).all()
    assert result.elbo_objective is elbo
    networks = [*guide.recognition.parameters(), *model.emission.parameters()]
    assert asked["optim"] == len(networks)


def test_single_precision_is_the_default():
    torch.set_default_dtype(torch.float32)
    pair = message_passing_pair()
    result = fit(*pair, crowd(), epochs=1, progress=False)
    assert result.guide.recognition.network.skip.weight.dtype == torch.float32
    assert result.guide.posteriors["weights"].natural_parameters.dtype == torch.float64
    assert result.probabilities.sum(1) == pytest.approx(1.0)


@every_pair
def test_networks_get_the_precision_of_the_fit(make):
    torch.set_default_dtype(torch.float32)
    single = make()
    torch.set_default_dtype(torch.float64)
    result = quiet_fit(*single, crowd())
    assert same_fit(result, alone(make, 0))
    assert {value.dtype for value in single[0].emission.parameters()} == {torch.float32}
    down = fit(*make(), crowd(), epochs=1, progress=False)
    dtypes = {value.dtype for value in down.model.emission.parameters()}
    assert dtypes == {torch.float32}
    assert down.probabilities.sum(1) == pytest.approx(1.0)


def test_progress_shows_the_bound_and_the_clusters_in_use(capsys):
    fit(*plain_pair(), crowd(), epochs=2, dtype=torch.float64, progress=True)
    shown = capsys.readouterr().err
    assert "ELBO/item" in shown
    assert "clusters in use" in shown


@every_pair
def test_a_named_processor_is_the_default(make):
    assert same_fit(quiet_fit(*make(), crowd(), device="cpu"), alone(make, 0))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; there is none")
@every_pair
def test_on_a_gpu(make):
    data, pair = crowd(), make()
    result = quiet_fit(*pair, data, epochs=4, device="cuda")
    again = quiet_fit(*pair, data, epochs=4, device="cuda")
    on_cpu = quiet_fit(*pair, data, epochs=4)
    assert next(result.guide.recognition.parameters()).device.type == "cuda"
    assert result.history["elbo"].isna().sum() == 0
    assert same_fit(result, again)
    assert (result.assignments == on_cpu.assignments).mean() > 0.9
    assert (result.predict(data.features) == result.assignments).mean() > 0.9
    assert result.workers.shape == on_cpu.workers.shape
    assert result.clusters["share"].sum() == pytest.approx(1.0)


@every_pair
def test_a_result_can_be_copied_and_fitted_again(make):
    result = alone(make, 0)
    assert same_fit(copy.deepcopy(result), result)
    again = quiet_fit(result.model, result.guide, crowd(), initialize=None)
    assert again.elbo > result.elbo
