"""What all models of class labels share: the labels' sites, and the checks of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pyro
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.batches import Batch
from pyro_crowdclust.class_annotators import ClassAnnotators
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.label_distributions import Evidence, ItemLabels


def sample_evidence(
    annotators: ClassAnnotators, values: Mapping[str, Tensor], batch: Batch
) -> Float[Tensor, "item class"] | None:
    """Run the site ``evidence`` inside the plate of the items; None without labels."""
    if batch.class_labels is None:
        return None
    log_answers = annotators.log_answers(values)
    return pyro.sample("evidence", Evidence(log_answers, batch.class_labels))


def sample_labels(
    annotators: ClassAnnotators,
    values: Mapping[str, Tensor],
    classes: Float[Tensor, "item class"],
    batch: Batch,
) -> None:
    """Run the sites ``evidence`` and ``labels`` inside the plate of the items."""
    evidence = sample_evidence(annotators, values, batch)
    if evidence is None:
        return
    labels = batch.class_labels
    likelihood = ItemLabels(classes, evidence, annotators.log_answers(values), labels)
    pyro.sample("labels", likelihood, obs=labels.label)


def check_class_labels(annotators: ClassAnnotators, data: CrowdData) -> None:
    """Raise a ``ValueError`` unless the data have the labels that the annotators are of."""
    if data.class_labels is None:
        raise ValueError(
            "the data have no class labels, which this model is of: pass CrowdData(labels=frame)"
        )
    for what, ours, theirs in (
        ("workers", annotators.num_workers, data.num_workers),
        ("classes", annotators.num_classes, data.num_classes),
    ):
        if ours != theirs:
            raise ValueError(
                f"the annotators have {ours} {what}, but the data {theirs}: build them with "
                f"{type(annotators).__name__}(...) of data.num_workers and data.num_classes"
            )


def check_features(data: CrowdData, num_features: int) -> None:
    """Raise a ``ValueError`` unless every item has so many features."""
    if data.features is None:
        raise ValueError(
            "the data have no features, which this model is of: pass features, or use DawidSkene"
        )
    found = math.prod(data.features.shape[1:])
    if found != num_features:
        raise ValueError(
            f"the model is of {num_features} features, but every item has {found}: build it with "
            "the number of the data"
        )
