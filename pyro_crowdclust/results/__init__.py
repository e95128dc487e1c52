"""Results of a fit: classes and tables that are read from it, saving and loading."""

from pyro_crowdclust.results.chosen import Chosen
from pyro_crowdclust.results.cluster_classes import (
    cluster_classes,
    known_class_probabilities,
    known_or_likeliest,
)
from pyro_crowdclust.results.feature_weight import read_at
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.results.further_training import (
    FurtherTraining,
    UpdateStep,
    step_of,
    with_step,
)
from pyro_crowdclust.results.loading import load
from pyro_crowdclust.results.lost_options import LostOption
from pyro_crowdclust.results.own_parts import with_own_parts

__all__ = [
    "Chosen",
    "Fitted",
    "FurtherTraining",
    "LostOption",
    "UpdateStep",
    "cluster_classes",
    "known_class_probabilities",
    "known_or_likeliest",
    "load",
    "read_at",
    "step_of",
    "with_own_parts",
    "with_step",
]
