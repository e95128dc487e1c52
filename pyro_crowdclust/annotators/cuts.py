"""Where a trait is cut into two classes: the evidence of the items."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators.trait_grid import MOST_ANNOTATORS
from pyro_crowdclust.errors import check_share

# The number of items that a share which votes show counts as: votes of strict or lenient judges may
# be far from the true share, and this is little if the class is rare.
SHARE_ITEMS = 30.0
# Deviation of a share that a user gives, in log odds.
_DEVIATION = 0.45
# m grows by this per label of an item: few answers per item hardly show where items separate.
_SEPARATION = 3.0


def items_of_given_share(share: float) -> float:
    """``1 / (.45^2 r (1 - r))``: as many items determine the log odds of r up to .45.

    Raises
    ------
    ValueError
        For a share outside (0, 1).

    Examples
    --------
    >>> [round(items_of_given_share(share)) for share in (0.2, 0.01)]
    [31, 499]
    """
    check_share("share", share)
    return 1 / (_DEVIATION**2 * share * (1 - share))


def log_weight_of_items(
    rho: Float[Tensor, " point"],
    above: Float[Tensor, "point cut"],
    share: float,
    num_items: float,
    num_labels: float,
) -> Float[Tensor, " cut"]:
    """``n log [s(c)^r (1 - s(c))^(1 - r)] + m log R(c)``, for every place of the cut.

        s(c) = sum_t rho_t p_t(c)                R(c) = 1 - sum_t rho_t H(p_t(c)) / H(s(c))

    At a good cut c the share s of class 1 is about the expected one, r, which counts as n items.
    And items separate, so that few of them lie near c: R is the part of the uncertainty about a
    class that the trait removes, with H the entropy and ``m = 3 min(M, 20)`` for M labels an item.

    Parameters
    ----------
    rho
        Distribution of the trait.
    above
        p, the probability of class 1 at a point of the trait if the cut is at c.
    share, num_items
        r and n.
    num_labels
        M.

    Examples
    --------
    >>> import torch
    >>> rho = torch.tensor([0.45, 0.1, 0.45])
    >>> above = torch.tensor([[0.5, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 0.5]])
    >>> log_weight_of_items(rho, above, share=0.5, num_items=30, num_labels=5).argmax()
    tensor(1)
    """
    class_1 = rho @ above
    of_share = share * class_1.log() + (1 - share) * (1 - class_1).log()
    # Zero if the trait is the same for all items.
    explained = (1 - rho @ _entropy(above) / _entropy(class_1)).clamp_min(1e-6)
    separation = _SEPARATION * min(num_labels, MOST_ANNOTATORS)
    return num_items * of_share + separation * explained.log()


def _entropy(probability: Tensor) -> Tensor:
    return torch.special.entr(probability) + torch.special.entr(1 - probability)
