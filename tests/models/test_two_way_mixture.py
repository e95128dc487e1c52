"""The two-way mixture: its bound against the sum over all assignments, its start, a fit."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from scipy.special import digamma, softmax
from scipy.stats import invwishart
from torch import Tensor

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import GradedPairs, SortedPages, TwoCoin
from pyro_crowdclust.families import MatrixNormalInverseWishart, NormalInverseWishart
from pyro_crowdclust.guides import TwoWayGuide
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import TwoWayMixture
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements
from pyro_crowdclust.training import NaturalGradient

from ..crowds import fit_plain
from ..oracles import random_natural
from ..problems import some_batch, without_answers

CLUSTERS, STYLES, DIM, WORKERS = 2, 2, 2, 2


def some_model(**options: float) -> TwoWayMixture:
    annotators = TwoCoin(WORKERS, (2.0, 1.0), (1.5, 0.7))
    return TwoWayMixture(CLUSTERS, STYLES, DIM, annotators, **({"degrees": 1.0} | options))


def gain(prior: Tensor, statistics: Tensor, family) -> Tensor:
    """``log Z(eta + u) - log Z(eta)``, summed over the sites of a plate."""
    return (family.log_normalizer(prior + statistics) - family.log_normalizer(prior)).sum()


def counts_of(model: TwoWayMixture, x: Tensor, h: Tensor) -> dict[str, Tensor]:
    """What items x in clusters and styles h (1 and 0) add to the sites of the mixture."""
    z, style = h.split((model.num_clusters, model.num_styles), -1)
    last = torch.tensor(float(len(x)), dtype=torch.float64)
    effects = model.family._pack(h.mT @ x, h.mT @ h, x.mT @ x, last)
    return {"effects": effects, "weights": z.sum(0), "styles": style.sum(0)}


def posteriors_given(model: TwoWayMixture, batch, cells: tuple[int, ...]) -> dict[str, Tensor]:
    """Natural parameters of the exact posterior of every global site, cells known."""
    one_hot = torch.eye(CLUSTERS * STYLES)[list(cells)].double()
    h = one_hot @ model.regressors
    counts, z = counts_of(model, batch.features.double(), h), h[:, :CLUSTERS]
    same, yes = (z[batch.left] * z[batch.right]).sum(-1), batch.label.double()
    right = {"sensitivity": same * yes, "specificity": (1 - same) * (1 - yes)}
    wrong = {"sensitivity": same * (1 - yes), "specificity": (1 - same) * yes}
    for name in right:
        table = torch.zeros(WORKERS, 2, dtype=torch.float64)
        table[:, 0].index_add_(0, batch.worker, right[name])
        table[:, 1].index_add_(0, batch.worker, wrong[name])
        counts[name] = table
    priors = model.priors() | model.annotators.priors()
    return {name: priors[name].natural_parameters + counts[name] for name in priors}


def log_joint(model: TwoWayMixture, batch, cells: tuple[int, ...]) -> Tensor:
    """``log p(cells, features, answers)``, all parameters integrated out in closed form."""
    priors = model.priors() | model.annotators.priors()
    total = -batch.features.numel() / 2 * np.log(2 * np.pi)
    for name, eta in posteriors_given(model, batch, cells).items():
        prior = priors[name].natural_parameters
        total = total + gain(prior, eta - prior, priors[name].family)
    return total


def elbo(model: TwoWayMixture, guide: TwoWayGuide, batch) -> Tensor:
    return -Trace_ELBO().differentiable_loss(model, guide, batch)


def every_cell() -> list[tuple[int, ...]]:
    """All cells that five items can be in."""
    return list(itertools.product(range(CLUSTERS * STYLES), repeat=5))


def bound_by_cells(
    model: TwoWayMixture, guide: TwoWayGuide, batch, joint: Tensor, exact: dict[str, Tensor]
) -> float:
    """What the ELBO must be at the guide's q, over all cells of all items.

    ``sum_c q(c) (log p(x, L, c) - log q(c) - KL(q(Theta) || p(Theta | x, L, c)))``
    """
    q_cells = poutine.trace(guide).get_trace(batch).nodes["cell"]["value"].detach()
    q = q_cells[torch.arange(5), torch.tensor(every_cell())].prod(-1)
    away = torch.zeros_like(q)
    for name, of_cells in exact.items():
        posterior = guide.posteriors[name]
        eta = posterior.natural_parameters.detach().expand_as(of_cells)
        away += posterior.family.kl_divergence(eta, of_cells).reshape(len(q), -1).sum(-1)
    return float((q * (joint - away) - torch.special.xlogy(q, q)).sum())


@pytest.mark.long
@pytest.mark.parametrize("with_answers", [True, False])
def test_the_bound_is_a_bound(with_answers):
    """Below the evidence at any q, by exactly what q is away from the posterior."""
    batch = some_batch(torch.randn(5, DIM) * 2)
    batch = batch if with_answers else without_answers(batch)
    model = some_model()
    joint = torch.stack([log_joint(model, batch, cells) for cells in every_cell()])
    given = [posteriors_given(model, batch, cells) for cells in every_cell()]
    exact = {name: torch.stack([one[name] for one in given]) for name in given[0]}
    evidence = joint.logsumexp(0)
    guide = TwoWayGuide(model, trusting_epochs=0)
    for _ in range(3):
        for posterior in guide.posteriors.values():
            plate = posterior.natural_parameters.shape[:-1]
            posterior.set_natural_parameters(random_natural(posterior.family, *plate))
        with torch.no_grad():
            before = elbo(model, guide, batch)
        assert before < evidence
        assert float(before) == pytest.approx(
            bound_by_cells(model, guide, batch, joint, exact), rel=1e-9
        )
    for _ in range(25):
        guide.zero_grad()
        (-elbo(model, guide, batch)).backward()
        NaturalGradient(guide.posteriors.values(), 0.5).step()
    with torch.no_grad():
        bound = elbo(model, guide, batch)
    assert float(bound) == pytest.approx(
        bound_by_cells(model, guide, batch, joint, exact), rel=1e-9
    )
    assert before < bound < evidence


def test_of_one_cell_the_bound_is_the_evidence():
    batch = some_batch(torch.randn(5, DIM))
    model = TwoWayMixture(1, 1, DIM, TwoCoin(WORKERS), degrees=1.0)
    guide = TwoWayGuide(model)
    (-elbo(model, guide, batch)).backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()
    with torch.no_grad():
        bound = elbo(model, guide, batch)
    h, x = torch.ones(5, 2).double(), batch.features.double()
    statistics = model.family._pack(h.mT @ x, h.mT @ h, x.mT @ x, torch.tensor(5.0).double())
    features = gain(model.effects.natural_parameters, statistics, model.family)
    counts = torch.zeros(WORKERS, 2, dtype=torch.float64)
    counts[:, 0].index_add_(0, batch.worker, batch.label.double())
    counts[:, 1].index_add_(0, batch.worker, 1 - batch.label.double())
    prior = model.annotators.sensitivity
    answers = gain(prior.natural_parameters, counts, prior.family)
    expected = features - x.numel() / 2 * np.log(2 * np.pi) + answers
    torch.testing.assert_close(bound, expected, rtol=1e-10, atol=1e-10)


def test_the_guide_has_a_site_for_every_prior_of_the_model():
    model = some_model()
    assert {*model.priors()} == {"weights", "styles", "effects", "sensitivity", "specificity"}
    assert {*TwoWayGuide(model).posteriors} == {*model.priors()}


def test_components_are_those_of_the_cells():
    family = MatrixNormalInverseWishart(3, num_regressors=4)
    value = family.sample(random_natural(family))
    h = torch.randn(5, 4)
    ours = family.component(family.sufficient_statistics(value), h)
    layout = NormalInverseWishart(3)
    covariance = value.covariance.expand(5, 3, 3)
    mean_and_covariance = h @ value.coefficients, covariance
    theirs = layout.sufficient_statistics(mean_and_covariance)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_one_regressor_is_the_normal_inverse_wishart():
    plain, family = NormalInverseWishart(2), MatrixNormalInverseWishart(2, num_regressors=1)
    location, kappa, scale, degrees = plain.standard(random_natural(plain, 4))
    ours = family.natural(location.unsqueeze(-2), kappa[:, None, None], scale, degrees)
    theirs = plain.natural(location, kappa, scale, degrees)
    same = torch.testing.assert_close
    same(family.log_normalizer(ours), plain.log_normalizer(theirs), rtol=1e-10, atol=1e-10)
    statistics = torch.stack(
        [family.component(row, torch.ones(1, 1)) for row in family.expected_statistics(ours)]
    )
    same(statistics.squeeze(1), plain.expected_statistics(theirs), rtol=1e-10, atol=1e-10)


def test_splitting_a_batch_changes_nothing():
    """Cells of items, and their share of the bound, do not depend on other items."""
    model = some_model()
    guide = TwoWayGuide(model)
    for posterior in guide.posteriors.values():
        plate = posterior.natural_parameters.shape[:-1]
        posterior.set_natural_parameters(random_natural(posterior.family, *plate))
    batch = without_answers(some_batch(torch.randn(5, DIM)))
    whole = guide.infer(batch).logits
    part = without_answers(some_batch(batch.features[2:4]))
    torch.testing.assert_close(guide.infer(part).logits, whole[2:4])


def guide_given(h: Tensor, points: Tensor) -> TwoWayGuide:
    """Of three clusters and two styles, at the exact posterior of the mixture given both."""
    model = TwoWayMixture(3, 2, DIM, degrees=2.0)
    guide = TwoWayGuide(model)
    for name, counts in counts_of(model, points, h).items():
        prior = model.priors()[name].natural_parameters
        guide.posteriors[name].set_natural_parameters(prior + counts)
    return guide


@pytest.mark.parametrize(("first", "second", "emptied"), [(0, 1, 0), (1, 2, 2), (1, 0, 0)])
def test_a_merge_is_as_if_the_items_had_been_in_the_larger_cluster(first, second, emptied):
    h = torch.cat([torch.eye(3)[[1, 0, 1, 2, 1]], torch.eye(2)[[0, 1, 1, 0, 0]]], -1)
    points = torch.randn(5, DIM)
    guide = guide_given(h, points)
    assert guide.merge(first, second) == emptied
    h[h[:, emptied] == 1, 1], h[:, emptied] = 1, 0
    for name, posterior in guide_given(h, points).posteriors.items():
        expected = posterior.natural_parameters
        torch.testing.assert_close(guide.posteriors[name].natural_parameters, expected)


def test_items_of_an_emptied_cluster_have_their_style_alone():
    h = torch.cat([torch.eye(3)[[1, 0, 1, 2, 1]], torch.eye(2)[[0, 1, 1, 0, 0]]], -1)
    points = torch.randn(5, DIM)
    guide = guide_given(h, points)
    guide.empty(1)
    h[:, 1] = 0
    for name, posterior in guide_given(h, points).posteriors.items():
        expected = posterior.natural_parameters
        torch.testing.assert_close(guide.posteriors[name].natural_parameters, expected)


def test_the_summary_has_the_mean_covariance_and_the_effects_of_clusters():
    h = torch.cat([torch.eye(3)[[1, 0, 1, 2, 1]], torch.eye(2)[[0, 1, 1, 0, 0]]], -1)
    guide = guide_given(h, torch.randn(5, DIM))
    found, effects = guide.mixture(), guide.posteriors["effects"].standard()
    assert torch.equal(found.location, effects.location[:3])
    mean = invwishart.mean(float(effects.degrees), effects.scale.detach().numpy())
    np.testing.assert_allclose(found.covariance, np.stack([mean] * 3))
    np.testing.assert_allclose(found.weights, np.array([6.0, 8.0, 6.0]) / 20)


def two_ways(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points whose style moves them far, and whose cluster moves them a little."""
    rng = np.random.default_rng(seed)
    clusters, styles = rng.integers(3, size=240), rng.integers(4, size=240)
    between = 1.2 * np.eye(3, 6)[clusters] + 4 * rng.standard_normal((4, 6))[styles]
    points = between + 0.25 * rng.standard_normal((240, 6))
    return (points - points.mean(0)) / points.std(0), clusters, styles


def test_it_starts_with_styles_by_k_means_and_even_clusters():
    points, _, styles = two_ways()
    guide = TwoWayGuide(TwoWayMixture(3, 4, 6))
    guide.start(CrowdData(points), torch.Generator().manual_seed(0))
    weights, found = (
        guide.posteriors[name].natural_parameters - guide.model.priors()[name].natural_parameters
        for name in ("weights", "styles")
    )
    np.testing.assert_allclose(found.sort().values.detach(), np.sort(np.bincount(styles)))
    # Alike but for a little noise, without which clusters would stay alike.
    away = (weights - 80).abs()
    assert 0.01 < away.max() < 1
    assert weights.sum().item() == pytest.approx(240)


@pytest.mark.parametrize("kind", ["coins", "grades", "pages"])
def test_trusted_workers_count_as_if_they_were_known_to_be_so_right(kind):
    rng = np.random.default_rng(1)
    points, trusted = rng.normal(size=(12, DIM)), torch.tensor([6.0, 4.0]) - 1
    answers = {"left": [0, 1, 2, 0], "right": [1, 2, 3, 3], "worker": [0, 0, 1, 1]}
    if kind == "pages":
        crowd = simulate_placements(
            np.arange(12) % 2, [0.9, 0.8], pages_per_worker=1, page_size=8, seed=0
        )
        data, annotators = CrowdData(points, placements=crowd), SortedPages(2)
        known = {"accuracy": trusted.expand(2, 2)}
    elif kind == "coins":
        data, annotators = CrowdData(points, answers | {"label": [1, 0, 1, 0]}), TwoCoin(2)
        known = {name: trusted.expand(2, 2) for name in annotators.priors()}
    else:
        data = CrowdData(points, answers | {"label": [1, 2, 3, 1]}, grades=[1, 2, 3])
        annotators = GradedPairs(2, 3)
        priors = GradedPairs(2, 3, (6.0, 4.0)).priors()
        known = {name: prior.natural_parameters for name, prior in priors.items()}
    model, batch = TwoWayMixture(2, 2, DIM, annotators), full_batch(data)
    found = []
    for epoch, trusting in ((2, 3), (3, 3), (0, 0)):
        guide = TwoWayGuide(model, trusting_epochs=trusting)
        torch.manual_seed(0)
        guide.posteriors["effects"].set_natural_parameters(random_natural(model.family))
        for name, eta in known.items() if not trusting else ():
            guide.posteriors[name].set_natural_parameters(eta)
        guide.set_epoch(epoch)
        found.append(guide.infer(batch).assignments)
    trusting, after, known_rates = found
    torch.testing.assert_close(trusting, known_rates)
    assert (after - known_rates).abs().max() > 1e-3


def test_statistics_of_rates_are_expected_logarithms():
    guide = TwoWayGuide(some_model())
    for name, (right, wrong) in {"sensitivity": (2.0, 1.0), "specificity": (1.5, 0.7)}.items():
        expected = digamma([right, wrong]) - digamma(right + wrong)
        found = guide.rate_statistics()[name]
        np.testing.assert_allclose(found, np.stack([expected] * WORKERS))
    assert TwoWayGuide(TwoWayMixture(2, 2, DIM)).rate_statistics() == {}


def test_answers_about_a_few_tell_the_clusters_of_all(tmp_path):
    points, clusters, _ = two_ways()
    rates = [0.95, 0.7]
    pairs = simulate_pairs(
        clusters, rates, rates, pairs_per_worker=200, items=range(40), balanced=True, seed=0
    )
    data = CrowdData(points, pairs)
    model = TwoWayMixture(3, 4, 6, TwoCoin(2))
    result = fit_plain(model, TwoWayGuide(model), data, epochs=45, seed=1)
    assert clustering_accuracy(clusters, result.assignments) > 0.95
    assert clustering_accuracy(clusters, result.predict(points)) > 0.95
    assert result.workers["weight"].diff().iloc[-1] < 0
    assert (result.workers["sensitivity"] - rates).abs().max() < 0.08
    path = tmp_path / "two_ways.safetensors"
    result.save(path)
    assert np.array_equal(load(path).assignments, result.assignments)


def test_a_fit_without_answers_keeps_the_bound_from_falling():
    points, _, _ = two_ways()
    model = TwoWayMixture(3, 4, 6)
    result = fit_plain(model, TwoWayGuide(model), CrowdData(points), epochs=20)
    assert (result.history["elbo"].diff().dropna() > -1e-6).all()


def test_only_items_with_answers_get_messages():
    model = some_model()
    one = TwoWayGuide(model, solver=LocalSolver(exchanges=1, damping=0.0))
    many = TwoWayGuide(model)
    batch = some_batch(torch.randn(5, DIM))
    first, last = (guide.infer(batch).assignments for guide in (one, many))
    assert first.shape == last.shape == (5, CLUSTERS)
    # Item 4 is in no pair.
    torch.testing.assert_close(first[4], last[4])


def test_an_item_gets_the_sum_of_its_styles():
    """One round of messages, written out: what others get is q(z), cells summed over styles."""
    model = some_model()
    guide = TwoWayGuide(model, solver=LocalSolver(exchanges=1, damping=0.0), trusting_epochs=0)
    for posterior in guide.posteriors.values():
        plate = posterior.natural_parameters.shape[:-1]
        posterior.set_natural_parameters(random_natural(posterior.family, *plate))
    batch = some_batch(torch.randn(5, DIM))
    values = {name: posterior.mean() for name, posterior in guide.posteriors.items()}
    cells = model.cell_logits(values, batch).unflatten(-1, (CLUSTERS, STYLES)).numpy()
    weight = model.annotators.log_likelihood_ratio(values, batch.worker, batch.label).numpy()

    def messages(q: np.ndarray) -> np.ndarray:
        heard = np.zeros((5, CLUSTERS))
        for i, j, w in zip(batch.left, batch.right, weight, strict=True):
            heard[i] += w * q[j]
            heard[j] += w * q[i]
        return heard

    alone = np.log(np.exp(cells).sum(-1))
    once = softmax(alone + messages(softmax(alone, -1)), -1)
    expected = softmax(alone + messages(once), -1)
    np.testing.assert_allclose(guide.infer(batch).assignments, expected, atol=1e-10)


def test_cells_of_given_clusters_are_those_that_features_say():
    """How often a style is drawn given a cluster, against densities of the cells' Gaussians."""
    model = some_model()
    sites = {name: prior.distribution().rsample() for name, prior in model.priors().items()}
    batch = without_answers(some_batch(torch.randn(1, DIM)))
    density = NormalInverseWishart(DIM).log_likelihoods(
        model.cell_statistics(sites["effects"]),
        NormalInverseWishart(DIM).observed(batch.features.double()),
    )
    joint = density + model.log_cells(sites["weights"], sites["styles"])
    many = without_answers(some_batch(batch.features.expand(4000, DIM)))
    for z in range(CLUSTERS):
        given = torch.full((4000,), z)
        (drawn,) = model.discrete_values(given, sites, many).values()
        assert torch.equal(model.of_clusters(drawn).argmax(1), given)
        expected = joint.unflatten(-1, (CLUSTERS, STYLES))[0, z].softmax(-1)
        found = drawn.mean(0).unflatten(0, (CLUSTERS, STYLES))[z]
        torch.testing.assert_close(found, expected, atol=0.04, rtol=0.0)


def test_replicated_features_are_like_those_that_were_seen():
    features, labels, _ = two_ways()
    model = TwoWayMixture(2, 2, features.shape[1])
    result = fit_plain(model, TwoWayGuide(model), CrowdData(features))
    tree = result.to_arviz(30, seed=0)
    replicated = tree["posterior_predictive"]["features"].to_numpy()[0]
    assert replicated.shape == (30, *features.shape)
    spread = features.std(0)
    np.testing.assert_allclose(replicated.mean((0, 1)), features.mean(0), atol=0.2 * spread.max())
    # Items keep their places: drawn given the cell that they are in.
    near = np.linalg.norm(replicated.mean(0) - features, axis=1)
    assert near.mean() < 0.7 * np.linalg.norm(features - features.mean(0), axis=1).mean()


def test_the_model_simulates():
    model = some_model()
    empty = dataclasses.replace(some_batch(torch.zeros(5, DIM)), features=None)
    trace = poutine.trace(model).get_trace(empty)
    assert trace.nodes["cell"]["value"].sum(-1).tolist() == [1.0] * 5
    assert trace.nodes["x"]["value"].isfinite().all()


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        (lambda: CrowdData(np.zeros((4, 3))), lambda: TwoWayMixture(2, 2, 2), "num_features=3"),
        (
            lambda: CrowdData(
                np.zeros((3, 2)), {"left": [0], "right": [1], "worker": [0], "label": [1]}
            ),
            lambda: TwoWayMixture(2, 2, 2),
            "the model has no annotators",
        ),
        (
            lambda: CrowdData(None, {"left": [0], "right": [1], "worker": [0], "label": [1]}),
            lambda: TwoWayMixture(2, 2, 2, TwoCoin(1)),
            "have no features",
        ),
    ],
)
def test_data_that_do_not_fit(data, model, message):
    with pytest.raises(ValueError, match=message):
        model().check(data())
