"""Summaries of workers who answer about pairs, against draws of their rates."""

from __future__ import annotations

import torch

from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.annotators.pair_summaries import summarize_pair_workers
from pyro_crowdclust.distributions import ConjugatePosterior

from ..oracles import random_natural

WORKERS, COUNT = 3, 40_000


def test_weights_and_their_deviations_are_those_of_drawn_rates():
    """How much more "same" is said by a worker's yes than by a no, in nats."""
    annotators = TwoCoin(WORKERS)
    sites = {name: ConjugatePosterior(prior) for name, prior in annotators.priors().items()}
    drawn = {}
    for name, site in sites.items():
        eta = random_natural(site.family, WORKERS) + 1
        site.set_natural_parameters(eta)
        drawn[name] = site.family.sample(eta.expand(COUNT, WORKERS, 2))
    alpha, beta = drawn["sensitivity"], drawn["specificity"]
    weight = (alpha / (1 - beta)).log() - ((1 - alpha) / beta).log()
    found = summarize_pair_workers(annotators, sites, interval=0.9)
    error = weight.std(0) / COUNT**0.5
    assert ((torch.from_numpy(found.weight) - weight.mean(0)).abs() <= 6 * error).all()
    torch.testing.assert_close(
        torch.from_numpy(found.weight_sd), weight.std(0), rtol=0.03, atol=0.0
    )


class OneRate(TwoCoin):
    """Workers whose specificity counts only for answers about some pairs."""

    def log_likelihood_ratio(self, rates, worker, label):
        of_right, of_wrong = rates["sensitivity"][worker].unbind(-1)
        return torch.where(label == 1, of_right - of_wrong, of_wrong - of_right)


def test_a_site_for_some_pairs_only_adds_nothing_to_the_weight_of_others():
    annotators = OneRate(WORKERS)
    sites = {name: ConjugatePosterior(prior) for name, prior in annotators.priors().items()}
    found = summarize_pair_workers(annotators, sites, interval=0.9)
    eta = sites["specificity"].family.natural(torch.tensor(9.0), torch.tensor(1.0)).double()
    sites["specificity"].set_natural_parameters(eta.expand(WORKERS, 2))
    other = summarize_pair_workers(annotators, sites, interval=0.9)
    assert (found.weight == other.weight).all()
    assert (found.weight_sd == other.weight_sd).all()
    assert (found.weight_sd > 0).all()
    assert (other.rates["specificity"].mean > found.rates["specificity"].mean).all()
