"""How surely workers err about the same items, from the agreement that classes do not explain.

    w = .9 Phi((D - P mu) / (sigma sqrt P))          D = sum_{j<l} min(max(z_jl, 0), 2.5)

D is that of ``discounted_classes``, over P pairs of workers with thirty common items. If workers
err independently given the class, each z is about standard normal, with mu and sigma the mean and
deviation of its term: Phi is then about uniform between 0 and 1, and otherwise near 1. w is the
weight of a model in which workers err together, such as ``LatentTrait``, in an average with one in
which they do not. It is at most .9, as many pairs show even small dependence, with which the other
model is still useful.

Where most pairs of labels are of workers with few common items, as in a crowd of whom each sees a
part of the items, all pairs are counted together, item by item,

    w = max(.2, .9 Phi((Z - .2) / .2))          Z = sum_i B_i / sqrt(sum_i B_i^2)

with B_i the agreements about item i beyond those expected. Z is about N(0, .2^2) if workers err
independently: rows are fitted to the same labels, which leaves little of the agreement. Otherwise
it is about .6 with five labels an item, and 2 with ten. With three labels independent workers can
explain any agreement, as they have as many rates as there are frequencies, so that Z is near 0: w
is .2 there, since shared errors would not show, and are little trouble with three labels.
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
# The deviation of Z of workers who err independently, and where the weight is half of the largest.
_OF_ITEMS = 0.2
# The weight without a sign of shared errors in all pairs, since few labels an item hide them.
_LEAST_OF_ITEMS = 0.2


def weight_of_shared_errors(
    data: CrowdData, probabilities: Float[np.ndarray, "item class"]
) -> float:
    """w, or half of the largest weight where agreement tells nothing.

    It does not with fewer than four workers who vary their answers, whose agreement classes can
    always explain, or if no item has two labels.

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
    labels_together, compared = (
        part.common.sum() for part in (answers.all_together, answers.together)
    )
    if labels_together == 0 or answers.num_who_vary() < MIN_WORKERS_WHO_VARY:
        return LARGEST_WEIGHT / 2
    if compared < labels_together / 2:
        excess = (answers.shared_of_items(probabilities) - _OF_ITEMS) / _OF_ITEMS
        return max(_LEAST_OF_ITEMS, LARGEST_WEIGHT * float(ndtr(excess)))
    number = len(answers.together.common)
    alone = np.ones(data.num_workers)
    unexplained = answers.unexplained(*answers.classes(probabilities, alone), alone)
    excess = (unexplained - _MEAN * number) / (_DEVIATION * math.sqrt(number))
    return LARGEST_WEIGHT * float(ndtr(excess))
