"""The two-coin model of pair answers: each worker has a sensitivity and a specificity."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.pair_looks import CoinLooks
from pyro_crowdclust.distributions.pairs import TwoCoinAnswer, answer_places
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.families import Beta
from pyro_crowdclust.files.parts import described

# Pseudo-counts of right and wrong answers at which workers begin, until there are clusters. Under
# uniform rates, disagreement with a first partition would teach that all answers are noise.
TRUSTED = (6.0, 2.0)


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
    >>> from pyro_crowdclust.distributions import ConjugatePosterior
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

    def looks(self) -> CoinLooks:
        """The same workers as a model of answers given what a pair looks like."""
        return CoinLooks(self)

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites of the workers, by name."""
        return {"sensitivity": self.sensitivity, "specificity": self.specificity}

    def answer(
        self,
        same: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
    ) -> TwoCoinAnswer:
        """Likelihood of the answers, linear in ``same`` and in the statistics of the rates."""
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
