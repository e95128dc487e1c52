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
    answers
        Log-probability of everything that is held out.
    pairs
        The scores by which the weight is chosen, if those are others: of held-out placements, which
        items of a page lie together (``PlacementSplit.of_pairs``).
    num_splits
        How many splits these are the scores of.
    """

    answers: Float[np.ndarray, "weight answer"]
    pairs: Float[np.ndarray, "weight placement"] | None = None
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
        answers, pairs = [], []
        for read in reads:
            answers.append(one.log_probability(read, workers))
            if isinstance(one, PlacementSplit):
                pairs.append(one.of_pairs(read, workers))
        return cls(np.stack(answers), np.stack(pairs) if pairs else None)

    @classmethod
    def of_all(cls, parts: Sequence[AtWeights]) -> AtWeights:
        """The scores of several splits of one kind, one after the other."""
        answers = np.concatenate([part.answers for part in parts], 1)
        pairs = [part.pairs for part in parts if part.pairs is not None]
        num_splits = sum(part.num_splits for part in parts)
        return cls(answers, np.concatenate(pairs, 1) if pairs else None, num_splits)

    @property
    def best(self) -> int:
        """The place of the weight that predicts best."""
        scores = self.answers if self.pairs is None else self.pairs
        return int(scores.mean(1).argmax())
