"""Merge moves: join two components when the answers indicate that they are one cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from pyro_crowdclust.annotators.sites import sites_of
from pyro_crowdclust.callbacks.structural_moves import Proposal, StructuralMoves
from pyro_crowdclust.protocols import MovableGuide
from pyro_crowdclust.training.trainer import Trainer


@dataclass
class MergeMoves(StructuralMoves):
    """A callback of ``fit``: after an epoch, join components that are one cluster by the answers.

    Features alone may split one human cluster into several Gaussians (a digit written in two ways).
    Proposals are all pairs of components that contain answered items and whose union increases the
    likelihood of the answers (``answer_gain``), in the order of this gain. A proposal is accepted
    if it increases the whole objective, which is the ELBO minus the guide's loss terms, so that the
    weight of a ``RecognitionTerm`` applies to the answers.

    The guide must have the verbs of ``MovableGuide``.

    Attributes
    ----------
    first_epoch, last_epoch
        Moves are made at the ends of these epochs and all between.
    sample_size
        Where steps use minibatches, the approximate number of items to estimate the gain of a move.
    moves
        ``(epoch, kept component, emptied component, gain)`` of every move made.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust.interface import mixture_for
    >>> from pyro_crowdclust.data import CrowdData
    >>> from pyro_crowdclust.simulation import simulate_pages
    >>> cloud = np.repeat(np.arange(4), 20)  # workers see two clusters of two clouds each
    >>> x = 6.0 * np.eye(4)[cloud] + np.random.default_rng(0).normal(size=(80, 4))
    >>> pages = simulate_pages(cloud // 2, [0.95], [0.95], pages_per_worker=9, page_size=20, seed=0)
    >>> recipe = mixture_for(CrowdData(x, pages), num_clusters=4)
    >>> result = recipe.fit(callbacks=[MergeMoves()], epochs=5, progress=False)
    >>> int(result.history["merges"].sum()), np.bincount(result.assignments).tolist()
    (2, [40, 40])
    """

    column = "merges"

    @torch.no_grad()
    def proposals(self, trainer: Trainer) -> list[Proposal]:
        """Pairs of clusters, those with the largest gain of the answers first."""
        guide: Any = trainer.guide
        batch = trainer.answered
        assert batch is not None  # there are answers
        answered = guide.infer(batch).assignments.double()[: batch.num_paired]
        sites = sites_of(guide.model.annotators)
        gain = sites.merge_gain(guide.rate_statistics(), answered, batch)
        held = answered.sum(0) >= 1
        proposed = ((gain > 0) & held & held.unsqueeze(-1)).triu(1)
        pairs = sorted(map(tuple, proposed.nonzero().tolist()), key=lambda pair: -gain[pair])
        return [Proposal(pair) for pair in pairs]

    def change(self, guide: MovableGuide, proposal: Proposal) -> tuple[int, ...]:
        """Join the two."""
        emptied = guide.merge(*proposal.clusters)
        return sum(proposal.clusters) - emptied, emptied
