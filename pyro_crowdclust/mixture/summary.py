"""What a reader sees of a fitted mixture."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class MixtureSummary(NamedTuple):
    """A mixture as a reader sees it: ``weights`` E[pi], and a ``ComponentSummary``'s two parts."""

    weights: Float[Tensor, " cluster"]
    location: Float[Tensor, "cluster column"]
    covariance: Float[Tensor, "cluster ..."] | None
