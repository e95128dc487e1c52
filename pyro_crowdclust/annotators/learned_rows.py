"""Dirichlet rows of workers, under a prior that is learned from all workers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyro
import scipy  # loads its subpackages when they are first used
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Gamma

from pyro_crowdclust.distributions.class_labels import CommunityDirichlet
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.families import SMALLEST_PROBABILITY


class LearnedRows(nn.Module):
    """``p_jk | c_j = c ~ Dir(a_ck)`` with concentrations a that the ELBO learns.

    A Gamma prior on every concentration keeps them finite. Rows of workers with few answers are
    shrunk towards what their community has in common. The concentrations are point estimates, so
    that the ELBO is a bound of ``log p(data, a)``, which contains the normalized density of the
    prior at a. It thus has the cost of every concentration, and models with different numbers of
    concentrations can be compared by it.

    Parameters
    ----------
    start
        a at the beginning, ``[community, row, share]``.
    known
        Concentrations of further communities, which are not learned and cost nothing; none by
        default.

    Attributes
    ----------
    steps_per_draw
        Steps of a towards its mode for each draw of the rows (``learned``).
    """

    steps_per_draw = 1
    # Shape and rate of the Gamma prior.
    concentration_prior = (1.1, 0.1)

    _known: Tensor

    def __init__(
        self,
        start: Float[Tensor, "learned row share"],
        known: Float[Tensor, "known row share"] | None = None,
    ) -> None:
        super().__init__()
        self.log_concentration = nn.Parameter(start.double().log())
        known = start[:0] if known is None else known
        self.register_buffer("_known", known.double(), persistent=False)

    def concentration(self) -> Float[Tensor, "community row share"]:
        """The Dirichlet parameters a, those that are learned first."""
        learned = self.log_concentration.exp()
        return torch.cat([learned, self._known.to(learned)]) if len(self._known) else learned

    @property
    def highest_log_prior(self) -> float:
        """``max_a log p(a)``: the density of the Gamma prior at its mode, for all concentrations.

        Labels are discrete, and their log-probability is at most 0. So the ELBO of a model of
        labels alone is at most this number, which falls with every concentration.
        """
        prior = Gamma(*torch.tensor(self.concentration_prior, dtype=torch.float64))
        return self.log_concentration.numel() * float(prior.log_prob(prior.mode))

    def sample(
        self, site: str, community: Float[Tensor, "worker community"]
    ) -> Float[Tensor, "row share"]:
        """Run the site of the rows, worker after worker, and that of their concentrations."""
        concentration = self.concentration()
        shape, rate = concentration.new_tensor(self.concentration_prior)
        prior = Gamma(shape, rate, validate_args=False)
        learned = concentration[: len(self.log_concentration)]
        pyro.factor(f"{site}_concentration", prior.log_prob(learned).sum())
        rows = CommunityDirichlet(concentration, community.to(concentration.device))
        with FullPlate(f"{site}_plate", rows.batch_shape[0]):
            return pyro.sample(site, rows)

    def of_draw(
        self, site: str, values: Mapping[str, Tensor]
    ) -> Float[np.ndarray, "*#chain community row share"]:
        """The concentrations at the end of the previous draw; at first, the learned ones."""
        found = values.get(f"{site}_concentration", self.concentration())
        return found.numpy(force=True)

    def learned(
        self,
        concentration: Float[np.ndarray, "*#chain community row share"],
        counts: Float[np.ndarray, "*chain worker row share"],
        community: Float[np.ndarray, "*chain worker community"],
    ) -> Float[np.ndarray, "*chain community row share"]:
        """``concentration`` after steps towards the values under which the counts are likeliest.

            a_l <- (a_l sum_j r_j [psi(n_jl + a_l) - psi(a_l)] + s - 1)
                   / (sum_j r_j [psi(n_j + A) - psi(A)] + t)

        with r of the community, n_j and A sums over l, and shape s and rate t of the Gamma prior:
        steps of the fixed point of Minka 2000 to the mode, which never lower the joint density.
        """
        for _ in range(self.steps_per_draw):
            concentration = self._stepped(concentration, counts, community)
        return concentration

    def _stepped(
        self,
        concentration: Float[np.ndarray, "*#chain community row share"],
        counts: Float[np.ndarray, "*chain worker row share"],
        community: Float[np.ndarray, "*chain worker community"],
    ) -> Float[np.ndarray, "*chain community row share"]:
        psi, (shape, rate) = scipy.special.digamma, self.concentration_prior
        # Axes: chain, community, worker, row, share.
        own, answers = concentration[..., None, :, :], counts[..., None, :, :, :]
        whole, size = own.sum(-1), answers.sum(-1)
        gain = _of_communities(community, psi(answers + own) - psi(own))
        loss = _of_communities(community, (psi(size + whole) - psi(whole))[..., None])
        found = (concentration * gain + shape - 1) / (loss + rate)
        is_learned = np.arange(found.shape[-3]) < len(self.log_concentration)
        return np.where(is_learned[:, None, None], found, concentration)


def _of_communities(
    community: Float[np.ndarray, "*chain worker community"],
    values: Float[np.ndarray, "*chain community worker row share"],
) -> Float[np.ndarray, "*chain community row share"]:
    """Sums over workers, weighted by how far each belongs to the community."""
    return np.einsum("...jc,...cjrs->...crs", community, values)


def draw_log_shares(
    concentration: Float[np.ndarray, "*batch share"], rng: np.random.Generator
) -> Float[Tensor, "*batch share"]:
    """``log p`` of draws ``p ~ Dir(a)``."""
    # A smaller draw of the Gamma may underflow to zero, whose logarithm is not finite.
    gamma = np.maximum(rng.standard_gamma(concentration), SMALLEST_PROBABILITY)
    return torch.from_numpy(np.log(gamma / gamma.sum(-1, keepdims=True)))
