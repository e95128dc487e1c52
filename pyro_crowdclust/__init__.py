"""Clustering with imperfect human answers: probabilistic models on Pyro.

>>> from pyro_crowdclust import CrowdData, cluster, fit
"""

from typing import TYPE_CHECKING

from pyro_crowdclust._lazy import loaded_late
from pyro_crowdclust._version import __version__

if TYPE_CHECKING:
    from pyro_crowdclust.data.crowd_data import CrowdData
    from pyro_crowdclust.fitting import fit
    from pyro_crowdclust.interface import CrowdClusterer, classify, cluster
    from pyro_crowdclust.results.fitted import Fitted
    from pyro_crowdclust.results.loading import load

__all__ = [
    "CrowdClusterer",
    "CrowdData",
    "Fitted",
    "__version__",
    "classify",
    "cluster",
    "fit",
    "load",
]

# Loaded when they are first asked for: torch and Pyro take seconds, a command's help needs neither.
_HOMES = {
    # The first calls, of the room above all others, where nobody has to know it to find them.
    "CrowdClusterer": "interface",
    "CrowdData": "data.crowd_data",
    "Fitted": "results.fitted",
    "classify": "interface",
    "cluster": "interface",
    "fit": "fitting",
    "load": "results.loading",
}

__getattr__, __dir__ = loaded_late(__name__, _HOMES)
