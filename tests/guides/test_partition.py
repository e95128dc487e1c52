"""Clusters from answers alone: the bound against its closed form, and fits of crowds made up."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pandas as pd
import pyro
import pytest
import scipy.special
import torch

from pyro_crowdclust import CrowdData, Fitted, fit, load
from pyro_crowdclust.annotators import GradedAnswers, TwoCoin
from pyro_crowdclust.asking import Pages, Pairs, suggest
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.guides.pair_evidence import FirstWorkers
from pyro_crowdclust.guides.replicas import run_replicas
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.models.answered_partition import asked_pairs
from pyro_crowdclust.partitions import (
    FewClusters,
    HardItems,
    LikenessRegression,
    ManySmall,
    PitmanYor,
    Start,
    sweep_chains,
)
from pyro_crowdclust.simulation import simulate_pairs

from ..oracles import random_natural
from ..registries import OneAccuracy

LARGE = np.arange(60) % 3
SMALL = np.arange(60) // 2


def crowd_of(truth: np.ndarray, pairs_per_worker: int = 600, seed: int = 0) -> CrowdData:
    pairs = simulate_pairs(
        truth,
        sensitivity=[0.9, 0.8, 0.95, 0.7],
        specificity=[0.9, 0.95, 0.85, 0.8],
        pairs_per_worker=pairs_per_worker,
        seed=seed,
    )
    return CrowdData(None, pairs, item_ids=range(len(truth)))


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
    hard = blurred.guide.hard_probabilities()
    np.testing.assert_allclose(hard, np.mean(blurred.guide.hard_draws.tolist(), 0))
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
    with pytest.raises(ValueError, match="hears 2 numbers of a pair, but the data have 0"):
        alike.model.check(alike.data.with_parts(likeness=None))
    with pytest.raises(ValueError, match="hears 0 numbers of a pair, but the data have 2"):
        AnsweredPartition(TwoCoin(3), ManySmall()).check(alike.data)


def test_workers_are_those_of_the_simulation(result):
    workers = result.workers
    for name, truth in (
        ("sensitivity", [0.9, 0.8, 0.95, 0.7]),
        ("specificity", [0.9, 0.95, 0.85, 0.8]),
    ):
        assert np.abs(workers[name] - truth).max() < 0.07


def test_a_step_of_training_is_a_draw_and_every_third_learns(monkeypatch):
    """The oldest draw makes room; its pairs count by the weights of their answers."""
    monkeypatch.setattr("pyro_crowdclust.guides.partition._LEARN_EVERY", 3)
    batch = full_batch(crowd_of(LARGE[:12], 50))
    batch = dataclasses.replace(batch, pair_weight=1 + torch.rand(batch.num_pairs).double())
    weights = pd.DataFrame(batch.asked_items.numpy()).assign(weight=batch.pair_weight.numpy())
    total = weights.groupby([0, 1])["weight"].mean().sum()
    model = AnsweredPartition(TwoCoin(4), PitmanYor(), hard_items=True)
    guide, first = PartitionGuide(model, 12, num_draws=4), torch.arange(12) % 2
    priors = model.prior, model.annotators
    for _ in range(2):
        workers = {name: 5 + torch.rand(4, 2).double() for name in model.annotators.priors()}
        with torch.no_grad():
            guide._begin([Start(first, workers)])
        assert guide.partition_draws().tolist() == [first.tolist()]
        assert not guide.hard_draws.any()
        for name, natural_parameters in workers.items():
            assert torch.equal(guide.posteriors[name].natural_parameters, natural_parameters)
            assert torch.equal(guide.given[name][0], natural_parameters)
        for steps in range(2, 8):
            before = guide.draws.clone()
            told = [{name: one.clone() for name, one in p.state_dict().items()} for p in priors]
            guide(batch)
            place = (steps - 1) % 4
            assert torch.equal(guide.labels, guide.draws[place])
            kept = torch.arange(4) != place
            assert torch.equal(guide.draws[kept], before[kept])
            assert len(guide.partition_draws()) == min(steps, 4)
            looks = guide.given["looks"][place] - model.looks.natural_parameters
            assert float(looks.sum()) == pytest.approx(total)
            for prior, was in zip(priors, told, strict=True):
                state = prior.state_dict().items()
                learned = any(not torch.equal(one, was[name]) for name, one in state)
                assert learned == (steps % 3 == 0)


def test_replicas_go_on_from_their_own_partitions_and_the_last_are_the_draws(monkeypatch):
    """The best of three starts has all answers; of four replicas the first begins there, too."""
    went = []

    def watch(replicas, powers, heard, first):
        went.append((replicas, first))
        return run_replicas(replicas, powers, heard, first)

    monkeypatch.setattr("pyro_crowdclust.guides.partition.run_replicas", watch)
    batch = full_batch(crowd_of(LARGE, 50))
    model = AnsweredPartition(TwoCoin(4), FewClusters())
    guide, names = PartitionGuide(model, 60, 3, num_chains=2), [*model.annotators.priors()]
    states = [{name: k + torch.rand(4, 2).double() for name in names} for k in (2, 3, 4)]
    first = [torch.arange(60) % k for k in (2, 3, 4)]
    guide._begin([Start(*start) for start in zip(first, states, strict=True)])
    assert torch.equal(guide.labels, first[-1])
    assert guide.partition_draws().tolist() == [first[-1].tolist()] * 2
    for step in range(1, 5):
        before = guide.draws.clone()
        guide(batch)
        places, others = [2 * step % 6, 2 * step % 6 + 1], torch.ones(6, dtype=torch.bool)
        assert torch.equal(guide.draws[places], guide.replica_labels[[3, 7]])
        for name in names:
            given = guide.given[name][places]
            assert torch.equal(given, guide.replica_given[name][[3, 7]])
        others[places] = False
        assert torch.equal(guide.draws[others], before[others])
        # The posteriors move to a draw of each chain in turn.
        assert torch.equal(guide.labels, guide.draws[places[(step + 1) % 2]])
        assert len(guide.partition_draws()) == min(2 * step + 2, 6)
    begun = went[0][0]
    for place, start in enumerate([2, 0, 1, 2] * 2):
        assert torch.equal(begun.labels[place], first[start])
        assert all(torch.equal(begun.given[name][place], states[start][name]) for name in names)
    # 200 answers about 60 items, four sweeps a step.
    assert len(went) == 4 * 4
    assert [turn for _, turn in went[:4]] == [0, 1, 0, 1]


@pytest.mark.parametrize("hard_items", [False, True])
def test_items_hear_what_answers_say_whatever_pairs_look_like(monkeypatch, hard_items):
    """``log p(answers | same) - log p(answers | different)``, the looks summed out."""
    heard = []

    def listen(labels, pairs, weights, prior):
        heard.append(weights)
        return sweep_chains(labels, pairs, weights, prior)

    monkeypatch.setattr("pyro_crowdclust.guides.replicas.sweep_chains", listen)
    batch = full_batch(crowd_of(LARGE[:9], 20))
    model = AnsweredPartition(TwoCoin(4), PitmanYor(), hard_items)
    guide, rates = PartitionGuide(model, 9, num_draws=1, num_chains=2), {}
    for name in guide.posteriors:
        # So many counts that what is drawn is known.
        counts = guide.replica_given[name]
        counts.copy_(1e12 * (0.2 + torch.rand_like(counts)))
        rates[name] = counts / counts.sum(-1, keepdim=True)
    guide.replica_hard = (torch.arange(18).view(2, 9) % 3 == 0).long() * hard_items
    of_chains = guide.replica_hard.tolist()
    guide(batch)
    for chain, hard in enumerate(of_chains):
        likely: dict[tuple[int, int], torch.Tensor] = {}
        for ends, worker, label in zip(batch.asked_items, batch.worker, batch.label, strict=True):
            right, rejected = (
                rates[name][chain, worker] for name in ("sensitivity", "specificity")
            )
            said = torch.stack([rejected[int(label)], right[1 - int(label)]])
            pair = tuple(ends.tolist())
            likely[pair] = likely.get(pair, 1.0) * said
        expected = []
        for (i, j), said in sorted(likely.items()):
            kind = 2 * (hard[i] + hard[j])
            different, same = rates["looks"][chain, kind : kind + 2] @ said
            expected.append(float((same / different).log()))
        np.testing.assert_allclose(heard[0][chain], expected, atol=1e-4)


def test_the_workers_prior_is_learned_from_all_of_them():
    """The mean of what is known of each and of thirty that are as the prior was."""
    model = AnsweredPartition(TwoCoin(3, (6.0, 2.0), (4.0, 2.0)), FewClusters())
    guide, expected, away = PartitionGuide(model, 5), {}, {}
    for name, prior in model.annotators.priors().items():
        posterior = guide.posteriors[name]
        posterior.set_natural_parameters(random_natural(posterior.family, 3) + 2)
        first = prior.family.expected_statistics(prior.natural_parameters[0])
        expected[name] = (posterior.mean().sum(0) + 30 * first) / 33
        away[name] = posterior.natural_parameters - prior.natural_parameters
    guide._learn_workers()
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
        guide._begin([Start(trace.nodes["z"]["value"], {})])
        for _ in range(60):
            guide(batch)
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

    with pytest.raises(ValueError, match="OfItems wants to know which items it is asked about"):
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
    pairs = asked_pairs(batch)
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


def test_answers_not_heard_are_predicted(result):
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


def fit_to_grades(number: int) -> Fitted:
    """So many grades 0 to 3 by two workers; those of the second are half a scale lower."""
    rng = np.random.default_rng(0)
    left, right = np.sort(rng.integers(60, size=(2, number)), axis=0)
    worker, kept = rng.integers(2, size=number), left != right
    level = np.where(LARGE[left] == LARGE[right], 2, 0) + rng.integers(2, size=number)
    grade = np.where(worker == 1, level // 2, level).astype(float)
    grade[rng.random(number) < 0.05] = np.nan
    frame = {"left": left, "right": right, "worker": worker, "label": grade}
    frame = pd.DataFrame(frame)[kept].drop_duplicates(["left", "right", "worker"])
    data = CrowdData(None, frame, grades=[0, 1, 2, 3], item_ids=range(60))
    model = AnsweredPartition(GradedAnswers(2, 4), PitmanYor())
    options = {"batch_size": None, "step_size": 0.3, "epochs": 15, "progress": False}
    return fit(model, PartitionGuide(model, 60, 8), data, dtype=torch.float64, **options)


@pytest.fixture(scope="module")
def graded():
    return fit_to_grades(2000)


def test_grades_find_clusters_and_thresholds(graded):
    assert clustering_accuracy(LARGE, graded.assignments) > 0.97
    highest = graded.workers["grades_4_3"].to_numpy()
    assert highest[0] > 0.4 > 0.2 > highest[1]
    assert graded.workers["weight"].between(1, 30).all()


def test_shares_of_grades_are_those_of_pairs_that_are_the_same_or_differ(graded):
    """Whatever level of the scale such pairs have: as often as workers give each grade to them."""
    pairs = graded.data.pairs
    same = LARGE[pairs["left"]] == LARGE[pairs["right"]]
    said = pairs["label"].astype(object).where(pairs["label"].notna(), "unsure")
    for name, own in (("if_same", same), ("if_different", ~same)):
        counts = pd.crosstab(pairs["worker"][own], said[own], normalize="index")
        for grade in (0, 1, 2, 3, "unsure"):
            found = graded.workers[f"{name}_{grade}"]
            assert (abs(found - counts.get(grade, 0.0)) < 0.05).all()


def test_what_to_ask_next_after_grades(graded):
    few = fit_to_grades(300)
    found = suggest(few, Pairs(), count=4, exploration=0.0)
    assert len(found.frame) == 4
    assert found.frame["gain"].min() > 0
    # But for "can't tell", no grade is given both to pairs that are the same and to others.
    assert suggest(graded, Pairs(), count=1).workers["reliability"].min() > 0.9
    with pytest.raises(ValueError, match="workers grade pairs"):
        suggest(graded, Pages(6), count=1)


def test_grades_need_annotators_of_as_many():
    frame = {"left": [0], "right": [1], "worker": [0], "label": [2]}
    data = CrowdData(None, frame, grades=[1, 2, 3])
    with pytest.raises(ValueError, match="1 with 4 grades, but the data have 1 with 3"):
        AnsweredPartition(GradedAnswers(1, 4), PitmanYor()).check(data)


def test_simulates(result):
    torch.manual_seed(0)
    z = result.model(full_batch(result.data))
    assert z.shape == (60,)


def test_data_without_answers_are_refused():
    model = AnsweredPartition(TwoCoin(1), PitmanYor())
    with pytest.raises(ValueError, match="no answers about pairs"):
        model.check(CrowdData(np.eye(3)))
