"""Annotator models: how workers answer, and how reliable they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.intervals import beta_summary
from pyro_crowdclust.distributions.pairs import TwoCoinAnswer, answer_places
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.families import Beta, BetaParameters
from pyro_crowdclust.files.description import described


class RateSummary(NamedTuple):
    """What is known of a rate, worker by worker; sd and interval are NaN for point estimates.

    ``log_odds`` is the posterior mean of log rate / (1 - rate), ``log_odds_sd`` its deviation.
    """

    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_odds: np.ndarray
    log_odds_sd: np.ndarray


def summarize_beta(parameters: BetaParameters, interval: float) -> RateSummary:
    """Mean, deviation and central interval of Beta posteriors.

    ``E[log a / (1 - a)] = psi(tau_1) - psi(tau_2)`` and its variance is
    ``psi'(tau_1) + psi'(tau_2)``.
    """
    successes, failures = parameters
    log_odds = successes.digamma() - failures.digamma()
    variance = successes.polygamma(1) + failures.polygamma(1)
    counts = (part.numpy(force=True) for part in parameters)
    return RateSummary(
        *beta_summary(*counts, interval),
        log_odds.numpy(force=True),
        variance.sqrt().numpy(force=True),
    )


def summarize_rates(
    annotators: TwoCoin | None, posteriors: Mapping[str, ConjugatePosterior], interval: float
) -> dict[str, RateSummary]:
    """``summarize_beta`` of every site of the annotators, by name; of none there is nothing."""
    names = [] if annotators is None else annotators.priors()
    return {name: summarize_beta(posteriors[name].standard(), interval) for name in names}


def summarize_point(rate: Float[Tensor, " worker"]) -> RateSummary:
    """The same table for point estimates."""
    mean, log_odds = (part.numpy(force=True) for part in (rate, rate.logit()))
    unknown = np.full_like(mean, np.nan)
    return RateSummary(mean, unknown, unknown, unknown, log_odds, unknown)


def weight_factors(annotators: Any) -> dict[str, Float[np.ndarray, " worker"]]:
    """How often ``log a / (1 - a)`` of each rate a enters the weight of a worker.

    The weight ``w(L = 1) - w(L = 0)`` of eq. 14 is what the worker's word decides. It is linear in
    the statistics ``(log a, log (1 - a))`` of the rates: both rates of ``TwoCoin`` enter once, the
    only one of a one-coin worker twice.

    Parameters
    ----------
    annotators
        An annotator model of answers about pairs.

    Examples
    --------
    >>> weight_factors(TwoCoin(2))
    {'sensitivity': array([1., 1.]), 'specificity': array([1., 1.])}
    """
    rates = {
        name: torch.zeros_like(prior.natural_parameters).requires_grad_()
        for name, prior in annotators.priors().items()
    }
    yes = torch.ones_like(next(iter(rates.values()))[:, 0])
    worker = torch.arange(len(yes), device=yes.device)
    with torch.enable_grad():
        weight = annotators.log_likelihood_ratio(rates, worker, yes)
        weight = weight - annotators.log_likelihood_ratio(rates, worker, 0 * yes)
        slopes = torch.autograd.grad(weight.sum(), rates.values())
    return {name: slope[:, 0].numpy(force=True) for name, slope in zip(rates, slopes, strict=True)}


@described
class TwoCoin(nn.Module):
    """Two-coin Dawid-Skene workers of pair answers; Luo et al. 2018, eq. 1 and 6.

    ``L | same ~ Bern(alpha_m)``, ``L | different ~ Bern(1 - beta_m)``, with sensitivity
    ``alpha_m ~ Beta`` and specificity ``beta_m ~ Beta`` for every worker m.

    Parameters
    ----------
    num_workers
        M.
    sensitivity, specificity
        Pseudo-counts (right answers, wrong answers) of the Beta priors; uniform by default.
    """

    def __init__(
        self,
        num_workers: int,
        sensitivity: tuple[float, float] = (1.0, 1.0),
        specificity: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        super().__init__()
        self.num_workers = num_workers
        family = Beta()
        pseudo_counts = torch.tensor([sensitivity, specificity], dtype=torch.float64)
        eta = family.natural(pseudo_counts[:, 0], pseudo_counts[:, 1])
        self.sensitivity = ConjugatePrior(family, eta[0], num_workers)
        self.specificity = ConjugatePrior(family, eta[1], num_workers)

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites of the workers, by name."""
        return {"sensitivity": self.sensitivity, "specificity": self.specificity}

    def answer(
        self,
        same: Float[Tensor, " pair"],
        rates: dict[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
    ) -> TwoCoinAnswer:
        """Likelihood of the answers; linear in ``same`` and in the statistics of the rates."""
        return TwoCoinAnswer(same, rates["sensitivity"], rates["specificity"], worker)

    def log_likelihood_ratio(
        self,
        rates: dict[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
        label: Float[Tensor, " pair"],
    ) -> Float[Tensor, " pair"]:
        """``w = log p(L | same) - log p(L | different)``: the weight of a message, eq. 14."""
        ratios = rates["sensitivity"] - rates["specificity"].flip(-1)
        return ratios.flatten().index_select(0, answer_places(worker, label))
