"""Two workers, of whom the labels tell only how often they agree.

    p(agree)  =  a_1 a_2 + (1 - a_1) (1 - a_2) / (K - 1)

With even errors and classes this is all that two workers show: who of them is right more often is
not identified, still less what each says of each class. A mean field settles on either anyway,
whichever chance prefers, and is sure of it. So items are read with the same rate for both,

    q(y_i = k)  propto  pi_k prod_j a^[l_ij = k] ((1 - a) / (K - 1))^[l_ij != k],
    a  =  (r + sum_ij q(y_i = l_ij)) / (r + w + n),      pi_k  propto  1 + sum_i q(y_i = k)

under the prior of r right and w wrong answers, and the rate of each is what q makes of its labels.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from pyro_crowdclust import Fitted
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.data.soft_counts import classes_at_rate, log_shares_of, rate_of_all
from pyro_crowdclust.interface.class_labels.workers import RIGHT, WRONG
from pyro_crowdclust.results import with_own_parts

_STEPS = 100


def at_one_rate(fitted: Fitted) -> Fitted:
    """A copy of a fit of ``OneCoin``, whose workers are given q(y) at one rate for all of them."""
    classes = torch.from_numpy(_classes_at_one_rate(fitted.data))
    found = with_own_parts(fitted)
    # Starts run on the CPU, where the data are.
    for part in (found.model, found.guide):
        part.to("cpu")
    found.guide.start(found.data, torch.Generator(), classes)
    for part in (found.model, found.guide):
        part.to(found.device)
    return found


def _classes_at_one_rate(data: CrowdData) -> Float[np.ndarray, "item class"]:
    labels, num_classes = data.needed_class_labels, data.num_classes
    counts = labels.of_items(torch.arange(data.num_items)).votes().numpy()
    is_labelled = counts.sum(1) > 0
    rate, log_shares = RIGHT / (RIGHT + WRONG), np.zeros(num_classes)
    for _ in range(_STEPS):
        q = classes_at_rate(counts, log_shares, rate)
        rate = rate_of_all(counts, q, RIGHT, WRONG)
        log_shares = log_shares_of(q[is_labelled])
    return q
