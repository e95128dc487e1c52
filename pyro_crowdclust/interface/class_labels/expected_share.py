"""The share of the second of two classes that is expected before a trait is fitted to the labels.

    l = v                                        if |v| > m
    l = (v + m tanh(m v / (2 s^2))) / 2          otherwise

v are the log odds of the second class by the votes of the items, l those that are expected. Votes
show a rare class too often: errors about the many items of the other class outnumber those about
its own. If |v| < m, l is the posterior mean under the prior that the true log odds are N(m, s^2) or
N(-m, s^2), either with probability one half, as one of two classes is usually the rarer one, and
votes measure them with an error of N(0, s^2). m are the odds of one item in five. A class that is
rarer than that may have any share, as pairs of records that match do: beyond m the prior is flat,
and votes stand. Exchanging the classes exchanges the shares.
"""

from __future__ import annotations

import math

from scipy.special import expit, logit

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.interface.class_labels.constant_workers import say_nothing
from pyro_crowdclust.pooling.soft_answers import vote_share

# Chosen on language models that judge record pairs, of which .05 to .6 match; votes of three to ten
# of them err by .65 to .4 in the log odds.
_RARE, _DEVIATION = 0.2, 0.6


def expected_share(data: CrowdData) -> float:
    """The expected share of the second class among the items of ``data``.

    Examples
    --------
    >>> said = {"item": [*range(98)], "worker": ["a"] * 98, "label": [0] * 69 + [1] * 29}
    >>> round(expected_share(CrowdData(None, labels=said)), 2)  # the votes say .3
    0.26
    """
    centre = -float(logit(_RARE))
    votes = float(logit(share_of_votes(data)))
    if abs(votes) < centre:
        votes = (votes + centre * math.tanh(centre * votes / (2 * _DEVIATION**2))) / 2
    return float(expit(votes))


def share_of_votes(data: CrowdData) -> float:
    """The share of the items whose vote is for the second class.

    Workers who always say the same would add a vote for it to every item.
    """
    labels = data.needed_class_labels
    labels = labels.at(~say_nothing(data)[labels.worker])
    votes = labels.of_items(labels.labelled_items).votes()
    # One more item of each class, so that the share is never 0 or 1 (Laplace).
    return vote_share((votes[:, 1] - votes[:, 0]).sign().numpy(), even_items=2)
