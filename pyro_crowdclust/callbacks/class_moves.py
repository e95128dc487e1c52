"""Class moves: known labels in the wrong clusters change places, labels in one cluster part."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.callbacks.structural_moves import Proposal, StructuralMoves
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.minibatches.making import items_alone
from pyro_crowdclust.protocols import MovableGuide, posteriors_of
from pyro_crowdclust.training.trainer import Trainer


@dataclass
class ClassMoves(StructuralMoves):
    """A callback of ``fit``: after epochs 1, 2, 4, 8, ..., give classes to other clusters.

    A ``ClassTable`` soon refuses every class but those that it has seen in a cluster. If these were
    the wrong ones while clusters were still forming, a few labels pull their own items into another
    cluster for good, and the whole cluster has the wrong class. With q_n(k) by the features of a
    labelled item alone, two changes of the table are proposed:

    - two clusters exchange their classes: ``argmax_k q_n(k)`` and
      ``argmax_k q_n(k) exp E[log rho_{k y_n}]``, if these differ. The pair of clusters between
      which ``log q_n`` of the labelled items differs most, in total, is tried first;
    - of several classes in one cluster, each but the largest goes to the cluster that its items
      suit next best.

    A change is made where the whole objective gains by it. Labels that differ from what their
    features show propose the same change after every epoch, and it is refused, so epochs are few.

    Attributes
    ----------
    first_epoch, last_epoch
        Moves are made at the ends of these epochs, and between, if powers of two.
    sample_size
        So many labelled items propose; where steps take minibatches, about so many items judge.
    moves
        ``(epoch, cluster, other cluster, gain)`` of every move made.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust.interface import mixture_for
    >>> from pyro_crowdclust.data import CrowdData
    >>> x = np.random.default_rng(0).normal(size=(60, 2)) + 8 * (np.arange(60) % 2)[:, None]
    >>> said = {"left": [0, 0], "right": [2, 1], "worker": ["a", "a"], "label": [1, 0]}
    >>> recipe = mixture_for(CrowdData(x, said, known={0: "dog", 1: "cat"}), num_clusters=2)
    >>> result = recipe.fit(callbacks=[ClassMoves()], epochs=3, progress=False)
    >>> result.history["class_moves"].tolist()
    [0, 0, 0]
    """

    column = "class_moves"
    # The other labels of the two clusters follow before a move is judged.
    refits = 2

    @torch.no_grad()
    def proposals(self, trainer: Trainer) -> list[Proposal]:
        """Exchanges of classes, those with most evidence in the features first; then partings.

        A proposal exchanges its two clusters' counts of all classes, or of its ``label`` alone.
        """
        guide: Any = trainer.guide
        known, posteriors = trainer.data.known, posteriors_of(guide)
        if int(trainer.history[-1]["epoch"]).bit_count() != 1:
            return []
        if known is None or posteriors is None or "class_table" not in posteriors:
            return []
        items = (known >= 0).nonzero().squeeze(1)[: self.sample_size]
        if not len(items):
            return []
        alone = items_alone(trainer.data, items)
        by_features = guide.infer(alone.to(trainer.device, trainer.dtype)).assignments.double()
        if "owners" in posteriors:
            by_features = by_features @ posteriors["owners"].mean()
        labels = known[alone.items.cpu()].to(by_features.device)
        log_odds = by_features.clamp_min(SMALLEST_PROBABILITY).log()
        pulled = log_odds + posteriors["class_table"].mean().mT[labels]
        held = pulled.argmax(1)
        return _exchanges(log_odds, held) + _partings(log_odds, held, labels)

    def change(self, guide: MovableGuide, proposal: Proposal) -> tuple[int, ...]:
        """Exchange what two rows of the class table know, of all classes or of one."""
        posteriors = posteriors_of(guide)
        assert posteriors is not None  # as it was proposed by these
        rows = posteriors["class_table"].natural_parameters
        first, second = proposal.clusters
        part = slice(None) if proposal.label is None else [proposal.label]
        rows[[first], part], rows[[second], part] = rows[[second], part], rows[[first], part]
        return first, second


def _exchanges(
    log_odds: Float[Tensor, "item cluster"], held: Int[Tensor, " item"]
) -> list[Proposal]:
    """Pairs of clusters, sorted by the log-odds by features that the labels of items outweigh."""
    wanted = log_odds.argmax(1)
    lost = log_odds.amax(1) - log_odds.gather(1, held.unsqueeze(1)).squeeze(1)
    total: Counter[tuple[int, int]] = Counter()
    for one, other, loss in zip(wanted.tolist(), held.tolist(), lost.tolist(), strict=True):
        if one != other:
            total[min(one, other), max(one, other)] += loss
    return [Proposal(pair) for pair, _ in total.most_common()]


def _partings(
    log_odds: Float[Tensor, "item cluster"],
    held: Int[Tensor, " item"],
    labels: Int[Tensor, " item"],
) -> list[Proposal]:
    """Every class but the largest of a cluster goes to the cluster that suits it next best."""
    found: list[Proposal] = []
    for cluster in held.unique().tolist():
        inside = held == cluster
        counts = labels[inside].bincount()
        for label in counts.argsort(descending=True)[1 : int((counts > 0).sum())].tolist():
            next_best = log_odds[inside & (labels == label)].sum(0)
            next_best[cluster] = -math.inf
            found.append(Proposal((cluster, int(next_best.argmax())), label))
    return found
