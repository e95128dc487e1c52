"""Where a trait is cut into two classes: what the items say of it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# m grows by so much an annotator, up to this: few answers to an item hardly show where items part.
_PARTED, _MOST_PARTED = 3.0, 30.0


def log_weight_of_items(
    rho: Float[Tensor, " point"],
    above: Float[Tensor, "point cut"],
    share: float,
    strength: float,
    num_annotators: int,
) -> Float[Tensor, " cut"]:
    """``n log [s(c)^r (1 - s(c))^(1 - r)] + m log R(c)``, for every place of the cut.

        s(c) = sum_t rho_t p_t(c)                R(c) = 1 - sum_t rho_t H(p_t(c)) / H(s(c))

    The share s of class 1 is about the expected one, r, which counts as n items, and items part at
    c, so that few of them lie near it: R is the share of what is unknown of a class that its trait
    tells, H being the entropy and ``m = min(3 M, 30)`` for M annotators.

    Parameters
    ----------
    rho
        Distribution of the trait.
    above
        p, the probability of class 1 at a point of the trait if the cut is at c.
    share, strength
        r and n.
    num_annotators
        M.

    Examples
    --------
    >>> import torch
    >>> rho = torch.tensor([0.45, 0.1, 0.45])
    >>> above = torch.tensor([[0.5, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 0.5]])
    >>> log_weight_of_items(rho, above, share=0.5, strength=30, num_annotators=5).argmax()
    tensor(1)
    """
    class_1 = rho @ above
    of_share = share * class_1.log() + (1 - share) * (1 - class_1).log()
    # The trait of all items may be one and the same, which tells nothing.
    told = (1 - rho @ _entropy(above) / _entropy(class_1)).clamp_min(1e-6)
    parted = min(_PARTED * num_annotators, _MOST_PARTED)
    return strength * of_share + parted * told.log()


def _entropy(probability: Tensor) -> Tensor:
    return torch.special.entr(probability) + torch.special.entr(1 - probability)
