"""How much labels tell, as shown by items whose classes trusted workers have named.

Models of class labels take workers as independent given the class. Workers who err about the same
items, as language models and hasty people do, are then counted as several witnesses: classes are
certain, and often wrong. Labels alone cannot show this. Items of known class can: with l_ik the
logits of a fit without labels, and L_ij(k) = log E_-i[p(a_ij | k)], classes are read as

    q(y_i = k)  propto  exp(l_ik + b_k + sum_j w_j L_ij(k))                0 <= w_j <= 1

where w and b are likeliest under the known classes and a prior, with w_j near a common c:

    max  sum_{i known} log q(y_i) - sum_j (w_j - c)^2 / 2 s^2 - (1 - c)^2 / 2 - sum_k b_k^2 / 2 t^2

This is concave, so that the maximum is unique. Without known items w = 1 and b = 0. Workers are
then fitted again to these classes, which may be other ones than those that they agreed about.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize
from scipy.special import logsumexp

from pyro_crowdclust import Fitted
from pyro_crowdclust.errors import show
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.protocols import SupportsTrustedWorkers

# s and t, the standard deviations of w_j - c and of b_k.
_SPREAD, _SHIFT = 0.3, 0.5
# Readings, after each of which the workers are fitted again.
_ROUNDS = 2
# If the mean weight is above this, results do not mention it.
_IN_FULL = 0.6


def read_by_trusted(result: Fitted) -> Fitted:
    """The result, with labels counted as the labels of trusted workers show.

    Itself if no trusted worker has labelled an item about which others were asked.

    Parameters
    ----------
    result
        A fit of class labels under ``ClassLabelGuide``, with trusted workers.
    """
    annotators = result.model.annotators
    if not isinstance(annotators, SupportsTrustedWorkers):
        return result
    is_trusted = torch.from_numpy(annotators.trusted_workers())
    with result.inside():
        batch = full_batch(result.data).to(result.device, result.dtype)
        guide = result.guide
        for _ in range(_ROUNDS):
            known = KnownItems.of(guide, batch, is_trusted)
            if not len(known.worker):
                return result
            weight, shift = known.likeliest_reading()
            weight[is_trusted.numpy()] = 1.0
            guide = guide.read_at(
                evidence_weights=tuple(weight.tolist()), class_shift=tuple(shift.tolist())
            )
            logits = guide.infer(batch).logits
            with torch.inference_mode(False):
                guide.refit(batch, logits)
    return replace(result, guide=guide, model=guide.model)


def counts_in_words(result: Fitted) -> str:
    """How much the labels of the other workers count, in a sentence.

    Parameters
    ----------
    result
        A result of ``read_by_trusted``. The sentence is empty if labels count nearly in full.
    """
    weight = result.guide.reading.evidence_weights
    if weight is None:
        return ""
    others = ~result.model.annotators.trusted_workers()
    weights, names = np.asarray(weight)[others], result.data.worker_ids[others]
    if not len(weights) or weights.mean() > _IN_FULL:
        return ""
    return (
        "labels of trusted workers show that those of the others tell less than independent ones "
        f"would: each worker counts as {weights.mean():.2f} of one on average, least "
        f"{show(names[weights.argmin()])} as {weights.min():.2f}"
    )


class KnownItems(NamedTuple):
    """Items that a trusted worker has labelled, and what is known about them without that.

    Attributes
    ----------
    logits
        Logits of q(y) without labels.
    known
        The class, by the trusted worker.
    item, worker
        Of every label of the other workers about these items, the position of the item among them,
        and the worker.
    log_labels
        ``log E_-i[p(label | class)]`` of these labels.
    num_workers
        M.
    """

    logits: Float[np.ndarray, "item class"]
    known: Int[np.ndarray, " item"]
    item: Int[np.ndarray, " label"]
    worker: Int[np.ndarray, " label"]
    log_labels: Float[np.ndarray, "label class"]
    num_workers: int

    @classmethod
    def of(cls, guide: ClassLabelGuide, batch: Batch, is_trusted: torch.Tensor) -> KnownItems:
        """Those of a batch of all items; where trusted workers disagree, the last label counts."""
        labels = batch.class_labels
        assert labels is not None  # since the annotators are of class labels
        plain = guide.read_at(evidence_weights=None, class_shift=None)
        logits = plain.infer(replace(batch, class_labels=None)).logits.double().cpu()
        item, worker, label = (part.cpu() for part in (labels.item, labels.worker, labels.label))
        of_trusted = is_trusted[worker]
        known = torch.full((len(logits),), -1)
        known[item[of_trusted]] = label[of_trusted]
        items = torch.where(known >= 0)[0]
        position = torch.full((len(logits),), -1)
        position[items] = torch.arange(len(items))
        used = ~of_trusted & (known[item] >= 0)
        return cls(
            logits[items].numpy(),
            known[items].numpy(),
            position[item[used]].numpy(),
            worker[used].numpy(),
            guide.log_labels(batch).double().cpu()[used].numpy(),
            len(is_trusted),
        )

    def likeliest_reading(
        self,
    ) -> tuple[Float[np.ndarray, " worker"], Float[np.ndarray, " class"]]:
        """w and b."""
        number, num_classes = self.logits.shape
        one_hot = np.eye(num_classes)[self.known]

        def loss(
            values: Float[np.ndarray, " value"],
        ) -> tuple[float, Float[np.ndarray, " value"]]:
            common, weight, shift = np.split(values, [1, 1 + self.num_workers])
            said = weight[self.worker, None] * self.log_labels
            logits = self.logits + shift + _sums(said, self.item, number)
            log_q = logits - logsumexp(logits, axis=1, keepdims=True)
            away = (weight - common) / _SPREAD**2
            penalty = _SPREAD**2 * away @ away + (1 - common) @ (1 - common)
            penalty += shift @ shift / _SHIFT**2
            excess = np.exp(log_q) - one_hot
            by_label = (excess[self.item] * self.log_labels).sum(1, keepdims=True)
            gradient = [
                -away.sum(keepdims=True) + common - 1,
                _sums(by_label, self.worker, self.num_workers)[:, 0] + away,
                excess.sum(0) + shift / _SHIFT**2,
            ]
            return float(penalty / 2 - (one_hot * log_q).sum()), np.concatenate(gradient)

        start = np.concatenate([np.ones(1 + self.num_workers), np.zeros(num_classes)])
        bounds = [(0.0, 1.0)] * (1 + self.num_workers) + [(None, None)] * num_classes
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x[1:]
        weight, shift = np.split(found, [self.num_workers])
        return weight, shift


def _sums(
    values: Float[np.ndarray, "label column"], group: Int[np.ndarray, " label"], number: int
) -> Float[np.ndarray, "group column"]:
    """Sums of the rows of each group."""
    columns = [np.bincount(group, column, number) for column in values.T]
    return np.stack(columns, axis=1)
