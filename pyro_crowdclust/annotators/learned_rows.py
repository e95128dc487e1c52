"""Dirichlet rows of workers whose prior is learned from all workers."""

from __future__ import annotations

import numpy as np
import pyro
import scipy  # whose parts are loaded when they are used
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Gamma

from pyro_crowdclust.distributions.class_labels import CommunityDirichlet
from pyro_crowdclust.distributions.plates import FullPlate


class LearnedRows(nn.Module):
    """``p_jk | c_j = c ~ Dir(a_ck)`` with concentrations a that the ELBO learns.

    A Gamma prior on every concentration keeps them finite. Workers with few answers lean on what
    their community has in common. The concentrations are points, so that what the ELBO bounds is
    ``log p(data, a)``, the log joint density with the normalized density of the prior at a: every
    concentration costs the ELBO what it costs the model, and models with more and with fewer of
    them can be compared by it.

    Parameters
    ----------
    start
        a at the beginning, ``[community, row, share]``.
    concentration_prior
        Shape and rate of the Gamma prior.
    """

    def __init__(
        self,
        start: Float[Tensor, "community row share"],
        concentration_prior: tuple[float, float] = (1.1, 0.1),
    ) -> None:
        super().__init__()
        self.log_concentration = nn.Parameter(start.double().log())
        self.concentration_prior = concentration_prior

    def concentration(self) -> Float[Tensor, "community row share"]:
        """The Dirichlet parameters a."""
        return self.log_concentration.exp()

    def sample(
        self, site: str, community: Float[Tensor, "worker community"]
    ) -> Float[Tensor, "row share"]:
        """Run the site of the rows, worker after worker, and that of their concentrations."""
        concentration = self.concentration()
        shape, rate = concentration.new_tensor(self.concentration_prior)
        prior = Gamma(shape, rate, validate_args=False)
        pyro.factor(f"{site}_concentration", prior.log_prob(concentration).sum())
        rows = CommunityDirichlet(concentration, community.to(concentration.device))
        with FullPlate(f"{site}_plate", rows.batch_shape[0]):
            return pyro.sample(site, rows)

    @torch.no_grad()
    def learn(
        self,
        counts: Float[np.ndarray, "worker row share"],
        community: Float[np.ndarray, "worker community"],
    ) -> None:
        """Move a towards where these counts of drawn answers are likeliest.

            a_l <- (a_l sum_j r_j [psi(n_jl + a_l) - psi(a_l)] + s - 1)
                   / (sum_j r_j [psi(n_j + A) - psi(A)] + t)

        with r of the community, n_j and A sums over l, and shape s and rate t of the Gamma prior: a
        step of the fixed point of Minka 2000 to the mode, which never lowers the joint density.
        """
        psi, a = scipy.special.digamma, self.concentration().numpy(force=True)
        shape, rate = self.concentration_prior
        total, size = a.sum(-1), counts.sum(-1)
        for number, responsible in enumerate(community.T):
            own, whole = a[number], total[number]
            gain = np.tensordot(responsible, psi(counts + own) - psi(own), 1)
            loss = np.tensordot(responsible, psi(size + whole) - psi(whole), 1)
            a[number] = (own * gain + shape - 1) / (loss[..., None] + rate)
        self.log_concentration.copy_(torch.from_numpy(a).log())


def draw_log_shares(
    concentration: Float[np.ndarray, "*batch share"], rng: np.random.Generator
) -> Float[Tensor, "*batch share"]:
    """``log p`` of draws ``p ~ Dir(a)``."""
    # Below this a draw of the Gamma is zero to a computer, and its logarithm would not be finite.
    gamma = np.maximum(rng.standard_gamma(concentration), 1e-300)
    return torch.from_numpy(np.log(gamma / gamma.sum(-1, keepdims=True)))
