"""Clustering with imperfect human answers: probabilistic models on Pyro.

>>> from pyro_crowdclust import CrowdData, fit
"""

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.fit import fit
from pyro_crowdclust.loading import load
from pyro_crowdclust.result import Fitted

__version__ = "0.1.0"

__all__ = ["CrowdData", "Fitted", "__version__", "fit", "load"]
