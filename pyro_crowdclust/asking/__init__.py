"""Active learning: which questions to ask next, which workers to ask, and when to stop.

>>> from pyro_crowdclust.asking import Labels, Pages, Pairs, suggest
"""

from pyro_crowdclust.asking.answering import RecordedCrowd, SimulatedCrowd
from pyro_crowdclust.asking.campaign import Campaign, Stop, simulate_campaign
from pyro_crowdclust.asking.criteria import InformationGain, Margin, Random, WorkerInformation
from pyro_crowdclust.asking.labels import Labels
from pyro_crowdclust.asking.pages import Pages
from pyro_crowdclust.asking.pairs import Pairs
from pyro_crowdclust.asking.suggesting import Suggestions, suggest

__all__ = [
    "Campaign",
    "InformationGain",
    "Labels",
    "Margin",
    "Pages",
    "Pairs",
    "Random",
    "RecordedCrowd",
    "SimulatedCrowd",
    "Stop",
    "Suggestions",
    "WorkerInformation",
    "simulate_campaign",
    "suggest",
]
