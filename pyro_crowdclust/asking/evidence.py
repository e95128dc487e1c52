"""Evidence of answers, known labels and links on whether two components are one cluster."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import Answers

# Share of links that are right, and total concentration of the prior of classes in a cluster.
_LINK_ACCURACY = 0.99
_CLASS_PRIOR = 0.1


def component_gain(
    data: CrowdData,
    components: Float[np.ndarray, "item component"],
    bound: Float[np.ndarray, " item"],
    channels: Float[np.ndarray, "worker truth label"],
) -> Float[np.ndarray, "component component"]:
    """``G_kl``: gain in log-likelihood of the answers if components k and l are one cluster.

        sum_ij w e_ik e_jl log [b p(L | same) + (1 - b) p(L)] / [b p(L | different) + (1 - b) p(L)]

    with L the answer about i and j, and ``b = b_i b_j`` the probability that both items are in the
    clusters of their components. On sorted pages, a worker joins an item with a whole group by one
    decision, and separates it from another group by one decision. So with g the size of the larger
    of the two groups, w is ``1 / (g - 1)`` for two items of one group and ``1 / g`` for others. If
    there are no sorted pages, w is 1. All answers about an item mislead if it is not in the cluster
    of its component. So the number of answers that count for k and l is limited by the number of
    items, in the component with fewer, that these answers are about: the sum is scaled down.

    Parameters
    ----------
    data
        Data with answers about pairs or pages; without answers the gain is 0.
    components
        e, given the features only.
    bound
        b_i of every item.
    channels
        p(L | different) and p(L | same) of every worker, for L from 0 or the lowest grade upwards.

    Examples
    --------
    >>> answers = {"left": [0], "right": [1], "worker": ["ann"], "label": [1]}
    >>> coins = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> component_gain(CrowdData(None, answers), np.eye(2), np.ones(2), coins).round(2)
    array([[0. , 2.2],
           [2.2, 0. ]])
    """
    answers = data.as_pairs().answers
    if answers is None:
        return np.zeros((components.shape[1],) * 2)
    left, right = answers.left.numpy(), answers.right.numpy()
    label = data.outcomes.places(answers.label).numpy()
    both = (bound[left] * bound[right])[:, None]
    marginal = np.bincount(label, minlength=channels.shape[2])[label, None] / len(label)
    likelihood = both * channels[answers.worker.numpy(), :, label] + (1 - both) * marginal
    ratio = np.log(likelihood[:, 1] / likelihood[:, 0])
    weight = _decisions(answers, ratio > 0) if data.is_sorted else np.ones_like(ratio)
    return _summed(components, np.stack([left, right]), ratio, weight)


def expert_gain(
    data: CrowdData,
    components: Float[np.ndarray, "item component"],
    bound: Float[np.ndarray, " item"],
) -> Float[np.ndarray, "component component"]:
    """Gain in log-likelihood of known labels and links if components k and l are one cluster.

        log Z(a + N_k + N_l) - log Z(a + N_k) - log Z(a + N_l) + log Z(a)

    with ``N_ky = sum_(i known as y) b_i e_ik`` labels in component k and the log-normalizer of
    ``Dir(a)``, where a is small, since a cluster mostly has items of one class. A link is treated
    as an answer that is nearly always right.

    Parameters
    ----------
    data, components, bound
        As for ``component_gain``.

    Examples
    --------
    >>> data = CrowdData(np.eye(3), known=["ant", "bee", "ant"])
    >>> expert_gain(data, np.eye(3), np.ones(3)).round(1)
    array([[ 0.6, -2.4,  0.6],
           [-2.4,  0.6, -2.4],
           [ 0.6, -2.4,  0.6]])
    """
    gain = np.zeros((components.shape[1],) * 2)
    if data.num_known_classes and data.known is not None:
        known = data.known.numpy()
        one_hot = (known[:, None] == np.arange(data.num_known_classes)).astype(np.float64)
        counts = (bound[:, None] * components).T @ one_hot
        own = _log_normalizer(counts)
        together = _log_normalizer(counts[:, None] + counts)
        gain += together - own[:, None] - own + _log_normalizer(np.zeros(counts.shape[1]))
    if (links := data.links) is not None:
        ends = torch.stack([links.left, links.right]).numpy()
        both = bound[ends].prod(0)
        right = both * _LINK_ACCURACY + (1 - both) / 2
        ratio = np.log(right / (1 - right))
        must = links.must.numpy()
        gain += _summed(components, ends, np.where(must, ratio, -ratio), np.ones(len(must)))
    return gain


def _log_normalizer(
    counts: Float[np.ndarray, "*component class"],
) -> Float[np.ndarray, "*component"]:
    """Log-normalizer of ``Dir(a + counts)``."""
    total = counts + _CLASS_PRIOR / counts.shape[-1]
    return np.asarray(gammaln(total).sum(-1) - gammaln(total.sum(-1)))


def _summed(
    components: Float[np.ndarray, "item component"],
    ends: Int[np.ndarray, "2 answer"],
    ratio: Float[np.ndarray, " answer"],
    weight: Float[np.ndarray, " answer"],
) -> Float[np.ndarray, "component component"]:
    """G from log-likelihood ratios of pairs, with limited weight of items with many answers."""
    left, right = ends
    e_left, e_right = components[left], components[right]
    gain = e_left.T @ ((weight * ratio)[:, None] * e_right)
    count = e_left.T @ (weight[:, None] * e_right)
    compared = np.zeros_like(components)
    np.add.at(compared, left, e_right)
    np.add.at(compared, right, e_left)
    items = components.T @ np.minimum(compared, 1.0)
    gain, count = gain + gain.T, count + count.T
    return gain * np.minimum(1.0, np.minimum(items, items.T) / np.maximum(count, 1e-12))


def _decisions(
    answers: Answers, is_same: Bool[np.ndarray, " answer"]
) -> Float[np.ndarray, " answer"]:
    """w: one over the number of answers that come from one decision on a sorted page."""
    page, ends = answers.needed_page.numpy(), torch.stack([answers.left, answers.right]).numpy()
    _, place = np.unique(page * (ends.max() + 1) + ends, return_inverse=True)
    place = place.reshape(ends.shape)
    mates = np.bincount(place.ravel(), np.tile(is_same, 2))[place].max(0)
    return 1 / np.where(is_same, mates, mates + 1)
