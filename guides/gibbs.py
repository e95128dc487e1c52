"""Base class of guides that draw partitions by Gibbs sampling."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import conjugate_posteriors
from pyro_crowdclust.minibatches import Batch, full_batch


class GibbsGuide(nn.Module):
    """Conjugate posteriors of global sites, and partitions that are drawn before every step.

    Derived guides say how chains begin, make their sweeps, and keep the draws.

    Parameters
    ----------
    model
        The model whose posterior this approximates.
    """

    steps: Tensor
    # Sweeps visit item after item, in loops that Numba compiles.
    needs_processor = True

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.posteriors: Any = conjugate_posteriors(model.priors())
        self.register_buffer("steps", torch.tensor(0))
        self._all: Batch | None = None

    def check(self, data: CrowdData) -> None:
        """Take the data that the partition is drawn from, whatever the start of training is."""
        self._all = full_batch(data)

    @torch.no_grad()
    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Let all chains begin, with the answers of all data."""
        self._start(full_batch(data), generator)

    @torch.no_grad()
    def before_step(self, batch: Batch) -> None:
        """Draw a partition, given all data: minibatches have only some of the answers."""
        self._draw(batch if self._all is None else self._all)

    def _start(self, batch: Batch, generator: torch.Generator) -> None:
        raise NotImplementedError

    def _draw(self, batch: Batch) -> None:
        raise NotImplementedError
