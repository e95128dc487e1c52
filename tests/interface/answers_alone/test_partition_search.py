"""The short forms of clusters from answers alone."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.exchange import CrowdAnswers
from pyro_crowdclust.guides import PartitionGuide, SortedPartitionGuide
from pyro_crowdclust.interface import AnswersAlone, CrowdClusterer, cluster, mixture_for
from pyro_crowdclust.interface.answers_alone import partition_search
from pyro_crowdclust.interface.answers_alone.pairs_alone import PairsAlone
from pyro_crowdclust.interface.answers_alone.prior_trials import PriorTrial
from pyro_crowdclust.interface.chance import log_chance
from pyro_crowdclust.interface.command_line import main
from pyro_crowdclust.metrics import adjusted_rand_index, clustering_accuracy
from pyro_crowdclust.partitions import FewClusters, ManySmall
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements

from ...control_c import press_control_c, press_in_start

TRUTH = np.arange(40) % 2
SEARCH = "pyro_crowdclust.interface.answers_alone.partition_search"
RATES = {"sensitivity": [0.9, 0.8, 0.95], "specificity": [0.9, 0.95, 0.85]}


def answers() -> pd.DataFrame:
    frame = simulate_pairs(TRUTH, **RATES, pairs_per_worker=300, seed=0)
    return frame.assign(**{end: "i" + frame[end].astype(str) for end in ("left", "right")})


def accuracy(found: pd.Series) -> float:
    truth = [TRUTH[int(name[1:])] for name in found.index]
    return clustering_accuracy(truth, found.to_numpy())


def test_cluster_finds_clusters_and_chooses_the_prior():
    result = cluster(None, pairs=answers(), epochs=10, progress=False)
    assert accuracy(pd.Series(result.assignments, result.data.item_ids)) == 1
    likeliest = result.chosen.winner.removesuffix(", hard items")
    assert likeliest in ("few clusters", "clusters of all sizes")
    assert result.chosen.held_out > result.chosen.chance
    assert result.chosen.table["chosen"].sum() == 1
    assert "too few answers" not in result.chosen.reason


@pytest.mark.long
def test_few_answers_are_enough_and_too_few_are_named(monkeypatch):
    """Ten answers an item, right of 85 %, each about another pair; and three."""
    truth, rates = np.arange(60) % 4, [0.85] * 3
    some = simulate_pairs(truth, rates, rates, pairs_per_worker=200, seed=1)
    found = cluster(None, pairs=some, epochs=20, progress=False)
    assert adjusted_rand_index(truth, found.assignments) > 0.7
    few = some.groupby("worker").head(60)
    ids = np.unique(few[["left", "right"]])
    monkeypatch.setattr(f"{SEARCH}._MAX_PARTS", 5)
    result = cluster(None, pairs=few, item_ids=ids, epochs=20, progress=False)
    assert "too few answers" in result.chosen.reason
    left, right = (ids[end] for end in np.triu_indices(len(ids), 1))
    together = result.same_cluster_probability(left, right)
    # A quarter of the pairs are one cluster, and nobody can tell which.
    assert 0.05 < together.mean() < 0.6
    assert (together > 0.95).mean() < 0.02


@pytest.mark.parametrize(("number", "chains"), [(800, 1), (370, 8), (850, 3), (3100, 1)])
def test_the_fewer_answers_the_more_chains(number, chains, monkeypatch):
    monkeypatch.setattr("pyro_crowdclust.guides.partition._ANSWERS_OF_CHAINS", 3000)
    pairs = simulate_pairs(np.arange(90) % 3, [0.9], [0.9], pairs_per_worker=number, seed=0)
    prior = ManySmall() if number == 800 else FewClusters()
    said = PairsAlone(CrowdData(None, pairs))
    guides = [some.recipe(prior).guide for some in (said, said.for_trials())]
    assert [len(guide.draws) for guide in guides] == [100 * chains, 100 * min(chains, 2)]
    guesses = said.for_guesses().recipe(prior).guide
    assert len(guesses.draws) == 100 * (1 if number == 800 else min(8, 24_000 // number))


def test_items_that_are_all_one_cluster_are_not_called_guesses():
    same = simulate_pairs(np.zeros(12, int), [0.97] * 2, [0.9] * 2, pairs_per_worker=40, seed=0)
    result = cluster(None, pairs=same, epochs=10, progress=False)
    assert len(result.clusters) == 1
    assert "either all items are one cluster, as found, or" in result.chosen.reason


@pytest.mark.parametrize("silent", [np.ones(4, int), np.array([2, 1, 1])])
def test_a_prior_under_which_nothing_is_the_same_is_taken_only_if_all_are(silent, monkeypatch):
    """Judges who read the same texts err together: looks that say nothing predict them as well.

    Nor does it say anything that two items are one, where people said it of very many.
    """
    heard = {"few clusters": 0.5, "many small clusters": 0.4}
    sizes = {"many small clusters": np.array([2, 1, 1])}

    def trial(answers, parts, prior, options):
        # With hard items answers are likelier still, and nothing is the same again.
        number = heard.get(prior, 0.3) + 0.2 * answers.hard_items
        numbers = torch.full((int(parts[0].sum()),), number, dtype=torch.float64)
        tells = prior in sizes and not answers.hard_items
        share_joined, size = (0.8, sizes[prior]) if tells else (0.01, silent)
        return PriorTrial(prior, answers, numbers, size, 0.0, share_joined=share_joined)

    monkeypatch.setattr(f"{SEARCH}.trial_of", trial)
    data = CrowdData(None, answers())
    comparison = AnswersAlone(data)._comparison(seed=0, epochs=1)
    assert comparison.chosen.name == "many small clusters"
    assert "under few clusters" in comparison.reason
    sizes.clear()
    comparison = AnswersAlone(data)._comparison(seed=0, epochs=1)
    assert comparison.chosen.name == "few clusters, hard items"


@pytest.mark.parametrize("is_clear", [True, False])
def test_a_fit_with_other_clusters_than_its_trial_gives_way_to_the_next_best(is_clear, monkeypatch):
    likely = {"many small clusters": 0.5, "clusters of all sizes": 0.4, "few clusters": 0.45}

    def trial(answers, parts, prior, options):
        number = likely.get(prior, 0.3) - 0.4 * answers.hard_items
        numbers = torch.full((int(parts[0].sum()),), number, dtype=torch.float64)
        sizes = np.ones(3, dtype=int) if prior == "few clusters" else np.array([2, 1])
        return PriorTrial(prior, answers, numbers, sizes, 0.0, share_joined=0.8)

    monkeypatch.setattr(f"{SEARCH}.trial_of", trial)
    others = {ManySmall}
    holds_in = lambda _, result: type(result.model.prior) not in others  # noqa: E731
    monkeypatch.setattr(PriorTrial, "holds_in", holds_in)
    best = lambda tried: max(tried, key=lambda trial: trial.held_out)  # noqa: E731
    monkeypatch.setattr(f"{SEARCH}.is_clearly_better", lambda *_: is_clear)
    monkeypatch.setattr(f"{SEARCH}.most_agreeing", lambda _, tried, __: best(tried))
    monkeypatch.setattr(PairsAlone, "tested", False)
    search = AnswersAlone(CrowdData(None, answers()))
    result = search.fit(epochs=2, progress=False)
    assert result.chosen.winner == "clusters of all sizes"
    reason = result.chosen.reason
    assert "the prior 'many small clusters' was chosen first, but" in reason
    assert "so the prior 'clusters of all sizes' is used instead" in reason
    assert (
        "these clusters (clusters of all sizes), which agree with the answers and may be right"
        in reason
    ) == (not is_clear)
    assert "(many small clusters)" not in reason
    others.add(type(result.model.prior))
    result = search.fit(epochs=2, progress=False)
    assert result.chosen.winner == "many small clusters"
    assert "chosen first" not in result.chosen.reason
    assert (
        "(many small clusters), which agree with the answers and may be right"
        in result.chosen.reason
    ) == (not is_clear)


def test_a_second_choice_that_predicts_no_further_answers_gives_way_to_guesses(monkeypatch):
    """The trials of the first part were lucky; those of further parts are like chance."""
    tried = []

    def trial(answers, parts, prior, options):
        tried.append((prior, parts))
        is_first = parts[0].equal(tried[0][1][0])
        number = (0.2 if prior == "few clusters" else 0.3) if is_first else -9.0
        numbers = torch.full((sum(int(part.sum()) for part in parts),), number).double()
        return PriorTrial(prior, answers, numbers, np.array([2, 1]), 0.0, share_joined=0.8)

    monkeypatch.setattr(f"{SEARCH}.trial_of", trial)
    monkeypatch.setattr(PriorTrial, "holds_in", lambda *_: False)
    result = cluster(None, answers(), epochs=2, progress=False)
    assert result.chosen.winner == "few clusters"
    assert not result.chosen.is_clear
    assert "does not predict further held-out answers clearly better" in result.chosen.reason
    assert "these clusters (few clusters) are guesses" in result.chosen.reason
    further = [parts for _, parts in tried if not parts[0].equal(tried[0][1][0])]
    assert further
    used = torch.stack(tried[0][1]).any(0)
    assert not any(bool((used & torch.stack(parts).any(0)).any()) for parts in further)


def test_answers_that_test_clusters_and_are_not_predicted_leave_the_first_prior(monkeypatch):
    """Every item was compared with six others, by workers who guess."""
    monkeypatch.setattr(PriorTrial, "holds_in", lambda *_: False)
    rng = np.random.default_rng(0)
    pairs = rng.permutation(np.stack(np.triu_indices(20, 1), 1))[:60]
    said = {"left": pairs[:, 0], "right": pairs[:, 1], "worker": ["a"] * 60}
    said["label"] = rng.integers(2, size=60)
    result = cluster(None, said, epochs=2, progress=False)
    assert result.chosen.winner == "few clusters"
    assert "these clusters (few clusters) are guesses" in result.chosen.reason
    assert "chosen first" not in result.chosen.reason


def test_what_looks_alike_is_told_by_who_was_compared_with_whom():
    """All pairs of blocks of six items; those of a page are compared whatever they look like."""
    left, right = (
        (torch.combinations(torch.arange(6)) + 6 * torch.arange(10).view(-1, 1, 1))
        .view(-1, 2)
        .T.tolist()
    )
    pairs = {"left": left, "right": right, "worker": ["a"] * 150, "label": [0, 1] * 75}
    assert PairsAlone(CrowdData(None, pairs)).look_alike
    pages = pairs | {"page": [place // 15 for place in range(150)]}
    assert not PairsAlone(CrowdData(None, pages)).look_alike
    assert not PairsAlone(CrowdData(None, answers())).look_alike


@pytest.mark.long
def test_records_that_people_were_asked_about_since_they_look_alike_are_matched(monkeypatch):
    # Priors that are nearly as good are told apart by trials that are nearly whole.
    monkeypatch.setattr(f"{SEARCH}.TRIAL_EPOCHS", 30)
    monkeypatch.setattr(f"{SEARCH}._MAX_PARTS", 2)
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(40), rng.choice([1, 2], 40))
    left, right = np.triu_indices(len(truth), 1)
    same = truth[left] == truth[right]
    pair = np.repeat(np.flatnonzero(same | (rng.random(len(same)) < 6 * same.mean())), 3)
    label = same[pair] ^ (rng.random(len(pair)) < 0.05)
    said = {"left": left[pair], "right": right[pair], "label": label.astype(int)}
    said["worker"] = np.tile([0, 1, 2], len(pair) // 3)
    result = cluster(None, said, epochs=30, progress=False)
    assert adjusted_rand_index(truth[result.data.item_ids], result.assignments) > 0.9


@pytest.mark.long
def test_what_nothing_tests_is_of_the_prior_whose_clusters_say_what_answers_say(monkeypatch):
    """Here of another than the first, as of records whose pairs have one answer each."""
    monkeypatch.setattr(f"{SEARCH}.most_agreeing", lambda _, tried, __: tried[1])
    rng = np.random.default_rng(0)
    said = {"left": rng.integers(20, size=30), "right": 20 + rng.integers(20, size=30)}
    said |= {"worker": rng.integers(3, size=30), "label": rng.integers(2, size=30)}
    result = cluster(None, said, epochs=5, progress=False)
    assert type(result.model.prior) is ManySmall
    untested = "these clusters (many small clusters), which agree with the answers and may be right"
    assert untested in result.chosen.reason


@pytest.mark.long
def test_large_and_small_clusters_of_what_looks_alike_are_told_apart(monkeypatch, tmp_path):
    """Nobody compares clusters that do not look alike, so no answer says that they differ."""
    monkeypatch.setattr(f"{SEARCH}.TRIAL_EPOCHS", 12)
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(16), [30, 25, 20, 15, 10, 8, 6, 5, 4, 3, 3, 2, 2, 1, 1, 1])
    left, right = np.triu_indices(len(truth), 1)
    same = truth[left] == truth[right]
    is_next = truth[right] == truth[left] + 1
    asked = np.flatnonzero((same & (rng.random(len(same)) < 0.7)) | (is_next & (left % 4 == 0)))
    pair = np.repeat(asked, 2)
    label = same[pair] ^ (rng.random(len(pair)) < 0.08)
    said = {"left": left[pair], "right": right[pair], "label": label.astype(int)}
    result = cluster(None, said | {"worker": np.arange(len(pair)) % 3}, epochs=20, progress=False)
    assert adjusted_rand_index(truth[result.data.item_ids], result.assignments) > 0.95
    assert result.chosen.winner.startswith("many clusters of all sizes")
    result.save(tmp_path / "fit.safetensors")
    loaded, prior = load(tmp_path / "fit.safetensors"), result.model.prior
    np.testing.assert_array_equal(loaded.assignments, result.assignments)
    assert (loaded.model.prior.closure, loaded.model.prior.asked) == (prior.closure, prior.asked)
    assert prior.closure < 0 < prior.asked


@pytest.mark.long
def test_no_number_of_epochs_is_the_usual_one(monkeypatch):
    monkeypatch.setattr(f"{SEARCH}.EPOCHS", 7)
    result = cluster(None, answers(), epochs=None, progress=False)
    assert len(result.history) == 7


def test_on_pages_alone_pairs_of_several_pages_are_tested():
    """All pairs of three items, on one page, and on two."""
    pairs = {"left": [0, 0, 1], "right": [1, 2, 2], "worker": ["a"] * 3, "label": [1, 0, 0]}
    assert PairsAlone(CrowdData(None, pairs)).tested
    pages = pd.DataFrame(pairs | {"page": [0] * 3})
    assert not PairsAlone(CrowdData(None, pages)).tested
    assert PairsAlone(CrowdData(None, pd.concat([pages, pages.assign(page=1)]))).tested


def test_parts_held_out_are_disjoint_and_as_many_as_it_takes():
    for number, most in ((100, 5), (1500, 2), (4000, 1)):
        pairs = simulate_pairs(np.arange(400) % 2, [0.9], [0.9], pairs_per_worker=number, seed=0)
        answered = PairsAlone(CrowdData(None, pairs))
        parts = answered.parts(0.1, 5, torch.Generator().manual_seed(0))
        assert len(parts) == most
        heard = torch.stack(parts).sum(0)
        assert int(heard.max()) == 1
        assert int(heard.sum()) == most * number // 10
        more = answered.parts(0.1, 5, torch.Generator().manual_seed(0), begin=most)
        assert len(more) == most
        assert int((heard + torch.stack(more).sum(0)).max()) == 1


@pytest.mark.long
def test_how_alike_items_are_is_heard_beside_answers():
    """Also by the estimator; items that nobody was asked about have clusters, too."""
    every = answers()
    few = every[~every[["left", "right"]].isin(["i38", "i39"]).any(axis=1)][::6]
    left, right = np.triu_indices(40, 1)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"left": left, "right": right}).map(lambda i: f"i{i}")
    table["alike"] = rng.normal(np.where(TRUTH[left] == TRUTH[right], 2.0, 0.0))
    result = cluster(None, pairs=few, likeness=table, epochs=8, progress=False)
    assert accuracy(pd.Series(result.assignments, result.data.item_ids)) > 0.97
    estimator = CrowdClusterer(max_iter=8, random_state=0).fit(None, pairs=few, likeness=table)
    np.testing.assert_array_equal(estimator.labels_, result.assignments)
    rest = every.drop(few.index)[::6]
    updated = result.update(rest)
    assert updated.data.likeness.num_pairs == len(table)
    assert accuracy(pd.Series(updated.assignments, updated.data.item_ids)) > 0.97
    # A new item, of which nobody says anything, is like those of the first kind.
    more = pd.DataFrame({"left": "new", "right": result.data.item_ids})
    like = TRUTH[more["right"].str[1:].astype(int)] == 0
    more["alike"] = rng.normal(np.where(like, 2.0, 0.0))
    taken_up = result.update(rest, item_ids=["new"], likeness=more)
    assert taken_up.data.likeness.num_pairs == len(table) + 40
    same = taken_up.same_cluster_probability(more["left"], more["right"])
    assert same[like].mean() > 0.8 > 0.2 > same[~like].mean()


@pytest.mark.long
def test_likeness_from_a_file(tmp_path):
    """The folder of a fit says where it was; numbers are read as such, and ids as texts."""
    left, right = np.triu_indices(40, 1)
    table = pd.DataFrame({"left": left, "right": right, "alike": TRUTH[left] == TRUTH[right]})
    pairs = answers().assign(**{end: answers()[end].str[1:] for end in ("left", "right")})
    for name, one in (("pairs", pairs), ("likeness", table.astype({"alike": float}))):
        one.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"--{name}={tmp_path / name}.csv" for name in ("pairs", "likeness")]
    out = str(tmp_path / "fit")
    assert main(["fit", *files, "--epochs", "2", "--starts", "1", "--out", out, "--quiet"]) == 0
    loaded = load(tmp_path / "fit" / "result.safetensors")
    assert loaded.data.likeness.num_pairs == len(table)
    assert [*loaded.data.likeness_names] == ["alike"]
    assert main(["report", out]) == 0


def test_likeness_beside_features_is_refused():
    table = {"left": [0], "right": [1], "alike": [0.3]}
    pairs = {"left": [0], "right": [2], "worker": ["a"], "label": [1]}
    with pytest.raises(
        ValueError, match="only where there are no features, but features are given"
    ):
        cluster(np.eye(3), pairs, likeness=table)
    data = CrowdData(np.eye(3), pairs, likeness=table)
    with pytest.raises(ValueError, match="SemiCrowdsourcedMixture does not use"):
        mixture_for(data).fit(progress=False)


@pytest.mark.long
def test_an_update_ends_where_a_fresh_fit_ends():
    """Also where few answers had no clusters in them, and others are chosen with all."""
    every = answers()
    options = {"epochs": 5, "progress": False}
    first = cluster(
        None, pairs=every[::10], item_ids=np.unique(every[["left", "right"]]), **options
    )
    rest = every.drop(every.index[::10])
    updated = first.update(rest)
    fresh = cluster(
        None, pairs=pd.concat([every[::10], rest]), item_ids=first.data.item_ids, **options
    )
    assert updated.elbo == pytest.approx(fresh.elbo)
    assert clustering_accuracy(fresh.assignments, updated.assignments) == 1
    assert updated.chosen.winner == fresh.chosen.winner
    # New items and workers, too.
    more = pd.DataFrame(
        {"left": ["new"] * 4, "right": ["i0", "i2", "i1", "i4"], "label": [1, 1, 0, 1]}
    )
    grown = updated.update(more.assign(worker="dee"), item_ids=["new"])
    assert grown.same_cluster_probability("new", "i0") > 0.5


def test_workers_are_thought_right_of_four_pairs_in_five():
    found = PairsAlone(CrowdData(None, answers())).recipe(FewClusters())
    for prior in found.model.annotators.priors().values():
        np.testing.assert_allclose(prior.natural_parameters + 1, [[4.0, 1.0]] * 3)


@pytest.mark.long
def test_a_loaded_fit_is_updated_like_the_fit_itself(tmp_path):
    every, options = answers(), {"epochs": 3, "progress": False}
    result = cluster(None, pairs=every[::2], **options)
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors")
    assert loaded.train_on == result.train_on
    updated, own = (one.update(every[1::2]) for one in (loaded, result))
    assert updated.data.num_pairs == len(every)
    assert len(updated.history) == 3
    np.testing.assert_array_equal(updated.assignments, own.assignments)
    assert updated.chosen.table["held_out"].equals(own.chosen.table["held_out"])


def test_an_interrupted_search_fits_the_best_so_far(monkeypatch):
    press_control_c(monkeypatch, partition_search, "trial_of", 4)
    with pytest.warns(
        UserWarning, match="before these priors were tried: 'clusters of all sizes'. "
    ):
        result = cluster(None, pairs=answers(), epochs=4, progress=False)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    table = result.chosen.table
    assert table["prior"].tolist() == [
        "few clusters",
        "many small clusters",
        "many clusters of all sizes",
    ]
    assert table.loc[table["chosen"], "held_out"].item() == table["held_out"].max()


@pytest.mark.parametrize(
    ("look_alike", "first"), [(False, "few clusters"), (True, "many small clusters")]
)
def test_ctrl_c_while_answers_held_out_are_scored(look_alike, first, monkeypatch):
    """Of records, many small clusters are tried first."""
    monkeypatch.setattr(PairsAlone, "look_alike", look_alike)
    press_control_c(monkeypatch, PartitionGuide, "log_answer_probabilities", 2)
    with pytest.warns(UserWarning, match=f"much better clusters than '{first}', which is used"):
        result = cluster(None, pairs=answers(), epochs=4, progress=False)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    assert result.chosen.table["prior"].tolist() == [first]


def test_ctrl_c_in_the_first_fit_keeps_the_first_prior(monkeypatch):
    press_in_start(monkeypatch, 1)
    with pytest.warns(UserWarning, match="the search was interrupted before these priors"):
        result = cluster(None, pairs=answers(), epochs=4, progress=False)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    assert result.chosen.winner == "few clusters"
    assert len(result.history) == 4


def test_ctrl_c_in_the_start_of_the_last_fit(monkeypatch):
    press_in_start(monkeypatch, 6)
    result = cluster(None, pairs=answers(), epochs=4, progress=False)
    assert result.stop_reason == "interrupted by the user after 0 steps"
    assert accuracy(pd.Series(result.assignments, result.data.item_ids)) > 0.5


@pytest.mark.long
def test_estimator_takes_no_features():
    clusterer = CrowdClusterer(n_init=1, max_iter=10, random_state=0).fit(None, pairs=answers())
    ids = clusterer.result_.data.item_ids
    assert accuracy(pd.Series(clusterer.labels_, ids)) == 1
    assert clusterer.n_clusters_in_use_ == len(clusterer.clusters_)
    assert len(clusterer.workers_) == 3


def sorted_pages(pages_per_worker: int) -> pd.DataFrame:
    crowd = simulate_placements(
        TRUTH, [0.95] * 4, pages_per_worker=pages_per_worker, page_size=10, seed=0
    )
    return crowd[["page", "item", "worker", "group"]]


@pytest.mark.parametrize("kind", ["placements", "pairs"])
def test_sorted_pages_are_heard_as_such(kind):
    """Also where they come as pairs."""
    pages = sorted_pages(pages_per_worker=4)
    if kind == "pairs":
        pages = CrowdData(None, placements=pages).as_pairs().pairs
    result = cluster(None, **{kind: pages}, epochs=10, progress=False)
    truth = TRUTH[result.data.item_ids.to_numpy()]
    assert clustering_accuracy(truth, result.assignments) > 0.9
    assert isinstance(result.guide, SortedPartitionGuide)
    assert result.chosen.table["prior"].tolist() == ["few clusters", "clusters of all sizes"]
    # Nats a placement; by chance it is in one of two groups.
    assert result.chosen.chance == pytest.approx(-np.log(2))
    assert result.chosen.held_out > result.chosen.chance + 0.1


@pytest.mark.long
def test_pages_that_hardly_overlap_count_by_their_pairs():
    pages = sorted_pages(pages_per_worker=1)
    result = cluster(None, placements=pages, epochs=10, progress=False)
    assert isinstance(result.guide, PartitionGuide)
    assert result.data.num_pairs == 4 * 45


def test_whole_pages_are_held_out_whose_pairs_follow_from_each_other():
    """Of pages that share no items, which are heard as pairs; nats an answer of every page."""
    kind = np.arange(48) % 3
    pages = simulate_placements(kind, accuracy=[0.9] * 2, pages_per_worker=2, page_size=12, seed=0)
    said = PairsAlone(CrowdData(None, placements=pages).as_pairs())
    parts = said.parts(0.1, 10, torch.Generator())
    assert torch.stack(parts).sum(0).eq(1).all()
    page = said.data.answers.page
    assert all(len(page[out].unique()) == 1 and len(page[out]) == 66 for out in parts)
    assert len(said.by_chance(parts)) == 4
    by_strength = [
        torch.stack(
            [
                log_chance(said.without(out).data, said.data.answers.at(out), c).mean()
                for out in parts
            ]
        )
        for c in (4.0, 1e9)
    ]
    torch.testing.assert_close(said.by_chance(parts), max(by_strength, key=torch.mean))


@pytest.mark.parametrize("lazy", [False, True])
def test_chance_is_that_of_each_worker_where_this_says_more(lazy):
    """Not where workers differ by accident, from few answers each."""
    rates = [0.5] * 20 + [1.0] * 10 * lazy, [0.5] * 20 + [0.0] * 10 * lazy
    said = PairsAlone(CrowdData(None, simulate_pairs(TRUTH, *rates, pairs_per_worker=12, seed=0)))
    parts = said.parts(0.1, 10, torch.Generator().manual_seed(0))
    of_each, of_all = (
        torch.cat([log_chance(said.without(o).data, said.data.answers.at(o), c) for o in parts])
        for c in (4.0, 1e9)
    )
    torch.testing.assert_close(said.by_chance(parts), of_each if lazy else of_all)


def test_pages_that_share_no_items_are_heard_by_their_pairs():
    kind = np.arange(24) % 3
    pages = simulate_placements(kind, [0.95, 0.9], pages_per_worker=2, page_size=6, seed=1)
    once = pages[~pages["item"].duplicated()]
    result = cluster(None, placements=once, epochs=4, progress=False)
    assert result.chosen.reason.startswith("items are on fewer than two pages on average, which")
    with pytest.raises(ValueError, match=r"as when pages are used as pairs .result.chosen"):
        _ = result.pages


@pytest.mark.long
def test_pages_of_a_few_items_are_heard_by_their_pairs(tmp_path):
    """Groups of so few tell nothing but which two items lie together, and which apart."""
    kind = np.arange(30) % 3
    pages = simulate_placements(kind, [0.95, 0.9, 0.9], pages_per_worker=50, page_size=3, seed=1)
    result = cluster(None, placements=pages, epochs=20, progress=False)
    assert isinstance(result.guide, PartitionGuide)
    assert "answers about their pairs; held-out answers are" in result.chosen.reason
    assert result.chosen.is_clear
    assert adjusted_rand_index(kind, result.assignments) > 0.9
    result.save(tmp_path / "fit.safetensors")
    again = load(tmp_path / "fit.safetensors", data=CrowdData(None, placements=pages))
    np.testing.assert_array_equal(again.assignments, result.assignments)
    assert again.update(placements=pages.assign(page=-1 - pages["page"])).data.num_pairs == (
        2 * result.data.num_pairs
    )


def test_one_page_alone_is_refused():
    """Also as pairs: without it there is nothing to hear."""
    page = {"page": [1] * 5, "item": range(5), "worker": ["ann"] * 5, "group": [0, 0, 1, 1, 1]}
    pairs = CrowdData(None, placements=page).as_pairs().pairs
    remedies = {
        "placements": r"pass its pairs, .*\.as_pairs\(\)",
        "pairs": "drop the column 'page'",
    }
    for name, said in (("placements", page), ("pairs", pairs)):
        with pytest.raises(ValueError, match=f"there is only one sorted page.*{remedies[name]}"):
            cluster(None, **{name: said}, progress=False)
    result = cluster(None, pairs.drop(columns="page"), num_starts=1, progress=False)
    assert result.assignments.tolist() == [1, 1, 0, 0, 0]


def test_pages_and_pairs_together_are_answers_about_pairs():
    """By the call that the error about both names."""
    page = {"page": [1] * 5, "item": range(5), "worker": ["ann"] * 5, "group": [0, 0, 1, 1, 1]}
    page = pd.DataFrame(page)
    pairs = pd.DataFrame({"left": [0, 2], "right": [1, 1], "worker": "ben", "label": [1, 0]})
    with pytest.raises(ValueError, match=r"CrowdAnswers\.of_tables\(pairs=\.\.\., placements="):
        cluster(None, pairs, placements=page)
    both = CrowdAnswers.of_tables(pairs=pairs, placements=page).tables()
    result = cluster(None, **both, num_starts=1, progress=False)
    assert result.data.num_pairs == 12
    assert result.assignments.tolist() == [1, 1, 0, 0, 0]


@pytest.mark.long
def test_pages_sorted_at_random_are_called_guesses():
    rng, pages = np.random.default_rng(0), sorted_pages(pages_per_worker=4)
    pages["group"] = rng.integers(3, size=len(pages))
    result = cluster(None, placements=pages, epochs=10, progress=False)
    assert "too few answers" in result.chosen.reason


@pytest.mark.long
def test_command_line(tmp_path, capsys):
    answers().to_csv(tmp_path / "answers.csv", index=False)
    words = ["--pairs", str(tmp_path / "answers.csv"), "--out", str(tmp_path / "fit")]
    assert main(["fit", *words, "--starts", "1", "--epochs", "10"]) == 0
    assert re.search(
        "held-out answers are (about as likely|likeliest) under", capsys.readouterr().out
    )
    items = pd.read_csv(tmp_path / "fit/items.csv", index_col="item")
    assert accuracy(items["cluster"]) == 1
    assert load(tmp_path / "fit/result.safetensors").assignments.shape == (40,)
    assert main(["report", str(tmp_path / "fit")]) == 0
    page = (tmp_path / "fit/report.html").read_text(encoding="utf-8")
    assert "Clusters of answers.csv" in page


@pytest.mark.long
def test_command_line_of_pages(tmp_path):
    """Their report shows those with most items out of place."""
    sorted_pages(pages_per_worker=4).to_csv(tmp_path / "pages.csv", index=False)
    words = ["--placements", str(tmp_path / "pages.csv"), "--out", str(tmp_path / "fit")]
    assert main(["fit", *words, "--starts", "1", "--epochs", "10", "--quiet"]) == 0
    found = pd.read_csv(tmp_path / "fit/pages.csv", index_col="page")
    assert found[["lumped_pairs", "misplaced"]].notna().all(axis=None)
    assert main(["report", str(tmp_path / "fit")]) == 0
    page = (tmp_path / "fit/report.html").read_text(encoding="utf-8")
    assert "most items out of place" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_clusters": 3}, "without features the number of clusters is found"),
        ({"known": {"i0": "a"}}, "known labels and links need features"),
        ({"must_link": {"left": ["i0"], "right": ["i1"]}}, "known labels and links need features"),
    ],
)
def test_what_needs_features_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        cluster(None, pairs=answers(), progress=False, **arguments)


def test_answers_none_of_which_tells_are_refused():
    unsure = answers().assign(label=np.nan)
    with pytest.raises(ValueError, match='every answer is "can\'t tell"'):
        cluster(None, pairs=unsure, grades=range(4), progress=False)


@pytest.mark.parametrize("items", [range(8), [0, 0, 1, 1, 2, 2, 3, 3]])
def test_pages_of_one_item_say_nothing(items):
    pages = {"page": range(8), "item": items, "worker": ["ann"] * 8, "group": [1] * 8}
    with pytest.raises(ValueError, match="every page has a single item, so that nobody said"):
        cluster(None, placements=pages, progress=False)


def test_a_handful_of_answers_is_enough_to_run():
    few = {"left": [0, 0, 1], "right": [1, 2, 2], "worker": [0, 0, 0], "label": [1, 0, 0]}
    result = cluster(None, pairs=few, epochs=10, progress=False)
    assert len(result.assignments) == 3
    with pytest.raises(ValueError, match="there is only one answer"):
        cluster(None, pairs={name: column[:1] for name, column in few.items()}, progress=False)


@pytest.mark.long
def test_a_checkpoint_belongs_to_the_first_fit(tmp_path):
    path = tmp_path / "checkpoint"
    data = CrowdData(None, pairs=answers())
    first = AnswersAlone(data).fit(epochs=3, progress=False, checkpoint=path)
    written = path.read_bytes()
    first.update(answers().head(1).assign(worker="new"))
    assert path.read_bytes() == written
