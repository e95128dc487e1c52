"""The ELBO of a batch as one number, also if its guide draws latents.

Of a guide whose sites return means, or are points, one evaluation is the bound. If a guide draws
latents, as an ``AutoNormal`` does, each evaluation is only an unbiased estimate of it,

    log p(x, o) - log q(x)   at   x ~ q(x),

with a standard deviation of several nats even for a hundred items, more than many fits differ by.
In an average of S evaluations it is smaller by the root of S.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

import torch

from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.training.random_states import torch_states

# All draws together read at most so many numbers, unless there are the fewest draws.
_MOST_DRAWS, _FEWEST_DRAWS, _NUMBERS = 64, 4, 20_000_000


def num_draws(batch: Batch) -> int:
    """The number of evaluations of a random bound: 64, for large batches fewer, down to 4.

    Examples
    --------
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.minibatches import full_batch
    >>> batches = [full_batch(CrowdData(torch.zeros(number, 2))) for number in (9, 200_000)]
    >>> [num_draws(batch) for batch in batches]
    [64, 33]
    """
    features = 0 if batch.features is None else batch.features.numel()
    size = features + len(batch.items) + len(batch.left)
    return min(_MOST_DRAWS, max(_FEWEST_DRAWS, _NUMBERS // max(size, 1)))


def bound_of(objective: Any, model: Any, guide: Any, batch: Batch, device: Any) -> float:
    """The ELBO of a batch; the mean of ``num_draws`` evaluations if it depends on random numbers.

    It depends on them if an evaluation used some, and the next one differs.

    Parameters
    ----------
    objective
        A bound of Pyro's.
    model, guide
        Trained parts.
    batch
        The batch, on the device.
    device
        The device of the fit.
    """

    def evaluate() -> float:
        return -float(objective.loss(model, guide, batch))

    before = torch_states(device)
    first = evaluate()
    after = torch_states(device)
    if all(after[name] is None or torch.equal(before[name], after[name]) for name in after):
        return first
    second = evaluate()
    if second == first:
        return first
    return fmean([first, second, *(evaluate() for _ in range(num_draws(batch) - 2))])
