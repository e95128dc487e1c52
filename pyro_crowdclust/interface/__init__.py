"""The skin: one call, an estimator and a command line on top of engine, models and guides.

>>> from pyro_crowdclust.interface import (
...     CrowdClusterer,
...     cluster,
...     infer_classes,
...     mixture_for,
... )
"""

from pyro_crowdclust.interface.class_labels import average_annotator_models, infer_classes
from pyro_crowdclust.interface.estimator import CrowdClusterer
from pyro_crowdclust.interface.mixtures import Recipe, cluster, mixture_for
from pyro_crowdclust.interface.networks import DeepBernoulli, DeepNormal, Networks

__all__ = [
    "CrowdClusterer",
    "DeepBernoulli",
    "DeepNormal",
    "Networks",
    "Recipe",
    "average_annotator_models",
    "cluster",
    "infer_classes",
    "mixture_for",
]
