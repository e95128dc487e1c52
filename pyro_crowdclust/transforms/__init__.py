"""Coordinates of observed features for plain mixtures: transformed, selected or projected.

They are used as the emission of a plain mixture. Each has ``log_volume``, the term to add to a
log-density of the coordinates to get a log-density of the features, so that ELBOs of different
coordinates can be compared.
"""

from pyro_crowdclust.transforms.atoms import WithAtoms
from pyro_crowdclust.transforms.clipped import Clipped
from pyro_crowdclust.transforms.equal_length import EqualLength
from pyro_crowdclust.transforms.filled import Filled
from pyro_crowdclust.transforms.landmarks import Landmarks
from pyro_crowdclust.transforms.no_coordinates import NoCoordinates
from pyro_crowdclust.transforms.one_hot import OneHot
from pyro_crowdclust.transforms.power import PowerTransformed
from pyro_crowdclust.transforms.projection import Projected
from pyro_crowdclust.transforms.selection import Selected
from pyro_crowdclust.transforms.within import Within

__all__ = [
    "Clipped",
    "EqualLength",
    "Filled",
    "Landmarks",
    "NoCoordinates",
    "OneHot",
    "PowerTransformed",
    "Projected",
    "Selected",
    "WithAtoms",
    "Within",
]
