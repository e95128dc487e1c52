"""Which of two fits of the same class labels predicts each label better from the others.

    p_m(a) = sum_k q_m,-a(k)^(1 / T_m) g_a(k)        g_a(k) = mean_m p_m(a | k, the others)

As in an average of models (``average_classes``), the rows g are those of both fits, since by rows
of its own a fit would also be chosen for how well it knows habits of the workers, which say nothing
about the classes. What is left out is taken out of the fits as they are (``HeldOutLabels``).
"""

from __future__ import annotations

import numpy as np
import torch

from pyro_crowdclust.pooling.calibration import HeldOutLabels, at_best_temperature
from pyro_crowdclust.pooling.comparison import is_clearly_better
from pyro_crowdclust.results.fitted import Fitted


def predicts_better(one: Fitted, other: Fitted) -> bool:
    """Whether ``mean_a w_a (log p_one(a) - log p_other(a))`` exceeds two standard errors.

    Labels are taken as independent, and w_a is less than one where a worker repeats one. False if
    no item has labels of two workers.

    Parameters
    ----------
    one, other
        Fits that can be calibrated (``calibrated_guide``), of the same labels.

    Examples
    --------
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.interface import infer_classes
    >>> said = {"item": [0, 0, 1, 1], "worker": list("abab"), "label": list("xxyy")}
    >>> result = infer_classes(CrowdData(None, labels=said), num_communities=[1], epochs=5)
    >>> predicts_better(result, result)
    False
    """
    held_out = [HeldOutLabels.of(fitted) for fitted in (one, other)]
    weight = held_out[0].weight.numpy()
    if not len(weight):
        return False
    named = torch.stack([each.log_answers for each in held_out]).exp().mean(0).numpy()
    logs = [
        weight * np.log(at_best_temperature(each.log_others.softmax(-1).numpy(), named)[1])
        for each in held_out
    ]
    return is_clearly_better(*logs)
