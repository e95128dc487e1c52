"""Clusters from answers alone: the bound against its closed form, and fits of crowds made up."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pyro
import pytest
import scipy.special
import torch

from pyro_crowdclust import CrowdData, Fitted, fit, load
from pyro_crowdclust.annotators import GradedAnswers, TwoCoin
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.inference.pair_evidence import FirstWorkers
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import (
    ChainStart,
    FewClusters,
    HardItems,
    LikenessRegression,
    ManySmall,
    PitmanYor,
)
from pyro_crowdclust.simulation import simulate_pairs

from ..oracles import random_natural
from ..registries import OneAccuracy
from .answered_crowds import LARGE, SMALL, crowd_of


def fitted(
    data: CrowdData, prior: FewClusters | PitmanYor | ManySmall, hard_items: bool = False
) -> Fitted:
    model = AnsweredPartition(TwoCoin(data.num_workers), prior, hard_items)
    guide = PartitionGuide(model, data.num_items, num_draws=10)
    options = {"batch_size": None, "step_size": 0.3, "epochs": 20, "progress": False}
    return fit(model, guide, data, dtype=torch.float64, **options)


@pytest.fixture(scope="module")
def result() -> Fitted:
    return fitted(crowd_of(LARGE), PitmanYor())


@pytest.fixture(scope="module")
def blurred() -> Fitted:
    """Nobody recognizes the first eight items."""
    frame = simulate_pairs(LARGE, [0.9] * 4, [0.9] * 4, pairs_per_worker=900, seed=0)
    rng = np.random.default_rng(0)
    hard = (frame["left"] < 8) | (frame["right"] < 8)
    frame["label"] = np.where(hard, rng.random(len(frame)) < 0.5, frame["label"]).astype(int)
    return fitted(CrowdData(None, frame), FewClusters(), hard_items=True)


def test_finds_hard_items(blurred):
    hard = blurred.guide.hard_draws.double().mean(0)
    assert float(hard[:8].min()) > 0.9 > 0.1 > float(hard[8:].max())
    assert clustering_accuracy(LARGE[8:], blurred.assignments[8:]) > 0.95
    # They are somewhere, and no cluster of their own; but where is not known.
    assert len(blurred.clusters) == 3
    assert blurred.assignment_probabilities[:8].mean() < 0.9


@pytest.mark.parametrize("prior", [FewClusters(), PitmanYor()])
def test_finds_few_large_clusters(prior):
    found = fitted(crowd_of(LARGE), prior)
    assert clustering_accuracy(LARGE, found.assignments) > 0.97
    assert len(found.clusters) <= 5


@pytest.mark.long
def test_what_nobody_connects_is_apart():
    """Two crowds of other items each."""
    one = simulate_pairs(LARGE, [0.95], [0.95], pairs_per_worker=800, seed=0)
    other = one.assign(left=one["left"] + 60, right=one["right"] + 60)
    data = CrowdData(None, pd.concat([one, other]), item_ids=range(121))
    found = fitted(data, FewClusters()).assignments
    assert not set(found[:60]) & set(found[60:120])
    assert clustering_accuracy(LARGE, found[60:120]) > 0.95


def test_pairs_are_random_unless_they_look_similar_are_candidates_or_on_a_page():
    """Items that no chain of pairs connects may be the same if pairs are random."""
    path = {"left": [0, 1, 2], "right": [1, 2, 3], "worker": ["a"] * 3, "label": [1, 0, 1]}
    block = torch.combinations(torch.arange(6))
    blocks = (block + 6 * torch.arange(9).view(-1, 1, 1)).flatten(0, 1)
    similar = pd.DataFrame(blocks.numpy(), columns=["left", "right"]).assign(worker="a", label=1)
    likeness = pd.DataFrame({"left": [0], "right": [3], "texts": [1.0]})

    def random_pairs(data: CrowdData, prior: FewClusters | PitmanYor | ManySmall) -> list | None:
        model = AnsweredPartition(TwoCoin(1), prior)
        pairs = PartitionGuide(model, data.num_items).random_pairs(data)
        return None if pairs is None else pairs.items.tolist()

    assert random_pairs(CrowdData(None, path), FewClusters()) == [[0, 1], [1, 2], [2, 3]]
    assert random_pairs(CrowdData(None, path), PitmanYor()) == [[0, 1], [1, 2], [2, 3]]
    assert random_pairs(CrowdData(None, path), ManySmall()) is None
    assert random_pairs(CrowdData(None, similar), FewClusters()) is None
    assert random_pairs(CrowdData(None, path, likeness=likeness), FewClusters()) is None
    assert random_pairs(CrowdData(None, path | {"page": [0, 0, 1]}), FewClusters()) is None


def test_finds_many_small_clusters():
    found = fitted(crowd_of(SMALL, 1500), ManySmall())
    same = SMALL[:, None] == SMALL
    guessed = found.assignments[:, None] == found.assignments
    assert (same == guessed).mean() > 0.98
    assert len(found.clusters) > 20


def alike_crowd(asked: float, seed: int = 0) -> CrowdData:
    """Things with two records, and a number of every pair; few of the pairs are asked about."""
    rng = np.random.default_rng(seed)
    left, right = np.triu_indices(len(SMALL), 1)
    same = SMALL[left] == SMALL[right]
    alike = rng.normal(np.where(same, 4.0, 0.0))
    columns = {"left": left, "right": right, "alike": alike, "noise": rng.random(len(left))}
    table = pd.DataFrame(columns)
    table = table[same | (alike > 1.5)]
    chosen = table.sample(frac=asked, random_state=seed)
    said = (SMALL[chosen["left"]] == SMALL[chosen["right"]]) ^ (rng.random(len(chosen)) < 0.05)
    pairs = chosen[["left", "right"]].assign(worker=np.arange(len(chosen)) % 3, label=said)
    return CrowdData(None, pairs, likeness=table, item_ids=range(len(SMALL)))


def fitted_to_alike(data: CrowdData) -> Fitted:
    likeness = LikenessRegression(data.likeness.num_numbers)
    workers = TwoCoin(data.num_workers, (4.0, 1.0), (4.0, 1.0))
    model = AnsweredPartition(workers, ManySmall(), likeness=likeness)
    guide = PartitionGuide(model, data.num_items, num_draws=10)
    options = {"batch_size": None, "step_size": 0.3, "epochs": 40, "progress": False}
    return fit(model, guide, data, dtype=torch.float64, **options)


@pytest.fixture(scope="module")
def alike() -> Fitted:
    return fitted_to_alike(alike_crowd(0.4))


def test_pairs_that_nobody_was_asked_about_are_found_by_how_alike_they_are(alike):
    """Of 60 records of 30 things answers alone can join those that were compared."""
    ends = alike.data.likeness.items.numpy()
    asked = alike.data.pairs[["left", "right"]].to_numpy()
    left, right = ends[~(ends[:, None] == asked).all(2).any(1)].T
    same = SMALL[left] == SMALL[right]
    found = alike.assignments[left] == alike.assignments[right]
    assert same.sum() > 10
    assert (found == same).mean() > 0.9
    assert found[same].mean() > 0.7
    probability = alike.same_cluster_probability(left, right)
    assert np.mean(probability[same]) > 0.6 > 0.1 > np.mean(probability[~same])
    coefficients = alike.model.likeness.coefficients
    assert coefficients[0] > 1.5 > 0.7 > abs(coefficients[1])


def test_pairs_that_nobody_was_asked_about_look_as_alike_as_they_are(alike):
    """So answers about them are predicted; that something is said of a pair makes up for one."""
    ends, values = alike.data.likeness.items, alike.data.likeness.values[:, 0]
    worker = torch.zeros(len(ends), dtype=torch.int64)
    ones = torch.ones(len(ends), dtype=torch.float64)
    predict = partial(alike.guide.log_answer_probabilities, alike.data, ends, worker)
    own, other = predict(ones).exp(), predict(0 * ones).exp()
    torch.testing.assert_close(own + other, ones)
    assert float(own[values > 4].mean()) > 0.8
    assert float(own[values < 2].mean()) < 0.25


def test_candidates_that_nobody_was_asked_about_do_not_teach_what_workers_are():
    every = alike_crowd(0.4)
    asked = every.with_parts(likeness=None)
    found = []
    for data in (every, asked):
        likeness = None if data.likeness is None else LikenessRegression(2)
        model = AnsweredPartition(TwoCoin(3), ManySmall(), likeness=likeness)
        with torch.no_grad():
            posteriors = PartitionGuide(model, data.num_items, num_draws=1).posteriors
            first = FirstWorkers(model, posteriors, full_batch(data))
        found.append((first.same, posteriors["sensitivity"].natural_parameters.detach()))
    assert found[0][0] == pytest.approx(found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1])


def test_likeness_is_saved_and_data_must_have_as_many_numbers(alike, tmp_path):
    alike.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    np.testing.assert_array_equal(loaded.assignments, alike.assignments)
    assert loaded.elbo == alike.elbo
    assert torch.equal(loaded.model.likeness.coefficients, alike.model.likeness.coefficients)
    with pytest.raises(ValueError, match="takes 2 numbers per pair, but the data have 0"):
        alike.model.check(alike.data.with_parts(likeness=None))
    with pytest.raises(ValueError, match="takes 0 numbers per pair, but the data have 2"):
        AnsweredPartition(TwoCoin(3), ManySmall()).check(alike.data)


def test_workers_are_those_of_the_simulation(result):
    workers = result.workers
    for name, truth in (
        ("sensitivity", [0.9, 0.8, 0.95, 0.7]),
        ("specificity", [0.9, 0.95, 0.85, 0.8]),
    ):
        assert np.abs(workers[name] - truth).max() < 0.07


@pytest.mark.parametrize("informative", [[True] * 3, [True, False, True]])
def test_the_workers_prior_is_learned_from_all_who_are_informative(informative):
    """The mean of what is known of each and of thirty that are as the prior was."""
    informative = torch.tensor(informative)
    model = AnsweredPartition(TwoCoin(3, (6.0, 2.0), (4.0, 2.0)), FewClusters())
    guide, expected, away = PartitionGuide(model, 5), {}, {}
    for name, prior in model.annotators.priors().items():
        posterior = guide.posteriors[name]
        posterior.set_natural_parameters(random_natural(posterior.family, 3) + 2)
        first = prior.family.expected_statistics(prior.natural_parameters[0])
        known = posterior.mean()[informative]
        expected[name] = (known.sum(0) + 30 * first) / (len(known) + 30)
        away[name] = posterior.natural_parameters - prior.natural_parameters
    guide._learn_workers(informative)
    for name, prior in model.annotators.priors().items():
        found = prior.family.expected_statistics(prior.natural_parameters)
        torch.testing.assert_close(found, expected[name].expand(3, -1), rtol=1e-6, atol=1e-6)
        moved = guide.posteriors[name].natural_parameters - prior.natural_parameters
        torch.testing.assert_close(moved, away[name])


@pytest.mark.parametrize("hard_items", [False, True])
def test_rates_of_workers_are_those_of_draws(request, hard_items):
    """Of pairs that are the same, whatever they look like; given every draw they are Betas.

    Kinds of pairs, by how many of the two are hard, count by how many there were in the draw.
    """
    result = request.getfixturevalue("blurred" if hard_items else "result")
    sites = {}
    for name, posterior in result.guide.posteriors.items():
        given = result.guide.given[name]
        sites[name] = posterior.family.sample(given.repeat(2000, 1, 1))
    counts = result.guide.given["looks"] - result.model.looks.natural_parameters
    counts = counts.sum(-1).unflatten(1, (-1, 2))
    weights = (counts / counts.sum(1, keepdim=True)).repeat(2000, 1, 1).unsqueeze(-1)
    looks = (weights * sites["looks"].unflatten(1, (-1, 2))).sum(1)
    alpha, beta = sites["sensitivity"], sites["specificity"]
    sensitivity = looks[:, 1, 1:] * alpha + looks[:, 1, :1] * (1 - beta)
    specificity = looks[:, 0, :1] * beta + looks[:, 0, 1:] * (1 - alpha)
    for name, draws in (("sensitivity", sensitivity), ("specificity", specificity)):
        table = result.workers
        np.testing.assert_allclose(table[name], draws.mean(0), atol=0.002)
        np.testing.assert_allclose(table[f"{name}_sd"], draws.std(0), rtol=0.03)
        inside = (draws >= torch.tensor(table[f"{name}_lower"].to_numpy())) & (
            draws <= torch.tensor(table[f"{name}_upper"].to_numpy())
        )
        np.testing.assert_allclose(inside.double().mean(0), 0.9, atol=0.02)


@pytest.mark.long
def test_rates_that_were_drawn_from_the_model_are_in_their_intervals(monkeypatch):
    """Simulation-based calibration: rates, looks, partitions and answers are all the model's."""
    monkeypatch.setattr("pyro_crowdclust.guides.partition._LEARN_EVERY", 10**9)
    monkeypatch.setattr(FewClusters, "powers", (0.5, 1.0))
    inside = []
    for seed in range(12):
        torch.manual_seed(seed)
        model = AnsweredPartition(TwoCoin(3, (6.0, 2.0), (6.0, 2.0)), FewClusters())
        rng = np.random.default_rng(seed)
        ends = np.stack([rng.choice(15, 2, replace=False) for _ in range(240)])
        frame = pd.DataFrame(np.sort(ends, 1), columns=["left", "right"])
        frame = frame.assign(worker=np.arange(240) % 3, label=0).drop_duplicates(
            ["left", "right", "worker"]
        )
        empty = CrowdData(None, frame, item_ids=range(15))
        trace = pyro.poutine.trace(pyro.poutine.uncondition(model)).get_trace(full_batch(empty))
        frame["label"] = trace.nodes["label"]["value"].numpy().astype(int)
        looks, alpha, beta = (
            trace.nodes[name]["value"].exp() for name in ("looks", "sensitivity", "specificity")
        )
        true = {
            "sensitivity": looks[1, 1] * alpha[:, 0] + looks[1, 0] * beta[:, 1],
            "specificity": looks[0, 0] * beta[:, 0] + looks[0, 1] * alpha[:, 1],
        }
        data = CrowdData(None, frame, item_ids=range(15))
        guide = PartitionGuide(model, 15, num_draws=60)
        batch = full_batch(data)
        # The true partition is a draw of the posterior.
        guide._begin([ChainStart(trace.nodes["z"]["value"], {})])
        for _ in range(60):
            guide.before_step(batch)
        found = guide.workers().rates
        for name, rates in true.items():
            is_above = found[name].lower <= rates.numpy()
            inside.append(is_above & (rates.numpy() <= found[name].upper))
    # 72 intervals of .9, those of a data set not independent of each other.
    assert np.mean(inside) > 0.8


def test_an_accuracy_is_one_column():
    data = crowd_of(LARGE)
    model = AnsweredPartition(OneAccuracy(data.num_workers), FewClusters())
    guide = PartitionGuide(model, data.num_items, num_draws=10)
    options = {"batch_size": None, "step_size": 0.3, "epochs": 5, "progress": False}
    workers = fit(model, guide, data, dtype=torch.float64, **options).workers
    means = ["accuracy", "accuracy_sd", "accuracy_lower", "accuracy_upper"]
    assert workers.columns.tolist() == [*means, "weight", "weight_sd", "answers"]
    np.testing.assert_allclose(workers["accuracy"], [0.9, 0.9, 0.88, 0.77], atol=0.05)


def test_annotators_who_ask_for_items_are_refused():
    class OfItems(OneAccuracy):
        def about(self, items):
            return self

    with pytest.raises(ValueError, match="OfItems depends on which items are asked about"):
        AnsweredPartition(OfItems(2), FewClusters())


def test_weight_is_of_the_rates_beside_it(blurred):
    """A third of the pairs is not recognized, so that an answer says less than its look."""
    workers = blurred.workers
    expected = scipy.special.logit(workers[["sensitivity", "specificity"]]).sum(axis=1)
    np.testing.assert_allclose(workers["weight"], expected, atol=0.05)


@pytest.mark.parametrize("name", ["result", "blurred", "alike"])
def test_bound_is_its_closed_form(request, name):
    """The looks summed out by hand; what is left are KLs of Betas."""
    result = request.getfixturevalue(name)
    guide, model = result.guide, result.model
    hard_items = model.hard_items
    batch = full_batch(result.data)
    pairs = batch.asked_pairs
    means = {name: posterior.mean() for name, posterior in guide.posteriors.items()}
    ones = torch.ones(batch.num_pairs, dtype=torch.float64)
    says_same, says_different = (
        pairs.total(model.annotators.answer(look, means, batch.worker).log_prob(batch.label))
        for look in (ones, 0 * ones)
    )
    if name == "alike":
        g = model.likeness.log_ratio(batch.likeness.values)
        says_same[pairs.places(batch.likeness.items)[0]] += g
    row, hard = pairs.together(guide.labels).long(), guide.hard_draws[guide._last]
    if hard_items:
        row = row + 2 * (hard[pairs.left] + hard[pairs.right])
    looks = means["looks"][row]
    bound = torch.logaddexp(looks[:, 1] + says_same, looks[:, 0] + says_different).sum()
    bound = bound + model.prior.log_prob(guide.labels, pairs)
    if hard_items:
        bound = bound + HardItems(pairs).log_prob(hard)
    for name, posterior in guide.posteriors.items():
        # A Beta is a Dirichlet of two.
        q, p = (
            torch.distributions.Dirichlet(site.natural_parameters.detach() + 1)
            for site in (posterior, model.priors()[name])
        )
        bound = bound - torch.distributions.kl_divergence(q, p).sum()
    assert result.elbo == pytest.approx(float(bound), rel=1e-9)
    assert result.elbo == result.elbo_of(batch)  # reading it draws nothing


def test_answers_left_out_are_predicted(result):
    held_out = crowd_of(LARGE, seed=1).answers
    items = torch.stack([held_out.left, held_out.right], 1)
    own, other = (
        result.guide.log_answer_probabilities(result.data, items, held_out.worker, label)
        for label in (held_out.label, 1 - held_out.label)
    )
    torch.testing.assert_close(own.exp() + other.exp(), torch.ones_like(own))
    right = own.mean()
    share = float(held_out.label.mean())
    chance = share * np.log(share) + (1 - share) * np.log(1 - share)
    assert float(right) > chance + 0.15


@pytest.mark.parametrize("hard_items", [False, True])
def test_an_answer_to_come_is_predicted_by_what_its_pair_looks_like(request, hard_items):
    """Written out for a few answers: relations by draws, looks by answers, then the worker."""
    result = request.getfixturevalue("blurred" if hard_items else "result")
    guide, told = result.guide, result.data.answers
    columns = told.left, told.right, told.worker, told.label
    said_before = list(zip(*(part.tolist() for part in columns), strict=True))
    mean = {name: posterior.mean() for name, posterior in guide.posteriors.items()}
    rates = {
        name: torch.distributions.Dirichlet(posterior.natural_parameters.detach() + 1).mean
        for name, posterior in guide.posteriors.items()
    }
    asked = [(0, 3, 1, 1.0), (0, 1, 0, 0.0), (9, 30, 2, 1.0), (2, 50, 3, 0.0)]
    asked += [(*said_before[0][:3], 0.0), (*said_before[1][:3], 1.0)]
    left, right, worker, label = (torch.tensor(part) for part in zip(*asked, strict=True))
    items = torch.stack([left, right], 1)
    found = guide.log_answer_probabilities(result.data, items, worker, label.double())
    num_relations = len(mean["looks"])
    for number, (i, j, m, now) in enumerate(asked):
        shares = torch.full((num_relations,), 1 / num_relations, dtype=torch.float64)
        for labels, hard in zip(guide.partition_draws(), guide.hard_draws, strict=True):
            shares[int(labels[i] == labels[j]) + 2 * int(hard[i] + hard[j])] += 1
        said = torch.zeros(2, dtype=torch.float64)
        for one, other, who, answer in said_before:
            if {one, other} == {i, j}:
                said[0] += mean["specificity"][who, int(answer)]
                said[1] += mean["sensitivity"][who, 1 - int(answer)]
        look = shares / shares.sum() @ (said + mean["looks"]).softmax(1)
        likely = look[0] * rates["specificity"][m, int(now)]
        likely += look[1] * rates["sensitivity"][m, 1 - int(now)]
        assert float(found[number]) == pytest.approx(float(likely.log()), abs=1e-9)


def test_probabilities_are_those_of_the_draws(result):
    draws = result.guide.partition_draws()
    share = float((draws[:, 0] == draws[:, 3]).double().mean())
    assert result.same_cluster_probability(0, 3) == pytest.approx((10 * share + 0.5) / 11)
    assert result.same_cluster_probability(5, 5) == 1
    assert result.assignment_probabilities.shape == (60,)
    np.testing.assert_array_equal(
        result.cluster_probabilities([4, 2]), result.probabilities[[4, 2]]
    )


def test_saved_and_loaded_it_reads_the_same(result, tmp_path):
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    np.testing.assert_array_equal(loaded.assignments, result.assignments)
    assert loaded.elbo == result.elbo
    assert loaded.workers.equals(result.workers)
    assert repr(loaded) == repr(result)


def test_looks_before_anything_is_known():
    """Twenty pairs of each relation: same pairs look so 39 times of 40, those of hard items 2 of 3.

    Of records eighty more differ, and look it. Of grades every level is three times as common as
    the one before.
    """
    two = AnsweredPartition(TwoCoin(1), FewClusters(), hard_items=True)
    counts = 20 * np.array([[0.975, 0.025], [0.025, 0.975], *[[2 / 3, 1 / 3], [1 / 3, 2 / 3]] * 2])
    np.testing.assert_allclose(two.looks.natural_parameters + 1, counts)
    counts[0, 0] += 80
    of_records = AnsweredPartition(TwoCoin(1), ManySmall(), hard_items=True)
    np.testing.assert_allclose(of_records.looks.natural_parameters + 1, counts)
    graded = AnsweredPartition(GradedAnswers(1, 3), FewClusters())
    shares = np.array([[9.0, 3.0, 1.0], [1.0, 3.0, 9.0]]) / 13
    np.testing.assert_allclose(graded.looks.natural_parameters + 1, 20 * shares)
    said = torch.tensor([0.0, 1.0, torch.nan])
    assert two.first_looks(said).tolist() == [[1, 0], [0, 1], [0.5, 0.5]]


def test_simulates(result):
    torch.manual_seed(0)
    z = result.model(full_batch(result.data))
    assert z.shape == (60,)


def test_data_without_answers_are_refused():
    model = AnsweredPartition(TwoCoin(1), PitmanYor())
    with pytest.raises(ValueError, match="no answers about pairs"):
        model.check(CrowdData(np.eye(3)))
