"""Clustering with imperfect human answers: probabilistic models on Pyro.

>>> from pyro_crowdclust import CrowdData, cluster, fit
"""

from typing import TYPE_CHECKING

from pyro_crowdclust._faces import loaded_late
from pyro_crowdclust._version import __version__

if TYPE_CHECKING:
    from pyro_crowdclust.data.crowd_data import CrowdData
    from pyro_crowdclust.fitting import fit
    from pyro_crowdclust.results.fitted import Fitted
    from pyro_crowdclust.results.loading import load

__all__ = ["CrowdData", "Fitted", "__version__", "fit", "load"]

# Loaded when they are first asked for: torch and Pyro take seconds, a command's help needs neither.
_HOMES = {
    "CrowdData": "data.crowd_data",
    "Fitted": "results.fitted",
    "fit": "fitting",
    "load": "results.loading",
}
# The first calls of the room above all others, which nobody below has to know to find them.
_FIRST_CALLS = dict.fromkeys(("CrowdClusterer", "classify", "cluster"), "interface")

__getattr__, __dir__ = loaded_late(__name__, _HOMES | _FIRST_CALLS)
