"""The share of the second of two classes that is expected before a trait is fitted to the labels.

    l = E[l | v],   l ~ 1/3 N(m, s^2) + 1/3 N(-m, s^2) + 1/3 Uniform(-6, 6),   v ~ N(l, s^2)

v are the log odds of the second class by the votes of the items, l those that are expected. Votes
show a rare class too often: errors about the many items of the other class outnumber those about
its own. One of two classes is usually the rarer one, with about one item in five, which are odds of
m. But it may also have any other share, as records that match among all pairs: where votes say one
in fifty or less, they stand. Exchanging the classes exchanges the shares.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.interface.class_labels.constant_workers import say_nothing
from pyro_crowdclust.pooling.soft_answers import vote_share

# Chosen on language models that judge record pairs, of which .05 to .6 match; votes of three to ten
# of them err by .65 to .4 in the log odds.
_RARE, _DEVIATION = 0.2, 0.6
# Log odds of the rarest class that is expected.
_LARGEST = 6.0


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
    # The evidence of each part of the prior, and its posterior mean; the edges of the flat part are
    # too far away to matter.
    bells = np.array([centre, -centre])
    evidence = np.append(norm.pdf(votes, bells, _DEVIATION * np.sqrt(2)), 1 / (2 * _LARGEST))
    means = np.append((votes + bells) / 2, votes)
    return float(expit(np.average(means, weights=evidence)))


def share_of_votes(data: CrowdData) -> float:
    """The share of the items whose vote is for the second class.

    Workers who always say the same would add a vote for it to every item.
    """
    labels = data.needed_class_labels
    labels = labels.at(~say_nothing(data)[labels.worker])
    votes = labels.of_items(labels.labelled_items).votes()
    # One more item of each class, so that the share is never 0 or 1 (Laplace).
    return vote_share((votes[:, 1] - votes[:, 0]).sign().numpy(), even_items=2)
