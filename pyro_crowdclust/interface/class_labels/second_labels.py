"""Whether labels show how workers err: that takes second labels of items, and workers who vary."""

from __future__ import annotations

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.interface.class_labels.constant_workers import few_workers_vary

# Agreement shows how workers err only if at least this share of the items has a second label.
_MIN_SECOND = 0.1


def may_err_together(data: CrowdData) -> bool:
    """Whether a trait may explain labels of two classes: items have second labels, which vary."""
    return data.num_classes == 2 and shows_workers(data)


def shows_workers(data: CrowdData) -> bool:
    """Whether labels show how workers err: items have second labels, and enough workers vary."""
    return not _labels_stand_alone(data) and not few_workers_vary(data)


def _labels_stand_alone(data: CrowdData) -> bool:
    """Whether fewer than one labelled item in ten has a second label."""
    labels = data.needed_class_labels
    number = len(labels.labelled_items)
    return labels.size - number < _MIN_SECOND * number
