"""The fits of campaigns, which are updated with every round of answers."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import ConfusionMatrices, annotators_of_looks
from pyro_crowdclust.guides import ClassLabelGuide, PartitionGuide
from pyro_crowdclust.interface import recipe_for, with_feature_weight, with_workers_refitted
from pyro_crowdclust.models import AnsweredPartition, DawidSkene
from pyro_crowdclust.partitions import PitmanYor
from pyro_crowdclust.training import Stopping

cluster = run_path(str(Path(__file__).parents[1] / "examples" / "ask_next.py"))["cluster"]


def mixture(
    data: CrowdData, seed: int, num_components: int = 40, feature_weight: float = 0.1
) -> Fitted:
    """The fit of ``examples/ask_next.py``: clusters that own many Gaussian components.

    With twenty directions, Gaussians are so certain that no page moves an item. A smaller weight
    reduces the influence of the features once the components are learned. The rates of workers are
    then estimated from the resulting assignments.
    """
    whole = cluster(data, num_components, seed)
    if feature_weight == 1:
        return whole
    return with_workers_refitted(with_feature_weight(whole, feature_weight))


def first_call(data: CrowdData, seed: int) -> Fitted:
    """The fit that ``cluster`` chooses; pages are used as pairs."""
    return recipe_for(data.as_pairs()).fit(seed=seed, progress=False)


def dawid_skene(data: CrowdData, seed: int) -> Fitted:
    """Dawid-Skene, for class labels."""
    model = DawidSkene(ConfusionMatrices(data.num_workers, data.num_classes))
    return fit(
        model,
        ClassLabelGuide(model),
        data,
        epochs=200,
        batch_size=None,
        step_size=1.0,
        stopping=Stopping(1e-5),
        dtype=torch.float64,
        seed=seed,
        progress=False,
    )


def answered_partition(data: CrowdData, seed: int) -> Fitted:
    """Clusters of all sizes, from answers alone."""
    model = AnsweredPartition(annotators_of_looks(data), PitmanYor())
    return fit(
        model,
        PartitionGuide(model, data.num_items),
        data,
        epochs=60,
        batch_size=None,
        step_size=0.2,
        dtype=torch.float64,
        seed=seed,
        progress=False,
    )
