"""View merges: join two components when views of one item fall now into one, now into the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.callbacks.merge_moves import Move, best_move, make_moves
from pyro_crowdclust.training.trainer import Trainer, spaced_items

# Logarithms of smaller probabilities say more of the precision than of the items.
_SMALLEST = 1e-12


def view_gain(
    found: Float[Tensor, "item cluster"], seen: Float[Tensor, "item cluster"]
) -> Float[Tensor, "cluster cluster"]:
    """``G_kl = sum_i (q_ik + q_il) log(v_ik + v_il) - q_ik log v_ik - q_il log v_il``.

    What ``sum_i sum_k q_ik log v_ik``, the agreement of the items' q(z) with that of their views,
    gains if k and l were one; never negative, and zero on the diagonal.

    Examples
    --------
    >>> import torch
    >>> found = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> seen = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    >>> view_gain(found, seen)[0]                                       # log 2, and nothing
    tensor([0.0000, 0.6931, 0.0000])
    """
    seen = seen.clamp_min(_SMALLEST)
    alone = (found * seen.log()).sum(0)
    rows = [
        ((found[:, k, None] + found) * (seen[:, k, None] + seen).log()).sum(0)
        for k in range(found.shape[1])
    ]
    gain = torch.stack(rows) - alone - alone.unsqueeze(-1)
    return gain.fill_diagonal_(0.0)


@dataclass
class ViewMerges:
    """A callback of ``fit``: after an epoch, join components that views of an item confuse.

    Two components that split one human cluster by a whim of the start are often a small turn or
    shift apart, so that views of one item fall into both; two human clusters are not. For any two
    components the change of ``ELBO + sum_i sum_k q(z_i = k) log q(z_i = k | v(o_i))`` is known in
    closed form: log evidence of components and weights, entropy of z, and ``view_gain``. The best
    move is made if the change is positive, and so on until none is. No answers are needed;
    ``MergeMoves`` listens to them.

    The guide must have a ``ConsistencyTerm``, which has the view, and the verbs ``infer``,
    ``merge_change`` and ``merge``.

    Attributes
    ----------
    first_epoch
        Make no move before the end of this epoch: components must have become pure first, for no
        move divides what was joined.
    sample_size
        About this many items are looked at.
    moves
        ``(epoch, kept component, emptied component, change)`` of every move made.
    """

    first_epoch: int = 5
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
        row, guide = trainer.history[-1], trainer.guide
        row["merges"] = 0
        if row["epoch"] < self.first_epoch:
            return
        if getattr(guide, "consistency_term", None) is None:
            raise ValueError(
                "view merges need to know what a view is: give the guide a ConsistencyTerm (its "
                "weights may be 0)"
            )
        features = trainer.data.rows(spaced_items(trainer.data.num_items, self.sample_size))
        view = guide.consistency_term.view
        views = view(features, 2 * torch.rand(len(features), view.num_random) - 1)
        self.moves += make_moves(trainer, partial(self._best_move, trainer, features, views))

    def _best_move(
        self, trainer: Trainer, features: Tensor, views: Tensor, emptied: set[int]
    ) -> Move | None:
        found = trainer.predict_proba(features).double()
        gain = view_gain(found, trainer.predict_proba(views).double())
        gain *= trainer.data.num_items / len(found)
        return best_move(trainer, gain, torch.ones_like(gain, dtype=torch.bool), found, emptied)
