"""The whole idea on one screen: your own model and guide, in Pyro, with answers about pairs.

A mixture of Gaussians on points in the plane, and a crowd that says of some pairs of points
whether they are of the same kind. Nothing here is the library's mixture or guide; to write a
variant, change the functions below.

    python examples/minimal.py --seed 0

The idea: a site carries the *sufficient statistics* t(theta) of its variable as its value, not
theta itself. Written so, every log-density of the model is linear in every value:

    log p(theta | eta)  = <eta, t(theta)> - log Z(eta)          a conjugate prior
    log p(z | weights)  = <z, log weights>                      z is one-hot, or probabilities
    log p(x | z, theta) = sum_k z_k <t(theta_k), u(x)>          a Gaussian component
    log p(answer | z)   = s <.., t(sensitivity)> + (1 - s) <.., t(specificity)>,   s = <z_i, z_j>

1. The *model* draws a real theta and returns t(theta), so it simulates like any Pyro model.
2. The *guide* returns the mean E_q[t(theta)] instead of a draw. As log p is linear in each value,
   its value at the means is its expectation: Pyro's ordinary ELBO is exact, without noise.
3. The gradient with respect to that mean *is* the natural gradient of the natural parameters
   eta. ``ConjugatePosterior`` passes it on, and ``fit`` steps along it; with a step size of 1
   and all data that is the textbook update eta = eta_0 + sum E[statistics].
4. Two items are the same with probability s = sum_k q(z_i = k) q(z_j = k). That is exact for a
   guide in which items are independent, and it is how answers reach assignments.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pyro
import torch
from pyro import poutine
from sklearn.cluster import KMeans
from torch import nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.distributions import Assignment, AtMean, ComponentObservation, TwoCoinAnswer
from pyro_crowdclust.families import Beta, Categorical, Dirichlet, Moments, NormalInverseWishart
from pyro_crowdclust.messages import LocalPosterior
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.simulation import pinwheel, simulate_pairs

K, WORKERS = 5, 20
GAUSSIAN = NormalInverseWishart(2)
TWO, ONE = torch.tensor(2.0), torch.tensor(1.0)
PRIORS = {  # a family, its natural parameters, and how many of them
    "weights": ConjugatePrior(Dirichlet(K), Dirichlet(K).natural(torch.ones(K))),
    "components": ConjugatePrior(
        GAUSSIAN, GAUSSIAN.natural(torch.zeros(2), ONE / 10, torch.eye(2) / 4, 2 * TWO), K
    ),
    "sensitivity": ConjugatePrior(Beta(), Beta().natural(TWO, ONE), WORKERS),
    "specificity": ConjugatePrior(Beta(), Beta().natural(TWO, ONE), WORKERS),
}


def global_sites(distributions):
    """Sample the four global sites, for the model from priors, for the guide at posterior means."""
    values = {"weights": pyro.sample("weights", distributions["weights"].distribution())}
    with pyro.plate("components_plate", K):
        values["components"] = pyro.sample("components", distributions["components"].distribution())
    with pyro.plate("workers", WORKERS):
        for name in ("sensitivity", "specificity"):
            values[name] = pyro.sample(name, distributions[name].distribution())
    return values


def answer(same, values, batch):
    """How the worker of every answer answers, given (the probability) that the two are the same."""
    rates = (values[name][batch.worker] for name in ("sensitivity", "specificity"))
    return TwoCoinAnswer(same, *rates)


def model(batch):
    """Weights, components, workers; then z and x of every item; then the answers."""
    values = global_sites(PRIORS)
    x = None if batch.features is None else Moments.point(batch.features.double()).flat()
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
        z = pyro.sample("z", Assignment(values["weights"]))
        likelihood = ComponentObservation(GAUSSIAN, values["components"], z, GAUSSIAN.local.size)
        pyro.sample("x", likelihood, obs=x)
    if batch.num_pairs:
        with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=batch.pair_weight):
            same = (z[batch.left] * z[batch.right]).sum(-1)
            pyro.sample("label", answer(same, values, batch), obs=batch.label)


class Guide(nn.Module):
    """q(globals) q(z): conjugate posteriors, and assignments that solve for the optimal q(z)."""

    def __init__(self):
        super().__init__()
        self.posteriors = nn.ModuleDict({name: ConjugatePosterior(PRIORS[name]) for name in PRIORS})

    def forward(self, batch):
        values = global_sites(self.posteriors)
        with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
            pyro.sample("z", AtMean(Categorical(K), self.logits(batch, values)))

    @torch.no_grad()
    def logits(self, batch, values, rounds=20):
        """log q(z_i) = E[log weights] + E[log p(x_i | z_i)] + sum_j w_ij q(z_j) + constant."""
        statistics = GAUSSIAN.observation_statistics(Moments.point(batch.features.double()).flat())
        alone = logits = values["weights"] + statistics @ values["components"].mT
        if not batch.num_pairs:
            return alone
        one = torch.ones(batch.num_pairs, dtype=torch.float64)  # w: what an answer tells of same
        log_ratio = answer(one, values, batch).log_prob(batch.label)
        log_ratio = log_ratio - answer(0 * one, values, batch).log_prob(batch.label)
        pull = torch.zeros(len(alone), len(alone), dtype=torch.float64)
        pull.index_put_((batch.left, batch.right), log_ratio, accumulate=True)
        for _ in range(rounds):  # half steps: two items must not change places forever
            logits = (logits + alone + (pull + pull.mT) @ logits.softmax(-1)) / 2
        return logits

    def infer(self, batch):
        """What ``fit``'s result asks for assignments and predictions."""
        means = {name: posterior.mean() for name, posterior in self.posteriors.items()}
        return LocalPosterior(self.logits(batch, means), latent=None)


def k_means_start(model, guide, data, generator):
    """Start the components and weights at a k-means partition: prior plus counts."""
    labels = KMeans(K, n_init=1, random_state=generator.initial_seed()).fit(data.features).labels_
    partition = nn.functional.one_hot(torch.as_tensor(labels).long(), K).double()
    statistics = GAUSSIAN.observation_statistics(Moments.point(torch.tensor(data.features)).flat())
    counts = {"weights": partition.sum(0), "components": partition.mT @ statistics}
    for name, count in counts.items():
        guide.posteriors[name].set_natural_parameters(PRIORS[name].natural_parameters + count)


def main(arguments=None):
    """Cluster with and without the answers; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args(arguments)
    features, labels = pinwheel(seed=options.seed)
    asked = np.random.default_rng(options.seed).choice(len(labels), 100, replace=False)
    rates = np.full(WORKERS, 0.9)
    pairs = simulate_pairs(
        labels, rates, rates, pairs_per_worker=49, items=asked, seed=options.seed
    )
    figures = {}
    for name, answers in (("without", None), ("with", pairs)):
        data = CrowdData(features / 5, answers)
        result = fit(
            model, Guide(), data, epochs=options.epochs, batch_size=None, step_size=0.5,
            initialize=k_means_start, seed=options.seed, progress=False,
        )  # fmt: skip
        figures[f"accuracy_{name}"] = round(clustering_accuracy(labels, result.assignments), 4)
    print("share of points in the right cluster, by features alone and with 980 answers:")
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
