"""Draws of the global sites, against the means and densities of the guide, and scipy."""

from __future__ import annotations

import numpy as np
import pyro
import pyro.distributions as dist
import scipy.stats
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from pyro.infer.reparam import LocScaleReparam

from pyro_crowdclust.diagnostics.draws import global_draws, local_plates, variables_of
from pyro_crowdclust.distributions import ConjugatePrior, SiteDraws
from pyro_crowdclust.families import Categorical

from ..crowds import NUM_CLUSTERS, quiet_fit
from ..plain_pyro import noise_around
from .exports import one_chain


def test_draws_are_of_the_guide(plain):
    with plain.inside():
        draws = global_draws(plain, 4000)
    assert set(draws.sites) == {"weights", "components", "sensitivity", "specificity"}
    for name, site in draws.sites.items():
        mean = plain.guide.posteriors[name].mean()
        error = site.statistics.std(0) / np.sqrt(4000)
        assert ((site.statistics.mean(0) - mean).abs() < 5 * error + 1e-9).all()
        density = plain.guide.posteriors[name].distribution().log_prob(site.statistics)
        assert torch.isfinite(density).all()


def test_log_guide_is_the_density_of_the_draws(plain, tree):
    posteriors = plain.guide.posteriors
    sensitivity, specificity = (
        scipy.stats.beta(*(part.numpy() for part in posteriors[name].standard()))
        .logpdf(one_chain(tree, "posterior", name))
        .sum(1)
        for name in ("sensitivity", "specificity")
    )
    order = plain.cluster_order
    concentration = posteriors["weights"].standard().concentration.numpy()
    weights = scipy.stats.dirichlet(concentration[order])
    of_weights = weights.logpdf(one_chain(tree, "posterior", "weights").T)
    location, concentration, scale, degrees = (
        part.numpy()[order] for part in posteriors["components"].standard()
    )
    means, covariances = (
        one_chain(tree, "posterior", f"component_{name}") for name in ("mean", "covariance")
    )
    of_components = [
        sum(
            scipy.stats.multivariate_normal(location[k], cov[k] / concentration[k]).logpdf(mean[k])
            + scipy.stats.invwishart(degrees[k], scale[k]).logpdf(cov[k])
            for k in range(NUM_CLUSTERS)
        )
        for mean, cov in zip(means, covariances, strict=True)
    ]
    ours = one_chain(tree, "sample_stats", "log_guide")
    scipys = sensitivity + specificity + of_weights + of_components
    # Densities of theta and of t(theta) differ in the base measure: that of the rates and
    # weights is 1 here, that of a covariance |Sigma|^-(d + 2) from the convention's offsets.
    offset = ours - scipys
    log_determinants = np.linalg.slogdet(covariances)[1].sum(1)
    slope, constant = np.polyfit(log_determinants, offset, 1)
    np.testing.assert_allclose(offset, slope * log_determinants + constant, atol=1e-6)


def test_local_plates_are_those_that_grow(plain):
    with plain.inside():
        assert local_plates(plain) == {"items"}


def test_what_a_model_makes_of_its_sites_is_exported():
    """Of theta alone: not of the items, nor of what it draws for them."""

    def model(batch):
        center = pyro.sample("center", dist.Normal(0.0, 1.0))
        with pyro.plate("group", 4):
            level = pyro.sample("level", dist.Normal(center, 2.0))
            pyro.deterministic("away", level - center)
        pyro.deterministic("spread", level.max() - level.min())
        pyro.deterministic("of_items", batch.features.mean())
        with pyro.plate("items", batch.num_items, subsample=batch.items):
            x = pyro.sample("x", dist.Normal(level[batch.items % 4], 1.0))
            pyro.deterministic("twice", 2 * x)
            pyro.sample("o", dist.Normal(x, 1.0), obs=batch.features[:, 0])
        pyro.deterministic("of_x", x.mean())

    def plate_of_items(batch):
        return pyro.plate("items", batch.num_items, subsample=batch.items)

    apart = poutine.reparam(model, config={"level": LocScaleReparam(0.0)})
    guide = AutoNormal(apart, create_plates=plate_of_items)
    posterior = quiet_fit(apart, guide, noise_around(1.0)).to_arviz(7)["posterior"]
    assert set(posterior.data_vars) == {"center", "level_decentered", "level", "away", "spread"}
    level = posterior["center"] + 2 * posterior["level_decentered"]
    np.testing.assert_allclose(posterior["level"], level)
    np.testing.assert_allclose(posterior["away"], level - posterior["center"], atol=1e-12)
    np.testing.assert_allclose(posterior["spread"], level.max("group") - level.min("group"))
    assert posterior["away"].dims == ("chain", "draw", "group")


def test_an_axis_with_the_name_of_a_variable_gets_another_name():
    """xarray has variables and axes under one name only if the variable is the axis."""

    class Model:
        def priors(self):
            prior = ConjugatePrior(Categorical(3), torch.zeros(3), 2, dims=("worker", "kind"))
            return {"kind": prior}

    values = torch.zeros(5, 2, 3, dtype=torch.float64)
    found = variables_of(Model(), {"kind": SiteDraws(values, values, ("workers",), True)})
    assert found["kind"].dims == ("worker", "kind_dim")
