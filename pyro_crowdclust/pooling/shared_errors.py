"""How surely workers err about the same items, from the agreement that classes do not explain.

    w = .9 Phi((D - P mu) / (sigma sqrt P))          D = sum_{j<l} min(max(z_jl, 0), 2.5)

D is that of ``discounted_classes``, over P pairs of workers. If workers err independently given the
class, each z is about standard normal, with mu and sigma the mean and deviation of its term: Phi is
then about uniform between 0 and 1, and otherwise near 1. w is the weight of a model in which
workers err together, such as ``LatentTrait``, in an average with one in which they do not. It is at
most .9, as many pairs show even small dependence, with which the other model is still useful.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.pooling.discounted_classes import MIN_WORKERS_WHO_VARY
from pyro_crowdclust.pooling.labels_together import LabelsTogether
from pyro_crowdclust.training.argument_checks import check_has_class_labels

# Mean and deviation of min(max(z, 0), 2.5) under a standard normal z.
_MEAN, _DEVIATION = 0.3969, 0.5755
LARGEST_WEIGHT = 0.9


def weight_of_shared_errors(
    data: CrowdData, probabilities: Float[np.ndarray, "item class"]
) -> float:
    """w, or half of the largest weight where agreement tells nothing.

    It does not with fewer than four workers who vary their answers, whose agreement classes can
    always explain, or without two workers with thirty common items.

    Parameters
    ----------
    data
        Items with class labels.
    probabilities
        q(y_i = k) of a fit whose workers are independent.

    Raises
    ------
    ValueError
        If data have no class labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, is_hard = rng.random((2, 500)) < 0.3
    >>> wrong = rng.random((500, 6)) < np.where(is_hard, 0.5, 0.05)[:, None]
    >>> item, worker = np.indices(wrong.shape)
    >>> label = (truth[:, None] ^ wrong).ravel().astype(int)
    >>> said = {"item": item.ravel(), "worker": worker.ravel(), "label": label}
    >>> q = np.column_stack([~truth, truth]) * 0.9 + 0.05
    >>> round(weight_of_shared_errors(CrowdData(None, labels=said), q), 2)
    0.9
    """
    check_has_class_labels(data)
    answers = LabelsTogether(data)
    number = len(answers.together.common)
    if number == 0 or answers.num_who_vary() < MIN_WORKERS_WHO_VARY:
        return LARGEST_WEIGHT / 2
    alone = np.ones(data.num_workers)
    unexplained = answers.unexplained(*answers.classes(probabilities, alone), alone)
    excess = (unexplained - _MEAN * number) / (_DEVIATION * math.sqrt(number))
    return LARGEST_WEIGHT * float(ndtr(excess))
