"""Workers who lapse, against Bayes' rule written out, and beside workers who do not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.special
import torch
from pyro.infer import Trace_ELBO
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import GradedPairs, LapsingWorkers, TwoCoin, sites_of
from pyro_crowdclust.annotators.channels import channels_of
from pyro_crowdclust.annotators.suited import annotators_on_pages
from pyro_crowdclust.diagnostics.predictive import possible_labels
from pyro_crowdclust.distributions import WorkerSummary
from pyro_crowdclust.emissions import BernoulliEmission, Identity
from pyro_crowdclust.families import beta_summary
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.interface import cluster
from pyro_crowdclust.interface.advising.advice import advice
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import AnsweredPartition, SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, SkipMLP
from pyro_crowdclust.partitions import PitmanYor
from pyro_crowdclust.results import load

from ..crowds import NUM_CLUSTERS, NUM_FEATURES, NUM_WORKERS, crowd, fit_plain
from .test_items import WithHardItems

KINDS = np.arange(60) % 3
FEATURES = 9.0 * np.eye(3)[KINDS] + np.random.default_rng(0).normal(size=(60, 3))
PER_PAGE, PAGES = 20, 6


def answers(seed: int, workers: str = "abc", share: float = 0.9) -> pd.DataFrame:
    """Workers right of nine pairs in ten, of whom the first says "same" to pages 1 and 4."""
    rng = np.random.default_rng(seed)
    every = np.stack(np.triu_indices(len(KINDS), 1), axis=1)
    parts = []
    for worker in workers:
        ends = rng.permutation(every)[: PAGES * PER_PAGE]
        same = KINDS[ends[:, 0]] == KINDS[ends[:, 1]]
        page = np.arange(len(ends)) // PER_PAGE
        yes = rng.random(len(ends)) < np.where(same, share, 1 - share)
        yes |= (worker == "a") & np.isin(page, [1, 4])
        columns = {"left": ends[:, 0], "right": ends[:, 1], "label": yes.astype(int)}
        parts.append(pd.DataFrame(columns).assign(worker=worker, page=page))
    return pd.concat(parts, ignore_index=True)


def model_of(annotators, clusters: int = NUM_CLUSTERS, features: int = NUM_FEATURES):
    return SemiCrowdsourcedMixture(
        DirichletWeights(clusters, 1.0),
        GaussianComponents(clusters, features),
        Identity(),
        annotators,
    )


def test_the_state_of_a_page_is_by_bayes_rule():
    data = CrowdData(FEATURES, answers(0))
    batch = full_batch(data)
    annotators = LapsingWorkers(TwoCoin(3), attention=(3.0, 1.0))
    right, wrong, looks = 0.85, 0.15, 0.7
    certain = torch.tensor([right, wrong], dtype=torch.float64).log().expand(3, 2)
    habit = torch.tensor([looks, 1 - looks], dtype=torch.float64).log().expand(3, 2)
    rates = {"sensitivity": certain, "specificity": certain, "attention": habit}
    z = torch.eye(3, dtype=torch.float64)[torch.from_numpy(KINDS)[batch.items]]
    coupling = sites_of(annotators).coupling(rates, batch, torch.float64)
    found = coupling.log_odds(z).sigmoid()
    table = data.pairs.assign(same=KINDS[data.pairs["left"]] == KINDS[data.pairs["right"]])
    expected, evidence = [], 0.0
    for _, page in table.groupby(["page", "worker"]):
        agrees = (page["label"] == 1) == page["same"]
        attentive = looks * np.where(agrees, right, wrong).prod()
        yes = (page["label"] == 1).sum()
        careless = (1 - looks) * scipy.special.beta(1 + yes, 1 + len(page) - yes)
        expected.append(attentive / (attentive + careless))
        evidence += np.log(attentive + careless)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    # Where all else is known, the bound is the evidence.
    sites = sites_of(annotators)
    elbo = -Trace_ELBO(max_plate_nesting=1).loss(sites.sample, sites.sample_guide, z, rates, batch)
    assert elbo == pytest.approx(evidence, rel=1e-10)
    # What is heard of a careless page is next to nothing.
    weight = annotators.log_likelihood_ratio(rates, batch.worker, batch.label)
    of_answer = found[batch.sessions.of_answer]
    torch.testing.assert_close(coupling.weights(z), weight * of_answer)
    weighing = dataclasses.replace(batch, pair_weight=1 + torch.rand(len(weight)).double())
    weighted = sites_of(annotators).coupling(rates, weighing, torch.float64, weighted=True)
    torch.testing.assert_close(weighted.weights(z), weighing.pair_weight * weight * of_answer)
    for last, heard in ((False, weight), (True, weight * of_answer)):
        messages = coupling.messages(z, last=last)
        by_hand = torch.zeros_like(messages)
        for here, there in ((batch.left, batch.right), (batch.right, batch.left)):
            by_hand.index_add_(0, here, heard.unsqueeze(1) * z[there])
        torch.testing.assert_close(messages, by_hand)


def test_who_never_lapses_has_two_coins():
    data = crowd(60)
    pairs = data.pairs.assign(page=np.arange(data.num_pairs) // 10)
    data = CrowdData(data.features, pairs)
    never = LapsingWorkers(TwoCoin(NUM_WORKERS), attention=(1e12, 1e-3))
    found = []
    for annotators in (never, TwoCoin(NUM_WORKERS)):
        model = model_of(annotators)
        found.append(fit_plain(model, MessagePassingGuide(model), data, epochs=8))
    np.testing.assert_allclose(found[0].probabilities, found[1].probabilities, atol=1e-6)
    columns = ["sensitivity", "specificity", "weight"]
    np.testing.assert_allclose(found[0].workers[columns], found[1].workers[columns], atol=1e-6)


def test_rates_are_those_of_attention():
    pairs = answers(1)
    lapsing = cluster(FEATURES, pairs, components=GaussianComponents, progress=False)
    without = cluster(
        FEATURES, pairs.drop(columns="page"), components=GaussianComponents, progress=False
    )
    # The third page in six of "same" is a specificity of .9 * 4 / 6.
    assert lapsing.workers.loc["a", "specificity"] > 0.85 > without.workers.loc["a", "specificity"]
    assert lapsing.workers["attention"].idxmin() == "a"
    (sentence,) = advice(lapsing)
    assert sentence.startswith("2 of 18 pages")
    assert sentence.endswith("the fit gives them little weight")


def test_minibatches_update_and_grades_go_with_it():
    pairs = answers(2)
    options = {"components": GaussianComponents, "progress": False, "num_clusters": 4}
    result = cluster(FEATURES, pairs, batch_size=30, epochs=30, **options)
    assert result.workers.loc["a", "specificity"] > 0.8
    more = answers(3, "bd").assign(page=lambda table: table["page"] + 100)
    later = result.update(more, epochs=5, progress=False)
    assert isinstance(later.model.annotators, LapsingWorkers)
    assert later.workers.index.tolist() == ["a", "b", "c", "d"]
    grades = pairs.assign(label=np.where(pairs["label"] == 1, "alike", "other"))
    grades.loc[::7, "label"] = None
    graded = cluster(FEATURES, grades, grades=["other", "alike"], **options)
    assert isinstance(graded.model.annotators.attentive, GradedPairs)
    assert graded.workers["attention"].idxmin() == "a"
    # Also where nobody of these was unsure.
    sure = grades.assign(label=np.where(pairs["label"] == 1, "alike", "other"))
    told = cluster(FEATURES, sure, grades=["other", "alike"], **options)
    np.testing.assert_array_equal(possible_labels(told), [0.0, 1.0, np.nan])


LINKS = {
    "must_link": {"left": [3], "right": [6]},
    "cannot_link": {"left": [4], "right": [5]},
}


@pytest.mark.long
@pytest.mark.parametrize("more", ["labels and gaps", "links"])
def test_lapses_beside_what_else_is_known(more, tmp_path):
    features, help_ = FEATURES, LINKS
    if more == "labels and gaps":
        missing = np.random.default_rng(1).random(FEATURES.shape) < 0.08
        features = np.where(missing, np.nan, FEATURES)
        help_ = {
            "known": [int(kind) if item % 10 == 0 else None for item, kind in enumerate(KINDS)]
        }
    options = {"components": GaussianComponents, "num_clusters": 4, "progress": False}
    result = cluster(features, answers(0), **help_, **options)
    assert adjusted_rand_score(KINDS, result.assignments) > 0.95
    assert result.workers.loc["a", "specificity"] > 0.8
    result.save(tmp_path / "fit")
    pd.testing.assert_frame_equal(load(tmp_path / "fit").workers, result.workers)


@pytest.mark.parametrize("size", [4, 5])
def test_lapses_are_of_pages_of_five_answers_and_more(size):
    """On average: here over three pages, of which one has two more and one two less."""
    page = np.repeat(["a", "b", "c"], [size, size + 2, size - 2])
    number = np.arange(len(page))
    pairs = {"left": number, "right": number + 1, "worker": page, "page": page, "label": 0 * number}
    annotators = annotators_on_pages(CrowdData(None, pairs))
    assert isinstance(annotators, LapsingWorkers) == (size >= 5)


def test_channels_are_of_an_answer_on_an_unknown_page():
    data = CrowdData(FEATURES, answers(0))
    model = model_of(LapsingWorkers(TwoCoin(3)), 3, 3)
    result = fit_plain(model, MessagePassingGuide(model), data, epochs=2)
    channels = channels_of(result.guide.workers())
    np.testing.assert_allclose(channels.mean.sum(-1), 1.0)
    attention = result.workers["attention"].to_numpy()
    expected = attention * result.workers["sensitivity"] + (1 - attention) / 2
    np.testing.assert_allclose(channels.mean[:, 1, 1], expected)
    assert (channels.sd[:, 1, 1] > attention * result.workers["sensitivity_sd"]).all()


def test_a_class_of_ones_own_is_given_trust():
    class Own(LapsingWorkers):
        """It does what its base does."""

    own = Own(TwoCoin(3), attention=(19.0, 1.0)).with_trust((8.0, 2.0))
    plain = LapsingWorkers(TwoCoin(3, (8.0, 2.0), (8.0, 2.0)), attention=(19.0, 1.0))
    for name, prior in plain.priors().items():
        torch.testing.assert_close(own.priors()[name].natural_parameters, prior.natural_parameters)


def test_what_does_not_go_with_it_is_refused():
    data = crowd(30)
    pairs = data.pairs.drop(columns="page").drop_duplicates(["left", "right", "worker"])
    without_pages = CrowdData(data.features, pairs)
    model = model_of(LapsingWorkers(TwoCoin(NUM_WORKERS)))
    with pytest.raises(ValueError, match="give the pairs a column 'page'"):
        fit_plain(model, MessagePassingGuide(model), without_pages, epochs=1)
    with pytest.raises(ValueError, match="needs the items that answers are about"):
        LapsingWorkers(WithHardItems(2, torch.ones(3)))
    alone = AnsweredPartition(LapsingWorkers(TwoCoin(3)), PitmanYor())
    with pytest.raises(ValueError, match="partitions without features"):
        alone.check(CrowdData(None, pairs=answers(0)))
    workers = LapsingWorkers(TwoCoin(3))
    emission = BernoulliEmission(SkipMLP((2, 4, 5)))
    deep = SemiCrowdsourcedMixture(DirichletWeights(3), GaussianComponents(3, 2), emission, workers)
    with pytest.raises(ValueError, match="a guide of points cannot infer on which pages"):
        AmortizedGuide(deep, AmortizedRecognition((5, 4, 4), 2, 3))


def test_a_channel_is_as_doubtful_as_rates_and_attention_leave_it():
    """Moments of draws of both: who may not look is not known as well as one who does."""
    counts = {"attention": (8.0, 2.0), "sensitivity": (20.0, 5.0), "specificity": (30.0, 3.0)}
    rates = {
        name: beta_summary(*(np.array([count]) for count in pair), 0.9)
        for name, pair in counts.items()
    }
    found = channels_of(WorkerSummary(rates, np.zeros(1), np.zeros(1)))
    rng = np.random.default_rng(0)
    looks, right, rejected = (rng.beta(*pair, 200_000) for pair in counts.values())
    for truth, share in enumerate((rejected, right)):
        drawn = looks * share + (1 - looks) / 2
        assert found.mean[0, truth, truth] == pytest.approx(drawn.mean(), abs=1e-3)
        assert found.sd[0, truth] == pytest.approx([drawn.std()] * 2, rel=0.01)
