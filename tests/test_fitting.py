"""``fit``: same seed same answer, anybody's model, what it takes and what it returns."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO, TraceEnum_ELBO
from pyro.infer.autoguide import AutoNormal

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.minibatches import (
    AnswerSampling,
    Batch,
)
from pyro_crowdclust.protocols import unwrapped

from .crowds import crowd, fit_plain, message_passing_pair, plain_pair, quiet_fit
from .plain_pyro import noise_around
from .same_fits import alone, equal, every_pair, parameters, same_fit


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


def mixture_model(batch: Batch) -> None:
    """A Pyro mixture of a user's; z is enumerated in the model and has no site in the guide."""
    with pyro.plate("components", 2):
        location = pyro.sample("location", dist.Normal(0.0, 5.0))
    # Pyro sums over z only under one common scale.
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_scale):
        weights = torch.tensor([0.5, 0.5])
        z = pyro.sample("z", dist.Categorical(weights), infer={"enumerate": "parallel"})
        pyro.sample("o", dist.Normal(location[z], 0.5), obs=batch.features[:, 0])


@pytest.mark.long
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


def in_handlers(part: Callable) -> Callable:
    return poutine.scale(poutine.block(part, hide=["nothing"]), 1.0)


@pytest.mark.long
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
    with pytest.raises(ValueError, match=r"not describe how .* 0 is a pyro.*pass them as"):
        load(file)
    assert load(file, in_handlers(model), guide, data=in_model.data).elbo == in_model.elbo
    assert in_model.to_arviz(2).posterior.attrs["model"] == names[0]


def test_full_batch_ascends():
    result = fit_plain(*plain_pair(), crowd(), epochs=15)
    assert list(result.history["step"]) == list(range(1, 16))
    assert result.history["elbo"].diff().dropna().min() > -1e-9
    assert result.elbo >= result.history["elbo"].iloc[-1] - 1e-9


@pytest.mark.parametrize("paged", [True, False])
def test_every_way_to_sample_answers(paged):
    data, batches = crowd(), []
    if not paged:
        data = CrowdData(data.features, data.pairs.drop(columns="page").drop_duplicates())

    def watch(trainer):
        batches.extend(trainer.sampler)

    result = quiet_fit(
        *message_passing_pair(), data, answer_sampling=AnswerSampling(30), callbacks=[watch]
    )
    assert result.stop_reason.startswith("budget")
    if paged:
        assert {batch.num_pairs for batch in batches} == {2 * 15}  # whole pages of six
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
