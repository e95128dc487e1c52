"""Results read with features that count less, or more."""

from __future__ import annotations

from dataclasses import replace

from pyro_crowdclust.results.fitted import Fitted


def read_at(result: Fitted, sharpness: float) -> Fitted:
    """The result, read with features that count by a power tau; itself if it is read so already.

    Parameters
    ----------
    result
        Of a guide that ``SupportsSharpness``.
    sharpness
        tau.
    """
    if result.guide.sharpness == sharpness:
        return result
    other = result.guide.read_at(sharpness)
    return replace(result, model=other.model, guide=other)
