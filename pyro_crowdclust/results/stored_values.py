"""Values of a result that its file has, so that they need not be computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class StoredValues:
    """What a file has of a fit although it would be computed from the features, which it lacks.

    Attributes
    ----------
    elbo
        ``Fitted.elbo``.
    items
        q(z), ``[item, component]``, and latent means, ``[item, dim]``, of the training items; None
        if there is no q(z).
    cluster_order
        ``Fitted.cluster_order``, if there is a q(z).
    workers
        ``Fitted.workers``, if its intervals count how uncertain the clusters are.
    """

    elbo: float
    items: tuple[Tensor, Tensor | None] | None
    cluster_order: Int[np.ndarray, " cluster"] | None
    workers: pd.DataFrame | None
