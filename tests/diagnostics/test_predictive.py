"""Answers and features drawn anew, against rates and clusters, and checks of workers by them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.diagnostics import check_workers, to_arviz
from pyro_crowdclust.diagnostics.predictive import replicated_answers, same_cluster_draws
from pyro_crowdclust.emissions import Standardized
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pages

from ..crowds import (
    NUM_CLUSTERS,
    NUM_FEATURES,
    NUM_WORKERS,
    crowd,
    message_passing_pair,
    plain_mixture,
    quiet_fit,
)
from .exports import IDS, MAKERS, NUM_ITEMS, one_chain


def test_replicated_answers_follow_the_rates(plain):
    answers = torch.arange(plain.data.num_pairs)
    with plain.inside():
        same = same_cluster_draws(plain, answers, 4000)
        yes = [torch.full_like(same, rate) for rate in (0.9, 0.2)]
        log_shares = [torch.stack([1 - one, one], 1).log() for one in yes]
        replicated = replicated_answers(same, *log_shares).numpy()
    pairs = plain.data.pairs
    expected = plain.same_cluster_probability(pairs["left"].tolist(), pairs["right"].tolist())
    error = 5 * 0.5 / np.sqrt(4000)
    np.testing.assert_allclose(same.mean(0), expected, atol=error)
    np.testing.assert_allclose(replicated.mean(0), 0.2 + 0.7 * expected, atol=error)
    # Both ends are drawn once for all answers about them: agreement is transitive.
    columns = {(i, j): c for c, (i, j) in enumerate(zip(pairs.left, pairs.right, strict=True))}
    triples = [
        (columns[i, j], columns[j, k], columns[i, k])
        for i, j in columns
        for k in IDS
        if (j, k) in columns and (i, k) in columns
    ]
    assert triples
    for one, two, three in triples:
        assert not ((same[:, one] == 1) & (same[:, two] == 1) & (same[:, three] == 0)).any()


def test_replicated_features_are_those_of_the_cluster(known):
    """Clouds far apart: the mean and spread of every cloud, in the units of the data."""
    location, scale = np.array([5.0, -3.0]), np.array([10.0, 0.1])
    features = location + scale * known.data.features
    emission = Standardized(torch.tensor(location), torch.tensor(scale))
    model = SemiCrowdsourcedMixture(DirichletWeights(3, 1.0), GaussianComponents(3, 2), emission)
    result = quiet_fit(
        model, MessagePassingGuide(model), CrowdData(features), batch_size=None, step_size=1.0,
        epochs=9,
    )  # fmt: skip
    drawn = one_chain(to_arviz(result, 300), "posterior_predictive", "features")
    mean, concentration, spread, degrees = (
        part.numpy() for part in result.guide.posteriors["components"].standard()
    )
    for k in range(3):
        cloud = drawn[:, result.assignments == k].reshape(-1, 2)
        # The predictive density of a NIW posterior is Student's t.
        covariance = spread[k] * (1 + 1 / concentration[k]) / (degrees[k] - 3)
        standardized = (cloud - location) / scale
        np.testing.assert_allclose(standardized.mean(0), mean[k], atol=0.3)
        np.testing.assert_allclose(np.cov(standardized.T), covariance, atol=0.15, rtol=0.15)


@pytest.mark.parametrize("name", MAKERS)
def test_replicated_features_of_networks_have_the_shape_of_the_data(fits, name):
    drawn = one_chain(to_arviz(fits[name], 6), "posterior_predictive", "features")
    assert drawn.shape == (6, NUM_ITEMS, NUM_FEATURES)
    given = fits[name].data.features
    assert np.abs(drawn.mean((0, 1)) - given.mean(0)).max() < 3 * given.std(0).max()


def test_networks_of_single_precision_simulate():
    torch.set_default_dtype(torch.float32)
    result = quiet_fit(*message_passing_pair(), crowd(NUM_ITEMS), dtype=torch.float32)
    tree = to_arviz(result, 3)
    assert tree["posterior_predictive"]["features"].dtype == np.float32
    assert np.isfinite(tree["posterior_predictive"]["features"]).all()


class TestWorkerChecks:
    def test_errors_in_bursts_show_on_the_worst_page(self):
        rng = np.random.default_rng(0)
        truth = np.arange(60) % NUM_CLUSTERS
        features = 8.0 * np.eye(NUM_CLUSTERS, NUM_FEATURES)[truth]
        features = features + 0.3 * rng.standard_normal(features.shape)
        rates = [0.9] * NUM_WORKERS
        pairs = simulate_pages(
            truth, rates, rates, pages_per_worker=12, page_size=5, items=range(60), seed=2
        )
        pairs = pairs[pairs["left"] != pairs["right"]]
        # Worker 0 errs as often as before, but all on one page.
        right = (truth[pairs["left"]] == truth[pairs["right"]]).astype(int)
        of_first = pairs["worker"] == 0
        pairs.loc[of_first, "label"] = right[of_first]
        page = pairs.loc[of_first, "page"].iloc[0]
        burst = of_first & (pairs["page"] == page)
        pairs.loc[burst, "label"] = 1 - right[burst]
        model = plain_mixture()
        result = quiet_fit(
            model, MessagePassingGuide(model), CrowdData(features, pairs), batch_size=None,
            step_size=0.5, epochs=25,
        )  # fmt: skip
        table = check_workers(result, 60)
        assert table.index.tolist() == [0, 1, 2]
        assert table.loc[0, "worst_page_p"] < 0.05
        assert (table.loc[[1, 2], "worst_page_p"] > 0.02).all()
        assert table["agreement_p"].between(0.01, 0.99).all()
        assert table.loc[0, "agreement"] == pytest.approx(
            (of_first & ~burst).sum() / of_first.sum()
        )
        assert (table["agreement_lower"] <= table["agreement_upper"]).all()
        given = result.data.pairs.groupby("worker")["label"].mean()
        np.testing.assert_allclose(table["said_same"], given)

    def test_ties_count_half(self):
        """Of a worker with one answer, said_same is the answer, drawn anew it is often the same."""
        pairs = {"left": [0, 1, 0], "right": [1, 2, 2], "worker": [0, 1, 2], "label": [1, 0, 1]}
        model = plain_mixture()
        features = np.random.default_rng(0).standard_normal((6, NUM_FEATURES))
        result = quiet_fit(
            model, MessagePassingGuide(model), CrowdData(features, pairs), batch_size=None
        )
        table = check_workers(result, 200)
        said, drawn = table["said_same"], table["said_same_replicated"]
        assert said.tolist() == [1, 0, 1]
        expected = np.where(said == 1, 1 - drawn / 2, (1 - drawn) / 2)
        np.testing.assert_allclose(table["said_same_p"], expected)
        assert drawn.between(0.05, 0.95).all()

    def test_one_cluster_agrees_with_every_same(self):
        pairs = {"left": [0, 1, 0], "right": [1, 2, 2], "worker": [0, 0, 0], "label": [1, 0, 1]}
        parts = DirichletWeights(1), GaussianComponents(1, 2), plain_mixture().emission, TwoCoin(1)
        model = SemiCrowdsourcedMixture(*parts)
        data = CrowdData(np.random.default_rng(0).standard_normal((6, 2)), pairs)
        result = quiet_fit(model, MessagePassingGuide(model), data, batch_size=None)
        assert check_workers(result, 20).loc[0, "agreement"] == pytest.approx(2 / 3)
        with pytest.raises(ValueError, match="num_draws is 0, but must be at least 1"):
            check_workers(result, 0)
        with pytest.raises(ValueError, match="num_draws is '9', but must be a whole number"):
            check_workers(result, "9")

    @pytest.mark.parametrize("columns", [{}, {"page": [0, 0, 1]}])
    def test_who_only_gave_class_labels_has_no_numbers(self, columns):
        pairs = {"left": [0, 1, 0], "right": [1, 2, 2], "worker": ["b"] * 3, "label": [1, 0, 1]}
        labels = {"item": [0, 1], "worker": ["a", "c"], "label": ["x", "y"]}
        features = np.random.default_rng(0).standard_normal((6, NUM_FEATURES))
        model = plain_mixture()
        data = CrowdData(features, pairs | columns, labels=labels)
        table = check_workers(quiet_fit(model, MessagePassingGuide(model), data), 20)
        assert table.index.tolist() == ["a", "b", "c"]
        assert table.loc[["a", "c"]].isna().all(axis=None)
        assert table.loc["b", "said_same"] == pytest.approx(2 / 3)
        assert table.loc["b"].notna().all()

    def test_without_answers(self, known):
        with pytest.raises(ValueError, match="no answers"):
            check_workers(known)
