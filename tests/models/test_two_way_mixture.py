"""The two-way mixture: its bound against the sum over all assignments, its start, a fit."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from scipy.special import softmax
from torch import Tensor

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.families import MatrixNormalInverseWishart, NormalInverseWishart
from pyro_crowdclust.guides import TwoWayGuide
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.models import TwoWayMixture
from pyro_crowdclust.simulation import simulate_pairs
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


def posteriors_given(model: TwoWayMixture, batch, cells: tuple[int, ...]) -> dict[str, Tensor]:
    """Natural parameters of the exact posterior of every global site, cells known."""
    one_hot = torch.eye(CLUSTERS * STYLES)[list(cells)].double()
    h, x = one_hot @ model.regressors, batch.features.double()
    z, style = h.split((CLUSTERS, STYLES), -1)
    last = torch.tensor(float(len(x)), dtype=torch.float64)
    counts = {
        "effects": model.family._pack(h.mT @ x, h.mT @ h, x.mT @ x, last),
        "weights": z.sum(0),
        "styles": style.sum(0),
    }
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


def two_ways(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points whose style moves them far, and whose cluster moves them a little."""
    rng = np.random.default_rng(seed)
    clusters, styles = rng.integers(3, size=240), rng.integers(4, size=240)
    between = 1.2 * np.eye(3, 6)[clusters] + 4 * rng.standard_normal((4, 6))[styles]
    points = between + 0.25 * rng.standard_normal((240, 6))
    return (points - points.mean(0)) / points.std(0), clusters, styles


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


def test_only_items_with_answers_hear_messages():
    model = some_model()
    one = TwoWayGuide(model, solver=LocalSolver(exchanges=1, damping=0.0))
    many = TwoWayGuide(model)
    batch = some_batch(torch.randn(5, DIM))
    first, last = (guide.infer(batch).assignments for guide in (one, many))
    assert first.shape == last.shape == (5, CLUSTERS)
    # Item 4 is in no pair.
    torch.testing.assert_close(first[4], last[4])


def test_an_item_hears_the_sum_of_its_styles():
    """One round of messages, written out: what others hear is q(z), cells summed over styles."""
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
        model.components(sites["effects"]),
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
