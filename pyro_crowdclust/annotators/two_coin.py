"""Workers with two coins: how often pairs that are the same, and others, are called so."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.distributions.pairs import TwoCoinAnswer, answer_places
from pyro_crowdclust.distributions.point_estimates import PointEstimate
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import Beta
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.protocols import PairAnnotators

# Right and wrong answers of workers who are trusted until there are clusters: under rates of which
# nothing is known, what disagrees with a first partition teaches that nobody is to be heard.
TRUSTED = (6.0, 2.0)


def summarize_pair_workers(
    annotators: PairAnnotators,
    sites: Mapping[str, ConjugatePosterior | PointEstimate],
    interval: float,
) -> WorkerSummary:
    """What the posteriors (or points) of the annotators' sites say of every worker.

    The weight of an answer is linear in the statistics of the sites,
    ``w(L = 1) - w(L = 0) = sum_s <c_s, t(theta_s)>``, whatever their families are: its posterior
    mean and deviation follow from the slopes c.

    Parameters
    ----------
    annotators
        An annotator model of answers about pairs.
    sites
        What a guide has for each of ``annotators.priors()``.
    interval
        Probability of the central intervals.

    Examples
    --------
    >>> workers = TwoCoin(2, sensitivity=(8.0, 2.0))
    >>> sites = {name: ConjugatePosterior(prior) for name, prior in workers.priors().items()}
    >>> summary = summarize_pair_workers(workers, sites, interval=0.9)
    >>> summary.rates["sensitivity"].mean, summary.weight.round(2)
    (array([0.8, 0.8]), array([1.59, 1.59]))
    """
    sites = {name: sites[name] for name in annotators.priors()}
    statistics = {name: site.mean().requires_grad_() for name, site in sites.items()}
    yes = next(iter(statistics.values())).new_ones(annotators.num_workers)
    no = torch.zeros_like(yes)
    worker = torch.arange(annotators.num_workers, device=yes.device)
    with torch.enable_grad():
        weight = annotators.log_likelihood_ratio(statistics, worker, yes)
        weight = weight - annotators.log_likelihood_ratio(statistics, worker, no)
        slopes = torch.autograd.grad(weight.sum(), list(statistics.values()))
    variance = torch.stack(
        [site.variance(slope) for site, slope in zip(sites.values(), slopes, strict=True)]
    ).sum(0)
    rates = {name: site.summary(interval) for name, site in sites.items()}
    return WorkerSummary(rates, weight.numpy(force=True), variance.sqrt().numpy(force=True))


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

    Examples
    --------
    >>> workers = TwoCoin(2, sensitivity=(8.0, 2.0))
    >>> rates = {name: ConjugatePosterior(one).mean() for name, one in workers.priors().items()}
    >>> workers.log_likelihood_ratio(rates, torch.tensor([0, 1]), torch.tensor([1.0, 0.0]))
    tensor([ 0.7639, -0.8290], dtype=torch.float64)
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
        self.sensitivity = ConjugatePrior(family, eta[0], num_workers, dims=("worker",))
        self.specificity = ConjugatePrior(family, eta[1], num_workers, dims=("worker",))

    def with_trust(self, trust: tuple[float, float]) -> TwoCoin:
        """The same workers with these pseudo-counts of right and wrong answers."""
        return TwoCoin(self.num_workers, trust, trust)

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites of the workers, by name."""
        return {"sensitivity": self.sensitivity, "specificity": self.specificity}

    def answer(
        self,
        same: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
    ) -> TwoCoinAnswer:
        """Likelihood of the answers; linear in ``same`` and in the statistics of the rates."""
        return TwoCoinAnswer(same, rates["sensitivity"], rates["specificity"], worker)

    def log_likelihood_ratio(
        self,
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
        label: Float[Tensor, " pair"],
    ) -> Float[Tensor, " pair"]:
        """``w = log p(L | same) - log p(L | different)``: the weight of a message, eq. 14."""
        ratios = rates["sensitivity"] - rates["specificity"].flip(-1)
        return ratios.flatten().index_select(0, answer_places(worker, label))
