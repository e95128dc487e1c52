"""The evidence of sorted pages for which components are one cluster."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators.page_coupling import PageCoupling
from pyro_crowdclust.minibatches.pages import BatchPages


class PageOwners:
    """The bound of sorted pages as a function of c, with q(s) q(h | s) at their optimum for each.

    Given the homes, components choose their clusters independently of each other:

        log q(c_k = m) = eta0_km + sum_p sum_g n_pkg sum_s w_ps q(s_p) q(h_pm = g | s_p)

    with n_pkg the expected items of component k in group g of page p.

    Parameters
    ----------
    rates, pages
        As in ``PageCoupling``.
    assignments
        q(z) of components.
    """

    def __init__(
        self,
        rates: dict[str, Float[Tensor, "worker size"]],
        pages: BatchPages,
        assignments: Float[Tensor, "item component"],
    ) -> None:
        self._coupling = PageCoupling(rates, pages, len(assignments))
        self._counts = pages.counts(assignments)

    def _of_clusters(self, owners: Float[Tensor, "component cluster"]) -> Tensor:
        """Expected items of every cluster in every group, ``[page, cluster, group]``."""
        return (self._counts.mT @ owners.to(self._counts)).mT

    @property
    def gain(self) -> Float[Tensor, "component component"]:
        """Approximately what the pages gain if two components are one, with pages as pairs.

        Two items in one group count ``log p(one group | one cluster) - log p(one group | two)``,
        and two in different groups the same for these, each times ``2 / n`` on a page of n items,
        since n / 2 pairs per item carry the evidence of one placement.
        """
        same, different = self._coupling.pair_weights()
        placed = self._counts.sum(2)
        # A page whose placements are held out has no items left.
        share = 2 / placed.sum(1).clamp_min(1)
        in_group = torch.einsum(
            "pkg,plg,p->kl", self._counts, self._counts, share * (same - different)
        )
        on_page = torch.einsum("pk,pl,p->kl", placed, placed, share * different)
        return in_group + on_page

    @property
    def between(self) -> Float[Tensor, "component component"]:
        """Zero: the homes stand between components, see ``slope``."""
        number = self._counts.shape[1]
        return self._counts.new_zeros(number, number)

    def slope(
        self, owners: Float[Tensor, "component cluster"]
    ) -> Float[Tensor, "component cluster"]:
        """Messages to each component about every cluster, from the best homes for ``owners``."""
        posterior = self._coupling.posterior_of(self._of_clusters(owners))
        messages = self._coupling.group_messages(posterior)
        return torch.einsum("pkg,pmg->km", self._counts, messages).to(owners)

    def bound(self, owners: Float[Tensor, "component cluster"]) -> float:
        """What the answers add to the bound, without the part that does not depend on c."""
        posterior = self._coupling.posterior_of(self._of_clusters(owners))
        return float(posterior.state_logits.logsumexp(-1).sum())
