"""Results of class labels whose probabilities are about as often right as they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_labels.trusted_reading import read_by_trusted
from pyro_crowdclust.pooling import SINGLE_ANSWER_PROBABILITY, calibrated_guide
from pyro_crowdclust.protocols import SupportsTrustedWorkers
from pyro_crowdclust.results import UpdateStep, with_step


def calibrated(result: Fitted) -> Fitted:
    """The result with labels that count as much as they tell; ``Fitted.update`` does it again.

    Items that trusted workers have labelled show this best (``read_by_trusted``). Without such
    workers it is the temperature at which labels are predicted best from the features and from the
    others about their item. Either way, all answers about one item in ten may be a single one
    (``pooling.calibrated_guide``).

    Parameters
    ----------
    result
        A fit of class labels under ``ClassLabelGuide``, all of whose labels count in full.
    """
    has_trusted = isinstance(result.model.annotators, SupportsTrustedWorkers)
    if not has_trusted:
        read = replace(result, guide=calibrated_guide(result))
    else:
        read = read_by_trusted(result)
        guide = read.guide.read_at(single_answer_probability=SINGLE_ANSWER_PROBABILITY)
        read = replace(read, guide=guide)
    return with_step(replace(read, guide=read.guide.read_at(rows_vary=True)), Calibrate())


@dataclass(frozen=True)
class Calibrate(UpdateStep):
    """Trains with labels that count in full; the result is ``calibrated``."""

    def before(
        self, model: Any, guide: ClassLabelGuide, data: CrowdData, changes: Mapping[str, Any]
    ) -> tuple[Any, ClassLabelGuide]:
        """The same posterior, by labels that count in full."""
        return model, guide.in_full()

    def after(self, result: Fitted) -> Fitted:
        """The calibrated result."""
        return calibrated(result)
