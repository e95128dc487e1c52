"""Partitions of items from answers alone, without features: priors, Gibbs sweeps and starts."""

from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.categorical_draws import draw_categories
from pyro_crowdclust.partitions.choices import Choices
from pyro_crowdclust.partitions.consensus import consensus
from pyro_crowdclust.partitions.hard_items import NUM_KINDS, HardItems, num_hard_ends, sweep_hard
from pyro_crowdclust.partitions.likeness_regression import LikenessRegression, logistic_regression
from pyro_crowdclust.partitions.memberships import (
    Memberships,
    share_of_strangers,
    share_together,
)
from pyro_crowdclust.partitions.priors import FewClusters, ManySmall, PitmanYor
from pyro_crowdclust.partitions.protocols import ChainStart, LearnedWorkers, PartitionPrior
from pyro_crowdclust.partitions.site import AskedPartition
from pyro_crowdclust.partitions.starts import spectral_partitions
from pyro_crowdclust.partitions.sweeps import sweep, sweep_chains
from pyro_crowdclust.partitions.triangles import closes_triangles, share_tested
from pyro_crowdclust.partitions.urn_site import UrnGroups
from pyro_crowdclust.partitions.urns import PagedItems, sweep_pages

__all__ = [
    "NUM_KINDS",
    "AskedPairs",
    "AskedPartition",
    "ChainStart",
    "Choices",
    "FewClusters",
    "HardItems",
    "LearnedWorkers",
    "LikenessRegression",
    "ManySmall",
    "Memberships",
    "PagedItems",
    "PartitionPrior",
    "PitmanYor",
    "UrnGroups",
    "closes_triangles",
    "consensus",
    "draw_categories",
    "logistic_regression",
    "num_hard_ends",
    "share_of_strangers",
    "share_tested",
    "share_together",
    "spectral_partitions",
    "sweep",
    "sweep_chains",
    "sweep_hard",
    "sweep_pages",
]
