"""What ``suggest`` returns, whatever it chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import ConfusionMatrices, SortedPages, TrustedWorkers, TwoCoin
from pyro_crowdclust.asking import (
    InformationGain,
    Labels,
    Margin,
    Pages,
    Pairs,
    Random,
    WorkerInformation,
    suggest,
)
from pyro_crowdclust.data import MemmapFeatures
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import ClassLabelGuide, MessagePassingGuide
from pyro_crowdclust.interface import cluster
from pyro_crowdclust.interface.answers_alone.pairs_alone import PairsAlone
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import DawidSkene, SemiCrowdsourcedMixture
from pyro_crowdclust.partitions import PitmanYor
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements

CRITERIA = [InformationGain(), WorkerInformation(), Margin(), Random()]
NAMES = [f"item {number}" for number in range(80)]


def problem(kind="pairs"):
    """Four overlapping kinds of named items, and two workers, one of whom guesses."""
    truth = np.arange(80) % 4
    features = 3.0 * np.eye(4)[truth] + np.random.default_rng(0).normal(size=(80, 4))
    if kind == "pairs":
        table = simulate_pairs(truth, [0.95, 0.5], [0.95, 0.5], pairs_per_worker=60, seed=0)
        table[["left", "right"]] = np.array(NAMES)[table[["left", "right"]]]
        return CrowdData(features, pairs=table, item_ids=NAMES), truth
    table = simulate_placements(truth, [0.95, 0.4], pages_per_worker=3, page_size=8, seed=0)
    table["item"] = np.array(NAMES)[table["item"]]
    return CrowdData(features, placements=table, item_ids=NAMES), truth


def fitted(data):
    workers = (TwoCoin if data.placements is None else SortedPages)(data.num_workers)
    parts = DirichletWeights(6), GaussianComponents(6, 4), Identity(), workers
    model = SemiCrowdsourcedMixture(*parts)
    return fit(
        model,
        MessagePassingGuide(model),
        data,
        batch_size=None,
        step_size=1.0,
        epochs=20,
        dtype=torch.float64,
        progress=False,
    )


@pytest.fixture(scope="module")
def by_pairs():
    return fitted(problem("pairs")[0])


@pytest.fixture(scope="module")
def by_pages():
    return fitted(problem("pages")[0])


@pytest.fixture(scope="module")
def by_labels():
    truth = np.arange(80) % 4
    rng = np.random.default_rng(0)
    item, worker = np.tile(NAMES[:60], 2), np.repeat([0, 1], 60)
    label = np.where(rng.random(120) < 0.8, np.tile(truth[:60], 2), rng.integers(0, 4, 120))
    said = {"item": item, "worker": worker, "label": label}
    model = DawidSkene(ConfusionMatrices(2, 4))
    options = {"batch_size": None, "step_size": 1.0, "epochs": 20, "progress": False}
    return fit(
        model, ClassLabelGuide(model), CrowdData(None, labels=said, item_ids=NAMES), **options
    )


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda criterion: type(criterion).__name__)
def test_every_criterion_suggests_every_kind(criterion, by_pairs, by_pages, by_labels):
    for result in (by_pairs, by_pages):
        pages = suggest(result, Pages(6), count=3, criterion=criterion)
        assert len(pages) == 3
        assert pages.frame.columns.tolist() == ["page", "item", "worker", "gain"]
        assert pages.frame.groupby("page")["item"].nunique().tolist() == [6, 6, 6]
        assert pages.frame.groupby("page")["worker"].nunique().tolist() == [1, 1, 1]
        pairs = suggest(result, Pairs(), count=7, criterion=criterion)
        assert pairs.frame.columns.tolist() == ["left", "right", "worker", "gain"]
        assert (pairs.frame["left"] != pairs.frame["right"]).all()
    labels = suggest(by_labels, Labels(), count=5, criterion=criterion)
    assert labels.frame.columns.tolist() == ["item", "worker", "gain"]
    assert (len(pairs), len(labels)) == (7, 5)
    for suggestions, column in ((pages, "item"), (pairs, "left"), (labels, "item")):
        assert set(suggestions.frame[column]) <= set(NAMES)
        assert (suggestions.frame["gain"] >= 0).all()
        assert suggestions.expected_gain > 0
        assert suggestions.price == len(suggestions)
        assert len(repr(suggestions).splitlines()) in (3, 4)


@pytest.mark.parametrize("kind", [Pages(6), Pairs()], ids=["pages", "pairs"])
def test_who_is_asked_and_what_is_known_of_them(by_pages, kind):
    options = {"workers": [0, 1, "new"], "prices": {0: 2.0}, "exploration": 0.0}
    suggestions = suggest(by_pages, kind, count=4, **options)
    table, questions = suggestions.workers, suggestions.frame
    if isinstance(kind, Pages):
        questions = questions.drop_duplicates("page")
    for worker, row in table.iterrows():
        assert row["asked"] == (questions["worker"] == worker).sum()
    assert table["answers"].loc[[0, 1, "new"]].tolist() == [24, 24, 0]
    assert suggestions.price == pytest.approx(4 + table.loc[0, "asked"])
    # Accuracies .95 and .4 among the clusters; of a stranger all is open.
    assert table.loc[0, "reliability"] > table.loc["new", "reliability"]
    assert table.loc[0, "reliability"] > table.loc[1, "reliability"] + 0.2
    assert table.loc["new", "deviation"] > 2 * table.loc[0, "deviation"]
    assert "(reliability" in repr(suggestions)


def test_all_questions_together_have_a_price_and_a_gain(by_pairs):
    options = {"workers": [0], "prices": {0: 2.5}}
    suggestions = suggest(by_pairs, Pairs(), count=4, **options)
    assert suggestions.price == 10.0
    assert suggestions.expected_gain == pytest.approx(sum(suggestions.frame["gain"]))


def test_nobody_is_asked_the_same_twice(by_pairs, by_pages):
    asked = by_pairs.data.pairs
    before = {(frozenset(row[:2]), row[2]) for row in asked.itertuples(index=False)}
    among = asked[["left", "right"]]
    again = suggest(by_pairs, Pairs(among=among), count=1000).frame
    assert len(again) > 50
    after = {(frozenset(row[:2]), row[2]) for row in again.itertuples(index=False)}
    assert len(after) == len(again)
    assert before.isdisjoint(after)
    placed = by_pages.data.pages
    pages = suggest(by_pages, Pages(8), count=5).frame
    sorted_before = set(zip(placed["item"], placed["worker"], strict=True))
    assert sorted_before.isdisjoint(zip(pages["item"], pages["worker"], strict=True))


def test_who_compared_all_items_may_still_sort_them():
    ring = {"left": range(80), "right": np.roll(range(80), 1), "worker": [0] * 80}
    result = fitted(CrowdData(problem()[0].features, ring | {"label": [0, 1] * 40}))
    assert len(suggest(result, Pages(6), count=3)) == 3


def test_a_page_shows_no_pair_that_its_worker_was_asked_about():
    """Also where answers to a page are heard as pairs, of which nothing tells the page."""
    data, truth = problem()
    kind, result = pd.Series(truth, NAMES), fitted(data)
    for number in range(3):
        frame = suggest(result, Pages(12), count=3, workers=[0]).frame
        pages = frame.assign(page=[f"{number}, {page}" for page in frame["page"]])
        before = result.data.pairs
        asked = {frozenset(row[:2]) for row in before[before["worker"] == 0].to_numpy()}
        shown = CrowdData(None, placements=pages.assign(group=kind[pages["item"]].to_numpy()))
        ends = shown.as_pairs().pairs[["left", "right"]]
        assert asked.isdisjoint(map(frozenset, ends.to_numpy()))
        result = result.update(placements=shown.pages)


def test_no_pair_is_asked_of_who_sorted_it_on_a_page(by_pages):
    pairs = by_pages.data.as_pairs().pairs
    before = {(frozenset(row[:2]), row[2]) for row in pairs.itertuples(index=False)}
    again = suggest(by_pages, Pairs(among=pairs[["left", "right"]]), count=1000).frame
    assert len(again) > 50
    assert before.isdisjoint((frozenset(row[:2]), row[2]) for row in again.itertuples(index=False))


def test_who_compared_an_item_with_all_others_is_not_shown_it():
    """And a page is not of one item."""
    star = {"left": [0] * 79, "right": range(1, 80), "worker": [0] * 79, "label": [0] * 79}
    result = fitted(CrowdData(problem()[0].features, star))
    pages = suggest(result, Pages(40), count=5).frame
    assert set(pages["item"]) == {*range(1, 80)}
    assert pages.groupby("page").size().tolist() == [40, 39]


@pytest.mark.parametrize("kind", [Pages(4), Pairs()], ids=["pages", "pairs"])
def test_partitions_of_answers_alone_can_be_asked_about(kind):
    said = simulate_pairs(np.arange(12) % 3, [0.9], [0.9], pairs_per_worker=30, seed=0)
    result = (
        PairsAlone(CrowdData(None, said)).recipe(PitmanYor()).fit(epochs=3, seed=0, progress=False)
    )
    assert len(suggest(result, kind, count=3)) == 3


def test_pages_have_numbers_that_an_update_takes(by_pages):
    frame = suggest(by_pages, Pages(5), count=2).frame
    last = max(by_pages.data.page_ids)
    assert frame["page"].unique().tolist() == [last + 1, last + 2]
    updated = by_pages.update(placements=frame.assign(group=frame.groupby("page").cumcount() % 2))
    again = suggest(updated, Pages(5), count=1).frame
    assert again["page"].unique().tolist() == [last + 3]


@pytest.mark.parametrize(
    ("answered", "first"),
    [
        (["0", "12"], 13),
        (["3 of ann", "3 of ben"], 4),
        (["one", "12345678901234567890"], 0),
        ([2, 7, "x"], 8),
    ],
)
def test_pages_go_on_from_numbers_that_a_file_made_texts(answered, first):
    table = {
        "page": np.repeat(np.array(answered, dtype=object), 2),
        "group": [0, 1] * len(answered),
    }
    table |= {"item": range(2 * len(answered)), "worker": [0] * 2 * len(answered)}
    result = fitted(CrowdData(problem()[0].features, placements=table))
    assert suggest(result, Pages(5), count=2).frame["page"].unique().tolist() == [first, first + 1]


def test_suggestions_repeat_with_their_seed(by_pairs):
    frames = [suggest(by_pairs, Pages(5), count=4, seed=seed).frame for seed in (3, 3, 4)]
    assert frames[0].equals(frames[1])
    assert not frames[0].equals(frames[2])


def test_newcomers_are_all_tried_and_rounds_have_other_random_numbers(by_pages):
    """Rates are drawn for every page, and new answers change the numbers that a seed stands for."""
    new = ["cleo", "dan", "eve"]
    first = suggest(by_pages, Pages(3), count=12, workers=new)
    assert (first.workers["asked"] >= 1).all()
    assert "no questions for" not in repr(first)
    assert "no questions for: " in repr(suggest(by_pages, Pages(3), count=1, workers=new))
    kept = by_pages.data.placements.of_pages(torch.arange(by_pages.data.placements.num_pages) > 0)
    fewer = replace(by_pages, data=by_pages.data.with_parts(placements=kept))
    again = suggest(fewer, Pages(3), count=12, workers=new)
    assert first.frame["worker"].tolist() != again.frame["worker"].tolist()


def test_pairs_by_chance_are_of_any_two_items(by_pairs):
    _, truth = problem("pairs")
    chance = Random()
    options = {"count": 400, "criterion": chance, "exploration": 0.0}
    frame = suggest(by_pairs, Pairs(), seed=1, **options).frame
    ends = np.stack([by_pairs.data.item_ids.get_indexer(frame[end]) for end in ("left", "right")])
    same = (truth[ends[0]] == truth[ends[1]]).mean()
    assert same == pytest.approx(19 / 79, abs=0.06)
    # Every item is in about ten.
    assert np.bincount(ends.ravel(), minlength=80).min() >= 2


def test_of_a_loaded_fit_features_are_asked_for(by_pairs, tmp_path):
    by_pairs.save(tmp_path / "fit.safetensors")
    with pytest.warns(UserWarning, match=r"features of the fit are not in its file.*load\(path, d"):
        suggest(load(tmp_path / "fit.safetensors"), Pairs(), count=3)
    loaded = load(tmp_path / "fit.safetensors", data=by_pairs.data)
    found, expected = (suggest(one, Pairs(), count=3).frame for one in (loaded, by_pairs))
    pd.testing.assert_frame_equal(found, expected)


class FromOne:
    """A criterion of one's own, which wants every item beside the first one."""

    def scores(self, prospects, generator):
        return prospects.gain

    def draw_pairs(self, num_items, number, generator):
        other = generator.integers(1, num_items, number)
        return np.stack([other, np.zeros_like(other)], 1)


def test_a_criterion_may_say_which_pairs_can_be_asked(by_pairs):
    options = {"count": 20, "exploration": 0.0}
    frame = suggest(by_pairs, Pairs(), criterion=FromOne(), **options).frame
    assert set(frame["left"]) == {NAMES[0]}
    promising = suggest(by_pairs, Pairs(), criterion=InformationGain(), **options).frame
    assert promising["left"].nunique() > 2


def test_a_large_batch_asks_several_workers_about_an_item(by_labels):
    """Sixty of eighty items have labels of both workers; a third and a fourth are new."""
    everybody = [0, 1, "ann", "bob"]
    frame = suggest(by_labels, Labels(), count=500, workers=everybody, exploration=0.0).frame
    assert len(frame) == 2 * 60 + 4 * 20
    assert not frame.duplicated(["item", "worker"]).any()
    assert set(frame["item"][:80]) == set(frame["item"][80:160]) == set(NAMES)
    assert set(frame["item"][160:180]) == set(frame["item"][180:]) == set(NAMES[60:])
    totals = [frame["gain"][start : start + 80].sum() for start in (0, 80)]
    assert totals[1] < 0.7 * totals[0]
    busy = suggest(by_labels, Labels(), count=500, workers=["ann", "bob"], loads={"bob": 7}).frame
    assert busy["worker"].value_counts().to_dict() == {"ann": 80, "bob": 7}
    assert len(suggest(by_labels, Labels(), count=500, workers=[])) == 80


def test_of_workers_who_label_the_one_who_is_least_known_is_measured():
    truth, rng = np.arange(60) % 3, np.random.default_rng(0)
    item = np.r_[np.tile(np.arange(60), 2), np.arange(6)]
    worker = np.repeat(["ann", "bob", "new"], [60, 60, 6])
    label = np.where(rng.random(126) < 0.9, truth[item], rng.integers(0, 3, 126))
    data = CrowdData(None, labels={"item": item, "worker": worker, "label": label})
    model = DawidSkene(ConfusionMatrices(3, 3))
    options = {"batch_size": None, "step_size": 1.0, "epochs": 20, "progress": False}
    result = fit(model, ClassLabelGuide(model), data, **options)
    found = suggest(result, Labels(), count=6, criterion=WorkerInformation(), exploration=0.0)
    assert found.workers["asked"].to_dict() == {"new": 6, "ann": 0, "bob": 0}
    assert found.workers["deviation"].idxmax() == "new"


def test_only_what_is_allowed_is_asked(by_pairs, by_labels):
    items = NAMES[55:65]
    among = {"item": items * 2, "worker": [0] * 10 + [1] * 10}
    frame = suggest(by_labels, Labels(among=among), count=30).frame
    assert set(frame["item"]) == set(items[5:])  # as both labelled the others
    only = {"left": [NAMES[0]], "right": [NAMES[40]], "worker": [1]}
    frame = suggest(by_pairs, Pairs(among=only), count=3).frame
    assert frame[["left", "right", "worker"]].to_numpy().tolist() == [[NAMES[0], NAMES[40], 1]]
    for result, kind in ((by_pairs, Pairs), (by_labels, Labels)):
        named = (only if kind is Pairs else {"item": items[-1:]}) | {"worker": ["new"]}
        with pytest.raises(
            ValueError, match=r"such as 'new', but none of them can be asked: pass sugg"
        ):
            suggest(result, kind(among=named))
        assert len(suggest(result, kind(among=named), workers=["new", 0])) == 1


def test_what_an_expert_said_is_not_asked():
    """Twenty of eighty items are known; what they say of others is heard."""
    data, truth = problem()
    known = pd.Series(truth[:20], index=NAMES[:20])
    options = {"components": GaussianComponents, "num_clusters": 4, "progress": False}
    result = cluster(data.features, known=known, item_ids=NAMES, **options)
    every = {"workers": ["ann"], "exploration": 0.0}
    # An update could not use labels, but a new fit could.
    asking = {"for_new_fit": True} | every
    labels = suggest(result, Labels(), count=80, **asking).frame
    assert sorted(labels["item"]) == sorted(NAMES[20:])
    among = pd.DataFrame({"item": NAMES[10:30]})
    found = suggest(result, Labels(among=among), count=80, **asking)
    assert set(found.frame["item"]) == {*NAMES[20:30]}
    pairs = suggest(result, Pairs(), count=200, **every).frame
    assert len(pairs) == 200
    assert not (pairs["left"].isin(NAMES[:20]) & pairs["right"].isin(NAMES[:20])).any()
    ends = pd.DataFrame({"left": NAMES[:3], "right": NAMES[18:21]})
    found = suggest(result, Pairs(among=ends), count=9, **every).frame
    assert found[["left", "right"]].to_numpy().tolist() == [[NAMES[2], NAMES[20]]]
    # All classes were compared by their labels.
    unlabelled = cluster(data.features, item_ids=NAMES, **options)
    before, after = (
        suggest(one, Labels(), count=5, **asking).expected_gain for one in (unlabelled, result)
    )
    assert after < 0.5 * before
    with pytest.raises(ValueError, match="no class labels, and cannot be updated .* classify"):
        suggest(result, Labels())


@pytest.mark.parametrize("trusted", [0, 2])
def test_what_workers_who_are_trusted_said_is_heard(trusted):
    """They are asked nothing, wherever they stand among the workers."""
    others = [worker for worker in range(3) if worker != trusted]
    said = {
        "item": [*range(8), *range(4, 12), *range(4)],
        "worker": [others[0]] * 8 + [others[1]] * 8 + [trusted] * 4,
        "label": [0, 1] * 10,
    }
    model = DawidSkene(TrustedWorkers(ConfusionMatrices(3, 2), [trusted]))
    data = CrowdData(None, labels=said, item_ids=range(16))
    result = fit(model, ClassLabelGuide(model), data, epochs=9, progress=False)
    found = suggest(result, Labels(), count=4, exploration=0.0)
    assert sorted(found.workers.index) == others
    assert sorted(found.frame["item"]) == [12, 13, 14, 15]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": 5}, r"kind is 5, but must be Pages\(size=12\), Pairs"),
        ({"kind": Pairs}, r"kind is <class .*, but must be Pages\(size=12\), Pairs\(\)"),
        ({"criterion": Margin}, r"criterion is <class .*, but must be InformationGain\(\)"),
        ({"criterion": "margin"}, "criterion is 'margin', but must be InformationGain"),
        ({"count": 0}, "count is 0"),
        ({"count": 2.5}, "count is 2.5, but must be a whole number"),
        ({"prices": {"nobody": 2.0}}, "prices has worker 'nobody', who has not answered"),
        ({"loads": {"nobody": 2.0}}, "loads has worker 'nobody'"),
        ({"kind": Pairs(3)}, "among is 3, but must be a table of what may be asked; the num"),
        ({"kind": Pairs(pd.DataFrame())}, "among is empty, .* omit it to choose from all"),
        ({"kind": Labels()}, "the fit is of pairs, and cannot use class labels: ask for Pages"),
        ({"workers": [0, 1, 0]}, "workers has 0 more than once: name every worker once"),
        ({"workers": ["0"]}, "workers 0 .int. and '0' .str. are written alike"),
        ({"workers": [0, None]}, "workers has no id at place 1: remove this entry"),
        ({"workers": [np.nan, 0]}, "workers has no id at place 0"),
        ({"workers": ["ann", " "]}, "workers has no id at place 1"),
        ({"exploration": 1.5}, "exploration is 1.5"),
        ({"exploration": "a"}, "exploration is 'a', but must be a share"),
        ({"exploration": None}, "exploration is None, but must be a share"),
        ({"seed": -1}, "seed is -1, but must be at least 0"),
        ({"seed": 1.5}, "seed is 1.5, but must be a whole number"),
        ({"prices": 5}, "prices is 5, but must have numbers by worker"),
        ({"loads": [1, 2]}, r"loads is \[1, 2\], but must have numbers by worker"),
        ({"prices": {0: "a"}}, "prices of worker 0 is 'a', but must be above 0"),
        ({"prices": {0: 0.0}}, "prices of worker 0 is 0.0"),
        ({"of": ["nobody"]}, "nobody"),
    ],
)
def test_bad_arguments_are_named(by_pairs, options, message):
    with pytest.raises(ValueError, match=message):
        suggest(by_pairs, **options)


def test_answers_that_an_update_would_refuse_are_not_asked_for(by_pages, by_labels):
    with pytest.raises(ValueError, match="the fit is of sorted pages, and cannot use class labels"):
        suggest(by_pages, Labels())
    for among, message in ((3, "among is 3, but must be a table"), ([], "among is empty")):
        with pytest.raises(ValueError, match=message):
            suggest(by_labels, Labels(among))


def test_a_page_needs_two_items():
    with pytest.raises(ValueError, match="size is 1"):
        Pages(1)
    for size in (2.5, "a"):
        with pytest.raises(ValueError, match=f"size is {size!r}, but must be a whole number"):
            Pages(size)


def test_prices_may_be_a_series(by_pairs):
    found = suggest(by_pairs, Pairs(), count=3, prices=pd.Series({0: 5.0, 1: 2.0})).workers
    assert found["price"].sort_index().tolist() == [5.0, 2.0]


def test_features_may_lie_on_a_disk(tmp_path):
    data, _ = problem()
    np.save(tmp_path / "features.npy", data.features)
    stored = MemmapFeatures(np.load(tmp_path / "features.npy", mmap_mode="r"))
    elsewhere = CrowdData(stored, pairs=data.pairs, item_ids=NAMES)
    frame = suggest(fitted(elsewhere), Pairs(), count=3).frame
    assert len(frame) == 3
    assert set(frame["left"]) <= set(NAMES)


def test_questions_that_teach_nothing_are_told_of():
    said = simulate_pairs(np.arange(12) % 3, [1.0], [1.0], pairs_per_worker=60, seed=0)
    recipe = PairsAlone(CrowdData(None, said)).recipe(PitmanYor())
    sure = recipe.fit(epochs=20, seed=0, progress=False)
    with pytest.warns(UserWarning, match=r"nothing is .* learned .*gain 0.* Stop asking; to check"):
        found = suggest(sure, Pairs(), count=3)
    assert found.expected_gain < 1e-9
    for criterion in CRITERIA[1:]:
        suggest(sure, Pairs(), count=3, criterion=criterion)


def test_a_warning_names_who_is_asked_and_says_the_opposite():
    _, truth = problem()
    said = simulate_pairs(truth, [0.9, 0.1], [0.9, 0.1], pairs_per_worker=150, seed=0)
    features = 9.0 * np.eye(4)[truth] + np.random.default_rng(0).normal(size=(80, 4))
    result = fitted(CrowdData(features, said.assign(worker=np.array(["ann", "bob"])[said.worker])))
    with pytest.warns(UserWarning, match=r"1 worker to ask \('bob'\) said .* as the opposite"):
        table = suggest(result, Pairs(), count=10).workers
    assert (table["reliability"] > 0.7).all()
    suggest(result, Pairs(), count=3, workers=["ann"])
