"""Updates of clusters from answers alone: what is kept of the choice, and when it is made again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.data.extending import extended
from pyro_crowdclust.interface import AnswersAlone, cluster
from pyro_crowdclust.interface.answers_alone import kept_prior
from pyro_crowdclust.interface.answers_alone.kinds import kind_of_answers
from pyro_crowdclust.metrics import adjusted_rand_index
from pyro_crowdclust.partitions import FewClusters, ManySmall
from pyro_crowdclust.results.updating import with_new_workers
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements

TRUTH = np.arange(40) % 3
RATES = [0.9, 0.85, 0.95]
OPTIONS = {"epochs": 10, "progress": False}


def answers(first, end, truth=TRUTH):
    """Rows of a table in which no worker is asked twice about a pair."""
    every = simulate_pairs(TRUTH, RATES, RATES, pairs_per_worker=500, seed=0)
    same = [one[every["left"]] == one[every["right"]] for one in (TRUTH, truth)]
    every["label"] = np.where(same[0] == same[1], every["label"], 1 - every["label"])
    return every.sample(frac=1, random_state=0).iloc[first:end]


def placements(truth=TRUTH, number=40, seed=0):
    pages = simulate_placements(truth, RATES, pages_per_worker=number, page_size=8, seed=seed)
    return pages.drop(columns="state")


@pytest.fixture(scope="module")
def result(_short_searches):
    return cluster(None, answers(0, 600), **OPTIONS)


@pytest.fixture(scope="module")
def of_pages(_short_searches):
    return cluster(None, placements=placements(), **OPTIONS)


@pytest.fixture
def searches(monkeypatch):
    """The searches that are made, each as the number of its answers."""
    found, run = [], AnswersAlone._comparison

    def counted(self, *args):
        found.append(self.data.num_pairs)
        return run(self, *args)

    monkeypatch.setattr(AnswersAlone, "_comparison", counted)
    return found


def log_loss(result, truth=TRUTH):
    left, right = np.triu_indices(len(truth), 1)
    together = result.same_cluster_probability(left, right)
    same = truth[left] == truth[right]
    return -np.log(np.where(same, together, 1 - together)).mean()


def test_an_update_keeps_the_prior_and_takes_new_workers_and_items(result, searches):
    more = pd.concat([answers(600, 690), answers(690, 750).assign(worker="new")])
    about_new = pd.DataFrame({"left": ["item"] * 12, "right": range(12), "worker": 0})
    about_new["label"] = (TRUTH[:12] == 1).astype(int)
    updated = result.update(pd.concat([more, about_new]), item_ids=["item"])
    assert not searches
    assert updated.chosen is result.chosen
    assert updated.train_on == result.train_on
    assert updated.data.num_pairs == result.data.num_pairs + len(more) + 12
    assert adjusted_rand_index([*TRUTH, 1], updated.assignments) == 1
    assert updated.workers.loc["new", "sensitivity"] > 0.7
    # What was asked for in the first call holds for updates, too.
    assert len(updated.history) == OPTIONS["epochs"]
    assert len(result.update(more, epochs=3).history) == 3


def test_an_update_is_the_fit_of_the_kept_prior_to_all_answers(result):
    more = answers(600, 690)
    updated = result.update(more)
    every = kind_of_answers(updated.data, **result.train_on.kept.assumptions)
    prior = every.priors[result.train_on.kept.prior]()
    fitted = every.recipe(prior).fit(seed=result.seed, **OPTIONS)
    np.testing.assert_array_equal(updated.guide.partition_draws(), fitted.guide.partition_draws())


@pytest.mark.parametrize(
    "more",
    [
        answers(600, 780).assign(label=lambda table: 1 - table["label"]),
        # Half of the items are of other clusters than those that were seen so far.
        answers(600, 780, truth=np.where(np.arange(40) < 20, TRUTH, (TRUTH + 1) % 3)),
    ],
)
def test_answers_that_contradict_the_choice_lead_to_a_search(result, searches, more):
    updated = result.update(more)
    assert searches == [updated.data.num_pairs]
    assert updated.train_on.kept.num_answers == updated.data.num_pairs


def test_twice_as_many_answers_lead_to_a_search(result, searches):
    half = result.update(answers(600, 1199))
    assert not searches
    assert half.train_on.kept.num_answers == 600
    whole = half.update(answers(1199, 1200))
    assert searches == [1200]
    assert whole.train_on.kept.num_answers == 1200


def test_clusters_that_agree_with_fewer_answers_lead_to_a_search(result, searches, monkeypatch):
    monkeypatch.setattr(kept_prior, "clusters_hold", lambda *_: False)
    result.update(answers(600, 690))
    assert len(searches) == 1


def test_an_update_with_a_checkpoint_is_a_search(result, searches, tmp_path):
    result.update(answers(600, 630), checkpoint=tmp_path / "checkpoint")
    assert len(searches) == 1


def test_guesses_are_kept_until_new_answers_are_predicted(searches):
    """The first answers, and the next, are of people who guess; the last agree with the guesses."""
    half = [0.5] * 3
    every = simulate_pairs(TRUTH, half, half, pairs_per_worker=100, seed=0)
    every = every.sample(frac=1, random_state=0)
    guesses = cluster(None, every.iloc[:200], item_ids=range(40), **OPTIONS)
    assert not guesses.chosen.is_clear
    searches.clear()
    updated = guesses.update(every.iloc[200:])
    assert not searches
    assert updated.chosen is guesses.chosen
    left, right = np.triu_indices(40, 1)
    together = guesses.same_cluster_probability(left, right)
    surest = np.argsort(together)[[*range(40), *range(-40, 0)]]
    said = {"left": left[surest], "right": right[surest], "worker": "new"}
    guesses.update(pd.DataFrame(said | {"label": [0] * 40 + [1] * 40}))
    assert len(searches) == 1


def test_only_answers_that_can_be_predicted_test_the_fit(result):
    """By new workers at their prior; not about new items, nor such that nothing connects."""
    more = answers(600, 660).assign(worker="new")
    about_new = pd.DataFrame({"left": ["item"], "right": [0], "worker": [0], "label": [1]})
    updated = result.update(pd.concat([about_new, more]), item_ids=["item"])
    gain, expected = kind_of_answers(updated.data).gains_of_new(result)
    # New workers are at the prior, which counts as little as the answers of one worker are few.
    guide, data = result.guide, result.data
    grown = with_new_workers(result.model, guide, data.worker_ids, updated.data.worker_ids)[1]
    asked = [torch.tensor(more[end].to_numpy().copy()) for end in ("left", "right")]
    asked = torch.stack(asked, 1), torch.full((len(more),), 3)
    seen = updated.data.with_answers(updated.data.answers.at(torch.arange(661) < 600))
    log_p, chance = [], []
    for label in (0.0, 1.0):
        said = torch.full((len(more),), label, dtype=torch.float64)
        log_p.append(grown.log_answer_probabilities(seen, *asked, said))
        share = (data.answers.label == label).double().mean()
        chance.append(torch.full_like(said, (share * 600 + 1) / 602).log())
    gains = torch.stack(log_p) - torch.stack(chance)
    own = torch.tensor(more["label"].to_numpy().copy())
    torch.testing.assert_close(gain, torch.where(own == 1, gains[1], gains[0]))
    torch.testing.assert_close(expected, (torch.stack(log_p).exp() * gains).sum(0))
    assert 0.5 < gain.mean() / expected.mean() < 2


@pytest.mark.parametrize(("prior", "number"), [(ManySmall, 1), (FewClusters, 2)])
def test_records_are_tested_by_pairs_that_may_be_one(prior, number):
    """Under a prior by which items only join others that they were compared with."""
    pairs = {"left": [0, 1, 3], "right": [1, 2, 4], "worker": ["a"] * 3, "label": [1, 0, 1]}
    before = CrowdData(None, pairs, item_ids=range(5))
    fitted = kind_of_answers(before).recipe(prior()).fit(epochs=2, progress=False)
    more = {"left": [1, 0, 2], "right": [0, 2, 3], "worker": ["b"] * 3, "label": [1, 0, 0]}
    later = CrowdData(None, {name: pairs[name] + more[name] for name in pairs}, item_ids=range(5))
    gain, expected = kind_of_answers(later).gains_of_new(fitted)
    assert len(gain) == len(expected) == number


def test_only_rows_that_came_later_test_the_fit():
    """Workers repeat themselves at first, but not later, so that more of their first rows count."""
    table = simulate_pairs(TRUTH, [0.8] * 3, [0.8] * 3, pairs_per_worker=60, seed=0)
    again = simulate_pairs(TRUTH, [0.8] * 3, [0.8] * 3, pairs_per_worker=20, seed=1)
    flip = np.random.default_rng(2).random((2, len(again))) < 0.5
    others = [again.assign(label=again["label"] ^ one) for one in flip]
    with pytest.warns(UserWarning, match="as many count as are independent"):
        before = CrowdData(None, pd.concat([table, table], ignore_index=True), item_ids=range(40))
    fitted = kind_of_answers(before).recipe(FewClusters()).fit(epochs=2, progress=False)
    with pytest.warns(UserWarning, match="as many count as are independent"):
        later = extended(before, pairs=pd.concat([again, *others], ignore_index=True))
    is_new = later.counted_rows.numpy() >= 2 * len(table)
    assert (~is_new).sum() > before.num_pairs
    pd.testing.assert_frame_equal(later.pairs.iloc[later.counted_rows], later.counted_pairs)
    gain, expected = kind_of_answers(later).gains_of_new(fitted)
    assert len(gain) == len(expected) == is_new.sum()


def test_a_loaded_fit_keeps_the_prior_too(result, searches, tmp_path):
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    assert loaded.train_on == result.train_on
    updated, own = (one.update(answers(600, 690)) for one in (loaded, result))
    assert not searches
    np.testing.assert_array_equal(updated.assignments, own.assignments)


def test_pages_are_kept_as_long_as_they_are_borne_out(of_pages, searches):
    new = placements(number=3, seed=1).assign(page=lambda table: table["page"] + 1000)
    updated = of_pages.update(placements=new)
    assert not searches
    assert adjusted_rand_index(TRUTH, updated.assignments) > 0.9
    gain, expected = kind_of_answers(updated.data).gains_of_new(of_pages)
    assert len(gain) == 9
    assert gain.mean() > expected.mean() / 2
    assert (expected == of_pages.chosen.held_out - of_pages.chosen.chance).all()
    # Two items of a page are new, so that it is no test.
    names = new["item"].where(new["page"] > 1000, new["item"] + 100)
    others = of_pages.update(
        placements=new.assign(item=names), item_ids=sorted({*names} - {*range(40)})
    )
    assert len(kind_of_answers(others.data).gains_of_new(of_pages)[0]) == 8
    rng = np.random.default_rng(0)
    shuffled = placements(number=8, seed=1, truth=rng.permutation(TRUTH))
    of_pages.update(placements=shuffled.assign(page=shuffled["page"] + 1000))
    assert len(searches) == 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_updates_end_where_a_fresh_call_ends(seed):
    truth = np.random.default_rng(seed).integers(4, size=60)
    rates = [0.9, 0.85, 0.8, 0.5]
    every = simulate_pairs(truth, rates, rates, pairs_per_worker=300, seed=seed)
    every = every.sample(frac=1, random_state=seed)
    options = {"item_ids": range(60), "epochs": 40, "progress": False}
    result = cluster(None, every.iloc[:700], **options)
    for first in range(700, 1200, 100):
        result = result.update(every.iloc[first : first + 100])
    fresh = cluster(None, every, **options)
    assert adjusted_rand_index(fresh.assignments, result.assignments) > 0.9
    assert log_loss(result, truth) < log_loss(fresh, truth) + 0.03
