"""Options of ``fit`` for models of class labels, by what they are fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from pyro_crowdclust.training import Stopping

# Labels alone.
OF_LABELS: dict[str, Any] = {
    "batch_size": None,
    "epochs": 200,
    "step_size": 0.5,
    "stopping": Stopping(1e-5),
    # Few priors are learned, by exact gradients, so that large steps converge in about 100.
    "optim": partial(torch.optim.Adam, lr=0.1),
    "progress": False,
}
# Labels alone, by a trait of the items: its cut depends on a few hundredths of it, which still move
# in its slow last steps.
OF_TRAIT: dict[str, Any] = OF_LABELS | {"epochs": 500, "stopping": Stopping(1e-6)}
# Labels and features.
OF_FEATURES: dict[str, Any] = {
    "batch_size": None,
    "step_size": 0.7,
    "epochs": 60,
    "optim": partial(torch.optim.Adam, lr=0.05),
    "stopping": Stopping(1e-4),
    "dtype": torch.float64,
}
# Those that say where a fit runs, and not how long.
_SHARED = "seed", "device", "dtype", "progress"


def shared_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a fit of labels alone takes over from one of labels and features.

    Examples
    --------
    >>> shared_options({"seed": 3, "epochs": 60})
    {'seed': 3}
    """
    return {name: options[name] for name in _SHARED if name in options}
