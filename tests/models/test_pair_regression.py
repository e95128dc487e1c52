"""PairRegression: its bound against brute force, its messages, and what it predicts."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial

import numpy as np
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from scipy.special import betaln, log_softmax

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import SortedPages, TwoCoin
from pyro_crowdclust.emissions import Standardized
from pyro_crowdclust.guides import DrawnStart, PairRegressionGuide, pair_regression
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import SoftmaxRegression
from pyro_crowdclust.mixture.softmax_regression import with_one
from pyro_crowdclust.models import PairRegression
from pyro_crowdclust.results import known_class_probabilities
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements
from pyro_crowdclust.supervision import CertainLinks, ClassTable, HiddenMarkovField
from pyro_crowdclust.training import NaturalGradient
from pyro_crowdclust.transforms import NoCoordinates

OPTIONS = {"batch_size": None, "step_size": 0.5, "epochs": 25, "progress": False}
ANSWERS = [(0, 1, 1), (1, 2, 0), (0, 2, 0), (2, 3, 1)]


@pytest.fixture(autouse=True, scope="module")
def _few_draws():
    """Of partitions by the answers alone, at some of which fits begin; enough here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyro_crowdclust.guides.answer_draws._STEPS", 12)
        yield


def tiny(**experts) -> CrowdData:
    """Five items on a line, two kinds, one worker, who was not asked about the last."""
    left, right, label = map(list, zip(*ANSWERS, strict=True))
    pairs = {"left": left, "right": right, "worker": ["a"] * len(ANSWERS), "label": label}
    return CrowdData(np.array([[-1.0], [-0.8], [0.9], [1.2], [-0.5]]), pairs, **experts)


LABELS = {"known": [None, None, "y", None, "x"]}
LINKS = {
    "must_link": {"left": [3], "right": [4]},
    "cannot_link": {"left": [0], "right": [3]},
}
# What experts say, and the supervision that uses it.
EXPERTS = {
    "nobody": ({}, lambda: None),
    "labels": (LABELS, lambda: ClassTable(2, 2, concentration=1.0)),
    "links": (LINKS, lambda: CertainLinks(2, error=0.2)),
    "both": (LABELS | LINKS, lambda: CertainLinks(2, 0.2, ClassTable(2, 2, concentration=1.0))),
}


def log_said(data: CrowdData, z: tuple[int, ...]) -> float:
    """What the worker, labels and links say, under Dir(1/2, 1/2) classes and an error of .2."""
    said = np.zeros((2, 2))
    for left, right, label in ANSWERS:
        same = z[left] == z[right]
        said[int(same), int(label == same)] += 1
    total = sum(betaln(2 + right, 1 + wrong) - betaln(2, 1) for wrong, right in said)
    if data.known is not None:
        known, clusters = data.known.numpy(), np.array(z)
        for cluster in range(2):
            counts = np.bincount(known[(known >= 0) & (clusters == cluster)], minlength=2)
            total += betaln(*(0.5 + counts)) - betaln(0.5, 0.5)
    if data.links is not None:
        ends = zip(data.links.left.tolist(), data.links.right.tolist(), strict=True)
        for (left, right), must in zip(ends, data.links.must.tolist(), strict=True):
            total += np.log(0.8 if (z[left] == z[right]) == must else 0.2)
    return total


def log_evidence(data: CrowdData, scale: float, intercept_scale: float) -> float:
    """Sum over all z and a grid of the slopes and intercepts of two clusters."""
    grid = np.linspace(-4, 4, 13)
    slopes = np.array(list(itertools.product(grid * scale, repeat=2)))
    starts = np.array(list(itertools.product(grid * intercept_scale, repeat=2)))
    mass = np.exp(-0.5 * np.array(list(itertools.product(grid, repeat=2))) ** 2).prod(1)
    mass /= mass.sum()
    x = data.features[:, 0]
    scores = slopes[:, None, None, :] * x[:, None] + starts[None, :, None, :]
    log_p = log_softmax(scores, axis=-1)
    total = 0.0
    for z in itertools.product(range(2), repeat=len(x)):
        chosen = sum(log_p[:, :, item, cluster] for item, cluster in enumerate(z))
        prior = (np.exp(chosen) * mass[:, None] * mass[None, :]).sum()
        total += prior * np.exp(log_said(data, z))
    return float(np.log(total))


@pytest.mark.long
@pytest.mark.parametrize("experts", EXPERTS)
def test_the_elbo_rises_and_stays_below_the_evidence(experts):
    said, supervision = EXPERTS[experts]
    data = tiny(**said)
    regression = SoftmaxRegression(2, 1, scale=1.2, intercept_scale=0.8)
    workers = TwoCoin(1, (2.0, 1.0), (2.0, 1.0))
    model = PairRegression(regression, workers, supervision=supervision())
    guide = PairRegressionGuide(model, solver=LocalSolver(exchanges=40, damping=0.5))
    guide.start(data, torch.Generator())
    optimizer = NaturalGradient(guide.posteriors.values(), 0.5)
    elbos = []
    for _ in range(20):
        guide.zero_grad()
        loss = Trace_ELBO().differentiable_loss(model, guide, full_batch(data))
        loss.backward()
        optimizer.step()
        elbos.append(-loss.item())
    assert (np.diff(elbos) > -1e-6).all()
    evidence = log_evidence(data, 1.2, 0.8)
    assert evidence - 3.0 < elbos[-1] < evidence


@pytest.mark.long
@pytest.mark.parametrize(("kind", "size"), [("labels", None), ("labels", 50), ("links", None)])
def test_labels_and_links_of_items_that_nobody_was_asked_about_teach(kind, size, tmp_path):
    """A line through a cloud: answers are about one end of it, experts know the other.

    Of the answers alone .935 of the items are right.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    kinds = (x[:, 0] + x[:, 1] > 0).astype(int)
    asked, others = np.flatnonzero(x[:, 1] > 0.5), np.flatnonzero(x[:, 1] < -0.3)
    pairs = simulate_pairs(kinds, [0.9], [0.9], pairs_per_worker=60, items=asked, seed=0)
    if kind == "labels":
        names = [int(kinds[item]) if item in set(others) else None for item in range(200)]
        said = {"known": names}
        supervision = partial(ClassTable, 4, 2)
    else:
        order = rng.permutation(others)
        left, right = order[:-1], order[1:]
        must = kinds[left] == kinds[right]
        said = {
            "must_link": {"left": left[must], "right": right[must]},
            "cannot_link": {"left": left[~must], "right": right[~must]},
        }
        supervision = partial(CertainLinks, 4)
    data = CrowdData(x, pairs, **said)
    model = PairRegression(SoftmaxRegression(4, 2), TwoCoin(1), supervision=supervision())
    guide, options = PairRegressionGuide(model, num_items=200), OPTIONS | {"batch_size": size}
    result = fit(model, guide, data, seed=0, **options)
    assert clustering_accuracy(kinds, result.assignments) > 0.96
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=data)
    np.testing.assert_allclose(again.probabilities, result.probabilities, atol=1e-12)
    more = simulate_pairs(kinds, [0.9], [0.9], pairs_per_worker=40, items=others, seed=1)
    updated = again.update(more, progress=False)
    assert updated.data.num_pairs == 100
    assert clustering_accuracy(kinds, updated.assignments) > 0.96
    assert ("class_table" in again.to_arviz(num_draws=20).posterior) == (kind == "labels")
    if kind == "labels":
        assert (known_class_probabilities(again).argmax(1) == kinds).mean() > 0.96


@pytest.mark.long
def test_it_is_read_more_or_less_surely_and_trained_alike(tmp_path):
    """Predictions to a power, also of a file and in an update; what was trained is as it was."""
    data = tiny()
    model = PairRegression(SoftmaxRegression(2, 1), TwoCoin(1))
    options = OPTIONS | {"epochs": 3}
    plain = fit(model, PairRegressionGuide(model, num_items=5), data, seed=0, **options)
    guide = plain.guide.read_at(2.0)
    sure = dataclasses.replace(plain, guide=guide)
    expected = plain.probabilities[4] ** 2
    np.testing.assert_allclose(sure.probabilities[4], expected / expected.sum())
    again = fit(model, PairRegressionGuide(model, num_items=5, feature_weight=2.0), data, **options)
    assert again.elbo == plain.elbo
    np.testing.assert_array_equal(again.probabilities, sure.probabilities)
    sure.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=data)
    np.testing.assert_allclose(loaded.probabilities, sure.probabilities, atol=1e-12)
    more = {"left": [0], "right": [4], "worker": ["a"], "label": [1]}
    assert loaded.update(more, progress=False).guide.feature_weight == 2
    with pytest.raises(ValueError, match="feature_weight is 0"):
        guide.read_at(0)


def test_labels_that_no_part_uses_are_refused_and_so_is_a_field():
    regression, workers = SoftmaxRegression(2, 1), TwoCoin(1)
    model = PairRegression(regression, workers)
    with pytest.raises(ValueError, match="the model has no supervision that uses them"):
        model.check(tiny(**LABELS))
    field = HiddenMarkovField.of(tiny(**LABELS), 2)
    with pytest.raises(ValueError, match="a regression has none: use CertainLinks"):
        PairRegression(regression, workers, supervision=field)
    with pytest.raises(ValueError, match="2 clusters, but the supervision has 3"):
        PairRegression(regression, workers, supervision=CertainLinks(3))


def test_of_many_partitions_the_best_go_on(monkeypatch):
    """The best in the end is among them, so that the start is the same as if all went on."""
    steps, starts = [], []

    def counted(model, guide, batch, held, step_size):
        steps.append(len(held))
        return held_steps(model, guide, batch, held, step_size)

    held_steps = pair_regression.held_steps
    monkeypatch.setattr(pair_regression, "held_steps", counted)
    drawn = torch.tensor([[0, 0, 1, 1, 0], [0, 1, 0, 1, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
    data = tiny()
    for finalists in (2, 99):
        monkeypatch.setattr(pair_regression, "_FINALISTS", finalists)
        guide = PairRegressionGuide(PairRegression(SoftmaxRegression(2, 1), TwoCoin(1)))
        guide.start(data, torch.Generator().manual_seed(0), drawn=drawn)
        starts.append(guide.state_dict())
    number = steps.index(pair_regression._LAST_STEPS)
    assert number > len(drawn)
    assert steps == [8] * number + [7] * 2 + [8] * number + [7] * number
    for name, value in starts[0].items():
        torch.testing.assert_close(value, starts[1][name])


@pytest.mark.long
def test_it_starts_with_rates_counted_by_the_groups_that_answers_make(monkeypatch):
    """Groups of three and four; item 7 is in neither and may be in any of the clusters."""
    said = [(0, 1, 1), (1, 2, 1), (0, 2, 1), (3, 4, 1), (4, 5, 1), (5, 6, 1), (3, 6, 1)]
    said += [(3, 5, 1), (0, 3, 0), (1, 4, 0), (2, 5, 0), (2, 6, 0), (6, 7, 0), (2, 7, 0)]
    left, right, label = map(list, zip(*said, strict=True))
    pairs = {"left": left, "right": right, "worker": ["a"] * len(said), "label": label}
    workers = TwoCoin(1, (2.0, 1.0), (1.5, 0.7))
    model = PairRegression(SoftmaxRegression(3, 1), workers)
    for name in ("_HELD_STEPS", "_FIRST_STEPS"):
        monkeypatch.setattr(pair_regression, name, 25)
    guide = PairRegressionGuide(model, num_items=8)
    data = CrowdData(np.linspace(-1, 1, 8)[:, None], pairs)
    guide.start(data, torch.Generator())
    q = guide.infer(full_batch(data)).assignments.numpy()
    assert len({*q[:3].argmax(1)}) == len({*q[3:7].argmax(1)}) == 1
    assert q[0].argmax() != q[3].argmax()
    counts = {"sensitivity": np.array([2.0, 1.0]), "specificity": np.array([1.5, 0.7])}
    for one, other, yes in said:
        same = q[one] @ q[other]
        counts["sensitivity"][1 - yes] += same
        counts["specificity"][yes] += 1 - same
    for name, expected in counts.items():
        found = torch.cat(guide.posteriors[name].standard()).detach()
        np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.long
def test_answers_about_pairs_that_share_no_item_teach_what_tells_items_apart():
    """Three corners in the plane, beside six useless features; no item is in two pairs."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(0, 3, 1000)
    corners = 3.5 * np.array([[0, 0], [1, 0], [0, 1]])
    x = np.hstack([corners[kinds] + rng.normal(size=(1000, 2)), 3 * rng.normal(size=(1000, 6))])
    left, right = np.arange(0, 1000, 2), np.arange(1, 1000, 2)
    same = kinds[left] == kinds[right]
    label = np.where(rng.random(500) < 0.9, same, ~same).astype(int)
    data = CrowdData(x, {"left": left, "right": right, "worker": ["a"] * 500, "label": label})
    model = PairRegression(SoftmaxRegression(6, 8), TwoCoin(1, (2.0, 1.0), (2.0, 1.0)))
    guide = PairRegressionGuide(model)
    result = fit(model, guide, data, seed=0, **OPTIONS)
    assert clustering_accuracy(result.assignments, kinds) > 0.9
    rates = result.workers[["sensitivity", "specificity"]].to_numpy()
    np.testing.assert_allclose(rates, 0.9, atol=0.1)


def test_clusters_have_the_shares_and_the_middle_of_the_last_batch():
    data = tiny()
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5])
    batch = dataclasses.replace(full_batch(data), item_weight=weight)
    guide = PairRegressionGuide(PairRegression(SoftmaxRegression(2, 1), TwoCoin(1)))
    steep = guide.model.regression.prior.natural_parameters.clone()
    steep[:, 0] += torch.tensor([1.0, -2.0])
    guide.posteriors["coefficients"].set_natural_parameters(steep)
    q = poutine.trace(guide).get_trace(batch).nodes["z"]["value"].detach().numpy()
    found = guide.mixture()
    np.testing.assert_allclose(found.weights, np.average(q, axis=0, weights=weight))
    middle = [np.average(batch.features, axis=0, weights=weight.numpy() * own) for own in q.T]
    np.testing.assert_allclose(found.location, middle)
    with torch.no_grad():  # reading a result is no training
        guide(dataclasses.replace(batch, item_weight=torch.ones(5)))
    np.testing.assert_array_equal(guide.mixture().weights, found.weights)


def regions(num_items: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Three sectors of one cloud, which no Gaussian clusters are."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_items, 4))
    return x, (x @ rng.normal(size=(4, 3))).argmax(1)


def answered(x: np.ndarray, kinds: np.ndarray) -> CrowdData:
    rates = [0.9, 0.85, 0.8]
    pairs = simulate_pairs(kinds, rates, rates, pairs_per_worker=250, items=range(70), seed=0)
    return CrowdData(x, pairs)


@pytest.fixture(scope="module")
def fitted():
    x, kinds = regions()
    data = answered(50 + 10 * x, kinds)
    emission = Standardized(torch.full((4,), 50.0), torch.full((4,), 10.0))
    model = PairRegression(SoftmaxRegression(6, 4), TwoCoin(3), emission)
    return fit(model, PairRegressionGuide(model), data, **OPTIONS), kinds


def test_it_learns_regions_from_answers_about_a_few_items(fitted):
    result, kinds = fitted
    table = np.array([np.bincount(result.assignments[kinds == k], minlength=6) for k in range(3)])
    assert (table.max(1).sum() / len(kinds)) > 0.85
    assert len(set(table.argmax(1))) == 3
    x, _ = regions(400)
    assert (result.predict(50 + 10 * x[:300])[70:] == result.assignments[70:]).all()
    assert result.workers["weight"].between(1, 12).all()


def test_what_its_clusters_are_like_is_read_of_their_items(fitted):
    result, _ = fitted
    with pytest.raises(ValueError, match=r"no components .*groupby\(result\.assignments\)"):
        _ = result.components


@pytest.mark.long
def test_it_learns_regions_from_sorted_pages():
    x, kinds = regions()
    pages = simulate_placements(
        kinds, [0.9, 0.8], pages_per_worker=8, page_size=15, items=range(100), seed=0
    )
    data = CrowdData(x, placements=pages)
    model = PairRegression(SoftmaxRegression(6, 4), SortedPages(2))
    result = fit(model, PairRegressionGuide(model), data, **OPTIONS, seed=0)
    assert clustering_accuracy(kinds, result.assignments) > 0.9
    assert result.workers["accuracy"].iloc[0] > result.workers["accuracy"].iloc[1]
    assert result.history["elbo"].iloc[-1] > result.history["elbo"].iloc[0]


def test_clusters_that_are_not_needed_are_empty(fitted):
    result, _ = fitted
    assert (result.clusters["assigned_items"] > 0).sum() <= 4
    assert result.clusters["weight"].sum() == pytest.approx(1)


@pytest.mark.long
def test_items_without_answers_teach_nothing():
    x, kinds = regions()
    few, many = (answered(part, kinds[: len(part)]) for part in (x[:70], x))
    results = []
    for data in (few, many):
        model = PairRegression(SoftmaxRegression(3, 4), TwoCoin(3))
        guide = PairRegressionGuide(model)
        results.append(fit(model, guide, data, **OPTIONS))
    assert results[1].elbo == pytest.approx(results[0].elbo, abs=1e-6)
    alike, own = (result.component_probabilities for result in reversed(results))
    np.testing.assert_allclose(alike[:70], own, rtol=0, atol=1e-6)


def test_predictions_are_less_sure_far_from_what_was_asked(fitted):
    result, _ = fitted
    statistics = result.guide.posteriors["coefficients"].mean()
    regression = result.model.regression
    far = 3 * torch.randn(20, 4, dtype=torch.float64)
    plain, moderated = (
        log_p(statistics, far).exp().max(1).values
        for log_p in (regression.log_prediction, regression.log_moderated)
    )
    assert (moderated <= plain + 1e-9).all()
    assert (plain - moderated).max() > 0.01


def test_moderated_predictions_are_near_the_average_of_draws(fitted):
    result, _ = fitted
    regression, posterior = result.model.regression, result.guide.posteriors["coefficients"]
    mean, covariance = posterior.standard()
    root = torch.linalg.cholesky(covariance)
    phi = mean + (root @ torch.randn(4000, *mean.shape, 1, dtype=mean.dtype)).squeeze(-1)
    x = torch.randn(10, 4, dtype=torch.float64)
    scores = with_one(x) @ phi.mT
    drawn = scores.softmax(-1).mean(0)
    ours = regression.log_moderated(posterior.mean(), x).exp()
    assert (ours - drawn).abs().max() < 0.05


def test_known_labels_alone_teach(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    side = (x.sum(1) > 0).astype(int)
    data = CrowdData(x, known=[*side[:20], *[None] * 60])
    model = PairRegression(SoftmaxRegression(2, 2), None, supervision=ClassTable.of(data, 2))
    guide = PairRegressionGuide(model, num_items=80)
    result = fit(model, guide, data, epochs=30, batch_size=None, step_size=0.5, progress=False)
    assert (known_class_probabilities(result).argmax(1) == side).mean() > 0.9
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=data)
    np.testing.assert_allclose(again.probabilities, result.probabilities)


def test_sizes_are_checked():
    data = tiny()
    model = PairRegression(SoftmaxRegression(2, 3), TwoCoin(1))
    with pytest.raises(ValueError, match="takes 3 numbers"):
        fit(model, PairRegressionGuide(model), data, **OPTIONS)
    model = PairRegression(SoftmaxRegression(2, 1), TwoCoin(2))
    with pytest.raises(ValueError, match="2 workers"):
        fit(model, PairRegressionGuide(model), data, **OPTIONS)


@pytest.fixture(scope="module")
def of_answers_alone():
    """Features that show other clusters than those that people see, of 60 items out of 90."""
    kinds = np.random.default_rng(1).integers(0, 3, 90)
    shown = np.arange(90) % 2
    features = 9.0 * shown[:, None] + np.random.default_rng(0).normal(size=(90, 2))
    pairs = simulate_pairs(
        kinds, [0.85] * 5, [0.85] * 5, pairs_per_worker=120, items=range(60), seed=0
    )
    model = PairRegression(
        SoftmaxRegression(3, 0, scale=1.0), TwoCoin(5, (2.0, 1.0), (2.0, 1.0)), NoCoordinates()
    )
    guide = PairRegressionGuide(model, num_items=90)
    return fit(model, guide, CrowdData(features, pairs), dtype=torch.float64, **OPTIONS), kinds


def test_without_coordinates_items_follow_their_answers(of_answers_alone):
    """Others are what these are as often as these are it."""
    result, kinds = of_answers_alone
    assert clustering_accuracy(kinds[:60], result.assignments[:60]) > 0.95
    others = result.probabilities[60:]
    np.testing.assert_allclose(others, others[:1].repeat(30, 0), rtol=0, atol=1e-12)
    shares = np.bincount(result.assignments[:60], minlength=3) / 60
    np.testing.assert_allclose(others[0], shares, atol=0.05)
    np.testing.assert_allclose(result.predict_proba([[0.0, 9.0]])[0], others[0], atol=1e-12)


@pytest.mark.long
def test_items_follow_answers_where_coordinates_show_fewer_clusters():
    """Four clusters, of which the coordinate shows two halves; answers alone tell the others."""
    kinds = np.arange(160) % 4
    x = np.where(kinds < 2, -2.0, 2.0)[:, None] + np.random.default_rng(0).normal(size=(160, 1))
    pairs = simulate_pairs(
        kinds, [0.85] * 8, [0.9] * 8, pairs_per_worker=90, items=range(80), seed=0
    )
    data = CrowdData(x, pairs)
    model = PairRegression(SoftmaxRegression(6, 1), TwoCoin(8, (2.0, 1.0), (2.0, 1.0)))
    guide = PairRegressionGuide(model, num_items=160)
    result = fit(model, guide, data, dtype=torch.float64, **OPTIONS)
    assert clustering_accuracy(kinds[:80], result.assignments[:80]) > 0.95
    # Of the others half is known.
    halves = result.probabilities[80:].max(1)
    assert 0.35 < halves.mean() < 0.65


def test_draws_that_are_known_are_not_made_again(of_answers_alone, monkeypatch):
    """Of two the bound prefers what people see to an order of the items."""
    result, kinds = of_answers_alone
    monkeypatch.setattr("pyro_crowdclust.guides.pair_regression.drawn_groups", None)
    model = result.model
    known = torch.from_numpy(np.where(np.arange(90) < 60, kinds, -1))
    start = DrawnStart(torch.stack([torch.arange(90) // 30, known]))
    guide = PairRegressionGuide(model, num_items=90)
    start(model, guide, result.data, torch.Generator())
    found = guide.infer(full_batch(result.data)).assignments[:60].argmax(1)
    assert clustering_accuracy(kinds[:60], found.numpy()) > 0.95


def test_what_messages_begin_at_is_saved_and_grows(of_answers_alone, tmp_path):
    result, kinds = of_answers_alone
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=result.data)
    np.testing.assert_allclose(again.probabilities, result.probabilities, rtol=0, atol=1e-12)
    said = {"left": [90] * 30, "right": range(30), "worker": ["w"] * 30}
    said["label"] = [int(kinds[item] == kinds[0]) for item in range(30)]
    more = result.update(said, features=[[0.0, 0.0]], item_ids=[90])
    assert len(more.guide.item_logits) == 91
    assert more.assignments[90] == more.assignments[0]
    more.save(tmp_path / "more")
    loaded = load(tmp_path / "more", data=more.data)
    np.testing.assert_allclose(loaded.probabilities, more.probabilities, rtol=0, atol=1e-12)


def test_messages_begin_where_the_step_before_ended(of_answers_alone):
    """What is read is settled, and so is what the last step of training saw."""
    result, _ = of_answers_alone
    heard = result.guide.item_logits[:60].softmax(1)
    np.testing.assert_allclose(heard, result.component_probabilities[:60], atol=0.02)
    assert bool(result.guide.item_logits[60:].isnan().all())
