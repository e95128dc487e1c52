"""A copy of a result, whose posteriors may be changed."""

from __future__ import annotations

from dataclasses import replace

from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.training.copies import copied


def with_own_parts(result: Fitted) -> Fitted:
    """The result with copies of its model and guide.

    A change of the copies leaves the first result as it was. Its tables are computed once and kept,
    so that they would belie a guide that was changed.
    """
    model, guide = copied(result.model, result.guide)
    return replace(result, model=model, guide=guide)
