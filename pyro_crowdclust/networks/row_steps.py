"""Training of a network before a fit: steps of Adam on some rows of the data each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

# Rows in a step.
ROWS_PER_STEP = 256


def descend_on_rows(
    loss: Callable[[Int[Tensor, " row"]], Float[Tensor, ""]],
    parameters: Iterable[nn.Parameter],
    num_rows: int,
    generator: torch.Generator,
    steps: int,
) -> None:
    """Minimize ``E[loss(rows)]`` by Adam, with ``ROWS_PER_STEP`` random rows in every step.

    Nothing happens if no parameter requires gradients. A loss that is not finite ends training
    before its step.

    Parameters
    ----------
    loss
        A function of the drawn rows.
    parameters
        Changed in place.
    num_rows
        Number of rows to draw from.
    generator
        Source of the rows.
    steps
        Number of steps.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        return
    optimizer = torch.optim.Adam(trained, lr=3e-3)
    for _ in range(steps):
        value = loss(torch.randint(num_rows, (ROWS_PER_STEP,), generator=generator))
        if not value.isfinite():
            return
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
