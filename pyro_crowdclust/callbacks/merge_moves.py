"""Merge moves: join two components when the answers say that they are one cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.families import ExponentialFamily
from pyro_crowdclust.minibatches.batch import answered_batch
from pyro_crowdclust.training.trainer import Trainer, assignments_by_features, spaced_items

# Two components, and what joining them changes.
Move = tuple[int, int, float]


def answer_gain(
    assignments: Float[Tensor, "item cluster"],
    left: Int[Tensor, " pair"],
    right: Int[Tensor, " pair"],
    weight: Float[Tensor, " pair"],
) -> Float[Tensor, "cluster cluster"]:
    """``G_kl = sum_ij w_ij (q_ik q_jl + q_il q_jk)``: what the answers gain if k and l were one.

    The expected log-likelihood of the answers is ``sum_ij w_ij <q_i, q_j>`` plus a constant
    (Luo et al. 2018, eq. 20); joining k and l replaces ``q_ik q_jk + q_il q_jl`` by
    ``(q_ik + q_il)(q_jk + q_jl)``.
    """
    half = assignments[left].mT @ (weight.unsqueeze(-1) * assignments[right])
    return half + half.mT


def evidence_change(
    family: ExponentialFamily,
    prior: Float[Tensor, "cluster size"],
    posterior: Float[Tensor, "cluster size"],
    first: int,
    second: int,
) -> float:
    """Change of the log evidence of components when two share one theta.

    With ``eta_k = eta0 + S_k`` the evidence of component k's statistics is
    ``log Z(eta_k) - log Z(eta0)``, so the change is ``log Z(eta_k + eta_l - eta0) + log Z(eta0) -
    log Z(eta_k) - log Z(eta_l)``.
    """
    base = prior[first]
    joined = posterior[first] + posterior[second] - base
    terms = torch.stack([joined, base, posterior[first], posterior[second]])
    signs = terms.new_tensor([1.0, 1.0, -1.0, -1.0])
    return float(signs @ family.log_normalizer(terms))


def entropy_change(
    probabilities: Float[Tensor, "item cluster"], first: int, second: int, multiplicity: float
) -> float:
    """Change of the entropy of z when two clusters become one (never positive)."""
    parts = probabilities[:, [first, second]]
    joined = parts.sum(1)
    before = -torch.special.xlogy(parts, parts).sum()
    return multiplicity * float(-torch.special.xlogy(joined, joined).sum() - before)


def best_move(
    trainer: Trainer,
    gain: Float[Tensor, "cluster cluster"],
    allowed: Bool[Tensor, "cluster cluster"],
    probabilities: Float[Tensor, "item cluster"],
    emptied: set[int],
) -> Move | None:
    """The move that the training objective gains most by, and what it gains; None if it loses.

    To ``gain``, what the evidence for moves says of every two components (entries above the
    diagonal count), come the changes of the log evidence of components and weights and of the
    entropy of z. Components without an item and those ``emptied`` before take no part.

    Parameters
    ----------
    trainer
        The training run.
    gain
        Change of the objective apart from the mixture's own.
    allowed
        The moves to consider.
    probabilities
        q(z) of some of the items, by their features.
    emptied
        Components that moves of the same epoch have emptied.
    """
    multiplicity = trainer.data.num_items / len(probabilities)
    counts = multiplicity * probabilities.sum(0)
    held = counts >= 1
    held[list(emptied)] = False
    candidates = (allowed & held & held.unsqueeze(-1)).triu(1)
    best = None
    for first, second in candidates.nonzero().tolist():
        change = float(gain[first, second])
        change += entropy_change(probabilities, first, second, multiplicity)
        change += trainer.guide.merge_change(first, second, counts)
        if change > 0 and (best is None or change > best[2]):
            best = (first, second, change)
    return best


def make_moves(
    trainer: Trainer, find: Callable[[set[int]], Move | None]
) -> list[tuple[int, int, int, float]]:
    """Make the move that ``find(emptied)`` names, and so on until it names none; count them.

    Returns ``(epoch, kept component, emptied component, change)`` of every move. ``find`` is told
    what moves have emptied so far.
    """
    row, moves, emptied = trainer.history[-1], [], set()
    while (move := find(emptied)) is not None:
        first, second, change = move
        empty = trainer.guide.merge(first, second)
        emptied.add(empty)
        moves.append((row["epoch"], first + second - empty, empty, change))
        row["merges"] += 1
    return moves


@dataclass
class MergeMoves:
    """A callback of ``fit``: after an epoch, join components that the answers call one cluster.

    Features alone may split one human cluster into several Gaussians (a digit written in two
    ways). For every two components the change of the training objective is known in closed form:
    the log evidence of the components and of the weights, the entropy of z, and the answers, the
    last times the current weight of the guide's ``RecognitionTerm`` (1 without one, which is the
    ELBO itself). The best move is made if the change is positive, and so on until none is.

    The guide must have the verbs ``infer``, ``rate_statistics``, ``merge_change`` and ``merge``.

    Attributes
    ----------
    first_epoch
        Make no move before the end of this epoch.
    sample_size
        About this many items judge the entropy.
    moves
        ``(epoch, kept component, emptied component, change)`` of every move made.
    """

    first_epoch: int = 1
    sample_size: int = 4096
    moves: list[tuple[int, int, int, float]] = field(default_factory=list)

    def state_dict(self) -> dict[str, list]:
        """What a checkpoint keeps: the moves so far."""
        return {"moves": list(self.moves)}

    def load_state_dict(self, state: dict[str, list]) -> None:
        """Go on after the moves of a checkpoint."""
        self.moves[:] = state["moves"]

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> None:
        """Judge and make the moves; the epoch's history row gets the key ``merges``."""
        row = trainer.history[-1]
        row["merges"] = 0
        if row["epoch"] < self.first_epoch or trainer.data.answers is None:
            return
        self.moves += make_moves(trainer, partial(self._best_move, trainer))

    def _best_move(self, trainer: Trainer, emptied: set[int]) -> Move | None:
        guide = trainer.guide
        batch = answered_batch(trainer.data).to(trainer.device, trainer.dtype)
        answered = guide.infer(batch).assignments.double()
        weight = guide.model.annotators.log_likelihood_ratio(
            guide.rate_statistics(), batch.worker, batch.label
        )
        gain = answer_gain(answered, batch.left, batch.right, weight)
        term = getattr(guide, "recognition_term", None)
        gain = gain * (1.0 if term is None else max(term.current_weight(), 1.0))
        chosen = spaced_items(trainer.data.num_items, self.sample_size)
        probabilities = assignments_by_features(trainer, chosen)
        # Evidence alone can favour a move, too, but whether two components are one cluster is for
        # the answers to say.
        return best_move(trainer, gain, gain > 0, probabilities, emptied)
