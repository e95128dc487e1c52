"""The average of confusion matrices with one rate per worker, for three classes or more.

    q(y_i) = (1 - w) q_own(y_i) + w q_one_rate(y_i)          w = 1 - .9 / sqrt(T)

T is the temperature at which the fit predicts answers best from others about their item. Where
answers tell less together than the matrices count them for (T above 1), items about which workers
err together look like items of a class of their own. A rare class takes them in, and the rows of
its matrices widen to explain them. One rate per worker has no rows that could widen, but does not
know which classes a worker mixes up. In the average, neither is certain where the other contradicts
it, which is worth a tenth even at T = 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyro_crowdclust import Fitted
from pyro_crowdclust.annotators import OneCoin
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides import AveragedGuide, ClassLabelGuide
from pyro_crowdclust.interface.class_labels.average_step import AverageStep
from pyro_crowdclust.interface.class_labels.calibrating import calibrated
from pyro_crowdclust.interface.class_labels.options import OF_LABELS
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.training import is_interrupted

# The weight of the matrices where the temperature is 1.
_LARGEST_OF_OWN = 0.9


def averaged_with_one_rate(result: Fitted, **options: Any) -> Fitted:
    """The average of a calibrated fit and of one with one rate per worker.

    Parameters
    ----------
    result
        A calibrated fit of class labels without features.
    options
        Options of ``fit`` that differ from the defaults.
    """
    if isinstance(result.model.annotators, OneCoin):
        return result
    model = DawidSkene(Workers(one_rate=True).annotators(result.data))
    guide = ClassLabelGuide(model, moderated=True)
    other = fit(model, guide, result.data, **OF_LABELS | options)
    if is_interrupted(other):
        return replace(result, stop_reason=other.stop_reason)
    weight = 1 - _LARGEST_OF_OWN / result.guide.reading.temperature**0.5
    return replace(result, guide=AveragedGuide(result.guide, calibrated(other).guide, weight))


@dataclass(frozen=True)
class AverageWithOneRate(AverageStep):
    """Fits one rate per worker, too; the average is ``averaged_with_one_rate``."""

    def averaged(self, result: Fitted, options: dict[str, Any]) -> Fitted:
        """The average of the matrices and the rates."""
        return averaged_with_one_rate(result, **options)
