"""Factorials of counts, for the base measures of count families."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def log_factorials(counts: Float[Tensor, "*batch feature"]) -> Float[Tensor, "*batch"]:
    """``sum_j log x_j!`` of whole numbers.

    ``0! = 1! = 1``, and most counts are that small: log-gamma is only computed for the others.

    Examples
    --------
    >>> import torch
    >>> log_factorials(torch.tensor([0.0, 1.0, 3.0])).exp().round()
    tensor(6.)
    """
    rows = counts.reshape(-1, counts.shape[-1])
    row, column = (rows > 1).nonzero(as_tuple=True)
    terms = torch.lgamma(rows[row, column] + 1)
    return rows.new_zeros(len(rows)).index_add(0, row, terms).reshape(counts.shape[:-1])
