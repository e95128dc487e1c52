"""Label switching: the correction of an ELBO for the equivalent orders of the components."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor


def log_orders(assignments: Float[Tensor, "item component"]) -> float:
    """``log K! / (K - U)!``: gain of the ELBO from all orders of K components, U of them in use.

    With G orders pi of the components that are as likely a priori, q and every ``q_pi`` have the
    same ELBO, and their average ``q' = 1/G sum_pi q_pi`` has

        ELBO(q') = ELBO(q) + E_q[log q - log q'] <= ELBO(q) + log G,

    with equality where no two of them overlap, as when each component has items of its own (Bishop
    2006, 10.2.4). Reordering components without items does not change q. So the ELBO of a single
    order is too low, and the more so the more components there are.

    Examples
    --------
    >>> import torch
    >>> round(log_orders(torch.eye(3)[[0, 0, 1]]), 3)  # log 6
    1.792
    """
    number, used = assignments.shape[1], len(assignments.argmax(1).unique())
    return math.lgamma(number + 1) - math.lgamma(number - used + 1)
