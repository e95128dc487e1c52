"""Networks for recognition, emissions and classification of items."""

from pyro_crowdclust.networks.assignment_outputs import AssignmentOutputs
from pyro_crowdclust.networks.cluster_recognition import ClusterRecognition
from pyro_crowdclust.networks.convolutional import (
    ConvolutionalClassifier,
    ConvolutionalEncoder,
    ResidualDecoder,
    ResidualEncoder,
)
from pyro_crowdclust.networks.opinions import OpinionPool
from pyro_crowdclust.networks.patches import PatchClassifier
from pyro_crowdclust.networks.per_cluster import ClusterMLP, CodedMLP
from pyro_crowdclust.networks.perceptrons import SkipMLP
from pyro_crowdclust.networks.recognition_networks import (
    AmortizedRecognition,
    GaussianRecognition,
    learn_partition,
)
from pyro_crowdclust.networks.residual_classifier import ResidualClassifier
from pyro_crowdclust.networks.views import RandomAffine, RandomPhoto, View, ViewOrItself

__all__ = [
    "AmortizedRecognition",
    "AssignmentOutputs",
    "ClusterMLP",
    "ClusterRecognition",
    "CodedMLP",
    "ConvolutionalClassifier",
    "ConvolutionalEncoder",
    "GaussianRecognition",
    "OpinionPool",
    "PatchClassifier",
    "RandomAffine",
    "RandomPhoto",
    "ResidualClassifier",
    "ResidualDecoder",
    "ResidualEncoder",
    "SkipMLP",
    "View",
    "ViewOrItself",
    "learn_partition",
]
