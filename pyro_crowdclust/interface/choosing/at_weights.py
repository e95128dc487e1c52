"""How well a fit predicts what is held out, at every weight of its features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from pyro_crowdclust import Fitted
from pyro_crowdclust.distributions import WorkerSummary
from pyro_crowdclust.interface.holding_out.pages import PlacementSplit
from pyro_crowdclust.interface.holding_out.splits import HeldOut


class AtWeights(NamedTuple):
    """How well something held out is predicted, a row for every weight of the features.

    Attributes
    ----------
    log_probabilities
        Of everything that is held out: answers, placements, links or known labels.
    together
        The scores by which the weight is chosen, if those are others: of held-out placements, which
        items of a page lie together (``PlacementSplit.of_pairs``).
    num_splits
        How many splits these are the scores of.
    """

    log_probabilities: Float[np.ndarray, "weight answer"]
    together: Float[np.ndarray, "weight placement"] | None = None
    num_splits: int = 1

    @classmethod
    def of(cls, one: HeldOut, reads: Iterable[Fitted], workers: WorkerSummary | None) -> AtWeights:
        """The scores of what a split holds out, by a fit that was read at every weight.

        Parameters
        ----------
        one
            The split.
        reads
            The fit at every weight.
        workers
            The summary of its workers, if it is the same at every weight.
        """
        found, together = [], []
        for read in reads:
            found.append(one.log_probability(read, workers))
            if isinstance(one, PlacementSplit):
                together.append(one.of_pairs(read, workers))
        return cls(np.stack(found), np.stack(together) if together else None)

    @classmethod
    def of_all(cls, parts: Sequence[AtWeights]) -> AtWeights:
        """The scores of several splits of one kind, one after the other."""
        found = np.concatenate([part.log_probabilities for part in parts], 1)
        together = [part.together for part in parts if part.together is not None]
        num_splits = sum(part.num_splits for part in parts)
        return cls(found, np.concatenate(together, 1) if together else None, num_splits)

    @property
    def best(self) -> int:
        """The place of the weight that predicts best."""
        scores = self.log_probabilities if self.together is None else self.together
        return int(scores.mean(1).argmax())
