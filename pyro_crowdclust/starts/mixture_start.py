"""The start of a mixture's posterior at a partition of some items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class MixtureStart:
    """A partition of some latents, as a start for the posterior of a mixture.

    Attributes
    ----------
    latent
        Values of the site ``x`` without variance, as ``Components.observe`` returns them; for data
        with gaps the rows, NaN where a feature is missing.
    responsibilities
        Soft or hard assignments, ``[item, K]``.
    multiplicity
        Number of items of the data that every item here represents.
    known
        Known labels of the items, -1 where unknown, or None.
    """

    latent: Float[Tensor, "item observation"]
    responsibilities: Float[Tensor, "item cluster"]
    multiplicity: float
    known: Int[Tensor, " item"] | None = None

    def statistics(self, model: Any) -> dict[str, Tensor]:
        """Expected counts of the sites ``weights`` and ``components``: ``sum_n r_nk u(.)``."""
        counts = self.responsibilities.sum(0)
        labels = model.supervision.expected_counts(self.responsibilities, self.known)
        return {
            "weights": model.weights.count_statistics(self.multiplicity * counts),
            "components": self.multiplicity * self._of_components(model.components),
            **{name: self.multiplicity * table for name, table in labels.items()},
        }

    def _of_components(self, components: Any) -> Float[Tensor, "cluster size"]:
        """``sum_n r_nk E[u(x_n)]``; missing features under the components of the observed ones."""
        if not self.latent.isnan().any():
            return components.family.weighted_statistics(self.latent, self.responsibilities)
        prior = components.prior.natural_parameters
        counts = torch.zeros_like(prior)
        # Gaps are filled first under the prior, then under the resulting posterior.
        for _ in range(2):
            mean = components.family.expected_statistics(prior + counts)
            with torch.enable_grad():
                mean = mean.detach().requires_grad_()
                scores = components.family.log_marginals(mean, self.latent)
                (counts,) = torch.autograd.grad((self.responsibilities * scores).sum(), mean)
        return counts
