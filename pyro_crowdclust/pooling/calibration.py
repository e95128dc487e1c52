"""Calibration of class probabilities by a temperature, without true classes.

Models of class labels assume that the answers about an item are independent given its class. Items
differ in more than their class, so answers agree more often than that, rightly or wrongly, and
probabilities are too close to zero and one. The answers themselves show by how much, since each
can be predicted from the others about its item.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import AnswerSources, ConfusionMatrices, OneCoin
from pyro_crowdclust.annotators.label_sites import log_leave_one_out
from pyro_crowdclust.data import LabelMatrix
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.minibatches.making import full_batch
from pyro_crowdclust.protocols import part_of
from pyro_crowdclust.results.fitted import Fitted, check_fit

# How probable it is that all workers err together about an item, in public crowds.
SINGLE_ANSWER_PROBABILITY = 0.1
TEMPERATURES = (1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 3.0, 4.0, 5.0, 7.0, 10.0, 14.0, 20.0)


def temper(
    probabilities: Float[np.ndarray, "item class"], temperature: float
) -> Float[np.ndarray, "item class"]:
    """``q^(1 / T)``, normalized; keeps the ranking of the classes.

    Examples
    --------
    >>> temper(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    logits = np.log(np.clip(probabilities, SMALLEST_PROBABILITY, None)) / temperature
    return torch.from_numpy(logits).softmax(-1).numpy()


def at_best_temperature(
    classes: Float[np.ndarray, "answer class"], named: Float[np.ndarray, "answer class"]
) -> tuple[float, Float[np.ndarray, " answer"]]:
    """The best temperature for the answers, and ``sum_k q_-a(k)^(1 / T) g_a(k)`` of each under it.

    As for ``calibrated_guide``, log T is standard normal beforehand, so that a few answers change
    little.

    Parameters
    ----------
    classes
        ``q_-a(k)``: the class of the item of every answer, by the others.
    named
        ``g_a(k) = p(a | y_i = k)``.
    """
    found = {t: (temper(classes, t) * named).sum(1) for t in TEMPERATURES}
    best = max(found, key=lambda t: np.log(found[t]).sum() - np.log(t) ** 2 / 2)
    return best, found[best]


class HeldOutLabels(NamedTuple):
    """``log sum_k q_-a(k) E_-i[gamma_jka]`` of every answer, given the others about its item.

    The answers about item i were counted in the worker's posterior by q(y_i), so that they would
    confirm q. Their counts are taken out again:
    ``E_-i[gamma_jka] = (alpha_jka - q(k)) / (sum_l alpha_jkl - q(k))``. The other answers about the
    item then give

        q_-a(k)  propto  (q(k) exp {sum_{e != a} E_-i[log gamma_e] - sum_e E[log gamma_e]})^(1/T)

    with e the answers about the item and gamma_e their probabilities given k; where q is read
    ``moderated``, ``(q(k) / E_-i[gamma_a])^(1/T)``. Items with one answer are left out. Answers
    that come from several sources cannot be taken out of the worker's posterior, and stay in it.

    Attributes
    ----------
    log_others
        ``log q_-a(k)`` at T = 1, up to a constant.
    log_answers
        ``log E_-i[gamma_jka]``.
    weight
        As how many answers each counts, less than one where workers repeat themselves.
    """

    log_others: Float[Tensor, "answer class"]
    log_answers: Float[Tensor, "answer class"]
    weight: Float[Tensor, " answer"]

    @classmethod
    @torch.no_grad()
    def of(cls, result: Fitted) -> HeldOutLabels:
        """The answers of a fit that can be calibrated (``calibrated_guide``)."""
        result = replace(result, guide=result.guide.in_full())
        batch = full_batch(result.data)
        labels, posteriors = batch.class_labels, result.guide.posteriors
        assert labels is not None  # since the annotators are of class labels
        annotators = result.model.annotators
        if isinstance(annotators, AnswerSources | OneCoin):
            return cls._moderated(result, labels, batch.items)
        counted = replace(result, guide=result.guide.read_at(1.0, moderated=False))
        of_bound = torch.tensor(counted.probabilities)[batch.items]
        named, total = (
            part.cpu() for part in annotators.leave_one_out_counts(posteriors, labels, of_bound)
        )
        item, worker, label = labels.item, labels.worker, labels.label
        # The weight of every answer, with which it was counted.
        worker_weights = annotators.worker_weights
        counts = torch.ones(len(item)) if worker_weights is None else worker_weights[worker].cpu()
        counts = counts.double().unsqueeze(-1)
        if result.guide.reading.moderated:
            log_leave_one_out = (named / total).log()
            of_items = torch.tensor(result.probabilities)[batch.items]
            log_item = of_items.clamp_min(SMALLEST_PROBABILITY).log()
        else:
            values = {name: posterior.mean() for name, posterior in posteriors.items()}
            log_own = annotators.log_answers(values)[worker, label].cpu()
            log_leave_one_out = named.digamma() - total.digamma()
            log_item = of_bound.clamp_min(SMALLEST_PROBABILITY).log()
            log_item = log_item.index_add(
                0, item, labels.weighted(counts * (log_leave_one_out - log_own))
            )
        log_others = log_item[item] - labels.of_source(counts * log_leave_one_out)
        return cls._with_others(labels, log_others, (named / total).log())

    @classmethod
    def _moderated(
        cls, result: Fitted, labels: LabelMatrix, items: Int[Tensor, " item"]
    ) -> HeldOutLabels:
        """The same where q is read moderated, by the leave-one-out evidence with which it was."""
        q = torch.tensor(result.probabilities)[items]
        annotators, posteriors = result.model.annotators, result.guide.posteriors
        log_answers = log_leave_one_out(annotators, posteriors, labels, q).cpu()
        log_others = q.clamp_min(SMALLEST_PROBABILITY).log()[labels.item] - labels.of_source(
            log_answers
        )
        return cls._with_others(labels, log_others, log_answers)

    @classmethod
    def _with_others(
        cls,
        labels: LabelMatrix,
        log_others: Float[Tensor, "answer class"],
        log_answers: Float[Tensor, "answer class"],
    ) -> HeldOutLabels:
        """Those about items that another worker has labelled, too."""
        is_used = labels.has_others
        weight = labels.weights.to(log_others)[is_used]
        return cls(log_others[is_used], log_answers[is_used], weight)

    def log_likelihood(self, temperature: float) -> float:
        """Mean log-probability of the answers, in nats, at temperature T."""
        of_classes = (self.log_others / temperature).log_softmax(-1) + self.log_answers
        return float(self.weight @ of_classes.logsumexp(-1) / self.weight.sum())


def calibrated_guide(result: Fitted) -> Any:
    """The guide of a fit, read at the best temperature T, and with answers that may be one.

        q(y_i = k)  =  .9 q_T(k) + .1 q_i(k)        q_T  propto  (p(k) prod_a p(a | k))^(1/T)
                                                    q_i  propto   p(k) prod_a p(a | k)^(1/n_i)

    over the n_i answers a about item i. The temperature shows in the answers. That all workers err
    about the same items does not, since predictions of answers from others are then right. In
    public crowds it happens so often that a tenth is worth more than certainty.

    With features, ``p(k)`` is that of the item given these. Items without labels do not change.
    Results of ``infer_classes`` and ``classify`` are read so already; any other is by
    ``dataclasses.replace(result, guide=calibrated_guide(result))``.

    Parameters
    ----------
    result
        A fit of class labels with a confusion matrix for every worker, or with sources of answers
        or one coin read ``moderated``, as ``infer_classes`` returns them.

    Raises
    ------
    ValueError
        For any other result.
    """
    _check_can_be_calibrated(result)
    return result.guide.read_at(
        temperature=_best_temperature(result), single_answer_probability=SINGLE_ANSWER_PROBABILITY
    )


def _best_temperature(result: Fitted) -> float:
    """The temperature, 1 or more, under which each answer is predicted best from the others.

    The maximum of ``n mean log p(a | others, T) - (log T)^2 / 2`` over n answers: ``log T`` is
    standard normal beforehand, so that a few answers change little.
    """
    held_out = HeldOutLabels.of(result)
    number = float(held_out.weight.sum())

    def log_posterior(temperature: float) -> float:
        log_likelihood = number * held_out.log_likelihood(temperature) if number else 0.0
        return log_likelihood - math.log(temperature) ** 2 / 2

    return max(TEMPERATURES, key=log_posterior)


def _check_can_be_calibrated(result: Fitted) -> None:
    check_fit(result)
    # The matrices of other annotators may describe one source, or one state of an item, only.
    has_own = part_of(result.model, "annotators", ConfusionMatrices) is not None
    others = (part_of(result.model, "annotators", kind) for kind in (AnswerSources, OneCoin))
    has_own = has_own or (any(one is not None for one in others) and result.guide.reading.moderated)
    if result.data.class_labels is None or not has_own:
        raise ValueError(
            f"only confusion matrices can be calibrated, and the fit is of "
            f"{type(result.model).__name__}{_with_annotators(result)}: use its own probabilities, "
            "or, for class labels, average_annotator_models, whose probabilities are calibrated"
        )


def _with_annotators(result: Fitted) -> str:
    annotators = part_of(result.model, "annotators", nn.Module)
    return "" if annotators is None else f" with {type(annotators).__name__}"
