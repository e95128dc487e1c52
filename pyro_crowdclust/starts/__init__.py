"""Where training begins."""

from pyro_crowdclust.starts.neighbors import NeighborPartition
from pyro_crowdclust.starts.partitions import (
    KMeansStart,
    LabeledStart,
    PartitionStart,
    within_class_covariance,
)
from pyro_crowdclust.starts.principal_components import (
    MixtureStart,
    PrincipalComponentStart,
    default_start,
)

__all__ = [
    "KMeansStart",
    "LabeledStart",
    "MixtureStart",
    "NeighborPartition",
    "PartitionStart",
    "PrincipalComponentStart",
    "default_start",
    "within_class_covariance",
]
