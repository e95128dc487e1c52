"""What answers, known labels and links say of components, some of whose items are elsewhere."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import Answers

# Of all links so many are right; the total of the prior of the classes in a cluster.
_LINKS_ARE_RIGHT = 0.99
_OF_CLASSES = 0.1


def component_gain(
    data: CrowdData,
    components: Float[np.ndarray, "item component"],
    bound: Float[np.ndarray, " item"],
    channels: Float[np.ndarray, "worker truth label"],
) -> Float[np.ndarray, "component component"]:
    """``G_kl``: what the answers gain, in nats, if components k and l are one cluster.

        sum_ij w e_ik e_jl log [b p(L | same) + (1 - b) p(L)] / [b p(L | different) + (1 - b) p(L)]

    with L the answer about i and j, and ``b = b_i b_j`` that both items are in the clusters of
    their components. Where pages were sorted, an item is put with all of a group by one decision,
    and apart from all of another one by one, too: with g the size of the larger of their groups, w
    is ``1 / (g - 1)`` for two items of one group and ``1 / g`` for others; elsewhere it is 1. An
    item with many answers is wrong in all of them if it is not in its component's cluster: k and l
    are compared as often as the fewer of the two have items in answers about them, and the sum is
    taken down to that.

    Parameters
    ----------
    data
        With answers about pairs or pages; without them there is nothing to gain.
    components
        e, by the features alone.
    bound
        b of every item.
    channels
        p(L | different) and p(L | same) of every worker, L from 0 or the lowest grade on.

    Examples
    --------
    >>> said = {"left": [0], "right": [1], "worker": ["ann"], "label": [1]}
    >>> coins = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    >>> component_gain(CrowdData(None, said), np.eye(2), np.ones(2), coins).round(2)
    array([[0. , 2.2],
           [2.2, 0. ]])
    """
    answers = data.as_pairs().answers
    if answers is None:
        return np.zeros((components.shape[1],) * 2)
    left, right = answers.left.numpy(), answers.right.numpy()
    label = data.outcomes.places(answers.label).numpy()
    both = (bound[left] * bound[right])[:, None]
    anyhow = np.bincount(label, minlength=channels.shape[2])[label, None] / len(label)
    said = both * channels[answers.worker.numpy(), :, label] + (1 - both) * anyhow
    ratio = np.log(said[:, 1] / said[:, 0])
    weight = _decisions(answers, ratio > 0) if data.is_sorted else np.ones_like(ratio)
    return _summed(components, np.stack([left, right]), ratio, weight)


def expert_gain(
    data: CrowdData,
    components: Float[np.ndarray, "item component"],
    bound: Float[np.ndarray, " item"],
) -> Float[np.ndarray, "component component"]:
    """What known labels and links gain, in nats, if components k and l are one cluster.

        log Z(a + N_k + N_l) - log Z(a + N_k) - log Z(a + N_l) + log Z(a)

    with ``N_ky = sum_(i known as y) b_i e_ik`` labels in component k and the log-normalizer of
    ``Dir(a)``, a small: a cluster is of one class. A link is an answer that is nearly always right.

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
        right = both * _LINKS_ARE_RIGHT + (1 - both) / 2
        ratio = np.log(right / (1 - right))
        must = links.must.numpy()
        gain += _summed(components, ends, np.where(must, ratio, -ratio), np.ones(len(must)))
    return gain


def _log_normalizer(
    counts: Float[np.ndarray, "*component class"],
) -> Float[np.ndarray, "*component"]:
    """Of ``Dir(a + counts)``."""
    total = counts + _OF_CLASSES / counts.shape[-1]
    return np.asarray(gammaln(total).sum(-1) - gammaln(total.sum(-1)))


def _summed(
    components: Float[np.ndarray, "item component"],
    ends: Int[np.ndarray, "2 answer"],
    ratio: Float[np.ndarray, " answer"],
    weight: Float[np.ndarray, " answer"],
) -> Float[np.ndarray, "component component"]:
    """G of what is said about pairs, which an item with many answers cannot say alone."""
    left, right = ends
    of_left, of_right = components[left], components[right]
    gain = of_left.T @ ((weight * ratio)[:, None] * of_right)
    count = of_left.T @ (weight[:, None] * of_right)
    compared = np.zeros_like(components)
    np.add.at(compared, left, of_right)
    np.add.at(compared, right, of_left)
    items = components.T @ np.minimum(compared, 1.0)
    gain, count = gain + gain.T, count + count.T
    return gain * np.minimum(1.0, np.minimum(items, items.T) / np.maximum(count, 1e-12))


def _decisions(
    answers: Answers, is_same: Bool[np.ndarray, " answer"]
) -> Float[np.ndarray, " answer"]:
    """One over how many answers about an item its page has from one decision."""
    assert answers.page is not None  # as they were sorted
    page, ends = answers.page.numpy(), torch.stack([answers.left, answers.right]).numpy()
    _, place = np.unique(page * (ends.max() + 1) + ends, return_inverse=True)
    place = place.reshape(ends.shape)
    mates = np.bincount(place.ravel(), np.tile(is_same, 2))[place].max(0)
    return 1 / np.where(is_same, mates, mates + 1)
