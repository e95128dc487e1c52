"""Base class of guides with a conjugate posterior for every global site."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pyro_crowdclust.annotators import rate_statistics, summarize_workers
from pyro_crowdclust.distributions import WorkerSummary, conjugate_posteriors


class ConjugateGuide(nn.Module):
    """The conjugate posteriors q(Theta) of a model, with summaries of its workers.

    Derived guides add the local sites.

    Parameters
    ----------
    model
        The model whose posterior this approximates, with ``priors()`` and optionally annotators.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.posteriors: Any = conjugate_posteriors(model.priors())

    @torch.no_grad()
    def workers(self, interval: float = 0.9) -> WorkerSummary | None:
        """Posterior of every worker's rates, such as sensitivity and specificity."""
        return summarize_workers(self.model.annotators, self.posteriors, interval)

    def rate_statistics(self) -> dict[str, Tensor]:
        """E[t] of the workers' rates."""
        return rate_statistics(self.model.annotators, self.posteriors)
