"""Fits share nothing: one after another, inside another, in threads and in forked processes."""

from __future__ import annotations

import copy
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoGuideList, AutoNormal

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import classify, cluster
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.plots import plot_cluster_samples
from pyro_crowdclust.protocols import unwrapped
from pyro_crowdclust.training.isolation import is_small, isolated

from ..crowds import amortized_pair, crowd, message_passing_pair, plain_pair, quiet_fit
from ..plain_pyro import autoguide_location, hand_guide_location, noise_around
from ..problems import location_guide, location_model
from ..same_fits import alone, equal, every_pair, parameters, same_fit

MAKERS = [plain_pair, message_passing_pair, amortized_pair]


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


@pytest.mark.long
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


@pytest.mark.long
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


def trained(number: int, barrier: threading.Barrier | None = None):
    torch.manual_seed(0)
    pair = MAKERS[number % len(MAKERS)]()
    if barrier is not None:
        barrier.wait()
    return quiet_fit(*pair, crowd(seed=number), seed=number, epochs=3)


def test_fits_in_threads_are_those_of_one_thread():
    alone = [trained(number) for number in range(3)]
    pairs = [maker() for maker in MAKERS]
    barrier = threading.Barrier(3)
    store, state = pyro.get_param_store().get_state(), torch.get_rng_state()

    def train(number: int):
        barrier.wait()
        one = alone[number]
        result = quiet_fit(*pairs[number], crowd(seed=number), seed=number, epochs=3)
        # The networks start elsewhere, but the plain mixture has none.
        assert number or equal(parameters(result.guide), parameters(one.guide))
        # Reading results, too, is done in turns.
        return [one.elbo_of(full_batch(one.data)) for _ in range(3)]

    with ThreadPoolExecutor(3) as pool:
        read = list(pool.map(train, range(3)))
    assert read == [[one.elbo] * 3 for one in alone]
    assert pyro.get_param_store().get_state() == store
    assert torch.equal(torch.get_rng_state(), state)
    assert not pyro.poutine.runtime.am_i_wrapped()
    again = trained(0)
    assert equal(parameters(again.guide), parameters(alone[0].guide))


def test_small_data_have_one_thread_and_others_as_many_as_they_had():
    asked: list[int] = []

    def ask(_) -> None:
        asked.append(torch.get_num_threads())

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for num_items in (1_000, 51_000):
            data = CrowdData(torch.randn(num_items, 4))
            result = quiet_fit(*plain_pair(), data, callbacks=[ask], epochs=1, batch_size=5_000)
            with result.inside():
                ask(None)
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert asked == [1, 1, 2, 2]


def test_stores_of_plain_pyro_fits_in_threads_are_their_own():
    def train(seed: int):
        return quiet_fit(location_model, location_guide, crowd(), seed=seed, epochs=2)

    alone = [train(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(train, range(4)))
    for one, other in zip(alone, together, strict=True):
        assert equal(one.parameter_store["params"], other.parameter_store["params"])


def autoguide_list():
    guide = AutoGuideList(location_model)
    guide.append(AutoDelta(location_model))
    return guide


@pytest.mark.parametrize(
    "make_guide",
    [
        lambda: AutoDelta(location_model),
        lambda: AutoNormal(location_model),
        lambda: poutine.scale(AutoDelta(location_model), 1.0),
        autoguide_list,
    ],
    ids=["AutoDelta", "AutoNormal", "wrapped", "list"],
)
def test_guides_of_results_are_read_outside_of_them(make_guide):
    """Also of two results whose parameters have the same names, and of copies of a result."""
    results = [
        quiet_fit(location_model, make_guide(), CrowdData(center + torch.randn(40, 1)), epochs=40)
        for center in (-5.0, 5.0)
    ]
    inside = []
    for result in results:
        with result.inside():
            inside.append(unwrapped(result.guide).median()["mean"])
    assert inside[1] - inside[0] > 0.02
    batch = full_batch(results[0].data)
    for result, mean in zip([*results, *copy.deepcopy(results)], inside * 2, strict=True):
        guide = unwrapped(result.guide)
        assert guide.median()["mean"] == mean
        guide(batch)
        with pytest.raises(KeyError), guide._pyro_context:
            raise KeyError
        assert guide.median()["mean"] == mean
        with results[0].inside():
            assert guide.median()["mean"] == mean
    assert not pyro.get_param_store().keys()
    further = results[0].update(None)
    assert unwrapped(further.guide).median()["mean"] != inside[0]
    assert unwrapped(results[0].guide).median()["mean"] == inside[0]


def test_a_guide_of_a_result_is_written_and_trained_on_by_pyro():
    result = quiet_fit(location_model, AutoDelta(location_model), crowd())
    before = result.guide.median()["mean"].clone()
    file = io.BytesIO()
    torch.save(result.guide, file)
    file.seek(0)
    svi = SVI(location_model, result.guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())
    svi.step(full_batch(result.data))
    assert abs(result.guide.median()["mean"] - before) > 0.05
    assert torch.load(file, weights_only=False).median()["mean"] == before


def test_a_failed_fit_gives_the_turn_back():
    def fail(trainer) -> None:
        raise KeyError("callback")

    def train() -> None:
        with pytest.raises(KeyError):
            quiet_fit(*plain_pair(), crowd(), callbacks=[fail])

    with ThreadPoolExecutor(1) as pool:
        pool.submit(train).result()
    assert quiet_fit(*plain_pair(), crowd()).stop_reason.startswith("budget")


def test_a_callback_may_fit():
    inner = []

    def fit_another(trainer) -> None:
        inner.append(quiet_fit(*plain_pair(), crowd(), epochs=1))

    result = quiet_fit(*plain_pair(), crowd(), callbacks=[fit_another], epochs=2)
    plain = quiet_fit(*plain_pair(), crowd(), epochs=2)
    assert len(inner) == 2
    assert equal(parameters(result.guide), parameters(plain.guide))


def test_readers_wait_for_their_turn_before_they_touch_a_module():
    """A reader that came early would lose evaluation mode when the one before it ends."""
    result = quiet_fit(*message_passing_pair(), crowd(), epochs=1)
    result.model.train()
    readers = [partial(plot_cluster_samples, result, (2, 2)), lambda: result.elbo]
    for read in readers:
        entered, leave = threading.Event(), threading.Event()

        def hold(entered: threading.Event = entered, leave: threading.Event = leave) -> None:
            with isolated(0):
                entered.set()
                leave.wait()

        holder, reader = threading.Thread(target=hold), threading.Thread(target=read)
        holder.start()
        entered.wait()
        reader.start()
        reader.join(0.2)
        is_waiting, is_untouched = reader.is_alive(), result.model.training
        leave.set()
        holder.join()
        reader.join()
        assert is_waiting
        assert is_untouched


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_a_process_forked_during_a_fit_can_fit():
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with isolated(0):
            entered.set()
            leave.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        with isolated(1):
            drawn = float(torch.rand(()))
        os._exit(0 if np.isfinite(drawn) else 1)
    leave.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.long
@pytest.mark.parametrize("switched_off", [torch.no_grad, torch.inference_mode])
def test_gradients_that_are_switched_off_are_no_matter(switched_off):
    """As after ``torch.set_grad_enabled(False)`` for embeddings."""
    data = crowd()
    said = {"item": range(20), "worker": ["ann", "ben"] * 10, "label": [0, 1] * 10}

    def both():
        named = classify(np.eye(20)[:, :2], said, folds=2, epochs=2, progress=False)
        return quiet_fit(*message_passing_pair(), data).elbo, named.elbo

    expected = both()
    with switched_off():
        assert both() == expected
        assert not torch.is_grad_enabled()


def test_a_fit_in_inference_mode_is_the_same():
    """Also of features that were computed in it."""
    expected = quiet_fit(*plain_pair(), crowd(), epochs=2).elbo
    with torch.inference_mode():
        data = crowd()
        inside = CrowdData(torch.as_tensor(data.features) * 1, data.pairs)
        assert quiet_fit(*plain_pair(), inside, epochs=2).elbo == expected
    assert quiet_fit(*plain_pair(), inside, epochs=2).elbo == expected


def test_results_are_read_in_inference_mode():
    result = quiet_fit(*plain_pair(), crowd(), epochs=2)
    expected, again = repr(result), quiet_fit(*plain_pair(), crowd(), epochs=2)
    with torch.inference_mode():
        pd.testing.assert_frame_equal(again.workers, result.workers)
        assert repr(again).splitlines()[:-1] == expected.splitlines()[:-1]  # the last has seconds


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # a few steps are too few
def test_a_first_call_in_inference_mode():
    data = crowd()
    pairs = data.pairs.replace({"label": {True: 1, False: 0}})
    with torch.inference_mode():
        features = torch.as_tensor(data.features) * 1
        found = cluster(features, pairs, num_starts=1, epochs=2, progress=False)
        assert list(found.workers.index.unique(0)) == list(data.worker_ids)


@pytest.mark.filterwarnings("ignore:placements page 5")  # pages are alike again and again
def test_placements_and_likeness_make_data_large_too():
    number = 200_001
    item, page = np.arange(number) % 3, np.arange(number) // 3
    pages = {"page": page, "item": item, "worker": page % 5, "group": item % 2}
    many = np.arange(number)
    like = {"left": many, "right": many + 1, "score": np.linspace(0.0, 1.0, number)}
    pair = {"left": [0], "right": [1], "worker": [0], "label": [1]}
    assert not is_small(CrowdData(None, placements=pages))
    assert not is_small(CrowdData(None, pair, likeness=like, item_ids=range(number + 1)))
    few = {name: column[:6] for name, column in pages.items()}
    assert is_small(CrowdData(None, placements=few))
