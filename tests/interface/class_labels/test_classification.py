"""Labels and features in one call: what is chosen, what it predicts, what it refuses."""

from __future__ import annotations

import dataclasses
import signal

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.data import MemmapFeatures
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import classify, infer_classes
from pyro_crowdclust.interface.class_labels import candidates, classification, search
from pyro_crowdclust.interface.class_labels.infer_classes import infer_independent
from pyro_crowdclust.interface.class_labels.options import OF_FEATURES
from pyro_crowdclust.interface.class_labels.search import ClassSearch, WorkersStart
from pyro_crowdclust.interface.class_labels.workers import Workers, codes_of_workers
from pyro_crowdclust.pooling.held_out_items import held_out_parts, log_probabilities_by_item

from ...control_c import press_control_c, press_in_start
from ..small_choices import two_rings

NAMES = np.array(["setosa", "versicolor", "virginica"])
QUICK = {"folds": 2, "epochs": 12, "progress": False}
OF_TRIALS = OF_FEATURES | {"epochs": 12}


def crowd(kind: np.ndarray, seed: int, share: float = 0.4) -> pd.DataFrame:
    """Four workers of unlike accuracy about some of the items each."""
    rng = np.random.default_rng(seed)
    rows = []
    for worker, accuracy in zip("abcd", (0.9, 0.8, 0.7, 0.6), strict=True):
        for item in np.flatnonzero(rng.random(len(kind)) < share):
            right = rng.random() < accuracy
            rows.append((item, worker, kind[item] if right else rng.choice(np.unique(kind))))
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


def only(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Try this kind of model alone, where which one is chosen is not the question."""
    monkeypatch.setattr(candidates, "CLASS_MODELS", {kind: candidates.CLASS_MODELS[kind]})
    monkeypatch.setattr(candidates, "PROCESSES", {})


@pytest.fixture(scope="module")
def iris():
    features, species = load_iris(return_X_y=True, as_frame=True)
    kind = NAMES[species]
    asked = np.random.default_rng(0).permutation(150)[:90]
    labels = crowd(kind, 1)
    labels = labels[labels["item"].isin(asked)].reset_index(drop=True)
    return features, kind, labels, classify(features, labels, **QUICK)


def test_features_help_items_with_labels_and_without(iris):
    features, kind, labels, result = iris
    data = CrowdData(None, labels=labels, item_ids=range(150))
    alone = infer_classes(data, [1]).class_probabilities.idxmax(axis=1).to_numpy()
    found = result.class_probabilities.idxmax(axis=1).to_numpy()
    labelled = np.isin(np.arange(150), labels["item"])
    right, right_alone = (np.mean(one[labelled] == kind[labelled]) for one in (found, alone))
    assert right > 0.94 > right_alone + 0.02
    assert np.mean(found[~labelled] == kind[~labelled]) > 0.92
    assert result.confusion["mean"].groupby("worker").max().idxmax() == "a"


@pytest.mark.long
def test_workers_who_copy_count_less(monkeypatch, tmp_path):
    only(monkeypatch, "Gaussians of one covariance")
    rng = np.random.default_rng(2)
    kind = rng.integers(3, size=240)
    features = 1.5 * np.eye(3)[kind] + rng.normal(size=(240, 3))
    says = np.where(rng.random((240, 4)) < 0.7, kind[:, None], rng.integers(3, size=(240, 4)))
    for _ in range(2):
        copy = np.where(rng.random(240) < 0.95, says[:, 0], rng.integers(3, size=240))
        says = np.column_stack([says, copy])
    item, worker = np.indices(says.shape).reshape(2, -1)
    named = np.array(["one", *"abc", *"xy"])[worker]
    labels = pd.DataFrame({"item": item, "worker": named, "label": NAMES[says.ravel()]})
    result = classify(features, labels, **QUICK)
    assert "as copies do, and count as less than one worker: 'one' as 0." in result.chosen.reason
    worker_weights = result.model.annotators.worker_weights
    assert {
        name for name, one in zip(result.data.worker_ids, worker_weights, strict=True) if one < 0.5
    } == {*("one", *"xy")}
    found = result.class_probabilities.idxmax(axis=1).to_numpy()
    assert np.mean(found == NAMES[kind]) > np.mean(NAMES[says[:, 0]] == NAMES[kind]) + 0.05
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=result.data)
    assert torch.equal(loaded.model.annotators.worker_weights, worker_weights)
    more = pd.DataFrame({"item": [0, 1], "worker": ["new"] * 2, "label": NAMES[kind[:2]]})
    updated = result.update(labels=more, epochs=2)
    after = dict(
        zip(updated.data.worker_ids, updated.model.annotators.worker_weights.tolist(), strict=True)
    )
    assert after.pop("new") == 1
    assert after == dict(zip(result.data.worker_ids, worker_weights.tolist(), strict=True))


def test_classes_may_have_any_shape():
    features, ring = two_rings(240)
    asked = np.arange(0, 160, 3)
    labels = {"item": asked, "worker": ["ann"] * len(asked), "label": NAMES[ring[asked]]}
    result = classify(features[:160], labels, **QUICK)
    assert result.chosen.winner.endswith("Gaussian process on powers, 2 components")
    found = result.predict_class_probabilities(features[160:]).idxmax(axis=1).to_numpy()
    assert np.mean(found == NAMES[ring[160:]]) > 0.95
    assert np.isfinite(result.predict_class_probabilities(np.full((1, 2), np.nan))).all(axis=None)


def test_what_is_known_for_sure_tells_of_a_crowd_that_errs_together(monkeypatch):
    only(monkeypatch, "full Gaussians")
    rng = np.random.default_rng(5)
    kind = rng.integers(3, size=120)
    features = 4 * np.eye(3)[kind] + rng.normal(size=(120, 3))
    item, worker = np.repeat(np.arange(60), 2), np.tile([0, 1], 60)
    said = np.where(rng.random(120) < 0.7, kind[item] + 1, kind[item]) % 3
    known = pd.DataFrame({"item": range(12), "worker": "known", "label": kind[:12]})
    crowd = pd.DataFrame({"item": item, "worker": np.array(["ann", "ben"])[worker], "label": said})
    labels = pd.concat([crowd, known], ignore_index=True)
    doubted, trusted = (
        classify(features, labels, trusted=who, folds=2, epochs=25, progress=False)
        .class_probabilities.idxmax(axis=1)
        .eq(kind)
        .mean()
        for who in ((), ["known"])
    )
    assert trusted > 0.95
    assert doubted < 0.5
    alone = classify(None, labels, trusted=["known"], epochs=12, progress=False)
    assert (alone.class_probabilities.idxmax(axis=1) == kind[:60]).mean() > 0.5


@pytest.mark.parametrize(
    ("trusted", "said"),
    [
        ("ann", "must be a list of workers"),
        (99, r"trusted is 99, but must be a list of workers: \[99\]"),
        (None, "trusted is None, but must be a list of workers: leave it out"),
        (["an"], "trusted names 'an', who gave no answer.*'ann'"),
    ],
)
@pytest.mark.parametrize("features", [None, np.arange(8.0).reshape(4, 2)])
def test_who_gave_no_answer_cannot_be_trusted(features, trusted, said):
    labels = {"item": [0, 1, 2], "worker": ["ann", "ann", "ben"], "label": list("xyx")}
    with pytest.raises(ValueError, match=said):
        classify(features, labels, trusted=trusted, progress=False)


def test_ids_of_who_is_trusted_may_be_tuples():
    who = pd.Series([("a", 1), ("e",), ("a", 1), ("e",)])
    labels = pd.DataFrame({"item": [0, 0, 1, 1], "worker": who, "label": list("xyyy")})
    data = CrowdData(None, labels=labels)
    assert codes_of_workers([("e",), ("a", 1)], data) == (1, 0)


def test_single_labels_are_doubted(monkeypatch):
    """Of one label an item nothing else could tell that a fifth of them is wrong."""
    only(monkeypatch, "Gaussians of one covariance")
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=150)
    features = rng.normal(size=(150, 2)) + 4 * np.eye(3)[kind, :2]
    said = np.where(rng.random(150) < 0.8, kind, (kind + rng.integers(1, 3, size=150)) % 3)
    labels = {"item": range(150), "worker": rng.integers(3, size=150), "label": said}
    result = classify(features, labels, **QUICK)
    right = result.class_probabilities.idxmax(axis=1) == kind
    assert right.mean() > np.mean(said == kind) + 0.08
    assert abs(right.mean() - result.class_probabilities.max(axis=1).mean()) < 0.05
    own = result.confusion.query("`class` == label")["mean"]
    assert own.between(0.6, 0.95).all()


def test_the_chosen_candidate_predicts_held_out_labels_best(iris):
    result = iris[3]
    table = result.chosen.table
    assert set(table["kind"]) == {
        *("Gaussians of one covariance", "full Gaussians", "labels alone"),
        *("regression", "sharp regression", "Gaussian process", "narrow Gaussian process"),
    }
    assert set(table["features"]) == {"columns", "powers", "none"}
    assert table.loc[table["chosen"], "held_out"].item() == table["held_out"].max()
    assert result.chosen.held_out > result.chosen.chance + 0.3
    assert result.chosen.winner.endswith("3 components")


def test_a_candidates_figure_is_that_of_the_held_out_labels(iris):
    features, _, labels, result = iris
    total = 0.0
    for seen, held in held_out_parts(CrowdData(features, labels=labels), 2, 0):
        alone = infer_classes(
            seen, [1], **OF_TRIALS | {"initialize": WorkersStart(seen, Workers(), 0)}
        )
        alone = dataclasses.replace(alone, guide=alone.guide.in_full())
        confusion = np.asarray(alone.guide.confusion().mean)
        for item in held.item.unique():
            joint = alone.probabilities[item].copy()
            for worker, label in zip(
                held.worker[held.item == item], held.label[held.item == item], strict=True
            ):
                joint *= confusion[worker, :, label]
            total += np.log(joint.sum())
        number = len(held.item.unique())
        assert log_probabilities_by_item(alone, held).shape == (number, number)
    assert result.chosen.chance == pytest.approx(total / len(labels), abs=1e-9)


def test_workers_begin_where_a_start_of_their_own_takes_them(iris, monkeypatch):
    """The workers' priors settle at the vote whatever the features are."""
    for module in (candidates, search):  # in as many steps as it takes
        monkeypatch.setattr(module, "ClassLabelGuide", ClassLabelGuide)
    features, _, labels, _ = iris
    data = CrowdData(features, labels=labels)
    candidate = candidates.class_candidates(data)[2]
    fits = [
        candidate.fit(data, {"epochs": 1, "batch_size": None, "progress": False} | start, Workers())
        for start in ({}, {"initialize": WorkersStart(data, Workers(), 0)})
    ]
    own, shared = (np.asarray(one.guide.confusion().mean) for one in fits)
    assert shared == pytest.approx(own, abs=1e-3)
    assert fits[0].probabilities == pytest.approx(fits[1].probabilities, abs=1e-2)


def test_a_trial_of_a_regression_ends_where_a_start_of_its_own_does():
    """Ten whole natural steps lead a regression of many classes astray, from where none returns."""
    rng = np.random.default_rng(0)
    kind = np.arange(300) % 8
    features = rng.normal(size=(300, 20)) + 3 * rng.normal(size=(8, 20))[kind]
    item, worker = np.arange(600) // 2, np.arange(600) % 5
    said = np.where(rng.random(600) < 0.7, kind[item], rng.integers(8, size=600))
    data = CrowdData(features, labels={"item": item, "worker": worker, "label": said})
    seen, held = held_out_parts(data, 2, 0)[0]
    candidate = candidates.class_candidates(data)[3]
    assert candidate.kind == "regression"
    own, shared = (
        np.diagonal(
            log_probabilities_by_item(candidate.fit(seen, OF_TRIALS | start, Workers()), held)
        ).mean()
        for start in ({}, {"initialize": WorkersStart(seen, Workers(), 0)})
    )
    assert shared == pytest.approx(own, abs=0.02)


@pytest.mark.long
def test_an_interrupted_search_fits_the_best_so_far(iris, monkeypatch):
    features, _, labels, _ = iris
    press_control_c(monkeypatch, ClassSearch, "try_out", 3)
    result = classify(features, labels, **QUICK)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    assert len(result.chosen.table) == 2
    assert "2 candidates had been tried" in result.chosen.reason


def test_ctrl_c_while_labels_held_out_are_scored(iris, monkeypatch):
    features, _, labels, _ = iris
    press_control_c(monkeypatch, search, "log_probabilities_by_item", 2 + 1)
    result = classify(features, labels, **QUICK)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    assert result.chosen.winner.startswith("labels alone")
    assert result.chosen.reason.startswith("features were not tried; 1 candidate had been")


def test_ctrl_c_before_anything_was_tried(iris, monkeypatch):
    press_in_start(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt, match="before a first fit was finished"):
        classify(iris[0], iris[2], **QUICK)


def test_ctrl_c_waits_while_torch_imports_what_it_loads_late(iris, monkeypatch):
    """Half of it would stay in the process, and every later fit would fail."""
    made, construct = [], torch.optim.Adam.__init__

    def pressed(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        construct(*arguments, **options)
        made.append(True)

    monkeypatch.setattr(torch.optim.Adam, "__init__", pressed)
    monkeypatch.setattr(search, "parts_of_seen_classes", lambda data, *_: [(data, None)])
    with pytest.raises(KeyboardInterrupt):
        classify(iris[0], iris[2], **QUICK)
    assert made == [True]


@pytest.mark.long
def test_ctrl_c_in_the_start_of_the_last_fit(iris, monkeypatch):
    only(monkeypatch, "full Gaussians")
    features, _, labels, _ = iris
    press_in_start(monkeypatch, 2 * 3 + 1)
    result = classify(features, labels, **QUICK)
    assert result.stop_reason == "interrupted by the user after 0 steps"
    assert len(result.chosen.table) == 3


def test_new_items_by_the_names_of_their_columns(iris, tmp_path):
    features, _, _, result = iris
    wanted = result.class_probabilities.to_numpy()
    unlabelled = ~np.isin(np.arange(150), iris[2]["item"])
    new = features.iloc[::-1, ::-1]
    predicted = result.predict_class_probabilities(new).to_numpy()[::-1]
    assert predicted[unlabelled] == pytest.approx(wanted[unlabelled], abs=1e-6)
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors")
    assert loaded.predict_class_probabilities(new).to_numpy()[::-1] == pytest.approx(predicted)
    assert loaded.chosen.winner == result.chosen.winner


@pytest.mark.long
def test_features_that_tell_nothing_do_no_harm(monkeypatch):
    only(monkeypatch, "regression")
    rng = np.random.default_rng(2)
    kind = NAMES[rng.integers(3, size=60)]
    labels = crowd(kind, 3)
    result = classify(rng.normal(size=(60, 3)), labels, item_ids=range(60), **QUICK)
    alone = infer_classes(CrowdData(None, labels=labels, item_ids=range(60)), [0, 1], **OF_TRIALS)
    alone = dataclasses.replace(alone, guide=alone.guide.read_at(1.0, moderated=True))
    asked = labels["item"].unique()
    assert result.chosen.winner.endswith("labels alone on none, 3 components")
    assert result.chosen.table["weight"].max() > 0.8
    assert log_loss(kind[asked], result.probabilities[asked]) < 0.02 + log_loss(
        kind[asked], alone.probabilities[asked]
    )
    new = result.predict_class_probabilities(rng.normal(size=(4, 3))).to_numpy()
    assert new == pytest.approx(np.tile(new[:1], (4, 1)), abs=0.2)


@pytest.mark.long
def test_features_that_tell_much_of_few_items_are_heard(monkeypatch):
    only(monkeypatch, "full Gaussians")
    rng = np.random.default_rng(7)
    kind = rng.integers(2, size=80)
    features = 1.5 * rng.normal(size=(2, 4))[kind] + rng.normal(size=(80, 4))
    labels = crowd(NAMES[kind], 7, share=0.15)
    result = classify(features, labels, item_ids=range(80), **QUICK)
    found = result.class_probabilities.idxmax(axis=1).to_numpy()
    assert np.mean(found == NAMES[kind]) > 0.85


@pytest.mark.long
def test_many_columns_are_taken_as_directions(monkeypatch):
    only(monkeypatch, "Gaussians of one covariance")
    rng = np.random.default_rng(4)
    kind = rng.integers(2, size=80)
    # All that tells the classes apart is in one direction of many, with little spread in units.
    features = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 60)) + 0.01 * rng.normal(
        size=(80, 60)
    )
    features += np.outer(kind - 0.5, 8.0 * np.eye(60)[7])
    result = classify(features, crowd(kind, 5), item_ids=range(80), **QUICK)
    assert set(result.chosen.table["features"]) == {
        *("20 directions", "40 directions", "wide directions", "none")
    }
    assert np.mean(result.class_probabilities.idxmax(axis=1).to_numpy() == kind) > 0.95
    assert result.predict_proba(features[:5]).shape == (5, 2)


def test_candidates_are_tried_on_some_items_with_labels_first(monkeypatch):
    rng = np.random.default_rng(9)
    kind = rng.integers(2, size=90)
    features = pd.DataFrame(rng.normal(size=(90, 2)) + 4 * kind[:, None], columns=["a", "b"])
    features.index = [f"item {number}" for number in range(90)]
    labels = crowd(kind[:30], 10)
    labels["item"] = "item " + labels["item"].astype(str)
    monkeypatch.setattr(classification, "MAX_ITEMS", 50)
    some = classification.items_to_try(CrowdData(features, labels=labels), 0)
    assert some.num_items == 50
    assert {*labels["item"]} <= {*some.item_ids}
    assert len(some.labels) == len(labels)
    rows = [features.index.get_loc(name) for name in some.item_ids]
    assert np.asarray(some.features) == pytest.approx(features.to_numpy()[rows])
    monkeypatch.setattr(classification, "MAX_ITEMS", 20)
    fewer = classification.items_to_try(CrowdData(features, labels=labels), 0)
    assert fewer.num_items == 20
    assert {*fewer.item_ids} == {*fewer.labels["item"]} <= {*labels["item"]}


@pytest.mark.long
def test_counts_and_yes_or_no_are_numbers(monkeypatch):
    only(monkeypatch, "regression")
    rng = np.random.default_rng(6)
    kind = rng.integers(2, size=80)
    table = pd.DataFrame(
        {
            "visits": rng.poisson(2 + 6 * kind),
            "member": rng.random(80) < 0.2 + 0.6 * kind,
            "age": rng.normal(30 + 5 * kind),
        }
    )
    result = classify(table, crowd(kind, 7), item_ids=range(80), **QUICK)
    assert np.mean(result.class_probabilities.idxmax(axis=1).to_numpy() == kind) > 0.9


@pytest.mark.long
@pytest.mark.parametrize("name", ["full Gaussians", "regression"])
def test_features_may_be_missing(iris, monkeypatch, name):
    features, kind, labels, _ = iris
    only(monkeypatch, name)
    gaps = features.mask(np.random.default_rng(8).random(features.shape) < 0.2)
    result = classify(gaps, labels, **QUICK)
    assert np.mean(result.class_probabilities.idxmax(axis=1).to_numpy() == kind) > 0.9
    empty = features.iloc[:2].mask([[True] * 4, [False] * 4])
    shares = result.probabilities.mean(0)
    far = 0.05 if name == "full Gaussians" else 0.5  # at the mean of all, which is in one class
    assert result.predict_proba(empty)[0] == pytest.approx(shares, abs=far)


def test_labels_without_features_are_those_of_infer_classes():
    labels, items = crowd(NAMES[np.arange(20) % 2], 12), range(25)
    options = {"seed": 3, "epochs": 5, "progress": False}
    result = classify(None, labels, item_ids=items, classes=NAMES[[1, 0]], **options)
    data = CrowdData(None, labels=labels, item_ids=items, classes=NAMES[[1, 0]])
    expected = infer_classes(data, **options)
    pd.testing.assert_frame_equal(result.class_probabilities, expected.class_probabilities)
    pd.testing.assert_frame_equal(result.confusion, expected.confusion)
    with pytest.raises(TypeError, match=r"classify\(\) has no argument 'num_communities'"):
        classify(None, labels, num_communities=[1])


@pytest.mark.parametrize("num_copies", [1, 3])
def test_copies_are_discounted_without_features_too(num_copies, tmp_path):
    """Of eight judges right three times in four some repeat the first: no class is told thrice."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 300)
    says = np.where(rng.random((300, 8)) < 0.75, kind[:, None], 1 - kind[:, None])
    repeats = rng.random((300, num_copies - 1)) < 0.95
    says[:, 1:num_copies] = np.where(repeats, says[:, :1], says[:, 1:num_copies])
    item, worker = np.indices(says.shape)
    labels = {"item": item.ravel(), "worker": worker.ravel(), "label": says.ravel()}
    result = classify(None, labels, progress=False)
    right = (result.class_probabilities.idxmax(axis=1).to_numpy() == kind).mean()
    sure = result.class_probabilities.max(axis=1).mean()
    assert right > 0.85
    assert sure == pytest.approx(right, abs=0.06)
    if num_copies == 1:
        assert result.chosen is None
        return
    np.testing.assert_allclose(result.model.annotators.worker_weights[:3], 1 / 3, atol=0.05)
    assert result.chosen.reason.startswith("some workers agree more often than the classes explain")
    assert result.chosen.winner == "copies discounted on none, 2 components"
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit")
    assert again.chosen.reason == result.chosen.reason
    np.testing.assert_allclose(again.probabilities, result.probabilities, rtol=0, atol=1e-12)
    independent = infer_independent(CrowdData(None, labels=labels), Workers())
    assert independent.class_probabilities.max(axis=1).mean() > 0.98
    more = {"item": [0, 1], "worker": ["new", 0], "label": [0, 1]}
    labels["worker"] = labels["worker"].astype(object)
    updated = result.update(labels=more)
    assert updated.model.annotators.worker_weights[-1] == 1
    assert updated.chosen is result.chosen


def test_what_is_refused_says_what_to_do(iris):
    features, _, labels, _ = iris
    for options in ({"folds": 2}, {"kinds": {"petal": "real"}}):
        with pytest.raises(ValueError, match="kinds and folds need features: pass"):
            classify(None, labels, progress=False, **options)
    with pytest.raises(ValueError, match="have known labels, which this model of class labels"):
        infer_classes(CrowdData(None, labels=labels, known={labels["item"][0]: "setosa"}))
    with pytest.raises(ValueError, match="folds is 500"):
        classify(features, labels, folds=500, progress=False)
    with pytest.raises(ValueError, match="folds is '3', but must be a whole number"):
        classify(features, labels, folds="3", progress=False)
    with pytest.raises(ValueError, match="seed is None, but must be a whole number"):
        classify(features, labels, seed=None, **QUICK)
    for said in (["a", "b"] * 75, pd.Series(["a", "b"] * 75), np.array(["a", "b"] * 75)):
        with pytest.raises(
            ValueError, match="labels are a single list, but must be a table of who"
        ):
            classify(features, said, **QUICK)


def with_towns(kind: np.ndarray) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    towns = np.array(["Rome", "Bari", "Lecce"])
    own = rng.random(len(kind)) < 0.8
    return pd.DataFrame(
        {
            "town": np.where(own, towns[2 * kind], towns[rng.integers(3, size=len(kind))]),
            "age": rng.normal(30 + kind),
            "member": rng.random(len(kind)) < 0.3 + 0.4 * kind,
        },
        [f"item {number}" for number in range(len(kind))],
    )


@pytest.mark.long
def test_a_category_is_a_number_for_each(monkeypatch, tmp_path):
    """As by ``pandas.get_dummies``, but for new items and in files, too."""
    only(monkeypatch, "full Gaussians")
    kind = np.random.default_rng(6).integers(2, size=80)
    table, labels = with_towns(kind), crowd(kind, 7)
    labels["item"] = "item " + labels["item"].astype(str)
    result = classify(table, labels, **QUICK)
    dummies = pd.get_dummies(table, columns=["town"])
    expected = classify(dummies, labels, **QUICK)
    assert result.chosen.winner == expected.chosen.winner
    assert result.probabilities == pytest.approx(expected.probabilities, abs=1e-9)
    assert np.mean(result.class_probabilities.idxmax(axis=1).to_numpy() == kind) > 0.8
    result.save(tmp_path / "fit.safetensors")
    for one in (result, load(tmp_path / "fit.safetensors")):
        found = one.predict_class_probabilities(table.iloc[::-1, ::-1]).to_numpy()[::-1]
        wanted = expected.predict_class_probabilities(dummies).to_numpy()
        assert found == pytest.approx(wanted, abs=1e-9)


@pytest.mark.long
def test_what_columns_hold_can_be_said(monkeypatch):
    only(monkeypatch, "full Gaussians")
    kind = np.random.default_rng(6).integers(2, size=80)
    table, labels = with_towns(kind), crowd(kind, 7)
    labels["item"] = "item " + labels["item"].astype(str)
    table = table.mask(np.random.default_rng(8).random(table.shape) < 0.1)
    codes = table.assign(town=table["town"].map({"Bari": 0, "Lecce": 1, "Rome": 2}))
    options = QUICK | {"epochs": 3}
    result = classify(codes, labels, kinds={"town": "category", "age": "real"}, **options)
    expected = classify(table, labels, **options)
    assert result.probabilities == pytest.approx(expected.probabilities, abs=1e-9)


@pytest.mark.long
def test_features_on_disk(monkeypatch, tmp_path):
    only(monkeypatch, "Gaussians of one covariance")
    monkeypatch.setattr(classification, "MAX_ITEMS", 50)
    rng = np.random.default_rng(9)
    kind = rng.integers(2, size=90)
    features = rng.normal(size=(90, 2)) + 4 * kind[:, None]
    np.save(tmp_path / "x.npy", features)
    labels = crowd(kind[:30], 10)
    on_disk = MemmapFeatures(np.load(tmp_path / "x.npy", mmap_mode="r"))
    stored = classify(on_disk, labels, **QUICK | {"epochs": 3})
    expected = classify(features, labels, **QUICK | {"epochs": 3})
    assert stored.probabilities == pytest.approx(expected.probabilities)
    assert stored.predict_proba(features[:3]) == pytest.approx(expected.predict_proba(features[:3]))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_few_labels_of_many_columns_name_classes(seed):
    """A class a direction of much variance; 40 directions of equal width hid it (.30 right)."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(4, size=120)
    directions = np.linalg.qr(rng.normal(size=(90, 20)))[0].T
    scores = rng.normal(size=(120, 20)) * np.linspace(3, 1, 20)
    scores[:, :4] = 2 * rng.normal(size=(120, 4)) + 12 * np.eye(4)[kind]
    features = scores @ directions + 0.3 * rng.normal(size=(120, 90))
    labels = {"item": range(12), "worker": "expert", "label": kind[:12]}
    result = classify(features, labels, trusted=["expert"], progress=False)
    right = result.class_probabilities.idxmax(axis=1)[12:] == kind[12:]
    assert right.mean() > 0.85


def test_labels_that_err_together_count_less_beside_features_too():
    """All workers see another class in the same items; items without labels do not change."""
    features, species = load_iris(return_X_y=True, as_frame=True)
    rng, asked = np.random.default_rng(3), 100
    features, species = (
        features.sample(frac=1.0, random_state=0),
        species.sample(frac=1.0, random_state=0),
    )
    features, kind = features.reset_index(drop=True), species.to_numpy()
    seen = np.where(rng.random(150) < 0.3, (kind + 1) % 3, kind)[:asked]
    right = rng.random((asked, 5)) < 0.85
    label = np.where(right, seen[:, None], rng.integers(3, size=(asked, 5)))
    item, worker = np.indices(label.shape)
    labels = {"item": item.ravel(), "worker": worker.ravel(), "label": label.ravel()}
    result = classify(features, pd.DataFrame(labels), **QUICK)
    reading = result.guide.reading
    assert reading.temperature > 1
    at_one = dataclasses.replace(result, guide=result.guide.read_at(temperature=1.0))
    np.testing.assert_array_equal(result.probabilities[asked:], at_one.probabilities[asked:])
    losses = [log_loss(kind[:asked], one.probabilities[:asked]) for one in (result, at_one)]
    assert losses[0] < losses[1]
