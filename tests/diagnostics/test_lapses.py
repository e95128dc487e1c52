"""Lapses found, against Bayes' rule written out with an integral, and in fits of whole crowds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.integrate
from pyro import poutine
from scipy.special import betaln

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import LapsingWorkers, TwoCoin, annotators_on_pages
from pyro_crowdclust.annotators.channels import attentive_channels
from pyro_crowdclust.diagnostics import check_workers, find_lapses
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import cluster
from pyro_crowdclust.interface.advising.advice import advice
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..crowds import fit_plain
from ..registries import OneAccuracy

KINDS = np.arange(60) % 3
PER_PAGE = 40


def answers(seed: int, careless: dict[tuple[int, str], float], pages: int = 6) -> pd.DataFrame:
    """Three workers right of 85 %; on careless pages "same" is said as often as it says."""
    rng = np.random.default_rng(seed)
    every = np.stack(np.triu_indices(len(KINDS), 1), axis=1)
    parts = []
    for worker in "abc":
        ends = rng.permutation(every)[: pages * PER_PAGE]
        same = KINDS[ends[:, 0]] == KINDS[ends[:, 1]]
        page = np.arange(len(ends)) // PER_PAGE
        says = np.where(same, 0.85, 0.15)
        for (number, own), share in careless.items():
            says[(page == number) & (own == worker)] = share
        label = (rng.random(len(ends)) < says).astype(int)
        columns = {"left": ends[:, 0], "right": ends[:, 1], "label": label, "page": page}
        parts.append(pd.DataFrame(columns).assign(worker=worker))
    return pd.concat(parts, ignore_index=True)


def lapsing_pair(data: CrowdData) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    parts = DirichletWeights(3), GaussianComponents(3, 3), Identity(), annotators_on_pages(data)
    model = SemiCrowdsourcedMixture(*parts)
    return model, MessagePassingGuide(model)


def fit_that_knows(pairs: pd.DataFrame) -> SimpleNamespace:
    """A result whose clusters are the kinds, for certain."""
    data = CrowdData(None, pairs=pairs)
    kinds = KINDS[data.item_ids]
    return SimpleNamespace(
        model=None,
        guide=None,
        data=data,
        same_cluster_by_position=lambda left, right: (kinds[left] == kinds[right]).astype(float),
    )


CARELESS = {(1, "a"): 0.5, (4, "a"): 0.95, (2, "c"): 0.1}


def test_careless_pages_are_found_and_no_others():
    for seed in range(3):
        found = find_lapses(fit_that_knows(answers(seed, CARELESS)))
        assert set(found.query("careless > 0.5").index) == set(CARELESS)
        assert find_lapses(fit_that_knows(answers(seed, {})))["careless"].max() < 0.5


def test_probabilities_are_those_of_bayes_rule():
    pairs = answers(3, CARELESS)
    found = find_lapses(fit_that_knows(pairs))
    same = KINDS[pairs["left"]] == KINDS[pairs["right"]]
    right = pairs["label"].to_numpy() == same
    heard = 1 - found["careless"].loc[list(zip(pairs["page"], pairs["worker"], strict=True))]
    pairs = pairs.assign(same=same, right=right, heard=heard.to_numpy())
    for worker, own in pairs.groupby("worker"):
        pages = found.xs(worker, level="worker")
        rates = {}
        for kind, part in own.groupby("same"):
            rates[kind] = (part["heard"] @ part["right"] + 4) / (part["heard"].sum() + 5)
        share = (pages["careless"].sum() + 1) / (len(pages) + 10)
        for page, part in own.groupby("page"):
            of_answer = part["same"].map(rates)
            attentive = np.where(part["right"], of_answer, 1 - of_answer).prod()
            yes, no = part["label"].sum(), (1 - part["label"]).sum()
            careless = scipy.integrate.quad(lambda c, y=yes, n=no: c**y * (1 - c) ** n, 0, 1)[0]
            wanted = share * careless / (share * careless + (1 - share) * attentive)
            assert pages.loc[page, "careless"] == pytest.approx(wanted, abs=1e-6)
            assert pages.loc[page, "said_same"] == pytest.approx(part["label"].mean())
            says_same = np.where(part["same"], rates[True], 1 - rates[False]).mean()
            assert pages.loc[page, "expected_same"] == pytest.approx(says_same)


def test_a_worker_who_guesses_everywhere_does_not_lapse():
    """The guesser's own rates say it; nothing is left for a lapse to explain."""
    pairs = answers(4, {(page, "b"): 0.5 for page in range(6)})
    assert find_lapses(fit_that_knows(pairs)).xs("b", level="worker")["careless"].max() < 0.5


def test_a_fit_without_the_lapses_learns_the_rates_of_attention():
    rng = np.random.default_rng(5)
    features = 3.0 * np.eye(3)[KINDS] + rng.normal(size=(len(KINDS), 3))
    pairs = answers(5, {(page, "a"): 0.9 for page in (0, 2)} | {(3, "b"): 0.5})
    options = {"num_clusters": 5, "components": GaussianComponents, "progress": False}
    first = cluster(features, pairs.drop(columns="page"), **options)
    asked = SimpleNamespace(
        model=None,
        guide=None,
        data=CrowdData(features, pairs=pairs),
        same_cluster_by_position=first.same_cluster_by_position,
    )
    lapses = find_lapses(asked)
    likely = lapses.index[lapses["careless"] > 0.5]
    assert set(likely) == {(0, "a"), (2, "a"), (3, "b")}
    kept = ~pd.MultiIndex.from_frame(pairs[["page", "worker"]]).isin(likely)
    second = cluster(features, pairs[kept].drop(columns="page"), **options)
    third = cluster(features, pairs, **options)
    before, after, lapsing = (
        np.abs(result.workers.loc["a", ["sensitivity", "specificity"]] - 0.85).max()
        for result in (first, second, third)
    )
    assert after < min(before - 0.05, 0.08)
    # A model in which workers lapse needs no second fit.
    assert abs(lapsing - after) < 0.02
    assert any("without looking" in one for one in advice(third))
    assert not any("without looking" in one for one in advice(second))


@pytest.mark.parametrize("grades", [None, [0, 1]], ids=["yes or no", "grades"])
def test_a_model_in_which_workers_lapse_says_it_itself(grades):
    """The site ``attentive`` of its guide; grades are yes and no here, and "can't tell"."""
    features = 9.0 * np.eye(3)[KINDS]
    pairs = answers(6, CARELESS).astype({"label": float})
    if grades is not None:
        pairs.loc[::15, "label"] = np.nan
    data = CrowdData(features, pairs, grades=grades)
    result = fit_plain(*lapsing_pair(data), data, epochs=15)
    found = find_lapses(result)
    assert set(found.query("careless > 0.5").index) == set(CARELESS)
    assert found["answers"].sum() == pairs["label"].notna().sum()
    with result.inside():
        trace = poutine.trace(result.guide).get_trace(full_batch(data))
    attentive = trace.nodes["attentive"]["value"][:, 0].numpy()
    np.testing.assert_allclose(found["careless"], 1 - attentive, atol=1e-6)
    rates = result.guide.workers().rates
    if grades is None:
        says = rates["sensitivity"].mean, 1 - rates["specificity"].mean
    else:
        says = (rates[name].mean for name in ("if_same", "if_different"))
        says = tuple(row[:, 1] / row[:, :2].sum(1) for row in says)
    for (page, worker), expected in found["expected_same"].items():
        own = pairs.query("page == @page and worker == @worker").dropna()
        same = (KINDS[own["left"]] == KINDS[own["right"]]).mean()
        of_worker = [float(rate["abc".index(worker)]) for rate in says]
        wanted = same * of_worker[0] + (1 - same) * of_worker[1]
        assert expected == pytest.approx(wanted, abs=1e-6)
        assert found["said_same"][page, worker] == pytest.approx(own["label"].mean())


def test_annotators_of_ones_own_may_lapse():
    """Whose rates have names of their own; what they say is in their likelihood."""
    pairs = answers(6, CARELESS)
    data = CrowdData(9.0 * np.eye(3)[KINDS], pairs)
    parts = DirichletWeights(3), GaussianComponents(3, 3), Identity()
    model = SemiCrowdsourcedMixture(*parts, LapsingWorkers(OneAccuracy(3)))
    result = fit_plain(model, MessagePassingGuide(model), data, epochs=15)
    found = find_lapses(result)
    assert set(found.query("careless > 0.5").index) == set(CARELESS)
    accuracy = result.workers["accuracy"]
    for (page, worker), expected in found["expected_same"].items():
        own = pairs[(pairs["page"] == page) & (pairs["worker"] == worker)]
        same = (KINDS[own["left"]] == KINDS[own["right"]]).mean()
        right = accuracy[worker]
        assert expected == pytest.approx(same * right + (1 - same) * (1 - right), abs=0.005)


@pytest.mark.long
@pytest.mark.parametrize("grades", [None, [0, 1]], ids=["yes or no", "grades"])
def test_checks_replicate_answers_on_pages(grades):
    """The worst page is as bad as workers who lapse at these rates make it."""
    pairs = answers(8, CARELESS, pages=4)
    data = CrowdData(9.0 * np.eye(3)[KINDS], pairs, grades=grades)
    result = fit_plain(*lapsing_pair(data), data, epochs=15)
    table = check_workers(result, 100)
    channels = attentive_channels(result.guide.workers()).mean
    attention = result.guide.workers().rates["attention"].mean
    rng = np.random.default_rng(0)
    same = (KINDS[pairs["left"]] == KINDS[pairs["right"]]).astype(int)
    number = channels.shape[2]
    for code, worker in enumerate("abc"):
        worst = []
        for _ in range(200):
            pages = []
            for page in range(4):
                truth = same[(pairs["worker"] == worker) & (pairs["page"] == page)]
                shares = np.repeat(rng.dirichlet(np.ones(number))[None], 2, axis=0)
                if rng.random() < attention[code]:
                    shares = channels[code]
                said = (rng.random((len(truth), 1)) > shares[truth].cumsum(1)[:, :-1]).sum(1)
                pages.append((said == truth)[said < 2].mean())
            worst.append(min(pages))
        assert table.loc[worker, "worst_page_replicated"] == pytest.approx(np.mean(worst), abs=0.06)
    assert table["worst_page_p"].between(0.02, 0.98).all()


def test_grades_are_for_a_model_in_which_workers_lapse():
    result = fit_that_knows(answers(6, CARELESS))
    result.data = CrowdData(None, pairs=answers(6, CARELESS), grades=2)
    with pytest.raises(ValueError, match=r"LapsingWorkers\(GradedPairs"):
        find_lapses(result)


def test_answers_without_pages_are_an_error():
    pairs = answers(7, {}).drop(columns="page")
    with pytest.raises(ValueError, match="give the table of pairs a column 'page'"):
        find_lapses(fit_that_knows(pairs))


def test_an_answer_is_left_out_with_what_the_others_say_of_its_page():
    """By Bayes' rule over whether the worker looked; clusters are certain."""
    kinds = np.arange(30) % 3
    features = 20.0 * np.eye(3)[kinds] + np.random.default_rng(0).normal(size=(30, 3))
    rng, columns = np.random.default_rng(1), ("left", "right", "worker", "label", "page")
    ends = rng.permutation(np.stack(np.triu_indices(30, 1), 1))[:60]
    worker, page = np.arange(60) % 2, np.arange(60) // 10
    same = kinds[ends[:, 0]] == kinds[ends[:, 1]]
    label = np.where(page == 3, 1, same ^ (rng.random(60) < 0.1)).astype(int)
    data = CrowdData(features, dict(zip(columns, (*ends.T, worker, label, page), strict=True)))
    model = SemiCrowdsourcedMixture(
        DirichletWeights(3), GaussianComponents(3, 3), Identity(), LapsingWorkers(TwoCoin(2))
    )
    result = fit_plain(model, MessagePassingGuide(model), data, epochs=8)
    np.testing.assert_allclose(result.same_cluster_probability(*ends.T), same, atol=1e-9)
    tree = result.to_arviz(2)
    found = tree["log_likelihood"]["answers"].values[0]
    names = "sensitivity", "specificity", "attention"
    drawn = [tree["posterior"][name].values[0][:, worker] for name in names]
    for draw, (right, rejected, looks) in enumerate(zip(*drawn, strict=True)):
        yes = np.where(same, right, 1 - rejected)
        said = np.log(np.where(label == 1, yes, 1 - yes))
        for row in range(60):
            on_page = (page == page[row]) & (worker == worker[row])
            log_joint = []
            for rows in (on_page, on_page & (np.arange(60) != row)):
                told = label[rows].sum()
                not_looked = np.log1p(-looks[row]) + betaln(1 + told, 1 + rows.sum() - told)
                log_joint.append(np.logaddexp(np.log(looks[row]) + said[rows].sum(), not_looked))
            assert found[draw, row] == pytest.approx(log_joint[0] - log_joint[1], abs=1e-6)
