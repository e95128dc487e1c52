"""Fits of rows with gaps: the bound is the right one, it rises, and everything can be read."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats
import torch
from pyro.infer import Trace_ELBO

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.emissions import Identity, NormalEmission, Standardized
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import CrowdClusterer, cluster, mixture_for
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import MomResp, SemiCrowdsourcedMixture
from pyro_crowdclust.networks import SkipMLP
from pyro_crowdclust.plots import plot_latent
from pyro_crowdclust.starts import KMeansStart, LabeledStart, PrincipalComponentStart
from pyro_crowdclust.transforms import Projected

from ..crowds import quiet_fit
from ..mixture_parts import COMPONENTS, SUPERVISION, guide_of, mixture, simulated

CENTERS = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 3.0], [0.0, 6.0, -3.0]])


def with_gaps(features: torch.Tensor, share: float = 0.3) -> torch.Tensor:
    """Some features are missing; of the first item all are, of the second none."""
    missing = torch.rand(features.shape) < share
    missing[0], missing[1] = True, False
    return features.masked_fill(missing, torch.nan)


def groups(num_items: int = 90) -> tuple[np.ndarray, np.ndarray]:
    kinds = np.arange(num_items) % 3
    return CENTERS[kinds] + np.random.default_rng(0).normal(size=(num_items, 3)), kinds


@pytest.mark.long
@pytest.mark.parametrize(
    ("components", "supervision"), [*itertools.product(COMPONENTS, SUPERVISION)]
)
def test_the_bound_never_falls(components, supervision):
    model = mixture("dirichlet", components, "identity", supervision)
    features, clusters = simulated(model)
    data = SUPERVISION[supervision].helped(with_gaps(features), clusters)
    result = quiet_fit(model, guide_of(model), data, batch_size=None, step_size=1.0, epochs=8)
    elbos = result.history["elbo"].to_numpy()
    assert (np.diff(elbos) > -1e-9 * np.abs(elbos[0])).all(), elbos
    assert np.isfinite(result.components).all(axis=None)
    np.testing.assert_allclose(result.predict_proba(data.features).sum(1), 1)


def test_gaps_are_of_components_on_the_features_themselves():
    components, scaled = GaussianComponents(3, 2), Standardized(torch.zeros(2), torch.ones(2))
    turned = Projected(Identity(), torch.zeros(2), torch.eye(2), 1.0, 0.1)
    network = NormalEmission(SkipMLP((2, 3, 2)), 2)
    for emission, takes in (
        (Identity(), True),
        (scaled, True),
        (turned, False),
        (network, False),
    ):
        model = SemiCrowdsourcedMixture(DirichletWeights(3), components, emission)
        assert model.takes_gaps == takes
        if emission is not network:
            model = MomResp(components, ConfusionMatrices(1, 3), emission=emission)
            assert model.takes_gaps == takes


@pytest.mark.parametrize("components", COMPONENTS)
def test_without_gaps_the_bound_is_that_of_whole_rows(components):
    model = mixture("dirichlet", components)
    features, _ = simulated(model)
    result = quiet_fit(model, guide_of(model), CrowdData(features), batch_size=None, epochs=3)
    batch = full_batch(result.data)
    as_gaps = dataclasses.replace(batch, has_gaps=True)
    guide, losses = guide_of(model), []
    eta = result.guide.posteriors["components"].natural_parameters
    guide.posteriors["components"].set_natural_parameters(eta)
    for same in (batch, as_gaps):
        guide.zero_grad()
        loss = Trace_ELBO(max_plate_nesting=1).differentiable_loss(model, guide, same)
        loss.backward()
        gradient = guide.posteriors["components"].natural_parameters.grad
        losses.append((loss.detach(), gradient.clone()))
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize("components", COMPONENTS)
def test_an_item_of_which_nothing_was_seen_is_like_any_other(components):
    """Its probabilities are those of the weights alone."""
    model = mixture("dirichlet", components)
    features, _ = simulated(model)
    data = CrowdData(with_gaps(features))
    result = quiet_fit(model, guide_of(model), data, batch_size=None, step_size=1.0, epochs=5)
    # Columns of categories and the like integrate to 1 under q as they do under p.
    if components not in ("gaussian", "heavy tails", "mixed"):
        concentration = result.guide.posteriors["weights"].standard().concentration
        expected = concentration.digamma().softmax(0)[result.cluster_order]
        np.testing.assert_allclose(result.probabilities[0], expected, rtol=1e-9)


def test_score_is_the_bound_on_what_was_seen_in_the_units_of_the_features():
    """E[log N(x | mu, Sigma)] with the gaps integrated out, by scipy's normal of the sub-vector."""
    features, _ = groups()
    gaps = with_gaps(torch.tensor(features)).numpy() * [100.0, 0.01, 1.0] + [5.0, 0.0, 1.0]
    fitted = CrowdClusterer(
        n_clusters=4, components=GaussianComponents, max_iter=20, random_state=0
    ).fit(gaps)
    guide, emission = fitted.result_.guide, fitted.result_.model.emission
    np.testing.assert_allclose(emission.location, np.nanmean(gaps, 0))
    np.testing.assert_allclose(emission.scale, np.nanstd(gaps, 0))
    concentration = guide.posteriors["weights"].standard().concentration.numpy(force=True)
    log_weights = scipy.special.digamma(concentration) - scipy.special.digamma(concentration.sum())
    m, kappa, s, nu = (part.numpy(force=True) for part in guide.posteriors["components"].standard())
    x, d = (gaps - np.nanmean(gaps, 0)) / np.nanstd(gaps, 0), 3
    log_density = np.empty((len(x), 4))
    for k, n in itertools.product(range(4), range(len(x))):
        seen = ~np.isnan(x[n])
        mean_log_det = d * np.log(2) - np.linalg.slogdet(s[k])[1]
        mean_log_det += scipy.special.digamma((nu[k] - np.arange(d)) / 2).sum()
        precision = nu[k] * np.linalg.inv(s[k])
        slack = mean_log_det / 2 - np.linalg.slogdet(precision)[1] / 2 - d / kappa[k] / 2
        density = 0.0
        if seen.any():
            covariance = np.linalg.inv(precision)[seen][:, seen]
            density = scipy.stats.multivariate_normal(m[k][seen], covariance).logpdf(x[n][seen])
        log_density[n, k] = log_weights[k] + density + slack
    expected = scipy.special.logsumexp(log_density, 1)
    expected -= (~np.isnan(x)) @ np.log(np.nanstd(gaps, 0))
    assert fitted.score(gaps) == pytest.approx(expected.mean(), abs=1e-9)


def test_clusters_are_found_through_gaps(tmp_path):
    features, kinds = groups(150)
    frame = pd.DataFrame(with_gaps(torch.tensor(features), 0.25), columns=["a", "b", "c"])
    frame.iloc[0, 0] = features[0, 0]
    # The same model for both, where there would be others to choose from.
    given = {"num_clusters": 6, "components": GaussianComponents, "progress": False}
    result = cluster(frame, **given)
    assert clustering_accuracy(kinds, result.assignments) > 0.9
    # What is missing is not filled in: the spread of the clusters is that of whole rows.
    spread = result.to_arviz(100, log_likelihood=False)["posterior"]["component_covariance"]
    largest = spread.mean(("chain", "draw")).values[0].diagonal()
    whole = cluster(pd.DataFrame(features), **given).to_arviz(100, log_likelihood=False)
    expected = whole["posterior"]["component_covariance"].mean(("chain", "draw")).values[0]
    np.testing.assert_allclose(largest, expected.diagonal(), rtol=0.35)
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors")
    new = frame.tail(9)[["c", "a", "b"]]
    np.testing.assert_allclose(loaded.predict_proba(new), result.predict_proba(new), rtol=1e-9)
    found = load(tmp_path / "fit.safetensors", data=result.data)
    assert found.elbo == pytest.approx(result.elbo)


def test_features_that_count_less_do_so_through_gaps():
    """``q(z) = softmax(v E[log pi] + w log p(x_o | E[t(theta)]))``, of whole rows in the limit."""
    features, _ = groups(30)
    part = with_gaps(torch.tensor(features))
    parts = DirichletWeights(3), GaussianComponents(3, 3)
    model = SemiCrowdsourcedMixture(*parts, Identity(), feature_weight=0.2, prior_weight=0.4)
    fitted = quiet_fit(
        model, MessagePassingGuide(model), CrowdData(part), batch_size=None, step_size=1.0, epochs=3
    )
    weights = fitted.guide.posteriors["weights"].mean()
    statistics = fitted.guide.posteriors["components"].mean()
    scores = model.components.family.log_marginals(statistics, part.double())
    expected = (0.4 * model.weights.log_weights(weights) + 0.2 * scores).softmax(-1)
    torch.testing.assert_close(fitted.component_probabilities, expected.detach())
    # Of rows without gaps the two ways to count are one.
    whole = torch.tensor(features)
    tempered, same = model.components.of_rows(statistics, has_gaps=True, weight=0.2)
    family, scaled = model.components.of_rows(statistics, has_gaps=False, weight=0.2)
    of_rows = family.log_likelihoods(scaled, family.observed(whole))
    of_gaps = tempered.log_likelihoods(same, whole)
    difference = of_rows - of_gaps
    torch.testing.assert_close(difference, difference[:, :1].expand_as(difference))


@pytest.mark.long
def test_new_items_may_have_gaps_where_those_of_the_fit_had_none():
    features, kinds = groups()
    result = cluster(features, num_clusters=3, progress=False)
    gaps = features.copy()
    gaps[:, 2] = np.nan
    assert (result.predict(gaps) == result.assignments).mean() > 0.95


@pytest.mark.long
def test_everything_can_be_read():
    features, _ = groups()
    pairs = {"left": [0, 1, 2], "right": [3, 5, 7], "worker": list("aab"), "label": [1, 0, 1]}
    data = CrowdData(with_gaps(torch.tensor(features)), pairs)
    result = mixture_for(data, num_clusters=3).fit(progress=False)
    tree = result.to_arviz(20)
    likelihood = tree["log_likelihood"]["features"].values
    assert np.isfinite(likelihood).all()
    np.testing.assert_allclose(likelihood[..., 0], 0, atol=1e-9)  # nothing was seen of it
    assert np.isfinite(tree["posterior_predictive"]["features"].values).all()
    plot_latent(result)


@pytest.mark.parametrize(
    "start",
    [PrincipalComponentStart(), KMeansStart(), LabeledStart()],
    ids=lambda s: type(s).__name__,
)
def test_starts_bridge_gaps(start):
    features, kinds = groups()
    known = np.where(np.arange(90) % 10 < 3, kinds, -1)
    data = CrowdData(with_gaps(torch.tensor(features)), known=known)
    recipe = mixture_for(data, num_clusters=3)
    result = recipe.fit(initialize=start, epochs=30, progress=False)
    assert clustering_accuracy(kinds[1:], result.assignments[1:]) > 0.85


@pytest.mark.long
def test_minibatches_with_gaps():
    features, kinds = groups(150)
    data = CrowdData(with_gaps(torch.tensor(features)))
    model = mixture("dirichlet", "gaussian")
    assert model.takes_gaps
    result = cluster(data.features, num_clusters=4, batch_size=50, step_size=0.3, progress=False)
    assert clustering_accuracy(kinds, result.assignments) > 0.85
