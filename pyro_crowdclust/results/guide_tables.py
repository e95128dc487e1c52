"""The tables of workers, pages, labels and components, from the posterior of a guide.

Each is computed at every call, and raises a ``ValueError`` if the guide lacks the method that it is
read from, or if the data have no such rows.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import pandas as pd

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import SMALLEST_PROBABILITY, PosteriorSummary
from pyro_crowdclust.protocols import (
    FittedModel,
    SupportsConfusion,
    SupportsMixture,
    SupportsWorkers,
)
from pyro_crowdclust.results.cluster_numbers import ClusterNumbers
from pyro_crowdclust.results.component_means import component_means
from pyro_crowdclust.results.drawn_partition import DrawnPartition
from pyro_crowdclust.results.further_training import update_steps_of
from pyro_crowdclust.results.guide_verbs import with_verb
from pyro_crowdclust.results.inferred_partition import InferredPartition
from pyro_crowdclust.results.tables import (
    class_workers_table,
    components_table,
    confusion_table,
    workers_table,
)


@runtime_checkable
class SupportsWorkersGiven(Protocol):
    """A guide whose intervals of workers' rates are wider where the clusters are in doubt."""

    def workers_given(self, data: CrowdData, interval: float = 0.9) -> WorkerSummary | None:
        """``workers``, with the doubt about the clusters of these data, those of training."""


@runtime_checkable
class SupportsConfusionGiven(Protocol):
    """A guide whose confusion matrices are wider where the classes are in doubt."""

    def confusion_given(self, data: CrowdData, interval: float = 0.9) -> PosteriorSummary:
        """``confusion``, with the doubt about the classes of these data, those of training."""


def workers_of(result: FittedModel) -> pd.DataFrame:
    """``Fitted.workers``: one row per worker, the rates and the weight; of labels the accuracy."""
    is_of_labels = result.data.class_labels is not None and not result.data.has_answers
    if is_of_labels and isinstance(result.guide, SupportsConfusion):
        return class_workers_table(result.confusion, result.class_probabilities, result.data)
    guide: Any = with_verb(result.guide, SupportsWorkers, "workers")
    widens = has_widened_workers(result)
    summary = guide.workers_given(result.data) if widens else guide.workers()
    if summary is None or not result.data.has_answers:
        raise ValueError(
            "there are no workers: the model has no annotators, or the data have no answers"
        )
    return workers_table(summary, result.data)


def has_widened_workers(result: Any) -> bool:
    """Whether intervals of the workers count how uncertain the clusters are.

    Rates that do not follow from the clusters of the fit are not uncertain because of these.
    """
    if any(step.rates_workers for step in update_steps_of(result.train_on)):
        return False
    return isinstance(result.guide, SupportsWorkersGiven) and result.data.has_answers


def pages_of(data: CrowdData, partition: DrawnPartition | InferredPartition) -> pd.DataFrame:
    """``Fitted.pages``: one row per sorted page, given the partition of the items."""
    table = partition.pages(data)
    if table is None:
        raise ValueError(
            "there are no sorted pages: the model's annotators are not SortedPages, or the "
            "data have no placements, as when pages are used as pairs (result.chosen.reason)"
        )
    return table


def confusion_of(result: FittedModel) -> pd.DataFrame:
    """``Fitted.confusion``: one row per worker, class and label."""
    guide = with_verb(result.guide, SupportsConfusion, "confusion")
    if isinstance(guide, SupportsConfusionGiven) and result.data.class_labels is not None:
        summary = guide.confusion_given(result.data)
    else:
        summary = guide.confusion()
    return confusion_table(summary._asdict(), result.data)


def components_of(result: FittedModel, numbers: ClusterNumbers) -> pd.DataFrame:
    """``Fitted.components``: one row per cluster, the weighted mean of its components.

    Parameters
    ----------
    result
        The fit.
    numbers
        The mapping from its components to clusters.
    """
    summary = with_verb(result.guide, SupportsMixture, "mixture").mixture()
    location, labels = component_means(
        result.model, summary.location.double().cpu(), result.data, result.feature_shape
    )
    if numbers.owners is not None:
        share = summary.weights.double().cpu().unsqueeze(1) * numbers.owners
        location = (share / share.sum(0).clamp_min(SMALLEST_PROBABILITY)).mT @ location
    return components_table(numbers.in_order(location.numpy(force=True)), labels)
