"""Going on from a fit ends where a fit to everything ends."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from sklearn.metrics import adjusted_rand_score
from torch.distributions import constraints
from torch.optim import Adam as adam

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import ConfusionMatrices, SortedPages, TwoCoin
from pyro_crowdclust.data.extending import extended
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import ClassLabelGuide, EnumeratedGuide, MessagePassingGuide
from pyro_crowdclust.interface import CrowdClusterer, DeepNormal, cluster, infer_classes
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import DawidSkene, SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements
from pyro_crowdclust.training import RobbinsMonro, Stopping, chosen_options

from ..crowds import quiet_fit
from ..interface.small_choices import small
from ..plain_pyro import noise_around
from ..problems import location_guide, location_model
from ..registries import PAIRS_OF_MODEL_AND_GUIDE

TRUTH = np.arange(90) % 3
FEATURES = 3.0 * np.eye(3)[TRUTH] + np.random.default_rng(0).normal(size=(90, 3))
OPTIONS = {"batch_size": None, "step_size": 1.0, "epochs": 200, "dtype": torch.float64}
OPTIONS |= {"progress": False, "stopping": Stopping(1e-6)}


def crowd(kind, workers, seed):
    """Answers of workers with these ids; pairs of even items by seed 0, of odd ones by 1."""
    rates = [0.9] * len(workers)
    if kind == "pairs":
        options = {"pairs_per_worker": 50, "items": np.arange(seed, 90, 2), "seed": seed}
        table = simulate_pairs(TRUTH, rates, rates, **options)
    else:
        table = simulate_placements(TRUTH, rates, pages_per_worker=2, page_size=9, seed=seed)
        table["page"] = [f"{seed}.{page}" for page in table["page"]]
    return table.assign(worker=np.array(workers)[table["worker"]])


def fitted(data, **options):
    annotators = (TwoCoin if data.placements is None else SortedPages)(data.num_workers)
    parts = DirichletWeights(3), GaussianComponents(3, 3), Identity(), annotators
    model = SemiCrowdsourcedMixture(*parts)
    return fit(model, MessagePassingGuide(model), data, **(OPTIONS | options))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pairs", "placements"])
def test_an_update_ends_where_a_fresh_fit_ends(kind):
    before, more = crowd(kind, ["b", "d"], 0), crowd(kind, ["a", "b", "c"], 1)
    first = fitted(CrowdData(FEATURES, **{kind: before}))
    elbo = first.elbo
    updated = first.update(**{kind: more})
    assert len(updated.history) < len(first.history)
    assert updated.data.worker_ids.tolist() == ["a", "b", "c", "d"]
    both = {kind: pd.concat([before, more], ignore_index=True)}
    fresh = fitted(CrowdData(FEATURES, **both))
    assert updated.elbo == pytest.approx(fresh.elbo, rel=1e-3)
    assert adjusted_rand_score(updated.assignments, fresh.assignments) == 1.0
    rates = ["sensitivity" if kind == "pairs" else "accuracy"]
    pd.testing.assert_frame_equal(updated.workers[rates], fresh.workers[rates], atol=1e-2)
    assert elbo == first.elbo_of(full_batch(first.data))  # what was is left as it was


def test_new_items_are_taken_up():
    answers = crowd("pairs", ["a", "b"], 0)
    known = answers[(answers["left"] < 60) & (answers["right"] < 60)]
    first = fitted(CrowdData(FEATURES[:60], known))
    more = answers.drop(known.index)
    updated = first.update(more, features=FEATURES[60:])
    fresh = fitted(CrowdData(FEATURES, pd.concat([known, more], ignore_index=True)))
    assert updated.data.num_items == 90
    assert updated.elbo == pytest.approx(fresh.elbo, rel=1e-3)
    assert adjusted_rand_score(updated.assignments, fresh.assignments) == 1.0


def test_new_items_join_those_that_are_linked(tmp_path):
    links = {"must_link": [(0, 3), (1, 4)], "cannot_link": [(0, 1), (1, 2)]}
    parts = {"components": GaussianComponents, "num_clusters": 3, "epochs": 20}
    answers = {"left": [0], "right": [3], "worker": ["a"], "label": [1]}
    first = cluster(FEATURES[:60], answers, **links, **parts, progress=False)
    more = {"left": [60], "right": [0], "worker": ["b"], "label": [1]}
    updated = first.update(more, features=FEATURES[60:])
    assert adjusted_rand_score(updated.assignments, TRUTH) > 0.9
    updated.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(loaded.probabilities, updated.probabilities)


def test_new_items_have_the_ids_of_their_table():
    ids = [f"item {number}" for number in range(90)]
    table = pd.DataFrame(FEATURES, index=ids, columns=list("xyz"))
    answers = {"left": ["item 0"], "right": ["item 3"], "worker": ["a"], "label": [1]}
    first = fitted(CrowdData(table[:60], answers), epochs=2)
    more = {"left": ["item 89"], "right": ["item 0"], "worker": ["a"], "label": [0]}
    updated = first.update(more, features=table[60:], epochs=1)
    assert updated.data.item_ids.tolist() == ids
    assert updated.data.pairs["left"].tolist() == ["item 0", "item 89"]


def test_class_labels_go_on_too():
    rng = np.random.default_rng(0)

    def said(workers, seed):
        item = np.tile(np.arange(90), len(workers))
        worker = np.repeat(workers, 90)
        slip = np.random.default_rng(seed).random(len(item)) < 0.2
        return pd.DataFrame(
            {"item": item, "worker": worker, "label": (TRUTH[item] + slip * rng.integers(1, 3)) % 3}
        )

    def dawid_skene(labels):
        data = CrowdData(None, labels=labels)
        model = DawidSkene(ConfusionMatrices(data.num_workers, 3))
        return fit(model, ClassLabelGuide(model), data, **OPTIONS)

    before, more = said(["b", "c"], 1), said(["a", "d"], 2)
    updated = dawid_skene(before).update(labels=more)
    fresh = dawid_skene(pd.concat([before, more], ignore_index=True))
    assert updated.elbo == pytest.approx(fresh.elbo, rel=1e-3)
    assert (updated.assignments == fresh.assignments).all()


@pytest.mark.long
def test_what_the_interface_made_goes_on():
    before, more = crowd("pairs", ["a", "b"], 0), crowd("pairs", ["c"], 1)
    chosen = small(CrowdData(FEATURES, before), 3, forms=1).fit(num_starts=1, progress=False)
    assert chosen.update(more).chosen is chosen.chosen
    made = CrowdClusterer(3, components=GaussianComponents, n_init=1, random_state=0)
    for first in (chosen, made.fit(FEATURES, pairs=before).result_):
        updated = first.update(more)
        assert updated.workers.index.tolist() == ["a", "b", "c"]
        assert adjusted_rand_score(TRUTH, updated.assignments) > 0.7


@pytest.mark.parametrize("kind", ["own", "chosen", "networks", "minibatches", "limits"])
def test_a_loaded_fit_goes_on_as_if_it_had_never_been_saved(kind, tmp_path):
    before, more = crowd("pairs", ["a", "b"], 0), crowd("pairs", ["c"], 1)
    schedule = {"batch_size": 30, "step_size": RobbinsMonro(0.5, delay=20.0), "epochs": 3}
    limits = {
        "stopping": Stopping(1e-6, max_time=timedelta(hours=1)),
        "optim": torch.optim.SGD,
        "elbo": Trace_ELBO(max_plate_nesting=1),
    }
    first = {
        "own": lambda: fitted(CrowdData(FEATURES, before), epochs=9),
        "minibatches": lambda: fitted(CrowdData(FEATURES, before), **schedule),
        "limits": lambda: fitted(CrowdData(FEATURES, before), epochs=9, **limits),
        "chosen": lambda: cluster(FEATURES, before, components=GaussianComponents, progress=False),
        "networks": lambda: cluster(
            FEATURES, before, networks=DeepNormal(dim=2, hidden=(8,)), epochs=20, progress=False
        ),
    }[kind]()
    first.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=first.data)
    for name in ("stopping", "step_size", "answer_sampling"):
        assert getattr(loaded.train_on, name) == getattr(first.train_on, name)
    optim, elbo = loaded.train_on.optim, loaded.train_on.elbo
    assert optim.keywords == getattr(first.train_on.optim, "keywords", {})
    assert type(elbo) is type(first.train_on.elbo)
    updated, wanted = loaded.update(more), first.update(more)
    assert updated.elbo == wanted.elbo
    np.testing.assert_array_equal(updated.probabilities, wanted.probabilities)
    assert len(updated.history) == len(wanted.history)


def test_a_loaded_fit_of_labels_alone_needs_no_data_beside_its_file(tmp_path):
    said = {"item": [0, 1, 2] * 3, "worker": list("aaabbbccc"), "label": list("xyxxyyxyx")}
    more = {"item": [0, 1], "worker": ["d"] * 2, "label": ["x", "y"]}
    data = CrowdData(None, labels=said)
    model = DawidSkene(ConfusionMatrices(3, 2))
    first = fit(model, ClassLabelGuide(model), data, **OPTIONS)
    first.save(tmp_path / "fit.safetensors")
    updated = load(tmp_path / "fit.safetensors").update(labels=more)
    wanted = first.update(labels=more)
    np.testing.assert_array_equal(updated.probabilities, wanted.probabilities)


# Why not, of those that cannot.
REFUSED = {
    "amortized": "TwoCoin under AmortizedGuide cannot go on with new workers",
}


@pytest.mark.long
@pytest.mark.parametrize("name", PAIRS_OF_MODEL_AND_GUIDE)
def test_every_fit_goes_on_from_its_file_by_the_options_that_it_chose(name, tmp_path, monkeypatch):
    monkeypatch.setattr(chosen_options, "_MAX_STEPS", {True: 3, False: 3})
    monkeypatch.setattr(chosen_options, "_MAX_EPOCHS", 1)
    model, guide, data = PAIRS_OF_MODEL_AND_GUIDE[name]()
    first = fit(model, guide, data, progress=False)
    first.save(tmp_path / "fit.safetensors")
    new = {"pairs": {"left": [0], "right": [1], "worker": [0], "label": [1]}}
    if data.class_labels is not None:
        new = {"labels": {"item": [0], "worker": [0], "label": [1]}}
    elif data.placements is not None:
        new = {"placements": {"item": [0, 1], "worker": [0] * 2, "page": ["new"] * 2}}
        new["placements"]["group"] = [0, 1]
    elif not data.has_answers:
        new = {"features": data.features[:2]}
    wanted = first.update(**new)
    updated = load(tmp_path / "fit.safetensors", data=data).update(**new)
    assert updated.stop_reason == wanted.stop_reason
    np.testing.assert_allclose(updated.history["elbo"], wanted.history["elbo"], rtol=1e-12)
    np.testing.assert_allclose(updated.probabilities, wanted.probabilities, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("name", PAIRS_OF_MODEL_AND_GUIDE)
def test_every_fit_hears_new_workers_about_new_items_and_is_saved_then(name, tmp_path):
    model, guide, data = PAIRS_OF_MODEL_AND_GUIDE[name]()
    first = fit(model, guide, data, epochs=2, progress=False)
    ids = [1000, 1001]
    new = {"item_ids": ids}
    if data.features is not None:
        new["features"] = np.asarray(data.features[:2])
    if data.class_labels is not None:
        new["labels"] = {"item": ids, "worker": [77] * 2, "label": [0, 1]}
    elif data.placements is not None:
        new["placements"] = {"item": ids, "worker": [77] * 2, "page": ["new"] * 2, "group": [0, 1]}
    else:
        new["pairs"] = {"left": ids, "right": [0, 1], "worker": [77] * 2, "label": [1, 0]}
        new["pairs"]["page"] = ["new"] * 2
    if name in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[name]):
            first.update(**new)
        return
    updated = first.update(**new)
    assert updated.data.worker_ids.tolist() == [*data.worker_ids, 77]
    assert len(updated.assignments) == data.num_items + 2
    updated.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=updated.data)
    np.testing.assert_array_equal(loaded.probabilities, updated.probabilities)


def test_networks_train_on_for_a_tenth_of_the_epochs():
    answers = crowd("pairs", ["a", "b"], 0)
    data, networks = CrowdData(FEATURES, answers), DeepNormal(dim=2, hidden=(8,))
    result = cluster(FEATURES, answers, networks=networks, epochs=20, progress=False)
    updated = result.update(crowd("pairs", ["a", "b"], 1))
    assert (len(result.history), len(updated.history)) == (20, 2)
    assert data.num_pairs < updated.data.num_pairs


def test_what_cannot_go_on_says_why(tmp_path):
    answers = crowd("pairs", ["a", "b"], 0)
    result = fitted(CrowdData(FEATURES, answers), epochs=2)
    result.save(tmp_path / "fit.safetensors")
    with pytest.raises(ValueError, match=r"no features: pass the data .*load\(path, data=data\)"):
        load(tmp_path / "fit.safetensors").update(answers)
    with pytest.raises(ValueError, match=r"3 is an item of the fit already \(2 such ids\): leave"):
        result.update(features=FEATURES[:2], item_ids=[3, 4])
    with pytest.raises(ValueError, match="new items need features"):
        result.update(answers, item_ids=["new"])
    paged = CrowdData(FEATURES, answers.assign(page="one"))
    with pytest.raises(ValueError, match="page 'one' was answered before"):
        extended(paged, pairs=answers.assign(page="one"))


def half_step(step):
    """A schedule of a user's."""
    return 0.5


@pytest.mark.parametrize("first_call", ["fit", "cluster"])
def test_a_file_names_options_of_a_users_own_which_can_be_given_again(first_call, tmp_path):
    make = {
        "fit": lambda features, answers, **own: fitted(CrowdData(features, answers), **own),
        "cluster": partial(cluster, components=GaussianComponents, progress=False),
    }[first_call]
    own = {"callbacks": [lambda trainer: None], "step_size": half_step}
    first = make(FEATURES, crowd("pairs", ["a", "b"], 0), **own, epochs=3)
    more = crowd("pairs", ["c"], 1)
    path = tmp_path / "fit.safetensors"
    first.save(path)
    load(path, data=first.data).save(path)  # a file of a file has what the first one had
    loaded = load(path, data=first.data)
    message = (
        r"\(step_size is a .*half_step, .*; callbacks.0 is a .*<lambda>, .*\): "
        r"pass them again, update\(..., step_size=..., callbacks=...\)"
    )
    with pytest.raises(ValueError, match=message):
        loaded.update(more)
    with pytest.raises(ValueError, match=r"all options of the fit \(callbacks.0 [^;]*\): pass"):
        loaded.update(more, step_size=half_step)
    assert loaded.update(more, **own).elbo == first.update(more, **own).elbo


def test_options_with_tensors_are_in_a_file(tmp_path):
    optim = partial(adam, lr=torch.tensor(0.01))
    first = fitted(CrowdData(FEATURES, crowd("pairs", ["a"], 0)), epochs=2, optim=optim)
    first.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=first.data)
    assert loaded.train_on.optim.keywords["lr"].item() == pytest.approx(0.01)


def test_first_answers_of_a_loaded_fit_may_bring_the_callbacks(tmp_path):
    model = SemiCrowdsourcedMixture(DirichletWeights(3), GaussianComponents(3, 3), Identity())
    own = OPTIONS | {"epochs": 3, "callbacks": [lambda trainer: None]}
    first = fit(model, MessagePassingGuide(model), CrowdData(FEATURES), **own)
    first.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=first.data)
    updated = loaded.update(crowd("pairs", ["a"], 0), callbacks=[])
    assert updated.workers.index.tolist() == ["a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature": FEATURES}, "'feature'; did you mean 'features'\\?"),
        ({"item_id": ["new"]}, "'item_id'; did you mean 'item_ids'\\?"),
        ({"max_iter": 3}, "'max_iter'; did you mean 'epochs'\\?"),
        ({"num_starts": 3}, "'num_starts'$"),
        ({"data": 3}, "'data'$"),
        ({"known": {0: "a"}}, r"'known'; make a new model for CrowdData\(..., known=...\), and"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_an_argument_that_there_is_not_is_named_before_anything_else(options, message, tmp_path):
    """Also before answers that are wrong, and features that a file has not."""
    result = fitted(CrowdData(FEATURES, crowd("pairs", ["a", "b"], 0)), epochs=1)
    result.save(tmp_path / "fit.safetensors")
    wrong = {"left": [0], "right": ["nobody"], "worker": ["a"], "label": [1]}
    for one in (result, load(tmp_path / "fit.safetensors")):
        with pytest.raises(TypeError, match=rf"^update\(\) has no argument {message}"):
            one.update(wrong, **options)


@pytest.mark.long
def test_answers_alone_are_searched_anew_from_several_starts():
    pairs = {"left": [0, 1, 0], "right": [1, 2, 2], "worker": ["a"] * 3, "label": [1, 0, 0]}
    result = cluster(None, pairs, epochs=2, progress=False)
    more = {"left": [2], "right": [3], "worker": ["b"], "label": [1]}
    assert result.update(more, item_ids=[3], num_starts=2, epochs=2).data.num_items == 4
    with pytest.raises(TypeError, match=r"no argument 'num_start'; did you mean 'num_starts'"):
        result.update(more, item_ids=[3], num_start=2)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["new"], "1 item_ids for 2 rows of features"),
        (["new", "new"], "item_ids row 1 is 'new', which is there already"),
        ("new", "item_ids must be a flat list"),
    ],
    ids=["too few", "doubled", "no list"],
)
def test_ids_of_new_items_are_one_for_every_row(ids, message):
    """With too few of them the last rows were left out, and nothing said so."""
    result = fitted(CrowdData(FEATURES, crowd("pairs", ["a"], 0)), epochs=1)
    answers = {"left": ["new"], "right": [0], "worker": ["a"], "label": [1]}
    with pytest.raises(ValueError, match=message):
        result.update(answers, features=FEATURES[:2], item_ids=ids)


def test_new_workers_of_a_model_of_ones_own_are_refused_by_their_names():
    def model(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("items", len(batch.items)):
            z = dist.Categorical(torch.ones(2))
            z = pyro.sample("z", z, infer={"enumerate": "parallel"})
            pyro.sample("o", dist.Normal(mean + 3.0 * z, 1.0), obs=batch.features[:, 0])

    guide = EnumeratedGuide(model, AutoDelta(poutine.block(model, hide=["z"])))
    data = CrowdData(FEATURES, crowd("pairs", ["a", "b"], 0))
    result = fit(model, guide, data, **OPTIONS | {"epochs": 1})
    message = (
        r"worker 'c' is new \(2 such workers\).*the model model has none of these.*fit them to all"
    )
    with pytest.raises(ValueError, match=message):
        result.update(crowd("pairs", ["c", "d"], 1))


def test_pairs_and_pages_become_what_the_fit_has():
    pages = crowd("placements", ["a"], 0)
    pairs = CrowdData(None, placements=crowd("placements", ["b"], 1)).as_pairs().pairs
    as_pages = extended(CrowdData(FEATURES, placements=pages), pairs=pairs)
    assert (as_pages.answers, as_pages.placements.num_pages) == (None, 4)
    as_pairs = extended(CrowdData(FEATURES, pairs), placements=pages)
    assert (as_pairs.placements, as_pairs.num_pairs) == (None, 4 * 36)
    half = pairs.groupby("page").head(3)
    with pytest.raises(ValueError, match="the fit used sorted pages, but .*; ask for pages, or f"):
        extended(CrowdData(FEATURES, placements=pages), pairs=half)


def test_pairs_that_were_asked_one_by_one_are_pages_of_two():
    data = CrowdData(FEATURES, placements=crowd("placements", ["a"], 0))
    pairs = {"left": [0, 0], "right": [3, 1], "worker": ["a", "new"], "label": [1, 0]}
    once = extended(data, pairs=pairs)
    twice = extended(once, pairs=pairs)
    assert (once.placements.num_pages, twice.placements.num_pages) == (4, 6)
    added = twice.pages.iloc[len(data.placements) :].groupby("page")
    assert added["item"].agg(list).tolist() == [[0, 3], [0, 1]] * 2
    assert added["group"].nunique().tolist() == [1, 2] * 2


def test_pairs_that_were_asked_one_by_one_are_pages_of_their_own_beside_pairs_of_pages():
    before = CrowdData(FEATURES, crowd("pairs", ["b"], 0).assign(page="pair 0"))
    pairs = {"left": [0, 0], "right": [3, 1], "worker": ["a", "new"], "label": [1, 0]}
    assert extended(before, pairs=pairs).pairs["page"].tail(3).tolist() == [
        "pair 0",
        "pair 1",
        "pair 2",
    ]


def test_new_texts_may_stand_beside_ids_that_are_tuples():
    """Pandas compares a column of texts with no tuples."""
    said = {"left": [("box", 0)], "right": [("box", 1)], "worker": ["a"], "label": [1]}
    ids = [("box", number) for number in range(60)]
    data = CrowdData(FEATURES[:60], said | {"page": [("page", 1)]}, item_ids=ids)
    more = pd.DataFrame({"left": ["new 0"], "right": ["new 1"], "worker": ["b"], "label": [0]})
    names = pd.Index([f"new {number}" for number in range(30)])
    updated = fitted(data, epochs=1).update(more, features=FEATURES[60:], item_ids=names)
    assert updated.data.pairs["page"].tolist() == [("page", 1), "pair 0"]
    assert updated.data.item_ids.tolist() == [*ids, *names]


def test_pairs_and_pages_that_come_together_are_all_heard():
    pages = crowd("placements", ["a"], 1)
    pages["page"] = "pair " + pages["page"].str[2:]  # as pairs are called that are pages of two
    pairs = pd.DataFrame({"left": [0, 0], "right": [3, 1], "worker": ["a", "new"], "label": [1, 0]})
    of_pages = CrowdData(FEATURES, placements=crowd("placements", ["b"], 0))
    both = extended(of_pages, pairs=pairs, placements=pages).placements
    before = of_pages.placements
    assert len(both) == len(before) + len(pages) + 4
    assert both.num_pages == before.num_pages + pages["page"].nunique() + 2
    of_pairs = CrowdData(FEATURES, crowd("pairs", ["b", "d"], 0))
    both = extended(of_pairs, pairs=pairs, placements=pages)
    assert both.num_pairs == of_pairs.num_pairs + 2 + 2 * 36
    same = extended(of_pairs, pairs=pairs.iloc[:0], placements=pages.iloc[:0])
    assert same.pairs.equals(of_pairs.pairs)


def test_an_update_hears_what_the_fit_heard_alone():
    said = {"item": [0, 1, 2], "worker": ["a"] * 3, "label": ["x", "y", "x"]}
    pair = {"left": [0], "right": [1], "worker": ["a"], "label": [1]}
    of_pairs = fitted(CrowdData(FEATURES, crowd("pairs", ["b", "d"], 0)), epochs=1)
    with pytest.raises(ValueError, match="labels are given, but the fit used other answers"):
        of_pairs.update(labels=said)
    model = DawidSkene(ConfusionMatrices(1, 2))
    of_labels = fit(model, ClassLabelGuide(model), CrowdData(None, labels=said), **OPTIONS)
    with pytest.raises(ValueError, match="pairs are given, but the fit used other answers"):
        of_labels.update(pair)
    with pytest.raises(ValueError, match="pairs are given, but .* pass it as labels=$"):
        of_labels.update(pd.DataFrame(said))
    with pytest.raises(ValueError, match="so it cannot use features of new items"):
        of_labels.predict(FEATURES)
    paged = of_pairs.update(pd.DataFrame(pair).assign(page="p1"), epochs=1)
    assert paged.data.num_pairs == of_pairs.data.num_pairs + 1


def test_a_loaded_result_says_what_needs_its_features(tmp_path):
    of_pairs = fitted(CrowdData(FEATURES, crowd("pairs", ["b", "d"], 0)), epochs=1)
    of_pairs.save(tmp_path / "fit")
    with pytest.raises(ValueError, match="Files do not hold features"):
        load(tmp_path / "fit").to_arviz(num_draws=2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([(1, 2, "b", 1)], "pairs have no column 'left', .*; name the columns"),
        (FEATURES, "pairs have no column 'left'"),
        (
            {"left": [1], "right": [2], "worker": [None], "label": [1]},
            r"pairs row 0 .*worker is missing",
        ),
        (
            {"left": [1, 1], "right": [2, 999], "worker": ["b", "b"], "label": [1, 1]},
            r"pairs row 1 \(index 1\): right is 999, .* new item by features= and item_ids=\[999\]",
        ),
    ],
    ids=["rows", "features", "nobody", "unknown"],
)
def test_new_answers_are_checked_for_themselves(more, message):
    before = CrowdData(FEATURES, crowd("pairs", ["b"], 0))
    with pytest.raises(ValueError, match=message):
        extended(before, pairs=more)


def test_answers_alone_say_how_items_are_added():
    said = {"left": ["i1"], "right": ["i2"], "worker": ["b"], "label": [1]}
    before = CrowdData(None, said, item_ids=["i1", "i2"])
    found = r"right is 'i9', .*correct it or add it as a new item by item_ids=\['i9'\]"
    with pytest.raises(ValueError, match=found):
        extended(before, pairs=said | {"right": ["i9"]})


def test_no_new_answers_change_nothing():
    before = CrowdData(FEATURES, crowd("pairs", ["b"], 0))
    assert extended(before, pairs=before.pairs[:0]).pairs.equals(before.pairs)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_functions_learned_by_param_goes_on(is_loaded, tmp_path):
    data, still = noise_around(2.0), partial(torch.optim.SGD, lr=0.0)
    result = quiet_fit(location_model, location_guide, data, optim=partial(adam, lr=0.1))
    if is_loaded:
        result.save(tmp_path / "fit.safetensors")
        result = load(tmp_path / "fit.safetensors", location_model, location_guide, data)
    found = {name: value.clone() for name, value in result.parameter_store["params"].items()}
    updated = result.update(features=[[5.0]], optim=still)
    assert found["loc"] != 0.5
    assert updated.parameter_store["params"] == found
    assert isinstance(updated.parameter_store["constraints"]["scale"], type(constraints.positive))
    further = result.update(features=[[5.0]], optim=partial(adam, lr=0.1))
    assert further.parameter_store["params"]["loc"] != found["loc"]
    assert result.parameter_store["params"] == found  # what was is left as it was


def test_only_what_is_new_is_warned_of():
    """Warnings are errors here: what was told of the first answers is not told again."""
    said = {"left": [0, 1], "right": [1, 0], "worker": ["a", "a"], "label": [1, 1]}
    with pytest.warns(UserWarning, match="pairs row 1 .index 1.: repeats an earlier answer"):
        data = CrowdData(FEATURES, said)
    more = {"left": [0], "right": [1], "worker": ["b"], "label": [1]}
    data = extended(data, pairs=more)
    with pytest.warns(UserWarning, match="pairs row 0 .index 0.: repeats an earlier answer"):
        data = extended(data, pairs=more)
    with pytest.warns(UserWarning, match="workers 'B' and 'b' differ only in case"):
        extended(data, pairs=more | {"worker": ["B"]})


def test_labels_that_contradict_what_a_trusted_worker_said_before_are_named():
    said = {"item": [0, 0, 1, 1, 2, 2], "worker": list("ebebeb"), "label": list("xxyyxx")}
    result = infer_classes(CrowdData(None, labels=said), trusted=["e"], epochs=2)
    with pytest.warns(UserWarning, match="contradict each other about item 0 .'e' says 'x' and 'e"):
        updated = result.update(labels={"item": [0], "worker": ["e"], "label": ["y"]})
    updated.update(labels={"item": [1], "worker": ["c"], "label": ["y"]})  # warns no second time
