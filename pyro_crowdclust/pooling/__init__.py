"""Classes and matches, pooled from fits, workers or judges: averages, draws, decisions."""

from pyro_crowdclust.pooling.averaging import AveragedClasses, average_classes, stacking_weights
from pyro_crowdclust.pooling.calibration import SINGLE_ANSWER_PROBABILITY, calibrated_guide
from pyro_crowdclust.pooling.decisions import choose_positives
from pyro_crowdclust.pooling.discounted_classes import (
    DiscountedClasses,
    discount_copies,
    discounted_class_probabilities,
    weight_of_copies,
)
from pyro_crowdclust.pooling.drawn_classes import DrawnClasses, draw_classes
from pyro_crowdclust.pooling.held_out_items import held_out_log_probability
from pyro_crowdclust.pooling.matches import Matches, match_records
from pyro_crowdclust.pooling.shared_errors import weight_of_shared_errors
from pyro_crowdclust.pooling.soft_answers import SoftAnswers, combine_soft_answers

__all__ = [
    "SINGLE_ANSWER_PROBABILITY",
    "AveragedClasses",
    "DiscountedClasses",
    "DrawnClasses",
    "Matches",
    "SoftAnswers",
    "average_classes",
    "calibrated_guide",
    "choose_positives",
    "combine_soft_answers",
    "discount_copies",
    "discounted_class_probabilities",
    "draw_classes",
    "held_out_log_probability",
    "match_records",
    "stacking_weights",
    "weight_of_copies",
    "weight_of_shared_errors",
]
