"""What answers say of pairs, and workers by Dawid and Skene's algorithm on pairs, in loops."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import torch
from scipy.special import digamma, logsumexp, softmax

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.inference.pair_evidence import FirstWorkers
from pyro_crowdclust.metrics import adjusted_rand_index
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import FewClusters, LikenessRegression
from pyro_crowdclust.simulation import simulate_pairs

# Pairs of an item and 7, by how many workers say "same" and how many "different".
SAID = [(3, 0), (0, 3), (2, 1), (2, 0), (0, 1), (1, 1), (0, 2)]


def first_workers() -> FirstWorkers:
    votes = [(item, [1] * yes + [0] * no) for item, (yes, no) in enumerate(SAID)]
    rows = [(i, worker, label) for i, own in votes for worker, label in enumerate(own)]
    left, worker, label = map(list, zip(*rows, strict=True))
    pairs = {"left": left, "right": [7] * len(left), "worker": worker, "label": label}
    data = CrowdData(None, pairs, item_ids=range(8))
    model = AnsweredPartition(TwoCoin(3, (4.0, 1.0), (3.0, 1.5)), FewClusters())
    guide = PartitionGuide(model, 8, num_draws=1)
    with torch.no_grad():
        return FirstWorkers(model, guide.posteriors, full_batch(data))


def expected_log(first: FirstWorkers, name: str) -> np.ndarray:
    """Mean logarithms of a site's Betas or Dirichlets."""
    alpha = first.posteriors[name].natural_parameters.detach().numpy() + 1
    return digamma(alpha) - digamma(alpha.sum(-1, keepdims=True))


def said_of_pairs(first: FirstWorkers) -> np.ndarray:
    """``log p(answers | look)`` of every pair, a row per item that 7 is compared with."""
    sensitivity, specificity = (
        expected_log(first, name) for name in ("sensitivity", "specificity")
    )
    said = np.zeros((len(SAID), 2))
    batch = first.batch
    asked = batch.asked_items.sort(1).values[:, 0].tolist()
    for item, worker, label in zip(
        asked, batch.worker.tolist(), batch.label.long().tolist(), strict=True
    ):
        said[item] += specificity[worker, label], sensitivity[worker, 1 - label]
    return said


def test_evidence_is_of_common_workers_and_of_these():
    first = first_workers()
    with torch.no_grad():
        common, learned = first.evidence().numpy()
    expected = [(yes - no) * np.log(4) for yes, no in SAID]
    np.testing.assert_allclose(common, np.clip(expected, -np.log(19), np.log(19)))
    rows, said = expected_log(first, "looks"), said_of_pairs(first)
    different, same = (logsumexp(said + row, 1) for row in rows)
    np.testing.assert_allclose(learned, same - different)


def test_first_workers_are_those_of_the_looks_and_the_looks_theirs():
    first = first_workers()
    said = said_of_pairs(first)
    looks = np.full((len(SAID), 2), 0.5)
    for _ in range(500):
        looks = softmax(said + np.log(looks.mean(0)), 1)
    assert abs(first.same - looks[:, 1].mean()) < 1e-3
    check_workers(first, looks, atol=0.01)


def check_workers(first: FirstWorkers, looks: np.ndarray, atol: float) -> None:
    """Their posteriors are the prior and the answers about pairs that look so."""
    found = {name: np.zeros((3, 2)) for name in ("sensitivity", "specificity")}
    for (yes, no), (different, same) in zip(SAID, looks, strict=True):
        for worker, label in enumerate([1] * yes + [0] * no):
            found["sensitivity"][worker, 1 - label] += same
            found["specificity"][worker, label] += different
    for name, counts in found.items():
        prior = first.model.priors()[name].natural_parameters.numpy()
        eta = first.posteriors[name].natural_parameters.detach().numpy()
        np.testing.assert_allclose(eta, prior + counts, atol=atol)


def test_workers_learn_from_pairs_that_are_together():
    first = first_workers()
    together = torch.tensor([0.9, 0.1, 0.8, 0.5, 0.0, 0.3, 0.2], dtype=torch.float64)
    rows, share = expected_log(first, "looks"), together.numpy()[:, None]
    expected = softmax(said_of_pairs(first) + (1 - share) * rows[0] + share * rows[1], 1)
    with torch.no_grad():
        first.learn(together)
        check_workers(first, expected, atol=1e-9)
        # Where nobody is together yet they are those of Dawid and Skene's looks.
        first.learn(torch.zeros(7, dtype=torch.float64))
        check_workers(first, first._looks.numpy(), atol=1e-9)


def test_replicas_of_a_crowd_have_rates_of_their_own():
    first = first_workers()
    rates = {name: torch.randn(4, 3, 2).double() for name in ("sensitivity", "specificity")}
    looks = torch.rand(4, len(SAID), 2, dtype=torch.float64)
    said, counts = first.log_likelihoods(rates), first.counts(looks, rates)
    assert said.shape == looks.shape
    for k in range(4):
        own = {name: rate[k] for name, rate in rates.items()}
        torch.testing.assert_close(said[k], first.log_likelihoods(own))
        for name, count in first.counts(looks[k], own).items():
            torch.testing.assert_close(counts[name][k], count)


def with_a_lazy_worker(number: int = 2) -> tuple[CrowdData, np.ndarray]:
    """Two good workers, and some who always say "same", about twenty items in two clusters."""
    kinds = np.arange(20) % 2
    rates = [0.9] * 2 + [1.0] * number, [0.9] * 2 + [0.0] * number
    pairs = simulate_pairs(kinds, *rates, pairs_per_worker=100, seed=0)
    return CrowdData(None, pairs, item_ids=range(20)), kinds


def test_who_always_says_the_same_is_no_evidence():
    data, _ = with_a_lazy_worker()
    kept = data.with_answers(data.answers.at(data.answers.worker < 2))
    found = []
    for some in (data, kept):
        model = AnsweredPartition(TwoCoin(4, (4.0, 1.0), (4.0, 1.0)), FewClusters())
        guide = PartitionGuide(model, 20, num_draws=1)
        with torch.no_grad():
            first = FirstWorkers(model, guide.posteriors, full_batch(some))
            by_pair = pd.DataFrame(first.evidence().T.numpy())
        by_pair.index = [*zip(first.pairs.left.tolist(), first.pairs.right.tolist(), strict=True)]
        found.append(by_pair)
    with_all, without = found
    pd.testing.assert_frame_equal(with_all.loc[without.index], without)
    asked_of_them_alone = with_all.drop(without.index)
    assert len(asked_of_them_alone) > 10
    np.testing.assert_allclose(asked_of_them_alone[0], 0)


def test_who_always_says_the_same_has_rates_given_the_clusters_of_the_others():
    data, kinds = with_a_lazy_worker(5)
    model = AnsweredPartition(TwoCoin(7, (4.0, 1.0), (4.0, 1.0)), FewClusters())
    guide = PartitionGuide(model, 20, num_draws=20)
    options = {"epochs": 40, "batch_size": None, "step_size": 0.2, "dtype": torch.float64}
    result = fit(model, guide, data, **options, progress=False)
    assert adjusted_rand_index(kinds, result.assignments) == 1
    lazy = result.workers.iloc[2:]
    assert (lazy["answers"] == 100).all()
    assert (lazy["sensitivity"] > 0.9).all()
    assert (lazy["specificity"] < 0.15).all()


def test_what_the_first_workers_teach_of_likeness_is_evidence_at_once():
    """How alike pairs are is computed once, after the regression has learned from the answers."""
    votes = [(0, 1, 1), (0, 2, 0), (1, 2, 0), (2, 3, 1)] * 3
    left, right, label = map(list, zip(*votes, strict=True))
    pairs = {"left": left, "right": right, "worker": np.arange(12) // 4, "label": label}
    alike = {"left": [0, 0, 1, 2, 0], "right": [1, 2, 2, 3, 3], "alike": [2.0, 0.0, 0.1, 1.8, 1.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = CrowdData(None, pairs, likeness=alike, item_ids=range(4))
    model = AnsweredPartition(TwoCoin(3), FewClusters(), likeness=LikenessRegression(1))
    batch = full_batch(data)
    with torch.no_grad():
        first = FirstWorkers(model, PartitionGuide(model, 4, num_draws=1).posteriors, batch)
    assert float(first.likeness.abs().max()) > 0.5
    assert torch.equal(first.likeness, model.log_likeness(batch, batch.asked_pairs))
