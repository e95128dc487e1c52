"""The data of a fit: features, answers about pairs, class labels, known labels and links."""

from pyro_crowdclust.data.columns import Columns
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.known_labels import Links
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.data.likeness import Likeness
from pyro_crowdclust.data.pair_answers import Answers, Outcomes, Sessions
from pyro_crowdclust.data.placements import Placements
from pyro_crowdclust.data.some_items import some_items, without_features
from pyro_crowdclust.data.stored_features import (
    DatasetFeatures,
    MemmapFeatures,
    ParquetFeatures,
    StoredFeatures,
)
from pyro_crowdclust.data.worker_families import one_answer_per_family

__all__ = [
    "Answers",
    "Columns",
    "CrowdData",
    "DatasetFeatures",
    "LabelMatrix",
    "Likeness",
    "Links",
    "MemmapFeatures",
    "Outcomes",
    "ParquetFeatures",
    "Placements",
    "Sessions",
    "StoredFeatures",
    "one_answer_per_family",
    "some_items",
    "without_features",
]
