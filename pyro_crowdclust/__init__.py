"""Clustering with imperfect human answers: probabilistic models on Pyro.

>>> from pyro_crowdclust import CrowdData, fit
"""

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.fit import fit
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.results.loading import load

__version__ = "0.1.0"

__all__ = ["CrowdData", "Fitted", "__version__", "fit", "load"]
