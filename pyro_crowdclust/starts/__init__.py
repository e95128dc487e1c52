"""Starts: initial values of a guide's posteriors and of networks, for ``fit(initialize=...)``."""

from pyro_crowdclust.starts.answer_directions import answer_directions, partition_along
from pyro_crowdclust.starts.answers import (
    AnswersStart,
    GroupsStart,
    TrustingStart,
    answered_groups,
    groups_by_answers,
    largest_first,
)
from pyro_crowdclust.starts.classes import ClassesStart
from pyro_crowdclust.starts.default import default_start
from pyro_crowdclust.starts.distillation import Distillation
from pyro_crowdclust.starts.k_means import k_means
from pyro_crowdclust.starts.learned_prior import LearnedPriorStart
from pyro_crowdclust.starts.mixture_start import MixtureStart
from pyro_crowdclust.starts.most_asked import most_asked
from pyro_crowdclust.starts.neighbors import NeighborPartition
from pyro_crowdclust.starts.other_fits import FittedStart
from pyro_crowdclust.starts.partitions import (
    KMeansStart,
    LabeledStart,
    PartitionStart,
    within_class_covariance,
)
from pyro_crowdclust.starts.principal_components import PrincipalComponentStart
from pyro_crowdclust.starts.ridge_teaching import RidgeTeaching
from pyro_crowdclust.starts.taught import TaughtStart
from pyro_crowdclust.starts.view_teaching import ViewTeaching

__all__ = [
    "AnswersStart",
    "ClassesStart",
    "Distillation",
    "FittedStart",
    "GroupsStart",
    "KMeansStart",
    "LabeledStart",
    "LearnedPriorStart",
    "MixtureStart",
    "NeighborPartition",
    "PartitionStart",
    "PrincipalComponentStart",
    "RidgeTeaching",
    "TaughtStart",
    "TrustingStart",
    "ViewTeaching",
    "answer_directions",
    "answered_groups",
    "default_start",
    "groups_by_answers",
    "k_means",
    "largest_first",
    "most_asked",
    "partition_along",
    "within_class_covariance",
]
