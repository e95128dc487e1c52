"""How likely answers about pairs are by chance: by how often each worker gives each label."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import Answers

# The shares of the labels among all answers count as this many answers of each worker.
_OF_ALL = 4.0


def log_chance(
    data: CrowdData, held_out: Answers, strength: float = _OF_ALL
) -> Float[Tensor, " answer"]:
    """``log p_m(L)`` of held-out answers, by the shares of the labels, whatever the items are.

    With n_mL answers L among the n_m answers of worker m in the data, and p(L) the share of L among
    the answers of all workers, ``p_m(L) = (n_mL + c p(L)) / (n_m + c)``.

    Parameters
    ----------
    data
        The other answers.
    held_out
        The answers, with the codes of these data.
    strength
        c, the number of answers of each worker that the shares among all answers count as.

    Examples
    --------
    >>> pairs = {"left": [0, 0, 1], "right": [1, 2, 2], "worker": list("aab"), "label": [1, 1, 0]}
    >>> data = CrowdData(None, pairs)
    >>> log_chance(data, data.answers).exp().tolist()
    [0.7333333333333334, 0.7333333333333334, 0.52]
    """
    answers = data.needed_answers
    outcomes = data.outcomes
    kept, place = (outcomes.places(one.label) for one in (answers, held_out))
    size = data.num_workers, outcomes.num_outcomes
    code = answers.worker * outcomes.num_outcomes + kept
    counts = torch.bincount(code, minlength=math.prod(size)).reshape(size).double()
    of_all = counts.sum(0) + 1
    own = counts + strength * of_all / of_all.sum()
    shares = own / own.sum(1, keepdim=True)
    return shares[held_out.worker, place].log()
