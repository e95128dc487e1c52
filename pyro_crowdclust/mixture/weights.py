"""Priors of the weights pi of a mixture's clusters: Dirichlet and stick-breaking.

A site carries the statistics of its prior's family. What all priors have in common is expressed in
terms of expected *counts*, the number of items in every cluster: ``count_statistics`` is the linear
map from counts to statistics, so that a posterior is ``eta0 + count_statistics(counts)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.families import Beta, Dirichlet
from pyro_crowdclust.files.parts import described


def check_num_clusters(num_clusters: int, smallest: int = 1) -> None:
    """Raise a ``ValueError`` for too few clusters, or a number that is not whole."""
    check_whole("num_clusters", num_clusters)
    if num_clusters < smallest:
        raise ValueError(
            f"num_clusters is {num_clusters}, but a mixture needs at least {smallest}: choose an "
            "upper bound on the number of clusters; the fit empties those that are not needed"
        )


class Weights(nn.Module, ABC):
    """Base class of the prior of a mixture's weights, as models and guides use it.

    Attributes
    ----------
    num_clusters
        How many clusters there can be.
    prior
        ``ConjugatePrior`` of the site ``weights``.
    """

    num_clusters: int
    prior: ConjugatePrior

    @abstractmethod
    def log_weights(self, statistics: Tensor) -> Float[Tensor, "*batch cluster"]:
        """log pi (or its expectation) from the site's value, in which it is linear."""

    @abstractmethod
    def count_statistics(self, counts: Float[Tensor, "*batch cluster"]) -> Tensor:
        """What expected counts add to the natural parameters; transpose of ``log_weights``."""

    @abstractmethod
    def counts(self, statistics: Tensor) -> Float[Tensor, " cluster"]:
        """Inverse of ``count_statistics``."""

    @abstractmethod
    def mean(self, natural_parameters: Tensor) -> Float[Tensor, " cluster"]:
        """E_q[pi]."""

    @abstractmethod
    def probabilities(self, value: Any) -> Float[Tensor, " cluster"]:
        """pi, from a value of the family such as that of a point estimate."""

    @abstractmethod
    def from_probabilities(self, probabilities: Float[Tensor, " cluster"]) -> Any:
        """Inverse of ``probabilities``."""

    def preferred_order(self, counts: Float[Tensor, " cluster"]) -> Int[Tensor, " cluster"]:
        """An order of the clusters that suits the prior, given their counts."""
        return torch.arange(self.num_clusters, device=counts.device)

    def posterior_counts(self, natural_parameters: Tensor) -> Float[Tensor, " cluster"]:
        """The expected counts in a posterior."""
        return self.counts(natural_parameters - self.prior.natural_parameters)

    def merged(self, natural_parameters: Tensor, first: int, second: int) -> Tensor:
        """The posterior after the items of ``second`` have moved to ``first``."""
        counts = self.posterior_counts(natural_parameters)
        counts[first] += counts[second]
        counts[second] = 0
        return self._posterior(counts)

    def emptied(self, natural_parameters: Tensor, cluster: int) -> Tensor:
        """The posterior after ``cluster`` has lost all its items."""
        counts = self.posterior_counts(natural_parameters)
        counts[cluster] = 0
        return self._posterior(counts)

    def _posterior(self, counts: Float[Tensor, " cluster"]) -> Tensor:
        return self.prior.natural_parameters + self.count_statistics(counts)


@described
class DirichletWeights(Weights):
    """``pi ~ Dir(alpha_0, ..., alpha_0)``; Luo et al. 2018, eq. 5.

    Parameters
    ----------
    num_clusters
        K, an upper bound on the number of clusters.
    concentration
        alpha_0 of every cluster; below 1 it empties clusters that are not needed. Default: 1/K.

    Raises
    ------
    ValueError
        For no cluster, or a concentration that is not positive.

    Examples
    --------
    >>> weights = DirichletWeights(2, concentration=1.0)
    >>> counts = torch.tensor([3.0, 1.0])  # what a posterior adds to the prior
    >>> weights.mean(weights.prior.natural_parameters + weights.count_statistics(counts))
    tensor([0.6667, 0.3333], dtype=torch.float64)
    """

    def __init__(self, num_clusters: int, concentration: float | None = None) -> None:
        super().__init__()
        check_num_clusters(num_clusters)
        self.num_clusters = num_clusters
        family = Dirichlet(num_clusters)
        alpha = 1 / num_clusters if concentration is None else concentration
        eta = family.natural(torch.full((num_clusters,), alpha, dtype=torch.float64))
        self.prior = ConjugatePrior(family, eta)

    def log_weights(
        self, statistics: Float[Tensor, "*batch cluster"]
    ) -> Float[Tensor, "*batch cluster"]:
        return statistics

    def count_statistics(
        self, counts: Float[Tensor, "*batch cluster"]
    ) -> Float[Tensor, "*batch cluster"]:
        return counts

    def counts(self, statistics: Float[Tensor, " cluster"]) -> Float[Tensor, " cluster"]:
        return statistics

    def mean(self, natural_parameters: Float[Tensor, " cluster"]) -> Float[Tensor, " cluster"]:
        concentration = natural_parameters + 1
        return concentration / concentration.sum()

    def probabilities(self, value: Float[Tensor, " cluster"]) -> Float[Tensor, " cluster"]:
        return value

    def from_probabilities(self, probabilities: Float[Tensor, " cluster"]) -> Tensor:
        return probabilities


@described
class StickBreakingWeights(Weights):
    """``pi_k = beta_k prod_{l<k} (1 - beta_l)``, ``beta_k ~ Beta(1 - d, eta + k d)``, k = 1 ..

    Truncated at T clusters: the last stick is all that is left, ``beta_T = 1``. With d = 0 these
    are the weights of a Dirichlet process, ``pi ~ GEM(eta)`` (Echraibi et al. 2019, section 2.1),
    otherwise of a Pitman-Yor process. A discount d above 0 gives more small clusters: without the
    truncation the number of clusters of N items grows like ``N^d``, with d = 0 like ``eta log N``.

    ``E[log pi_k] = E[log beta_k] + sum_{l<k} E[log(1 - beta_l)]`` is linear in the sticks'
    statistics, and with expected counts N_k the posterior is ``Beta(1 - d + N_k, eta + k d +
    sum_{l>k} N_l)`` (Echraibi et al. 2019, appendix A, for d = 0).

    Parameters
    ----------
    num_clusters
        T.
    concentration
        eta > -d; larger gives more clusters.
    discount
        d in [0, 1).

    Examples
    --------
    >>> for discount in (0.0, 0.5):
    ...     weights = StickBreakingWeights(3, discount=discount)
    ...     print(weights.mean(weights.prior.natural_parameters).numpy())
    [0.5  0.25 0.25]
    [0.25 0.15 0.6 ]
    """

    def __init__(
        self, num_clusters: int, concentration: float = 1.0, discount: float = 0.0
    ) -> None:
        super().__init__()
        check_num_clusters(num_clusters, smallest=2)  # one stick
        if not 0 <= discount < 1 or not concentration > -discount:
            raise ValueError(
                f"need 0 <= discount < 1 and concentration > -discount, not discount {discount} "
                f"and concentration {concentration}"
            )
        self.num_clusters = num_clusters
        self.concentration, self.discount = concentration, discount
        family = Beta()
        later = concentration + discount * torch.arange(1.0, num_clusters, dtype=torch.float64)
        eta = family.natural(torch.full_like(later, 1 - discount), later)
        self.prior = ConjugatePrior(family, eta, num_clusters - 1)

    def log_weights(
        self, statistics: Float[Tensor, "*batch stick 2"]
    ) -> Float[Tensor, "*batch cluster"]:
        log_stick, log_rest = statistics.unbind(-1)
        pad = nn.functional.pad
        return pad(log_stick, (0, 1)) + pad(log_rest.cumsum(-1), (1, 0))

    def count_statistics(
        self, counts: Float[Tensor, "*batch cluster"]
    ) -> Float[Tensor, "*batch stick 2"]:
        beyond = counts[..., 1:].flip(-1).cumsum(-1).flip(-1)
        return torch.stack([counts[..., :-1], beyond], -1)

    def counts(self, statistics: Float[Tensor, "stick 2"]) -> Float[Tensor, " cluster"]:
        return torch.cat([statistics[:, 0], statistics[-1:, 1]])

    def mean(self, natural_parameters: Float[Tensor, "stick 2"]) -> Float[Tensor, " cluster"]:
        successes, failures = self.prior.family.standard(natural_parameters)
        return self.probabilities(successes / (successes + failures))

    def probabilities(self, value: Float[Tensor, " stick"]) -> Float[Tensor, " cluster"]:
        pad = nn.functional.pad
        return pad(value, (0, 1), value=1.0) * pad((1 - value).cumprod(0), (1, 0), value=1.0)

    def from_probabilities(self, probabilities: Float[Tensor, " cluster"]) -> Tensor:
        left = probabilities.flip(0).cumsum(0).flip(0)
        # Where nothing is left, any stick gives 0.
        return probabilities[:-1] / left[:-1].clamp_min(torch.finfo(left.dtype).tiny)

    def posterior_counts(self, natural_parameters: Float[Tensor, "stick 2"]) -> Tensor:
        # With the second term of eq. 17 the sticks may not match any counts exactly.
        return super().posterior_counts(natural_parameters).clamp_min(0)

    def preferred_order(self, counts: Float[Tensor, " cluster"]) -> Int[Tensor, " cluster"]:
        # Earlier sticks are expected to be larger (Kurihara et al. 2007), as long as the truncation
        # does not matter: the last stick is all that is left, which is much for a small T.
        return counts.argsort(descending=True, stable=True)
