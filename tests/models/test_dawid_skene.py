"""Models of class labels without features against a looped twin, brute force and conjugacy."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial

import numpy as np
import pandas as pd
import pyro
import pytest
import scipy.stats
import torch
from pyro.infer import Trace_ELBO
from scipy.special import digamma, gammaln
from torch import Tensor, nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import (
    AnswerSources,
    ClassStates,
    CommunityConfusion,
    ConfusionMatrices,
    Habit,
    OneCoin,
    Truth,
)
from pyro_crowdclust.annotators.learned_rows import LearnedRows
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.training import NaturalGradient, RobbinsMonro

from ..crowds import fit_plain
from ..oracles import random_natural

NUM_WORKERS = 3
ANNOTATORS = {
    "confusion": lambda classes: ConfusionMatrices(NUM_WORKERS, classes, 2.0, 1.5),
    "one_coin": lambda classes: OneCoin(NUM_WORKERS, classes, (2.5, 1.2)),
    "community": lambda classes: CommunityConfusion(NUM_WORKERS, classes, 2),
    "sources": lambda classes: AnswerSources(
        [
            Truth(NUM_WORKERS, classes),
            Habit(NUM_WORKERS, classes),
            ConfusionMatrices(NUM_WORKERS, classes, 2.0, 1.5),
        ]
    ),
}


def simulated(num_items: int, num_workers: int, num_classes: int, seed: int) -> pd.DataFrame:
    """Every worker labels two thirds of the items, some well and some badly."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(num_classes, size=num_items)
    rows = []
    for worker in range(num_workers):
        accuracy = 0.9 if worker % 3 else 0.5
        for item in np.flatnonzero(rng.random(num_items) < 2 / 3):
            right = rng.random() < accuracy
            label = truth[item] if right else rng.integers(num_classes)
            rows.append((item, f"w{worker}", label))
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


def tiny() -> CrowdData:
    """Four items, one of them without labels, and every class somewhere."""
    rows = [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 2, 2), (2, 1, 0), (2, 2, 1), (2, 0, 1)]
    frame = pd.DataFrame(rows, columns=["item", "worker", "label"])
    return CrowdData(None, labels=frame, item_ids=range(4))


def problem(name: str) -> tuple[ClassLabelGuide, Batch]:
    """A guide with random posteriors, and a batch with weights of its own."""
    model = DawidSkene(ANNOTATORS[name](3))
    guide = ClassLabelGuide(model)
    for posterior in guide.posteriors.values():
        plate = posterior.natural_parameters.shape[:-1]
        posterior.set_natural_parameters(random_natural(posterior.family, *plate))
    batch = full_batch(tiny())
    batch.item_weight.copy_(0.5 + torch.rand(4))
    return guide, batch


def elbo_of(guide: nn.Module, batch: Batch) -> Tensor:
    return -Trace_ELBO().differentiable_loss(guide.model, guide, batch)


def dirichlet_kl(q: np.ndarray, p: np.ndarray) -> float:
    mean = digamma(q) - digamma(q.sum())
    normalizer = [gammaln(a).sum() - gammaln(a.sum()) for a in (q, p)]
    return (q - p) @ mean - normalizer[0] + normalizer[1]


def expected_log(alpha: np.ndarray) -> np.ndarray:
    return digamma(alpha) - digamma(alpha.sum())


def natural(guide: ClassLabelGuide, name: str) -> np.ndarray:
    return guide.posteriors[name].natural_parameters.detach().numpy()


def learned(rows: LearnedRows) -> np.ndarray:
    return rows.concentration()[0, 0].detach().numpy()


def cost_of_concentrations(rows: LearnedRows) -> float:
    concentration = rows.concentration().detach().numpy()
    shape, rate = rows.concentration_prior
    return -float(scipy.stats.gamma(shape, scale=1 / rate).logpdf(concentration).sum())


def log_gamma_and_kl(guide: ClassLabelGuide, name: str) -> tuple[np.ndarray, float]:
    """E[log gamma] of every worker, class and label, and what the workers' sites cost, by loops."""
    annotators = guide.model.annotators
    classes = annotators.num_classes
    log_gamma = np.empty((NUM_WORKERS, classes, classes))
    cost = 0.0
    for j in range(NUM_WORKERS):
        for k in range(classes):
            if name == "confusion" or name == "sources":
                alpha = natural(guide, "confusion")[j * classes + k] + 1
                log_gamma[j, k] = expected_log(alpha)
                prior = np.full(classes, 1.5 / (classes - 1))
                prior[k] = 2.0
                cost += dirichlet_kl(alpha, prior)
            elif name == "one_coin":
                right, wrong = expected_log(natural(guide, "accuracy")[j] + 1)
                for label in range(classes):
                    log_gamma[j, k, label] = right if label == k else wrong - np.log(classes - 1)
            else:
                alpha = natural(guide, "confusion")[j * classes + k] + 1
                log_gamma[j, k] = expected_log(alpha)
                logits = natural(guide, "community")[j]
                share = np.exp(logits - logits.max())
                share /= share.sum()
                concentration = annotators.concentration().detach().numpy()
                # E over the community of log q - log p.
                for c in range(2):
                    cost += share[c] * dirichlet_kl(alpha, concentration[c, k])
        if name == "one_coin":
            cost += dirichlet_kl(natural(guide, "accuracy")[j] + 1, np.array([2.5, 1.2]))
        elif name == "sources":
            shares, habits = (natural(guide, site)[j] + 1 for site in ("sources", "habit"))
            truth, habit, confusion = expected_log(shares)
            for k, label in itertools.product(range(classes), repeat=2):
                terms = [habit + expected_log(habits)[label], confusion + log_gamma[j, k, label]]
                terms += [truth] if k == label else []
                log_gamma[j, k, label] = np.logaddexp.reduce(terms)
            cost += dirichlet_kl(shares, learned(annotators.shares))
            cost += dirichlet_kl(habits, learned(annotators.parts[1].rows))
        elif name == "community":
            logits = natural(guide, "community")[j]
            share = np.exp(logits) / np.exp(logits).sum()
            log_rho = expected_log(natural(guide, "communities") + 1)
            cost += share @ (np.log(share) - log_rho)
    if name == "community":
        cost += dirichlet_kl(natural(guide, "communities") + 1, np.ones(2))
        cost += cost_of_concentrations(annotators.rows)
    if name == "sources":
        cost += cost_of_concentrations(annotators.shares)
        cost += cost_of_concentrations(annotators.parts[1].rows)
    return log_gamma, cost


@pytest.mark.parametrize("name", ANNOTATORS)
def test_elbo_is_that_of_a_looped_twin(name):
    guide, batch = problem(name)
    log_gamma, cost = log_gamma_and_kl(guide, name)
    classes = guide.model.num_clusters
    alpha = natural(guide, "weights") + 1
    log_theta = expected_log(alpha)
    elbo = -cost - dirichlet_kl(alpha, np.ones(classes))
    labels = batch.class_labels
    for i in range(4):
        logits = log_theta.copy()
        for item, worker, label in zip(labels.item, labels.worker, labels.label, strict=True):
            if item == i:
                logits += log_gamma[worker, :, label]
        q = np.exp(logits - logits.max())
        q /= q.sum()
        elbo += float(batch.item_weight[i]) * (q @ (logits - np.log(q)))
        np.testing.assert_allclose(guide.infer(batch).assignments[i], q, rtol=1e-10)
    np.testing.assert_allclose(elbo_of(guide, batch).item(), elbo, rtol=1e-10)


def posterior_given(data: CrowdData, q: np.ndarray, right: float, wrong: float) -> np.ndarray:
    classes = data.num_classes
    counts = np.full((data.num_workers, classes, classes), wrong / (classes - 1))
    for k in range(classes):
        counts[:, k, k] = right
    for item, worker, label in data.labels.itertuples(index=False):
        counts[worker, :, label] += q[item]
    return counts


def test_a_natural_step_is_the_conjugate_posterior_given_the_classes():
    guide, _ = problem("confusion")
    data = tiny()
    batch = full_batch(data)
    q = guide.infer(batch).assignments.numpy()
    (-elbo_of(guide, batch)).backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()
    confusion = natural(guide, "confusion").reshape(3, 3, 3) + 1
    np.testing.assert_allclose(confusion, posterior_given(data, q, 2.0, 1.5), rtol=1e-10)
    np.testing.assert_allclose(natural(guide, "weights") + 1, 1 + q.sum(0), rtol=1e-10)


def log_evidence(data: CrowdData, right: float, wrong: float) -> float:
    """Log of the sum over all assignments, globals integrated out in closed form."""
    classes, total = data.num_classes, -np.inf

    def log_normalizer(alpha: np.ndarray) -> float:
        return float((gammaln(alpha).sum(-1) - gammaln(alpha.sum(-1))).sum())

    nothing = np.zeros((data.num_items, classes))
    prior = log_normalizer(posterior_given(data, nothing, right, wrong))
    prior += log_normalizer(np.ones(classes))
    for assignment in itertools.product(range(classes), repeat=data.num_items):
        z = np.eye(classes)[list(assignment)]
        posterior = log_normalizer(posterior_given(data, z, right, wrong))
        posterior += log_normalizer(1 + z.sum(0))
        total = np.logaddexp(total, posterior - prior)
    return total


def ascend(guide: ClassLabelGuide, batch: Batch, steps: int) -> list[float]:
    elbos = []
    optimizer = NaturalGradient(guide.posteriors.values(), 1.0)
    for _ in range(steps):
        guide.zero_grad()
        loss = -elbo_of(guide, batch)
        loss.backward()
        optimizer.step()
        elbos.append(-loss.item())
    return elbos


@pytest.mark.parametrize("name", ["confusion", "one_coin", "sources"])
def test_coordinate_ascent_never_lowers_the_elbo(name):
    guide, batch = problem(name)
    elbos = np.array(ascend(guide, batch, 30))
    assert (np.diff(elbos) > -1e-10).all()
    assert elbos[-1] > elbos[0] + 0.1


def test_elbo_is_below_the_evidence_summed_over_all_assignments_and_near_it():
    guide, _ = problem("confusion")
    data = tiny()
    elbo = ascend(guide, full_batch(data), 60)[-1]
    evidence = log_evidence(data, 2.0, 1.5)
    assert evidence - 2.0 < elbo < evidence


def run(data: CrowdData, annotators: nn.Module | None = None, **options: object):
    annotators = annotators or ConfusionMatrices(data.num_workers, data.num_classes)
    model = DawidSkene(annotators)
    options = {"batch_size": None, "step_size": 1.0, "epochs": 60, "progress": False} | options
    return fit(model, ClassLabelGuide(model), data, **options)


@pytest.mark.long
def test_minibatches_reach_the_elbo_of_coordinate_ascent():
    data = CrowdData(None, labels=simulated(60, 6, 3, seed=0))
    whole = run(data)
    parts = run(data, batch_size=15, epochs=60, step_size=RobbinsMonro(0.5, 20.0, 0.9))
    assert (np.diff(whole.history["elbo"]) > -1e-8).all()
    assert whole.elbo == pytest.approx(parts.elbo, abs=0.02)
    np.testing.assert_allclose(whole.probabilities, parts.probabilities, atol=0.02)


def test_training_starts_at_the_majority_vote():
    data = tiny()
    guide = ClassLabelGuide(DawidSkene(ConfusionMatrices(3, 3, 2.0, 1.5)))
    guide.start(data, torch.Generator().manual_seed(0))
    votes = full_batch(data).class_labels.votes().numpy()
    q = votes / votes.sum(1, keepdims=True).clip(1)
    confusion = natural(guide, "confusion").reshape(3, 3, 3) + 1
    np.testing.assert_allclose(confusion, posterior_given(data, q, 2.0, 1.5), atol=1e-8)
    assert all(parameter.grad is None for parameter in guide.parameters())


def test_a_start_from_some_items_counts_for_all(monkeypatch):
    """Half of the labelled items, and the posteriors of twice as many."""
    data = CrowdData(None, labels=simulated(40, 6, 3, seed=1), item_ids=range(45))
    labelled = len(data.class_labels.labelled_items)
    monkeypatch.setattr("pyro_crowdclust.guides.class_labels._START_ITEMS", 20)
    guide = ClassLabelGuide(DawidSkene(ConfusionMatrices(6, 3, 2.0, 1.5)))
    guide.start(data, torch.Generator().manual_seed(0))
    weights = natural(guide, "weights") + 1
    assert weights.sum() == pytest.approx(3 + labelled)
    confusion = natural(guide, "confusion") + 1
    chosen = torch.randperm(labelled, generator=torch.Generator().manual_seed(0))[:20]
    items = data.class_labels.labelled_items[chosen]
    answers = int(torch.isin(data.class_labels.item, items).sum())
    assert confusion.sum() == pytest.approx(6 * 3 * 3.5 + answers * labelled / 20)


@pytest.mark.long
@pytest.mark.parametrize(("workers", "raises"), [(12, False), (60, True)])
def test_communities_learn_their_priors(workers, raises):
    """The ELBO pays for every concentration, which many workers make worth it and a few do not."""
    data = CrowdData(None, labels=simulated(80, workers, 3, seed=1))
    adam = partial(torch.optim.Adam, lr=0.1)
    annotators = CommunityConfusion(workers, 3, 2)
    result = run(data, annotators, step_size=0.5, epochs=150, optim=adam)
    assert (result.elbo > run(data).elbo) == raises
    learned = result.model.annotators.concentration()
    assert bool(((learned - annotators.concentration()).abs() > 0.1).any())
    community = result.guide.posteriors["community"].mean().argmax(-1)
    # Worker codes are sorted as strings: w0, w1, w10, w11, w2, ...
    bad = torch.tensor([int(worker[1:]) % 3 == 0 for worker in data.worker_ids])
    assert len(community[~bad].unique()) == 1
    if workers == 12:
        assert len(community[bad].unique()) == 1
        assert (community[~bad] != community[bad][0]).all()


def test_confusion_matrices_come_back_with_the_users_ids_and_intervals():
    frame = simulated(60, 6, 3, seed=2)
    frame["label"] = frame["label"].map({0: "no", 1: "yes", 2: "maybe"})
    result = run(CrowdData(None, labels=frame))
    table = result.confusion
    assert table.index.names == ["worker", "class", "label"]
    rows = table["mean"].groupby(level=["worker", "class"]).sum()
    np.testing.assert_allclose(rows, 1)
    assert (table["lower"] < table["mean"]).all()
    assert (table["mean"] < table["upper"]).all()
    right = table["mean"].loc[("w1", "yes", "yes")]
    assert right > 0.75
    assert table["mean"].loc[("w0", "yes", "yes")] < right
    assert result.class_probabilities.columns.tolist() == ["maybe", "no", "yes"]
    assert result.class_probabilities.index.tolist() == sorted(frame["item"].unique())


def test_one_coin_confusion_is_even_over_wrong_labels():
    result = run(CrowdData(None, labels=simulated(60, 6, 3, seed=2)), OneCoin(6, 3))
    wrong = result.confusion["mean"].loc["w1", 0]
    assert wrong[1] == pytest.approx(wrong[2])
    assert wrong.sum() == pytest.approx(1)


def test_an_item_without_labels_and_a_worker_with_one():
    frame = simulated(40, 4, 3, seed=4)
    frame.loc[len(frame)] = (0, "rare", 1)
    result = run(CrowdData(None, labels=frame, item_ids=range(41)))
    weights = result.guide.posteriors["weights"].mean().exp()
    np.testing.assert_allclose(result.probabilities[40], weights / weights.sum(), atol=1e-6)
    width = (result.confusion["upper"] - result.confusion["lower"]).groupby("worker").mean()
    assert width["rare"] > width.drop("rare").max()


def test_a_class_that_nobody_chose_keeps_a_small_probability():
    with pytest.warns(UserWarning, match="class 9 is in no answer"):
        data = CrowdData(None, labels=simulated(40, 4, 3, seed=5), classes=[0, 1, 2, 9])
    probability = run(data).class_probabilities[9]
    assert 0 < probability.max() < 0.1


def test_permuted_ids_give_permuted_results():
    frame = simulated(40, 5, 3, seed=6)
    other = frame.assign(
        item=100 - frame["item"], worker=frame["worker"].str[::-1], label=2 - frame["label"]
    ).sample(frac=1, random_state=0)
    first, second = run(CrowdData(None, labels=frame)), run(CrowdData(None, labels=other))
    assert first.elbo == pytest.approx(second.elbo, abs=1e-8)
    moved = second.class_probabilities.iloc[::-1, ::-1].to_numpy()
    np.testing.assert_allclose(first.probabilities, moved, atol=1e-8)


def test_the_model_simulates():
    batch = full_batch(tiny())
    model = pyro.poutine.uncondition(DawidSkene(ConfusionMatrices(3, 3, 1e7, 1.0)))
    trace = pyro.poutine.trace(model).get_trace(batch)
    drawn = trace.nodes["labels"]["value"]
    # Workers who are never wrong say what the class is.
    assert torch.equal(drawn, trace.nodes["z"]["value"].argmax(-1)[batch.class_labels.item])
    assert torch.isfinite(trace.log_prob_sum())


@pytest.mark.parametrize(
    ("annotators", "message"),
    [
        (lambda: ConfusionMatrices(4, 3), "the annotators have 4 workers, but the data 3"),
        (lambda: ConfusionMatrices(3, 4), "the annotators have 4 classes, but the data 3"),
        (lambda: ConfusionMatrices(3, 1), "need at least 1 worker and 2 classes"),
        (lambda: ConfusionMatrices(3, 3, wrong=0.0), "both must be above 0"),
    ],
)
def test_annotators_that_do_not_fit(annotators, message):
    with pytest.raises(ValueError, match=message):
        run(tiny(), annotators())


def test_data_without_class_labels():
    model = DawidSkene(ConfusionMatrices(3, 3))
    with pytest.raises(ValueError, match=r"no class labels.*CrowdData\(labels=frame\)"):
        fit(model, ClassLabelGuide(model), CrowdData(np.eye(3)), progress=False)


def test_results_without_class_labels_say_so():
    result = run(tiny())
    object.__setattr__(result, "data", CrowdData(None, item_ids=range(4)))
    with pytest.raises(ValueError, match="no class labels"):
        _ = result.class_probabilities


def test_classes_are_read_with_the_rates_of_other_items_integrated_out():
    """Draws of the workers, as they are known without an item's own labels, say the same of it."""
    said = {"item": [0, 0, 1, 1, 2], "worker": list("ababa"), "label": [0, 1, 1, 1, 2]}
    data = CrowdData(None, labels=said)
    model = DawidSkene(ConfusionMatrices(2, 3))
    plain = fit_plain(model, ClassLabelGuide(model), data, epochs=9)
    read = dataclasses.replace(plain, guide=plain.guide.read_at(1.0, moderated=True))
    again = fit_plain(model, ClassLabelGuide(model, moderated=True), data, epochs=9)
    assert again.elbo == plain.elbo
    np.testing.assert_allclose(again.probabilities, read.probabilities)
    alpha = plain.guide.posteriors["confusion"].standard().concentration.view(2, 3, 3)
    shares = model.weights.log_weights(plain.guide.posteriors["weights"].mean()).exp()
    answers = [("ab".index(who), i, label) for i, who, label in zip(*said.values(), strict=True)]
    for item in range(3):
        own = [(who, label) for who, place, label in answers if place == item]
        known = alpha.clone()
        for who, label in own:
            known[who, :, label] -= torch.tensor(plain.probabilities[item])
        drawn = torch.distributions.Dirichlet(known).sample((200_000,))
        joint = shares.expand(len(drawn), -1)
        for who, label in own:
            joint = joint * drawn[:, who, :, label]
        expected = joint.mean(0) / joint.mean(0).sum()
        np.testing.assert_allclose(read.probabilities[item], expected, atol=5e-3)
    assert read.probabilities.max() < plain.probabilities.max()
    states = DawidSkene(ClassStates(2, 3))
    with pytest.raises(
        ValueError, match="moderated is not possible with ClassStates.* leave out moderated"
    ):
        ClassLabelGuide(states, moderated=True)


@pytest.mark.parametrize("moderated", [False, True])
def test_labels_count_as_sharply_as_is_asked(moderated):
    """q(y) is the shares, shifted, times the evidence of each label to the power of its worker."""
    said = {"item": [0, 0, 1, 1, 2], "worker": list("ababa"), "label": [0, 1, 1, 1, 2]}
    data = CrowdData(None, labels=said)
    model = DawidSkene(ConfusionMatrices(2, 3))
    plain = fit_plain(model, ClassLabelGuide(model, moderated=moderated), data, epochs=9)
    weights, shift = (0.3, 0.8), (0.0, -0.5, 1.0)
    guide = plain.guide.read_at(1.0, evidence_weights=weights, class_shift=shift)
    read = dataclasses.replace(plain, guide=guide)
    assert read.elbo == plain.elbo
    alpha = guide.posteriors["confusion"].standard().concentration.view(2, 3, 3).numpy()
    shares = model.weights.log_weights(guide.posteriors["weights"].mean()).numpy()
    answers = [("ab".index(who), i, label) for i, who, label in zip(*said.values(), strict=True)]
    log_rows = digamma(alpha) - digamma(alpha.sum(-1, keepdims=True))
    prior = 3 * np.eye(3) + 1  # four right answers, two wrong ones
    for item in range(3):
        own = [(who, label) for who, place, label in answers if place == item]
        counted = shares + sum(weights[who] * log_rows[who, :, label] for who, label in own)
        counted = np.exp(counted) / np.exp(counted).sum()
        logits = shares + np.array(shift)
        for who, label in own:
            found = log_rows[who, :, label]
            if moderated:
                # What was counted under other classes may exceed what the label added.
                left = np.maximum(alpha[who, :, label] - counted, prior[:, label])
                found = np.log(left / np.maximum(alpha[who].sum(-1) - counted, prior.sum(-1)))
            logits = logits + weights[who] * found
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(read.probabilities[item], expected, rtol=1e-9)
    same = plain.guide.read_at(1.0, evidence_weights=(1.0, 1.0), class_shift=(0.0,) * 3)
    same = dataclasses.replace(plain, guide=same).probabilities
    np.testing.assert_allclose(same, plain.probabilities, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"evidence_weights": [1.0]}, "evidence_weights is .* at least 0 for each of 2 workers"),
        ({"evidence_weights": [1.0, -1.0]}, "evidence_weights is .* leave it out"),
        ({"class_shift": [0.0, np.inf, 0.0]}, "class_shift is .* finite number for each of 3 clas"),
    ],
)
def test_readings_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        ClassLabelGuide(DawidSkene(ConfusionMatrices(2, 3)), **options)
    states = DawidSkene(ClassStates(2, 3))
    with pytest.raises(ValueError, match="evidence_weights is not possible with ClassStates"):
        ClassLabelGuide(states, evidence_weights=[1.0, 1.0])
    two = ClassLabelGuide(DawidSkene(ConfusionMatrices(2, 3)), evidence_weights=[1.0, 1.0])
    with pytest.raises(ValueError, match="numbers for 2 workers, but the data have 3"):
        two.check(tiny())


def test_moderated_labels_count_what_their_workers_are_worth():
    said = {"item": [0, 0, 1], "worker": list("aba"), "label": [0, 1, 1]}
    data, worker_weights = (
        CrowdData(None, labels=said),
        torch.tensor([1.0, 0.5], dtype=torch.float64),
    )
    model = DawidSkene(ConfusionMatrices(2, 2, worker_weights=worker_weights.tolist()))
    result = fit_plain(model, ClassLabelGuide(model, moderated=True), data, epochs=30)
    plain = dataclasses.replace(result, guide=result.guide.read_at(1.0, moderated=False))
    alpha = result.guide.posteriors["confusion"].standard().concentration.view(2, 2, 2)
    evidence = 0.0
    for who, label in ((0, 0), (1, 1)):
        own = worker_weights[who] * torch.tensor(plain.probabilities[0])
        share = (alpha[who, :, label] - own) / (alpha[who].sum(-1) - own)
        evidence = evidence + worker_weights[who] * share.log()
    weights = model.weights.log_weights(result.guide.posteriors["weights"].mean())
    np.testing.assert_allclose(result.probabilities[0], (weights + evidence).softmax(-1))
