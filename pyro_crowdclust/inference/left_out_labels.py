"""Labels predicted without themselves, from draws that were made with all of them.

With theta and gamma drawn given all labels, and p(k, s) the probabilities of the class and state of
item i given these, a label a about i is left out by

    p(a | the others, theta, gamma)  =  1 / r,      r = sum_ks p(k, s) / gamma_aks
    p_-a(k, s)  =  p(k, s) / (r gamma_aks)

Draws without the label have the weight ``r`` for those with it, since ``p(all labels) / p(all but
a)`` is 1 / r given theta and gamma. So means over draws, divided by that of r, are

    q_-a(k, s) = E[p(k, s) / gamma_aks] / E[r]      E_-a[gamma_aks] = E[r gamma_aks] / E[r]

(Gelfand, Dey and Chang 1992; with the class summed out, Vehtari et al. 2016, section 3.6).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.families import SMALLEST_PROBABILITY


class LeftOutLabels(NamedTuple):
    """Predictions of all labels that can be left out (``LabelMatrix.can_be_left_out``).

    Attributes
    ----------
    classes
        ``q_-a(k)``: the class of the item, without the labels of this worker about it.
    named
        ``p(a | y_i = k)``: the probability of the label, without it.
    """

    classes: Float[np.ndarray, "answer class"]
    named: Float[np.ndarray, "answer class"]


class LeavingOut:
    """Sums over draws, by which every label is left out.

    Parameters
    ----------
    labels
        The labels, all of which were used to draw. Several of one worker about an item are left out
        together, and the first of them is predicted.
    """

    def __init__(self, labels: LabelMatrix) -> None:
        self._labels = labels
        self._without: Tensor = torch.zeros(())
        self._named: Tensor = torch.zeros(())

    def add(
        self,
        states: Float[Tensor, "item chain class state"],
        log_answers: Float[Tensor, "chain worker label column"],
    ) -> None:
        """Count a draw of every chain.

        Parameters
        ----------
        states
            p(k, s) of every item given the drawn rates.
        log_answers
            ``log gamma``; its columns are states, class after class.
        """
        labels = self._labels
        # Chain by chain: tables of all labels are large.
        for log_states, of_chain in zip(states.log().unbind(1), log_answers, strict=True):
            own = of_chain[labels.worker, labels.label]
            left_out = labels.of_source(own)
            without = (log_states.flatten(1)[labels.item] - left_out).exp()
            self._without = self._without + without
            self._named = self._named + without.sum(1, keepdim=True) * own.exp()

    def found(self, num_states: int) -> LeftOutLabels:
        """Means over the draws, with S states in each class."""
        kept = self._labels.can_be_left_out
        without, named = self._without[kept], self._named[kept]
        total = without.sum(1, keepdim=True)
        states, rates = ((part / total).unflatten(1, (-1, num_states)) for part in (without, named))
        classes = states.sum(-1)
        of_classes = (states * rates).sum(-1) / classes.clamp_min(SMALLEST_PROBABILITY)
        return LeftOutLabels(classes.numpy(), of_classes.numpy())
