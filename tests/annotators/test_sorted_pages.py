"""Sorted pages against sums over all states, homes and assignments, and against autograd."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from scipy.stats import beta
from torch import nn

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import (
    SortedPages,
    TwoCoin,
    pair_rates,
    sample_answers,
    sites_of,
)
from pyro_crowdclust.annotators.page_coupling import PAGE_STATES, PageCoupling
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.interface import cluster
from pyro_crowdclust.metrics import clustering_report
from pyro_crowdclust.minibatches import AnswerSampling, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, SkipMLP
from pyro_crowdclust.simulation import simulate_placements

K, OVERLAP = 2, 0.01
RATES = {
    "accuracy": torch.tensor([[0.8, 0.2]], dtype=torch.float64).log(),
    "habits": torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64).log(),
}


def one_page(groups):
    """The batch of one page whose items, in order, lie in these groups."""
    table = {"page": 0, "item": np.arange(len(groups)), "worker": 0, "group": groups}
    return full_batch(CrowdData(None, placements=pd.DataFrame(table)))


def placed(state, num_groups):
    """Probabilities of a placement at home and in one other group, on an attentive page."""
    if PAGE_STATES[state] == "sorted":
        return 0.8, 0.2 / num_groups
    return 0.8 + 0.2 / (num_groups + 1), 0.2 / (num_groups + 1)


def log_joint(z, batch, state, homes):
    """``log p(state, homes, groups | z)`` of one page, written out; homes of the clusters seen."""
    groups = batch.pages.group.tolist()
    num_groups = max(groups) + 1
    total = math.log([0.6, 0.3, 0.1][state])
    if PAGE_STATES[state] == "careless":
        return total - len(groups) * math.log(num_groups + 1)
    odds = [OVERLAP, 1.0][state]
    seen = sorted(set(z))

    def weight(places):
        return math.prod(
            odds for a, b in itertools.combinations(places, 2) if a == b and a is not None
        )

    everywhere = itertools.product([None, *range(num_groups)], repeat=len(seen))
    total += math.log(weight([homes[k] for k in seen]) / sum(map(weight, everywhere)))
    right, wrong = placed(state, num_groups)
    for cluster_of_item, group in zip(z, groups, strict=True):
        total += math.log(right if homes[cluster_of_item] == group else wrong)
    return total


def evidence(z, batch):
    """``log p(groups | z)``, all states and homes summed out."""
    num_groups = int(batch.pages.num_groups[0])
    seen = sorted(set(z))
    terms = [log_joint(z, batch, PAGE_STATES.index("careless"), {})]
    for state in (0, 1):
        for places in itertools.product([None, *range(num_groups)], repeat=len(seen)):
            terms.append(log_joint(z, batch, state, dict(zip(seen, places, strict=True))))
    return float(np.logaddexp.reduce(terms))


def bound(q, batch, annotators=None):
    """The ELBO of pages with given q(z), by Pyro's own sum over the sites."""
    annotators = annotators or SortedPages(1)

    def model(batch):
        sites_of(annotators).sample(q, RATES, batch)

    def guide(batch):
        sites_of(annotators).sample_guide(q, RATES, batch)

    return -Trace_ELBO(max_plate_nesting=1).loss(model, guide, batch)


@pytest.mark.parametrize("groups", [[0, 0, 1, 1], [0, 1, 2, 0], [0, 0, 0, 0], [0, 1, 0, 1]])
@pytest.mark.parametrize("z", [(0, 0, 1, 1), (0, 1, 1, 1), (0, 0, 0, 0)])
def test_the_bound_is_below_the_evidence_and_near_it(groups, z):
    batch = one_page(groups)
    found = bound(nn.functional.one_hot(torch.tensor(z), K).double(), batch)
    exact = evidence(z, batch)
    # What is lost is that q takes the homes of clusters for independent given the state.
    assert exact - 0.7 < found < exact + 1e-9


@pytest.mark.parametrize("groups", [[0, 0, 1, 1], [0, 1, 2, 0]])
def test_with_one_cluster_the_bound_is_the_evidence(groups):
    batch = one_page(groups)
    found = bound(torch.tensor([[1.0, 0.0]]).expand(4, 2).double(), batch)
    assert found == pytest.approx(evidence((0, 0, 0, 0), batch), abs=1e-9)


def test_q_of_state_and_homes_is_the_posterior_where_it_can_be():
    batch = one_page([0, 0, 1, 0])
    q = torch.tensor([[1.0, 0.0]]).expand(4, 2).double()
    posterior = SortedPages(1).posterior(RATES, q, batch.pages)
    z = (0, 0, 0, 0)
    total = evidence(z, batch)
    careless = log_joint(z, batch, 2, {}) - total
    assert float(posterior.states[0, 2].log()) == pytest.approx(careless, abs=1e-9)
    for home, group in ((0, None), (1, 0), (2, 1)):
        exact = log_joint(z, batch, 1, {0: group}) - total
        found = posterior.states[0, 1].log() + posterior.homes[0, 1, 0, home].log()
        assert float(found) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("groups", [[0, 0, 1, 1, 2], [0, 1, 0, 1, 0]])
def test_messages_are_the_gradient_of_the_bound(groups):
    batch = one_page(groups)
    annotators = SortedPages(1)
    logits = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q = (2 * logits).softmax(-1).requires_grad_()

    def model(batch):
        sites_of(annotators).sample(q, RATES, batch)

    def guide(batch):
        sites_of(annotators).sample_guide(q, RATES, batch)

    loss = Trace_ELBO(max_plate_nesting=1).differentiable_loss(model, guide, batch)
    (slope,) = torch.autograd.grad(-loss, q)
    coupling = PageCoupling(RATES, batch.pages, 5)
    messages = coupling.messages(q.detach(), last=True)
    # Clusters that are not seen on the page are offered a home, which the bound leaves out.
    seen = q.detach().sum(0) >= 0.5
    torch.testing.assert_close(messages[:, seen], slope[:, seen], atol=1e-8, rtol=1e-8)
    (of_potential,) = torch.autograd.grad(coupling.potential(q), q)
    torch.testing.assert_close(of_potential, messages)
    heavy = dataclasses.replace(batch.pages, weight=torch.tensor([2.5]).double())
    weighted = PageCoupling(RATES, heavy, 5, weighted=True)
    torch.testing.assert_close(weighted.messages(q.detach(), last=True), 2.5 * messages)


def test_pages_of_other_sizes_beside_it_change_nothing():
    table = pd.DataFrame(
        {
            "page": [0] * 4 + [1] * 7,
            "item": [*range(4), *range(7)],
            "worker": 0,
            "group": [0, 0, 1, 1, *range(7)],
        }
    )
    both = full_batch(CrowdData(None, placements=table))
    q = torch.rand(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    q = (5 * q).softmax(-1)
    annotators = SortedPages(1)
    together = annotators.posterior(RATES, q, both.pages)
    alone = annotators.posterior(RATES, q, one_page([0, 0, 1, 1]).pages)
    torch.testing.assert_close(together.states[:1], alone.states)
    torch.testing.assert_close(together.homes[:1, :, :, :3], alone.homes)
    assert float(together.homes[0, :, :, 3:].abs().max()) == 0


def test_a_cluster_on_no_page_changes_nothing_and_hears_where_the_others_are():
    pages = one_page([0, 0, 1, 1, 2, 1, 0]).pages
    annotators = SortedPages(1)
    q = torch.rand(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    alone = annotators.posterior(RATES, (5 * q).softmax(-1), pages)
    beside = annotators.posterior(RATES, nn.functional.pad((5 * q).softmax(-1), (0, 1)), pages)
    torch.testing.assert_close(beside.homes[:, :, :3], alone.homes)
    torch.testing.assert_close(beside.states, alone.states)
    # At home where nobody is, with odds of the overlap for everyone who is.
    for state, overlap in enumerate([OVERLAP, 1.0]):
        odds = overlap ** alone.homes[0, state].sum(0)
        expected = torch.cat([torch.ones(1).double(), odds[-3:]])
        found = beside.offered[0, state, 3]
        torch.testing.assert_close(found, expected / expected.sum())


def test_merge_gain_is_what_the_bound_gains():
    batch = one_page([0, 0, 0, 1, 1, 2, 2])
    z = nn.functional.one_hot(torch.tensor([0, 0, 1, 2, 2, 3, 3]), 4).double()
    annotators = SortedPages(1)
    gain = PageCoupling(RATES, batch.pages, 7).merge_gain(z)
    before = bound(z, batch, annotators)
    for first, second in itertools.combinations(range(4), 2):
        joined = z.clone()
        joined[:, first] += joined[:, second]
        joined[:, second] = 0
        exact = bound(joined, batch, annotators) - before
        assert float(gain[first, second]) == pytest.approx(exact, abs=0.9)
        assert (float(gain[first, second]) > 0) == ((first, second) == (0, 1))


def bound_of_homes(counts, homes, states):
    """Of one page, expected over q(s): placements, overlaps, normalizer and entropy of homes."""
    num_groups, num_seen = counts.shape[1], int(homes[0].sum().round())
    total = 0.0
    for state, odds in enumerate((OVERLAP, 1.0)):
        right, wrong = placed(state, num_groups)
        places = itertools.product(range(num_groups + 1), repeat=num_seen)
        normalizer = sum(
            math.prod(odds for a, b in itertools.combinations(h, 2) if a == b > 0) for h in places
        )
        of_state = -math.log(normalizer)
        for q in homes[state]:
            of_state -= sum(p * math.log(p) for p in q.tolist() if p > 0)
        at_home = float((homes[state, :, 1:] * counts).sum())
        of_state += at_home * math.log(right) + float(counts.sum() - at_home) * math.log(wrong)
        for one, other in itertools.combinations(homes[state], 2):
            of_state += math.log(odds) * float(one[1:] @ other[1:])
        total += float(states[state]) * of_state
    return total


def test_merge_gain_is_that_of_the_best_home_of_both(monkeypatch):
    """All else stays; of three clusters on three pages, and two that are on none."""
    monkeypatch.setattr("pyro_crowdclust.annotators.page_coupling._HOME_ROUNDS", 200)
    monkeypatch.setattr("pyro_crowdclust.annotators.page_coupling._PAGES_AT_A_TIME", 2)
    groups = np.array([[0, 0, 1, 1, 2, 2, 0], [0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 0, 0, 1, 1]])
    page, item = np.indices(groups.shape)
    table = {"page": page.ravel(), "item": item.ravel(), "worker": 0, "group": groups.ravel()}
    table = pd.DataFrame(table)
    pages = full_batch(CrowdData(None, placements=table)).pages
    logits = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits += 3 * nn.functional.one_hot(torch.tensor([0, 0, 1, 1, 2, 2, 1]), 3)
    q = nn.functional.pad(logits.softmax(-1), (0, 2))
    annotators = SortedPages(1)
    posterior = annotators.posterior(RATES, q, pages)
    found = PageCoupling(RATES, pages, 7).merge_gain(q)
    for one, other in itertools.combinations(range(5), 2):
        gain = 0.0
        for page, group in enumerate(torch.from_numpy(groups)):
            counts = q.T @ nn.functional.one_hot(group).double()
            num_groups = counts.shape[1]
            homes = posterior.homes[page, :, :, : num_groups + 1]
            joined, moved = homes.clone(), counts.clone()
            if not (homes[0, one].any() or homes[0, other].any()):
                continue
            joined[:, other], moved[one], moved[other] = 0, counts[one] + counts[other], 0
            for state, odds in enumerate((OVERLAP, 1.0)):
                right, wrong = placed(state, num_groups)
                others = joined[state].sum(0) - joined[state, one]
                heard = moved[one] * math.log(right / wrong) + math.log(odds) * others[1:]
                joined[state, one] = nn.functional.pad(heard, (1, 0)).softmax(0)
            before = bound_of_homes(counts, homes, posterior.states[page])
            gain += bound_of_homes(moved, joined, posterior.states[page]) - before
        assert float(found[one, other]) == pytest.approx(gain, abs=1e-6)
        assert float(found[other, one]) == pytest.approx(gain, abs=1e-6)


@pytest.mark.parametrize("num_clusters", [2, 4])
def test_rates_of_pairs_are_those_of_all_places_of_two_items(num_clusters):
    """Each item lies at home with its accuracy, or in any other of as many groups."""
    accuracy = np.array([0.3, 0.9])
    shares = [
        np.where(np.arange(num_clusters) == home, a, (1 - a) / (num_clusters - 1))
        for a in accuracy
        for home in (0, 1)
    ]
    sensitivity, specificity = pair_rates(accuracy, num_clusters)
    for number, (at_first, at_second) in enumerate(zip(shares[::2], shares[1::2], strict=True)):
        assert sensitivity[number] == pytest.approx(at_first @ at_first)
        assert specificity[number] == pytest.approx(1 - at_first @ at_second)


def test_a_natural_step_counts_placements_and_pages():
    crowd = simulate_placements(
        np.repeat(np.arange(3), 20), [0.9, 0.7], pages_per_worker=3, page_size=20, seed=0
    )
    features = np.repeat([[-20.0, 0.0], [0.0, 20.0], [20.0, 0.0]], 20, 0)
    features = features + np.random.default_rng(0).normal(size=features.shape)
    data = CrowdData(features, placements=crowd)
    model = mixture(data, 3)
    options = {"batch_size": None, "step_size": 1.0, "epochs": 8, "progress": False}
    result = fit(model, MessagePassingGuide(model), data, dtype=torch.float64, **options)
    prior = model.annotators.accuracy.natural_parameters
    counts = result.guide.posteriors["accuracy"].natural_parameters.detach() - prior
    attentive = 1 - result.pages["careless"].to_numpy()
    placed = np.bincount(data.placements.worker, weights=20 * attentive)
    np.testing.assert_allclose(counts.sum(-1), placed, rtol=1e-3)
    # Of a careless page all is misplaced, which says nothing of the worker's accuracy.
    misplaced = result.pages["misplaced"] - 20 * result.pages["careless"]
    misplaced = np.bincount(data.placements.worker, weights=misplaced)
    np.testing.assert_allclose(counts[:, 1], misplaced, rtol=0.02, atol=0.02)
    pages = result.guide.posteriors["habits"].natural_parameters.detach()
    pages = pages - model.annotators.habits.natural_parameters
    np.testing.assert_allclose(pages.sum(-1), 3, rtol=1e-9)
    # So do the counts of the fit's own assignments.
    batch = full_batch(data)
    expected = model.annotators.expected_counts(
        result.guide.rate_statistics(), result.guide.infer(batch).assignments, batch.pages
    )
    torch.testing.assert_close(expected["accuracy"], counts, rtol=0.01, atol=0.01)
    torch.testing.assert_close(expected["habits"], pages, rtol=0.01, atol=0.01)


def mixture(data, clusters, **options):
    return SemiCrowdsourcedMixture(
        DirichletWeights(clusters),
        GaussianComponents(clusters, 2),
        Identity(),
        SortedPages(data.num_workers, **options),
    )


def crowd_of(seed, separation=5.0, workers=6, lumped=0.0, careless=0.0):
    """Items of four clusters, their sorted pages, the truth and the workers' accuracies."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(4, size=80)
    corners = separation * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    accuracy = rng.uniform(0.6, 1.0, workers)
    crowd = simulate_placements(
        truth,
        accuracy,
        pages_per_worker=3,
        page_size=20,
        lumped=lumped,
        careless=careless,
        seed=seed,
    )
    features = corners[truth] + rng.normal(size=(80, 2))
    return CrowdData(features, placements=crowd), truth, accuracy, crowd


OPTIONS = {"batch_size": None, "step_size": 0.7, "epochs": 25, "progress": False}


@pytest.mark.long
def test_intervals_of_accuracy_cover_and_those_of_pairs_do_not():
    inside = {"pages": [], "pairs": []}
    for seed in range(8):
        data, _, accuracy, _ = crowd_of(seed)
        model = mixture(data, 4)
        options = OPTIONS | {"dtype": torch.float64}
        workers = fit(model, MessagePassingGuide(model), data, **options).workers
        lower, upper = workers["accuracy_lower"], workers["accuracy_upper"]
        inside["pages"].append((lower < accuracy) & (accuracy < upper))
        # The sensitivity that follows from the accuracy of placements.
        sensitivity = accuracy**2 + (1 - accuracy) ** 2 / 3
        pairs = data.as_pairs()
        model = SemiCrowdsourcedMixture(
            DirichletWeights(4), GaussianComponents(4, 2), Identity(), TwoCoin(6)
        )
        workers = fit(model, MessagePassingGuide(model), pairs, **options).workers
        lower, upper = workers["sensitivity_lower"], workers["sensitivity_upper"]
        inside["pairs"].append((lower < sensitivity) & (sensitivity < upper))
    assert np.mean(inside["pages"]) > 0.8
    assert np.mean(inside["pairs"]) < 0.7


def test_lumped_and_careless_pages_are_found():
    data, truth, _, crowd = crowd_of(3, lumped=0.25, careless=0.15)
    model = mixture(data, 6)
    result = fit(model, MessagePassingGuide(model), data, **OPTIONS, callbacks=[MergeMoves()])
    assert clustering_report(truth, result.assignments)["accuracy"] == 1
    state = crowd.groupby("page")["state"].first()
    assert state.value_counts().min() >= 2
    found = result.pages[list(PAGE_STATES)].idxmax(axis=1)
    assert (found == state).mean() > 0.85
    assert result.pages.loc[state == "lumped", "lumped_pairs"].min() > 1
    assert result.pages.loc[state == "sorted", "lumped_pairs"].max() < 1


@pytest.mark.long
def test_pages_by_minibatches_and_from_a_file(tmp_path):
    data, truth, accuracy, _ = crowd_of(0)
    model = mixture(data, 4)
    options = {"answer_sampling": AnswerSampling(3 * 190), "epochs": 30, "progress": False}
    result = fit(model, MessagePassingGuide(model), data, **options)
    assert clustering_report(truth, result.assignments)["accuracy"] == 1
    assert np.abs(result.workers["accuracy"] - accuracy).max() < 0.15
    result.save(tmp_path / "pages.safetensors")
    loaded = load(tmp_path / "pages.safetensors")
    pd.testing.assert_frame_equal(loaded.pages, result.pages)
    assert loaded.data.pages.equals(data.pages)
    # The doubt about the clusters is drawn with the features, which are not in the file.
    own, rates = ["accuracy", "weight"], load(tmp_path / "pages.safetensors", data=data).workers
    pd.testing.assert_frame_equal(rates, result.workers)
    pd.testing.assert_frame_equal(loaded.workers[own], rates[own])
    assert (loaded.workers["accuracy_sd"] <= rates["accuracy_sd"]).all()


def test_a_checkpoint_goes_on_as_if_never_stopped(tmp_path):
    data, *_ = crowd_of(1)
    model = mixture(data, 4)
    guide = MessagePassingGuide(model)
    options = {"answer_sampling": AnswerSampling(600), "progress": False, "seed": 3}
    whole = fit(model, guide, data, epochs=6, **options)
    path = tmp_path / "checkpoint"
    fit(model, guide, data, epochs=3, checkpoint=path, **options)
    resumed = fit(model, guide, data, epochs=6, checkpoint=path, **options)
    np.testing.assert_array_equal(resumed.probabilities, whole.probabilities)
    assert resumed.elbo == whole.elbo


@pytest.mark.long
def test_amortized_assignments_learn_from_pages():
    data, truth, accuracy, _ = crowd_of(2)
    features = (data.features - data.features.mean(0)) / data.features.std(0)
    data = CrowdData(features, placements=data.pages)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(6),
        GaussianComponents(6, 2),
        NormalEmission(SkipMLP((2, 16, 2)), 2),
        SortedPages(6),
    )
    guide = AmortizedGuide(
        model, AmortizedRecognition((2, 16), 2, 6), recognition_term=RecognitionTerm(5.0)
    )
    result = fit(
        model,
        guide,
        data,
        epochs=100,
        callbacks=[MergeMoves()],
        batch_size=None,
        optim=lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
        progress=False,
    )
    assert clustering_report(truth, result.assignments)["accuracy"] > 0.95
    assert np.abs(result.workers["accuracy"] - accuracy).max() < 0.25
    assert result.workers["accuracy_sd"].isna().all()


def test_the_short_form_takes_sorted_pages_for_what_they_are():
    data, truth, *_ = crowd_of(0)
    parts = {"num_clusters": 6, "components": GaussianComponents}
    result = cluster(data.features, data.as_pairs().pairs, **parts, progress=False)
    assert isinstance(result.model.annotators, SortedPages)
    assert result.data.placements is not None
    assert clustering_report(truth, result.assignments)["accuracy"] == 1
    assert result.pages["misplaced"].sum() > 0


@pytest.mark.parametrize(
    ("annotators", "convert", "reason"),
    [
        (TwoCoin, CrowdData.as_placements, "build the model with SortedPages"),
        (SortedPages, CrowdData.as_pairs, r"pass data.as_placements\(\)"),
    ],
)
def test_a_model_of_the_other_kind_of_answers_is_refused(annotators, convert, reason):
    data = convert(crowd_of(0)[0])
    model = SemiCrowdsourcedMixture(
        DirichletWeights(4), GaussianComponents(4, 2), Identity(), annotators(6)
    )
    with pytest.raises(ValueError, match=reason):
        fit(model, MessagePassingGuide(model), data, epochs=1, progress=False)


@pytest.mark.long
def test_a_simulation_of_the_model_has_its_states_and_accuracy():
    data, *_ = crowd_of(0)
    batch = full_batch(data)
    annotators = SortedPages(6, accuracy=(1e6, 1e5), habits=(6e5, 3e5, 1e5))

    def simulated(batch):
        with FullPlate("items", 80):
            weights = torch.zeros(4, dtype=torch.float64)
            z = pyro.sample("z", Assignment(weights))
        sample_answers(annotators, z, batch)

    states, right, free = [], [], []
    for seed in range(40):
        pyro.set_rng_seed(seed)
        trace = poutine.trace(poutine.uncondition(simulated)).get_trace(batch)
        value = {name: site["value"] for name, site in trace.nodes.items() if "value" in site}
        state, pages = value["page_state"].argmax(-1), batch.pages
        states.append(state)
        # Clusters have homes on the pages on which they have items, and nowhere else.
        on_page = torch.zeros(pages.num_pages, 4, dtype=torch.bool)
        on_page[pages.page, value["z"].argmax(-1)[pages.row]] = True
        assert torch.equal(value["home"].any(-1), on_page.unsqueeze(1).expand(-1, 2, -1))
        homes = value["home"][torch.arange(len(state)), state.clamp(max=1)]
        own = homes[pages.page, value["z"].argmax(-1)[pages.row]].argmax(-1) - 1
        own = torch.where(own < 0, pages.num_groups[pages.page], own)
        attentive = state[pages.page] < 2
        right.append((own == value["group"])[attentive].double())
        free.append((value["group"] == 0)[~attentive].double())
    shares = torch.cat(states).bincount(minlength=3) / torch.cat(states).numel()
    torch.testing.assert_close(shares, torch.tensor([0.6, 0.3, 0.1]), atol=0.05, rtol=0)
    assert float(torch.cat(right).mean()) == pytest.approx(10 / 11, abs=0.01)
    assert float(torch.cat(free).mean()) == pytest.approx(0.2, abs=0.03)


def test_worker_tables_hold_marginals_of_the_posteriors():
    data, *_ = crowd_of(0)
    model = mixture(data, 4)
    result = fit(model, MessagePassingGuide(model), data, **OPTIONS)
    pages = result.guide.posteriors["habits"].standard().concentration.numpy()
    lumped = beta(pages[:, 1], pages.sum(1) - pages[:, 1])
    np.testing.assert_allclose(result.workers["lumped"], lumped.mean())
    own = result.guide.workers()  # the table has the deviations of draws
    np.testing.assert_allclose(own.rates["lumped"].upper, lumped.ppf(0.95))
    log_odds = result.guide.rate_statistics()["accuracy"]
    np.testing.assert_allclose(result.workers["weight"], log_odds[:, 0] - log_odds[:, 1])
    counts = result.guide.posteriors["accuracy"].standard()
    variance = sum(torch.polygamma(1, count) for count in counts)
    np.testing.assert_allclose(own.weight_sd, variance.sqrt())


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"habits": (8.0, 0.5, 1.0)}, "at least 1")],
)
def test_impossible_priors_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        SortedPages(2, **options)


@pytest.mark.long
def test_arviz_has_the_workers_and_the_placements():
    data, *_ = crowd_of(0)
    model = mixture(data, 4)
    result = fit(model, MessagePassingGuide(model), data, **OPTIONS)
    tree = to_arviz(result, num_draws=30)
    posterior = tree["posterior"]
    assert posterior["accuracy"].dims == ("chain", "draw", "worker")
    assert posterior["habits"].dims == ("chain", "draw", "worker", "page_state")
    assert posterior["page_state"].values.tolist() == list(PAGE_STATES)
    drawn = posterior["accuracy"].mean(("chain", "draw")).values
    np.testing.assert_allclose(drawn, result.workers["accuracy"], atol=0.05)
    np.testing.assert_array_equal(tree["observed_data"]["groups"], data.pages["group"])
    np.testing.assert_array_equal(tree["constant_data"]["item_of_placement"], data.pages["item"])
