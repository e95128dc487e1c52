"""The method in one short file: a user-defined model and guide, in Pyro, with answers about pairs.

A mixture of Gaussians in the plane, and a crowd that answers for some pairs of points whether they
are in the same cluster. Model and guide are written out here, so that they can be changed. Run it
with --seed 0.

The idea: a site's value is not theta but its *sufficient statistics* t(theta). Every log-density
of the model is then linear in every value:

    log p(theta | eta)  = <eta, t(theta)> - log Z(eta)               a conjugate prior
    log p(z | weights)  = <z, log weights>                           z: one-hot, or probabilities
    log p(x | z, theta) = sum_k z_k <t(theta_k), u(x)>               a Gaussian component
    log p(L | z_i, z_j) = s <t(sensitivity), (L, 1 - L)> + (1 - s) <t(specificity), (1 - L, L)>

1. The *model* draws a real theta and returns t(theta): it simulates, as any Pyro model does.
2. The *guide* returns the mean E_q[t(theta)] instead of a draw. log p is linear in each value, so
   its value at the means is its expectation: Pyro's ordinary ELBO is exact, without noise.
3. The gradient in that mean *is* the natural gradient in the natural parameters eta. A
   ``ConjugatePosterior`` passes it on and ``fit`` steps along it; a step of size 1 on all data
   is the textbook update eta = eta_0 + sum of expected statistics.
4. Two items are in the same cluster with probability s = sum_k q(z_i = k) q(z_j = k). This is
   exact, since the guide's z are independent, and it is how answers change the clusters.
"""

import argparse
import json

import numpy as np
import pyro
import torch
from pyro import poutine
from sklearn.cluster import KMeans
from torch import nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.distributions import (
    Assignment,
    ComponentObservation,
    ConjugateAtMean,
    ConjugatePosterior,
    ConjugatePrior,
    TwoCoinAnswer,
)
from pyro_crowdclust.families import Beta, Categorical, Dirichlet, NormalInverseWishart
from pyro_crowdclust.inference import LocalPosterior
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.simulation import pinwheel, simulate_pairs

K, WORKERS = 6, 20
GAUSSIAN = NormalInverseWishart(2)
WORKER_RATE = Beta().natural(torch.tensor(2.0), torch.tensor(1.0))
COMPONENT = GAUSSIAN.natural(torch.zeros(2), torch.tensor(0.1), torch.eye(2) / 4, torch.tensor(4))
PRIORS = {  # a family, its natural parameters, and how many there are
    "weights": ConjugatePrior(Dirichlet(K), Dirichlet(K).natural(torch.ones(K))),
    "components": ConjugatePrior(GAUSSIAN, COMPONENT, K),
    "sensitivity": ConjugatePrior(Beta(), WORKER_RATE, WORKERS),
    "specificity": ConjugatePrior(Beta(), WORKER_RATE, WORKERS),
}


def global_sites(distributions):
    """The four global sites: draws from priors for the model, posterior means for the guide."""
    values = {"weights": pyro.sample("weights", distributions["weights"].distribution())}
    with pyro.plate("cluster", K):
        values["components"] = pyro.sample("components", distributions["components"].distribution())
    with pyro.plate("worker", WORKERS):
        for name in ("sensitivity", "specificity"):
            values[name] = pyro.sample(name, distributions[name].distribution())
    return values


def answer(same, values, batch):
    """The workers' answers, given (the probabilities) that the two items of a pair are the same."""
    return TwoCoinAnswer(same, values["sensitivity"], values["specificity"], batch.worker)


def model(batch):
    """Weights, components, workers; then z and x of every item; then the answers."""
    values = global_sites(PRIORS)
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
        z = pyro.sample("z", Assignment(values["weights"]))
        x = ComponentObservation(GAUSSIAN, values["components"], z, GAUSSIAN.observation_size)
        pyro.sample("x", x, obs=batch.features)
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
            pyro.sample("z", ConjugateAtMean(Categorical(K), self.logits(batch, values)))

    @torch.no_grad()
    def logits(self, batch, values, rounds=20):
        """log q(z_i) = E[log weights] + E[log p(x_i | z_i)] + sum_j w_ij q(z_j) + constant."""
        statistics = GAUSSIAN.observation_statistics(batch.features)
        alone = logits = values["weights"] + statistics @ values["components"].mT
        if not batch.num_pairs:
            return alone
        one = torch.ones_like(batch.label)
        pull = answer(one, values, batch).log_prob(batch.label)
        pull = pull - answer(0 * one, values, batch).log_prob(batch.label)
        pulls = alone.new_zeros(len(alone), len(alone))
        pulls.index_put_((batch.left, batch.right), pull, accumulate=True)
        for _ in range(rounds):  # half steps, so that two items do not swap clusters forever
            logits = (logits + alone + (pulls + pulls.mT) @ logits.softmax(-1)) / 2
        return logits

    def infer(self, batch):
        """q(z) of a batch, which ``fit``'s result needs for assignments and predictions."""
        means = {name: posterior.mean() for name, posterior in self.posteriors.items()}
        return LocalPosterior(self.logits(batch, means), latent=None)


def k_means_start(model, guide, data, generator):
    """Start the components and weights at a k-means partition: prior plus counts."""
    labels = KMeans(K, n_init=1, random_state=generator.initial_seed()).fit(data.features).labels_
    partition = nn.functional.one_hot(torch.as_tensor(labels).long(), K).double()
    statistics = GAUSSIAN.observation_statistics(torch.tensor(data.features))
    for name, count in (("weights", partition.sum(0)), ("components", partition.mT @ statistics)):
        guide.posteriors[name].set_natural_parameters(PRIORS[name].natural_parameters + count)


def main(arguments=None):
    """Cluster with and without the answers; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    seed, figures = parser.parse_args(arguments).seed, {}
    features, labels = pinwheel(K, 50, tangential_std=0.3, seed=seed)
    asked, unasked = np.split(np.random.default_rng(seed).permutation(len(labels)), 2)
    rates = [0.9] * WORKERS
    pairs = simulate_pairs(labels, rates, rates, pairs_per_worker=100, items=asked, seed=seed)
    for name, answers in (("without", None), ("with", pairs)):
        data = CrowdData(features / 5, answers)
        result = fit(model, Guide(), data, epochs=60, batch_size=None, step_size=0.5, seed=seed,
                     initialize=k_means_start, dtype=torch.float64, progress=False)  # fmt: skip
        found = result.assignments
        figures[f"accuracy_{name}"] = clustering_accuracy(labels, found)
        figures[f"unasked_{name}"] = clustering_accuracy(labels[unasked], found[unasked])
    print("Accuracy without and with 2,000 answers, for all points and for those without answers:")
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
    return figures


if __name__ == "__main__":
    main()
