"""Supervision: how an expert's known labels and links act on the assignments of a mixture."""

from pyro_crowdclust.supervision.certain_links import CertainLinks
from pyro_crowdclust.supervision.class_table import ClassTable
from pyro_crowdclust.supervision.hidden_markov_field import HiddenMarkovField
from pyro_crowdclust.supervision.known_clusters import KnownClusters
from pyro_crowdclust.supervision.supervision import Supervision
from pyro_crowdclust.supervision.unsupervised import Unsupervised, refuse_experts

__all__ = [
    "CertainLinks",
    "ClassTable",
    "HiddenMarkovField",
    "KnownClusters",
    "Supervision",
    "Unsupervised",
    "refuse_experts",
]
