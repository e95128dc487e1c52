"""Tests of the posteriors of BayesSCDC: comparison with NUTS, and calibration.

**NUTS.** A mixture of two clusters on one feature with answers about some of its items, small
enough to sum over all assignments of these: the exact posterior of the global parameters has a
density, from which Pyro's NUTS draws. The quantities are the weight of the first cluster, means and
log standard deviations of both clusters, and sensitivities and specificities of the workers. The
figures are the largest distance of the posterior means, in standard deviations of NUTS, and the
smallest and largest ratio of standard deviations, those of BayesSCDC over those of NUTS. Mean field
assumes that parameters and assignments are independent, so that ratios below one are expected if
items lie between clusters.

**Calibration of workers' rates** (Talts et al. 2018). Rates are drawn from the prior, answers from
the rates, and a fit gives the posterior of every rate. Over many such fits the share of true rates
below their q-quantile must be q. The figures are the coverage of central 90 % intervals and the
Kolmogorov distance of the ranks from uniform ones. With ``pairs`` all answers are independent, as
the model assumes; with ``pages`` workers sort whole pages, so that one misplaced item makes many
wrong answers, which the model ignores.

    python benchmarks/posteriors.py

Last line: one JSON object: ``nuts_mean_distance``, ``nuts_sd_ratio_lowest``,
``nuts_sd_ratio_highest``, ``nuts_seconds``, ``coverage_pairs``, ``kolmogorov_pairs``,
``kolmogorov_pairs_95`` (what uniform ranks stay below in 95 of 100 runs), ``coverage_pages``,
``rates``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from typing import Any

import numpy as np
import scipy.stats
import torch
from pyro.infer import MCMC, NUTS
from torch import Tensor
from torch.distributions import Beta, Dirichlet, Gamma, Normal

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DiagonalGaussianComponents, DirichletWeights
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pairs, simulate_partitions

WORKERS = 2
RATE_PRIOR = (4.0, 1.0)


def plain_fit(data: CrowdData, num_clusters: int, num_workers: int, epochs: int) -> Fitted:
    """A mixture of independent Gaussians on the features, by coordinate ascent."""
    model = SemiCrowdsourcedMixture(
        DirichletWeights(num_clusters, 1.0),
        DiagonalGaussianComponents(num_clusters, data.features.shape[1]),
        Identity(),
        TwoCoin(num_workers, RATE_PRIOR, RATE_PRIOR),
    )
    guide = MessagePassingGuide(model, solver=LocalSolver(exchanges=30, damping=0.5))
    options = {"batch_size": None, "step_size": 0.7, "dtype": torch.float64, "progress": False}
    return fit(model, guide, data, epochs=epochs, **options)


def small_crowd() -> CrowdData:
    """Thirty items of two clusters, some of them between the two, and answers about six."""
    rng = np.random.default_rng(2)
    cluster = np.arange(30) % 2
    x = 2.4 * (2.0 * cluster - 1) + rng.standard_normal(30)
    pairs = simulate_pairs(
        cluster, [0.9, 0.7], [0.85, 0.75], pairs_per_worker=14, items=range(6), seed=0
    )
    return CrowdData(x[:, None], pairs)


class Collapsed:
    """``log p(weights, means, precisions, rates, x, L)``, with all assignments summed out."""

    def __init__(self, result: Fitted) -> None:
        batch = full_batch(result.data)
        self.x = batch.features[:, 0]
        self.paired = batch.num_paired
        self.left, self.right, self.worker = batch.left, batch.right, batch.worker
        self.label = batch.label.double()
        every = itertools.product(range(2), repeat=self.paired)
        self.assignments = torch.tensor(list(every))
        model = result.model
        prior = model.components.prior
        row = prior.family.standard(prior.natural_parameters[0])
        self.location, self.kappa, self.shape, self.rate = (float(part) for part in row)
        weights = model.weights.prior
        self.concentration = weights.family.standard(weights.natural_parameters).concentration

    @staticmethod
    def named(free: dict[str, Tensor]) -> dict[str, Tensor]:
        """Parameters from unconstrained ones."""
        return {
            "weight": free["weight"].sigmoid(),
            "mean": free["mean"],
            "precision": free["precision"].exp(),
            "sensitivity": free["sensitivity"].sigmoid(),
            "specificity": free["specificity"].sigmoid(),
        }

    def log_density(self, free: dict[str, Tensor]) -> Tensor:
        """Of unconstrained parameters, the Jacobian included."""
        value = self.named(free)
        weights = torch.stack([value["weight"], 1 - value["weight"]])
        total = Dirichlet(self.concentration).log_prob(weights)
        deviation = (self.kappa * value["precision"]).rsqrt()
        total = total + Normal(self.location, deviation).log_prob(value["mean"]).sum()
        total = total + Gamma(self.shape, self.rate).log_prob(value["precision"]).sum()
        total = total + free["precision"].sum()
        for name in ("sensitivity", "specificity"):
            total = total + Beta(*RATE_PRIOR).log_prob(value[name]).sum()
        for name in ("weight", "sensitivity", "specificity"):
            total = total + (value[name] * (1 - value[name])).log().sum()
        each = Normal(value["mean"], value["precision"].rsqrt()).log_prob(self.x[:, None])
        each = each + weights.log()
        total = total + each[self.paired :].logsumexp(-1).sum()
        same = self.assignments[:, self.left] == self.assignments[:, self.right]
        yes = torch.where(
            same, value["sensitivity"][self.worker], 1 - value["specificity"][self.worker]
        )
        answers = torch.where(self.label == 1, yes, 1 - yes).log().sum(-1)
        items = torch.arange(self.paired)
        return total + (each[items, self.assignments].sum(-1) + answers).logsumexp(0)


def summary_of_draws(draws: dict[str, Tensor]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean and standard deviation of every quantity, from draws."""
    found = {
        "weight": draws["weight"],
        "mean": draws["mean"],
        "log_deviation": -draws["precision"].log() / 2,
        "sensitivity": draws["sensitivity"],
        "specificity": draws["specificity"],
    }
    return {name: (one.mean(0).numpy(), one.std(0).numpy()) for name, one in found.items()}


def ours(result: Fitted, num_draws: int = 40_000) -> dict[str, Tensor]:
    """Draws of q(Theta) of BayesSCDC."""
    posteriors = result.guide.posteriors
    torch.manual_seed(0)

    def draws(name: str) -> Any:
        posterior = posteriors[name]
        eta = posterior.natural_parameters.detach()
        return posterior.family.sample(eta.expand(num_draws, *eta.shape))

    components = draws("components")
    return {
        "weight": draws("weights")[:, 0],
        "mean": components.mean[..., 0],
        "precision": components.precision[..., 0],
        "sensitivity": draws("sensitivity"),
        "specificity": draws("specificity"),
    }


def compare_with_nuts(warmup: int, samples: int) -> dict[str, float]:
    """Both posteriors of the same data."""
    data = small_crowd()
    result = plain_fit(data, 2, WORKERS, epochs=100)
    of_ours = ours(result)
    density = Collapsed(result)
    start = {name: part.mean(0) for name, part in of_ours.items()}
    free = {
        name: part.log() if name == "precision" else part.logit()
        for name, part in start.items()
        if name != "mean"
    } | {"mean": start["mean"]}
    started = time.perf_counter()
    torch.manual_seed(1)
    kernel = NUTS(potential_fn=lambda z: -density.log_density(z), max_tree_depth=6)
    chain = MCMC(
        kernel,
        num_samples=samples,
        warmup_steps=warmup,
        initial_params=free,
        disable_progbar=True,
    )
    chain.run()
    theirs = summary_of_draws(density.named(chain.get_samples()))
    distances, ratios = [], []
    for name, (mean, sd) in summary_of_draws(of_ours).items():
        other_mean, other_sd = theirs[name]
        print(f"{name}: mean {mean.round(3)} NUTS {other_mean.round(3)}")
        print(f"{name}: sd   {sd.round(3)} NUTS {other_sd.round(3)}")
        distances += np.ravel(abs(mean - other_mean) / other_sd).tolist()
        ratios += np.ravel(sd / other_sd).tolist()
    return {
        "nuts_mean_distance": round(max(distances), 3),
        "nuts_sd_ratio_lowest": round(min(ratios), 3),
        "nuts_sd_ratio_highest": round(max(ratios), 3),
        "nuts_seconds": round(time.perf_counter() - started, 1),
    }


def ranks_of_rates(kind: str, fits: int, num_workers: int = 3) -> np.ndarray:
    """``q(rate <= true rate)`` of every rate of every fit."""
    ranks = []
    for seed in range(fits):
        rng = np.random.default_rng(seed)
        cluster = np.arange(60) % 3
        features = 7 * np.eye(3)[cluster] + rng.standard_normal((60, 3))
        if kind == "pairs":
            rates = rng.beta(*RATE_PRIOR, (2, num_workers))
            pairs = simulate_pairs(cluster, *rates, pairs_per_worker=60, seed=seed)
        else:
            error = rng.uniform(0.02, 0.3, num_workers)
            pairs = simulate_partitions(cluster, error, pages_per_worker=1, page_size=12, seed=seed)
            rates = np.stack(
                [(1 - error) ** 2 + error**2 / 2, 1 - error * (1 - error) - error**2 / 4]
            )
        result = plain_fit(CrowdData(features, pairs), 3, num_workers, epochs=25)
        for name, true in zip(("sensitivity", "specificity"), rates, strict=True):
            right, wrong = result.guide.posteriors[name].standard()
            ranks.append(scipy.stats.beta(right.numpy(), wrong.numpy()).cdf(true))
    return np.concatenate(ranks)


def coverage(ranks: np.ndarray) -> float:
    """Share of true rates in central 90 % intervals."""
    return round(float(((ranks > 0.05) & (ranks < 0.95)).mean()), 3)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run both checks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--warmup", type=int, default=500, help="steps of NUTS before draws")
    parser.add_argument("--samples", type=int, default=2000, help="draws of NUTS")
    parser.add_argument("--fits", type=int, default=200, help="simulated data sets of each kind")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    figures = compare_with_nuts(options.warmup, options.samples)
    by_kind = {kind: ranks_of_rates(kind, options.fits) for kind in ("pairs", "pages")}
    pairs = by_kind["pairs"]
    distance = scipy.stats.kstest(pairs, "uniform").statistic
    figures |= {
        "coverage_pairs": coverage(pairs),
        "kolmogorov_pairs": round(float(distance), 4),
        "kolmogorov_pairs_95": round(float(scipy.stats.kstwo(len(pairs)).ppf(0.95)), 4),
        "coverage_pages": coverage(by_kind["pages"]),
        "rates": len(pairs),
    }
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
