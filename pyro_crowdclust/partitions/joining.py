"""Groups joined two by two: greedy agglomeration (Ward 1963)."""

from __future__ import annotations

import math
from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor, nn


def join_best(
    group: Int[Tensor, " part"],
    gains: Callable[
        [Float[Tensor, "part group"], Int[Tensor, " group"]], Float[Tensor, "group group"]
    ],
    least: float = -math.inf,
    fewest: int = 1,
) -> Int[Tensor, " part"]:
    """Groups of which again and again the two are joined whose union gains most.

    Parameters
    ----------
    group
        The group of every part to begin with: a number that it shares with its group.
    gains
        What is gained if the second of two groups joins the first, which keeps its number; -inf if
        it may not. The diagonal is not read. Its arguments are the group of every part, one-hot,
        and the sorted numbers of the groups.
    least
        Only unions that gain more are made.
    fewest
        Number of groups at which to stop.

    Examples
    --------
    >>> import torch
    >>> near = torch.tensor([[0.0, 3.0, -1.0], [3.0, 0.0, -1.0], [-1.0, -1.0, 0.0]])
    >>> join_best(torch.arange(3), lambda member, _: member.mT @ near.double() @ member, least=0)
    tensor([0, 0, 2])
    """
    group = group.clone()
    while True:
        numbers, place = group.unique(return_inverse=True)
        if len(numbers) <= fewest:
            return group
        gained = gains(nn.functional.one_hot(place).double(), numbers)
        gained.fill_diagonal_(-math.inf)
        first, second = divmod(int(gained.argmax()), len(numbers))
        if not gained[first, second] > least:
            return group
        group[group == numbers[second]] = numbers[first]
