"""Results of a fit: classes and tables that are read from it, saving and loading."""

from pyro_crowdclust.results.averaging import AveragedClasses, average_classes, stacking_weights
from pyro_crowdclust.results.calibration import calibrated_class_probabilities
from pyro_crowdclust.results.chosen import Chosen
from pyro_crowdclust.results.cluster_classes import (
    cluster_classes,
    known_class_probabilities,
    known_or_likeliest,
)
from pyro_crowdclust.results.decisions import choose_positives
from pyro_crowdclust.results.discounted_classes import (
    DiscountedClasses,
    discount_copies,
    discounted_class_probabilities,
    weight_of_copies,
)
from pyro_crowdclust.results.drawn_classes import DrawnClasses, draw_classes
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.results.further_training import FurtherTraining
from pyro_crowdclust.results.held_out_items import held_out_log_probability
from pyro_crowdclust.results.loading import load
from pyro_crowdclust.results.matches import Matches, match_records
from pyro_crowdclust.results.sharpness import read_at
from pyro_crowdclust.results.soft_answers import SoftAnswers, combine_soft_answers

__all__ = [
    "AveragedClasses",
    "Chosen",
    "DiscountedClasses",
    "DrawnClasses",
    "Fitted",
    "FurtherTraining",
    "Matches",
    "SoftAnswers",
    "average_classes",
    "calibrated_class_probabilities",
    "choose_positives",
    "cluster_classes",
    "combine_soft_answers",
    "discount_copies",
    "discounted_class_probabilities",
    "draw_classes",
    "held_out_log_probability",
    "known_class_probabilities",
    "known_or_likeliest",
    "load",
    "match_records",
    "read_at",
    "stacking_weights",
    "weight_of_copies",
]
