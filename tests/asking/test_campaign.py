"""Campaigns: what is chosen teaches more than chance, and ends when it should."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import ConfusionMatrices, SortedPages, TwoCoin
from pyro_crowdclust.asking import (
    InformationGain,
    Labels,
    Pages,
    Pairs,
    Random,
    RecordedCrowd,
    SimulatedCrowd,
    Stop,
    simulate_campaign,
    suggest,
)
from pyro_crowdclust.callbacks import OwnershipMoves
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import ClassLabelGuide, MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, Ownership
from pyro_crowdclust.models import DawidSkene, SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pairs
from pyro_crowdclust.training import Stopping

from ..control_c import press_in_start

# Sixteen heaps, of which each four in a row are one class.
HEAPS = np.arange(240) % 16
TRUTH = HEAPS // 4
CENTRES = 12.0 * np.random.default_rng(5).normal(size=(16, 3))
FEATURES = CENTRES[HEAPS] + np.random.default_rng(6).normal(size=(240, 3))
FEATURES /= FEATURES.std()


def owned(data):
    """A fit whose clusters own components, one for every heap."""
    answered = data.has_answers
    model = SemiCrowdsourcedMixture(
        DirichletWeights(16),
        GaussianComponents(16, 3, concentration=0.05, scale=0.1, degrees=5.0),
        Identity(),
        TwoCoin(data.num_workers, (4.0, 1.0), (4.0, 1.0)) if answered else None,
        ownership=Ownership(16, own=0.3) if answered else None,
        sum_out_assignments=None if answered else torch.float64,
    )
    return fit(
        model,
        MessagePassingGuide(model),
        data.as_pairs(),
        batch_size=None,
        step_size=1.0,
        epochs=20,
        stopping=Stopping(1e-2, 3),
        callbacks=[OwnershipMoves()] if answered else [],
        dtype=torch.float64,
        progress=False,
    )


def sorted_fit(data):
    """A few steps of a fit of sorted pages."""
    workers = SortedPages(data.num_workers) if data.has_answers else None
    parts = DirichletWeights(4), GaussianComponents(4, 3), Identity(), workers
    model = SemiCrowdsourcedMixture(*parts)
    options = {"batch_size": None, "epochs": 2, "dtype": torch.float64, "progress": False}
    return fit(model, MessagePassingGuide(model), data, **options)


def campaign(criterion, accuracy, **options):
    return simulate_campaign(
        owned,
        CrowdData(FEATURES),
        SimulatedCrowd(TRUTH, accuracy, seed=0),
        criterion=criterion,
        score=lambda result: {"accuracy": clustering_accuracy(TRUTH, result.assignments)},
        **options,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "gain"),
    [({"kind": Pages(8), "rounds": 4}, 0.02), ({"kind": Pairs(), "count": 12, "rounds": 3}, 0.05)],
)
def test_what_is_chosen_teaches_more_than_chance(options, gain):
    last = {}
    for criterion in (InformationGain(), Random()):
        rounds = [campaign(criterion, {"ann": 1.0}, seed=s, **options).rounds for s in range(6)]
        assert all(one["asked"].is_monotonic_increasing for one in rounds)
        last[type(criterion)] = np.mean([one["accuracy"].iloc[-1] for one in rounds])
    assert last[InformationGain] > last[Random] + gain


@pytest.fixture(scope="module")
def measured():
    """A fit in which ann is known to be good and bob to guess."""
    rates = [0.95, 0.5]
    table = simulate_pairs(TRUTH, rates, rates, pairs_per_worker=300, seed=0)
    table["worker"] = np.array(["ann", "bob"])[table["worker"]]
    return owned(CrowdData(FEATURES, table))


def test_reliable_workers_are_asked_unless_they_cost_too_much_or_are_busy(measured):
    options = {"count": 10, "exploration": 0.0}
    assert set(suggest(measured, Pairs(), **options).frame["worker"]) == {"ann"}
    assert set(suggest(measured, Pages(4), **options).frame["worker"]) == {"ann"}
    dear = suggest(measured, Pairs(), prices={"ann": 1e9}, **options)
    assert set(dear.frame["worker"]) == {"bob"}
    busy = suggest(measured, Pairs(), loads={"ann": 3}, **options)
    assert busy.frame["worker"].value_counts()["ann"] == 3
    priced = suggest(measured, Pairs(), prices={"ann": 2.5}, loads={"bob": 0.5}, **options)
    assert priced.price == 25.0


def test_new_workers_get_known_items_to_be_measured(measured):
    frame = suggest(measured, Pages(10), count=1, workers=["new"], exploration=0.0).frame
    asked = measured.data.item_ids[measured.data.annotated_items.numpy()]
    assert set(frame["worker"]) == {"new"}
    assert frame["item"].isin(asked).sum() >= 5
    other = suggest(measured, Pages(10), count=1, workers=["ann"], exploration=0.0).frame
    assert not set(other["item"]) <= set(frame["item"])


def test_a_second_worker_is_asked_about_other_items_of_the_same_heaps():
    options = {"exploration": 0.0, "workers": ["ann"]}
    first = suggest(owned(CrowdData(FEATURES)), Pages(8), count=2, **options).frame
    assert len(set(HEAPS[first["item"]])) >= 14  # of 16 items
    said = SimulatedCrowd(TRUTH, {"ann": 1.0}, seed=0).answer(first, "first")
    pairs = CrowdData(FEATURES, **said).as_pairs().pairs
    one = pairs[["left", "right"]].iloc[:12].assign(worker="bob", label=0, page="of bob")
    result = owned(CrowdData(FEATURES, pd.concat([pairs, one])))
    again = suggest(result, Pages(8), count=2, **options | {"workers": ["bob"]}).frame
    assert not set(again["item"]) & set(first["item"])


@pytest.fixture(scope="module")
def labelled():
    """Sixty items of three classes, labelled by two good workers and bob, who guesses."""
    rng = np.random.default_rng(0)
    item, worker = np.tile(np.arange(60), 3), np.repeat(["ann", "bob", "cem"], 60)
    truth = np.arange(60) % 3
    right = rng.random(180) < np.where(worker == "bob", 0.34, 0.95)
    label = np.where(right, truth[item], rng.integers(0, 3, 180))
    said = pd.DataFrame({"item": item, "worker": worker, "label": label})
    kept = said[rng.random(180) < 0.6]
    data = CrowdData(None, labels=kept, item_ids=range(60))
    model = DawidSkene(ConfusionMatrices(3, 3))
    options = {"batch_size": None, "step_size": 1.0, "epochs": 50, "progress": False}
    return fit(model, ClassLabelGuide(model), data, **options)


def test_a_worker_who_labels_well_is_asked_for_labels(labelled):
    frame = suggest(labelled, Labels(), count=10, exploration=0.0).frame
    assert (frame["worker"] != "bob").mean() > 0.7
    assert frame.merge(labelled.data.labels, on=["item", "worker"]).empty


def test_questions_are_about_what_is_wanted(labelled):
    everything = suggest(labelled, Labels(), count=6, exploration=0.0).frame["item"]
    wanted = sorted(set(range(60)) - set(everything))[:20]
    frame = suggest(labelled, Labels(), count=6, of=wanted, exploration=0.0).frame
    assert set(frame["item"]) <= set(wanted)


def test_recorded_answers_are_had_once_and_only_where_they_exist():
    rates = [0.9, 0.8]
    table = simulate_pairs(TRUTH, rates, rates, pairs_per_worker=60, seed=1)
    first, rest = table.iloc[:40], table.iloc[40:]
    crowd = RecordedCrowd(pairs=rest)
    replay = simulate_campaign(
        owned, CrowdData(FEATURES, first), crowd, Pairs(), rounds=10, count=30
    )
    assert len(crowd) == 0
    assert replay.rounds["asked"].tolist() == [30, 60, 80]
    assert replay.result.data.num_pairs == len(table)
    with pytest.raises(ValueError, match="recorded answers are about pairs or labels"):
        crowd.offers(Pages())
    with pytest.raises(ValueError, match="pass either pairs or labels"):
        RecordedCrowd()


@pytest.mark.parametrize(
    ("kind", "options"),
    [(Pages(4), {"rounds": 0}), (Pairs(), {}), (Labels(), {"rounds": 0})],
    ids=["pages", "pairs", "labels"],
)
def test_a_campaign_that_asks_nothing_has_tables_without_rows(kind, options):
    said = {"left": [0, 1], "right": [2, 3], "worker": ["ann", "ann"], "label": [0, 1]}
    crowd = RecordedCrowd(pairs=said) if isinstance(kind, Pairs) else Friend()
    scored = {"score": lambda result: {"accuracy": 0.5}} | options
    found = simulate_campaign(owned, CrowdData(FEATURES, said), crowd, kind, **scored)
    assert found.rounds.columns.tolist()[-2:] == ["seconds", "accuracy"]
    assert not len(found.rounds)
    about = {Pages: ["page", "item"], Pairs: ["left", "right"], Labels: ["item"]}[type(kind)]
    assert found.questions.columns.tolist() == [*about, "worker", "gain", "round"]
    assert found.result.data.num_pairs == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": -1}, "rounds is -1, but must be at least 0"),
        ({"rounds": 1.5}, "rounds is 1.5, but must be a whole number"),
        ({"rounds": 1, "score": lambda result: 0.5}, "score returned 0.5, but must .*: {'accuracy"),
    ],
)
def test_what_a_campaign_takes(options, message):
    with pytest.raises(ValueError, match=message):
        simulate_campaign(owned, CrowdData(FEATURES), Friend(), Pairs(), **options)


@pytest.mark.parametrize(
    ("accuracy", "message"),
    [
        ({}, "accuracy is {}, but must have a number for every worker: {'ann'"),
        ([0.9], r"accuracy is \[0.9\], but must have"),
        ({"ann": 9.5}, "accuracy of worker 'ann' is 9.5, but must be between 0 and 1"),
        ({"ann": "good"}, "accuracy of worker 'ann' is 'good'"),
    ],
)
def test_a_simulated_crowd_has_workers_who_are_right_so_often(accuracy, message):
    with pytest.raises(ValueError, match=message):
        SimulatedCrowd(TRUTH, accuracy, seed=0)


def test_items_without_a_class_cannot_be_asked_about():
    crowd = SimulatedCrowd(TRUTH[:20], {"ann": 0.9}, seed=0)
    for item in ({"item": [3, 21]}, {"left": [3, 4], "right": [0, 21]}):
        questions = pd.DataFrame(item).assign(worker="ann")
        with pytest.raises(ValueError, match="truth has no class of item 21: give one for every"):
            crowd.answer(questions, "first")
    with pytest.raises(ValueError, match="truth has item 'a' more than once"):
        SimulatedCrowd(pd.Series([0, 1], ["a", "a"]), {"ann": 0.9}, seed=0)


def test_recorded_answers_are_read_as_tables_are():
    rows = [{"left": 3, "right": "a", "worker": "ann", "label": 1, "page": 0}]
    crowd = RecordedCrowd(pairs=rows)
    asked = pd.DataFrame({"left": ["a"], "right": [3], "worker": ["ann"], "gain": [0.1]})
    said = crowd.answer(asked, "first")["pairs"]
    assert said.to_numpy().tolist() == [[3, "a", "ann", 1]]
    assert len(crowd) == 0
    labels = {"item": [3, 4], "worker": ["ann", "ben"], "label": ["x", None]}
    assert RecordedCrowd(labels=labels).workers.tolist() == ["ann"]
    with pytest.raises(ValueError, match="pairs have no column 'worker'"):
        RecordedCrowd(pairs=[{"left": 3, "right": 4, "label": 1}])
    with pytest.raises(ValueError, match="labels have no column 'label'"):
        RecordedCrowd(labels={"item": [3], "worker": [4]})


@pytest.mark.long
def test_a_campaign_stops_when_rounds_move_nothing():
    rounds = pd.DataFrame({"round": range(6)})
    rounds["moved"] = [0.3, 0.0, 0.2, 0.0, 0.0, 0.0]
    rounds["expected_moved"] = [0.3, 0.2, 0.1, 0.0, 0.0, 0.0]
    assert Stop(patience=2).round(rounds) == 4
    assert Stop(patience=1, share=0.25).round(rounds) == 1
    assert Stop(patience=4).round(rounds) is None
    ended = campaign(
        InformationGain(), {"ann": 1.0}, kind=Pages(8), rounds=20, stop=Stop(share=0.05)
    )
    assert len(ended.rounds) < 20
    assert ended.rounds["accuracy"].iloc[-1] > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0}, "share is 0, but must be a share of the items"),
        ({"share": 2}, "share is 2, but must be"),
        ({"share": "1%"}, "share is '1%', but must be"),
        ({"patience": 0}, "patience is 0"),
    ],
)
def test_a_rule_that_would_end_at_once_or_never(options, message):
    with pytest.raises(ValueError, match=message):
        Stop(**options)


def test_control_c_in_a_fit_ends_a_campaign_with_what_was_asked(monkeypatch):
    press_in_start(monkeypatch, 3)
    ended = campaign(InformationGain(), {"ann": 1.0}, kind=Pages(8), rounds=5)
    assert len(ended.rounds) == 2
    assert ended.questions["round"].max() == 1


def test_a_campaign_goes_on_from_the_answers_of_another():
    """With pages of other names, though each counts its rounds from 0."""
    data, crowd = CrowdData(FEATURES), SimulatedCrowd(TRUTH, {"ann": 0.9, 2: 0.8}, seed=0)
    for rounds in (1, 2, 3):
        found = simulate_campaign(sorted_fit, data, crowd, Pages(4), rounds=2)
        data = found.result.data
        assert found.rounds["round"].tolist() == [0, 1]
        assert len(data.page_ids) == 2 * rounds
    assert data.page_ids.tolist() == [f"round {number}.0" for number in range(6)]


def test_promises_that_are_not_kept_are_believed_less():
    rounds = pd.DataFrame({"round": range(40), "moved": 0.0, "expected_moved": 0.2})
    forecast = Stop(share=0.01).forecast(rounds)
    # Of 2.0 in ten rounds nothing came, and a tenth is held against that.
    assert forecast.iloc[-1] == pytest.approx(0.2 * 0.1 / 2.1)
    assert Stop(share=0.01).round(rounds) == 11
    kept = rounds.assign(moved=0.2)
    np.testing.assert_allclose(Stop().forecast(kept), 0.2)


def test_moved_items_are_counted_whatever_clusters_are_called():
    found = iter(np.array([[0, 0, 1, 1, 2, 2], [2, 2, 0, 0, 1, 1], [1, 1, 0, 0, 0, 2]]))

    def fit_next(data):
        result = stub(6)
        result.assignments, result.stop_reason = next(found), "as many as asked for"
        return result

    campaign = simulate_campaign(fit_next, stub(6).data, Friend(), Pairs(), rounds=2)
    assert campaign.rounds["moved"].tolist() == pytest.approx([0, 1 / 6])


def stub(num_items):
    """What ``suggest`` asks of a result, for many items, without a fit."""
    rng = np.random.default_rng(0)
    q = np.eye(20)[rng.integers(0, 20, num_items)] * 0.9 + 0.005
    data = CrowdData(rng.normal(size=(num_items, 1)))
    probabilities = torch.from_numpy(q)
    return SimpleNamespace(
        data=data,
        probabilities=q,
        component_probabilities=probabilities,
        component_probabilities_by_features=probabilities,
        owners=None,
        model=None,
        guide=None,
    )


@pytest.mark.parametrize("kind", [Pages(4), Pairs()], ids=["pages", "pairs"])
def test_a_fit_of_labels_asks_for_nothing_that_it_could_not_hear(labelled, kind):
    with pytest.raises(ValueError, match="is of class labels, and cannot use pa.*: ask for L"):
        suggest(labelled, kind)


def labelled_or_owned(data):
    if data.class_labels is None:
        return owned(data)
    model = DawidSkene(ConfusionMatrices(data.num_workers, data.num_classes))
    guide = ClassLabelGuide(model)
    return fit(model, guide, data, epochs=2, batch_size=None, progress=False)


@pytest.mark.parametrize("known_before", [0, 2])
@pytest.mark.filterwarnings("ignore:class .* is in no answer")
def test_classes_may_first_be_named_in_a_later_round(known_before):
    said = pd.DataFrame({"item": range(6), "worker": ["ann", "bob"] * 3, "label": list("ababcd")})
    before = said[:known_before] if known_before else None

    data = CrowdData(FEATURES[:48], labels=before)
    crowd = RecordedCrowd(labels=said[known_before:])
    campaign = simulate_campaign(labelled_or_owned, data, crowd, Labels(), rounds=9)
    assert len(campaign.questions) == 6 - known_before
    assert campaign.result.class_probabilities.columns.tolist() == list("abcd")


class Friend:
    """A crowd of one's own, with what it must have alone."""

    workers = ("me",)

    def answer(self, questions, page_prefix):
        if "left" in questions:
            same = TRUTH[questions["left"]] == TRUTH[questions["right"]]
            return {"pairs": questions[["left", "right", "worker"]].assign(label=same)}
        said = questions[["item", "worker"]]
        if "page" not in questions:
            return {"labels": said.assign(label=np.array(list("abcd"))[TRUTH[questions["item"]]])}
        pages = [f"{page_prefix}.{page}" for page in questions["page"]]
        return {"placements": said.assign(page=pages, group=TRUTH[questions["item"]])}


@pytest.mark.parametrize("kind", [Pages(4), Pairs(), Labels()], ids=["pages", "pairs", "labels"])
def test_a_crowd_needs_workers_and_answers_alone(kind):
    data = CrowdData(FEATURES)
    if isinstance(kind, Labels):
        said = {"item": range(4), "worker": ["me"] * 4, "label": list("abcd")}
        data = CrowdData(FEATURES, labels=said)
    found = simulate_campaign(labelled_or_owned, data, Friend(), kind, rounds=2, count=3)
    assert found.rounds["asked"].tolist() == [3, 6]
    assert found.rounds["spent"].tolist() == [3.0, 6.0]
    # A moved item takes more than two bits, if there are more than two clusters.
    bits = found.rounds["expected_gain"] / np.log(2)
    assert (found.rounds["expected_moved"] > 0).all()
    assert (found.rounds["expected_moved"] <= bits / 2 / len(FEATURES) + 1e-9).all()
    assert set(found.questions["worker"]) == {"me"}


@pytest.mark.parametrize(
    ("answer", "shown"),
    [(pd.DataFrame({"label": [1]}), "a DataFrame"), ({}, r"\[\]"), ({"answers": 1}, "answers")],
    ids=["table", "nothing", "name"],
)
def test_what_a_crowd_must_answer(answer, shown):
    crowd = SimpleNamespace(workers=["me"], answer=lambda questions, page_prefix: answer)
    with pytest.raises(ValueError, match=rf"returned .*{shown}.*, but must .*such as {{'pairs'"):
        simulate_campaign(owned, CrowdData(FEATURES), crowd, Pairs(), rounds=1)


@pytest.mark.long
@pytest.mark.parametrize("kind", [Pages(12), Pairs(), Labels()], ids=["pages", "pairs", "labels"])
def test_a_hundred_thousand_items_need_no_table_of_all_pairs(kind):
    options = {"workers": ["ann", "bob"], "for_new_fit": True}
    suggestions = suggest(stub(100_000), kind, count=20, **options)
    assert len(suggestions) == 20


def test_a_worker_without_errors_names_the_true_classes_in_whatever_order_they_come():
    crowd = SimulatedCrowd(list("bcab"), {"ann": 1.0}, seed=0)
    questions = pd.DataFrame({"item": range(4), "worker": "ann"})
    assert crowd.answer(questions, "first")["labels"]["label"].tolist() == list("bcab")
    assert crowd.classes == list("abc")


def test_classes_of_several_types_are_in_the_order_of_the_items():
    crowd = SimulatedCrowd(pd.Series(["b", 1, "b"], dtype=object), {"ann": 1.0}, seed=0)
    assert crowd.classes == ["b", 1]
