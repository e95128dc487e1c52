"""Active learning: which questions to ask next, which workers to ask, and when to stop.

>>> from pyro_crowdclust.asking import Labels, Pages, Pairs, suggest
"""

from pyro_crowdclust.asking.answering import RecordedCrowd, SimulatedCrowd
from pyro_crowdclust.asking.campaign import Campaign, Stop, simulate_campaign
from pyro_crowdclust.asking.criteria import InformationGain, Margin, Random, WorkerInformation
from pyro_crowdclust.asking.label_questions import Labels
from pyro_crowdclust.asking.page_questions import Pages
from pyro_crowdclust.asking.pair_questions import Pairs
from pyro_crowdclust.asking.suggesting import suggest
from pyro_crowdclust.asking.suggestions import Suggestions

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
