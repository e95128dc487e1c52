"""Computing a result again with features that count less, or more."""

from __future__ import annotations

from dataclasses import replace

from pyro_crowdclust.results.fitted import Fitted


def read_at(result: Fitted, feature_weight: float) -> Fitted:
    """The result with the features' likelihood to the power of tau; itself if tau is the same.

    Parameters
    ----------
    result
        A fit whose guide has ``read_at`` (``protocols.SupportsFeatureWeight``).
    feature_weight
        tau.
    """
    if result.guide.feature_weight == feature_weight:
        return result
    other = result.guide.read_at(feature_weight)
    return replace(result, model=other.model, guide=other)
