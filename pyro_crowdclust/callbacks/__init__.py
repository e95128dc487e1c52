"""Callbacks of ``fit``, called after every epoch: moves of clusters, classes and rates."""

from pyro_crowdclust.callbacks.class_moves import ClassMoves
from pyro_crowdclust.callbacks.drop_moves import DropMoves
from pyro_crowdclust.callbacks.learned_prior import LearnedPrior
from pyro_crowdclust.callbacks.merge_moves import MergeMoves
from pyro_crowdclust.callbacks.nearby_owners import NearbyOwners
from pyro_crowdclust.callbacks.ownership_moves import OwnershipMoves
from pyro_crowdclust.callbacks.rate_moves import RateMoves
from pyro_crowdclust.callbacks.structural_moves import Judge, Proposal, StructuralMoves

__all__ = [
    "ClassMoves",
    "DropMoves",
    "Judge",
    "LearnedPrior",
    "MergeMoves",
    "NearbyOwners",
    "OwnershipMoves",
    "Proposal",
    "RateMoves",
    "StructuralMoves",
]
