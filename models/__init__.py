"""Generative models, one file each, written so that they can be read next to their papers."""

from pyro_crowdclust.models.answered_partition import AnsweredPartition
from pyro_crowdclust.models.averaged_predictions import AveragedPredictions
from pyro_crowdclust.models.dawid_skene import DawidSkene
from pyro_crowdclust.models.deep_latent_mixture import DeepLatentMixture
from pyro_crowdclust.models.latent_trait import LatentTrait
from pyro_crowdclust.models.logresp import LogResp
from pyro_crowdclust.models.momresp import MomResp
from pyro_crowdclust.models.pair_regression import PairRegression
from pyro_crowdclust.models.semi_crowdsourced_mixture import SemiCrowdsourcedMixture
from pyro_crowdclust.models.sorted_partition import SortedPartition
from pyro_crowdclust.models.two_way_mixture import TwoWayMixture

__all__ = [
    "AnsweredPartition",
    "AveragedPredictions",
    "DawidSkene",
    "DeepLatentMixture",
    "LatentTrait",
    "LogResp",
    "MomResp",
    "PairRegression",
    "SemiCrowdsourcedMixture",
    "SortedPartition",
    "TwoWayMixture",
]
