"""Probabilities of the known classes in every cluster, and of every item."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.distributions.pairs import components_together
from pyro_crowdclust.protocols import FittedModel

# Pseudo-labels, so that a cluster without labels predicts the overall shares of the classes.
_PSEUDO_LABELS = 1e-3


@runtime_checkable
class SupportsClassTable(Protocol):
    """A guide that learns the class probabilities of clusters from known labels."""

    def class_table(self) -> Float[Tensor, "cluster class"] | None:
        """``E[rho_kc]``; None if the model has no such table."""


def cluster_classes(result: FittedModel) -> pd.DataFrame:
    """``E[rho_kc]``: the probability of every known class in every cluster, a row per cluster.

    It is the posterior mean of the model's ``ClassTable``. For models without one, the known labels
    of the items in each cluster are counted, ``sum_n q(z_n = k) [y_n = c]``, and normalized. A
    cluster that owns several components has the mean of theirs, weighted by their items.

    Raises
    ------
    ValueError
        If the fit's data have no known labels.
    """
    shares = component_classes(result)
    if result.owners is not None:
        of_items = result.component_probabilities.sum(0).numpy()[:, None] * result.owners
        shares = (of_items / of_items.sum(0)).T @ shares
    elif result.cluster_order is not None:
        shares = shares[result.cluster_order]
    index = pd.RangeIndex(len(shares), name="cluster")
    return pd.DataFrame(shares, index=index, columns=result.data.known_ids)


def component_classes(result: FittedModel) -> Float[np.ndarray, "component class"]:
    """The same for every component, in the guide's order: the probabilities of its cluster.

    Raises
    ------
    ValueError
        If the fit's data have no known labels.
    """
    data = result.data
    if data.known is None or not data.num_known_classes:
        raise ValueError(
            "the fit had no known labels, so its clusters have no classes: fit to CrowdData(..., "
            "known=labels)"
        )
    guide, table = result.guide, None
    if isinstance(guide, SupportsClassTable):
        table = guide.class_table()
    if table is not None:
        counts = table.numpy(force=True)[:, : data.num_known_classes]
    else:
        known = data.known.numpy()
        labelled = known >= 0
        one_hot = np.eye(data.num_known_classes)[known[labelled]]
        of_labelled = result.component_probabilities.numpy()[labelled]
        counts = of_labelled.T @ one_hot
        if result.owners is not None:
            counts = components_together(torch.tensor(result.owners)).numpy() @ counts
        counts = counts + _PSEUDO_LABELS * one_hot.mean(0)
    return counts / counts.sum(1, keepdims=True)


def known_class_probabilities(result: FittedModel) -> Float[np.ndarray, "item class"]:
    """p(y_n = c) of training items: 1 or 0 if known, otherwise ``sum_k q(z_n = k) E[rho_kc]``."""
    known = result.data.known.numpy() if result.data.known is not None else np.array([])
    classes = component_classes(result)
    probabilities = result.component_probabilities.numpy() @ classes
    probabilities[known >= 0] = np.eye(probabilities.shape[1])[known[known >= 0]]
    return probabilities


def known_or_likeliest(result: FittedModel) -> Int[np.ndarray, " item"]:
    """The known or most probable class of every training item, as an index into ``known_ids``."""
    return known_class_probabilities(result).argmax(1)
