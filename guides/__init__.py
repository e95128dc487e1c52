"""Guides, the approximate posteriors of the models: one file each, and what some share."""

from pyro_crowdclust.guides.amortized import AmortizedGuide
from pyro_crowdclust.guides.answer_draws import drawn_groups, drawn_partitions
from pyro_crowdclust.guides.assignment_sums import AtMean, Enumerated, Sampled
from pyro_crowdclust.guides.averaged import AveragedGuide
from pyro_crowdclust.guides.class_labels import ClassLabelGuide
from pyro_crowdclust.guides.enumerated import EnumeratedGuide
from pyro_crowdclust.guides.given_features import GivenFeatures
from pyro_crowdclust.guides.message_passing import MessagePassingGuide
from pyro_crowdclust.guides.pair_regression import DrawnStart, PairRegressionGuide
from pyro_crowdclust.guides.partition import PartitionGuide
from pyro_crowdclust.guides.sorted_partition import SortedPartitionGuide
from pyro_crowdclust.guides.structured import StructuredGuide
from pyro_crowdclust.guides.two_way import TwoWayGuide

__all__ = [
    "AmortizedGuide",
    "AtMean",
    "AveragedGuide",
    "ClassLabelGuide",
    "DrawnStart",
    "Enumerated",
    "EnumeratedGuide",
    "GivenFeatures",
    "MessagePassingGuide",
    "PairRegressionGuide",
    "PartitionGuide",
    "Sampled",
    "SortedPartitionGuide",
    "StructuredGuide",
    "TwoWayGuide",
    "drawn_groups",
    "drawn_partitions",
]
