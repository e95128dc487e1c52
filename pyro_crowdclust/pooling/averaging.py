"""Several models of the same class labels, averaged by how well they predict held-out answers.

    q(y_i) = sum_m w_m q_m(y_i)^(1 / T_m)      v = argmax_v sum_a log sum_m v_m p_m(a | the others)
                                               w_m = (A v_m + A_0 / M) / (A + A_0)

No annotator model is best for every crowd. The ELBO does not show which one is, since it measures
the fit to the workers rather than to the items. So A answers are held out. The temperature T_m of a
model (see ``calibrated_guide``) is the one under which these are likeliest, each
predicted from the other answers about its item. v are the weights under which the average of the
models predicts them best (stacking; Yao et al. 2018). w shrinks these towards equal weights, as if
A_0 more answers had been held out that favour no model. True classes are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from pyro_crowdclust.data.class_labels import ClassLabels
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import check_share, count
from pyro_crowdclust.pooling.calibration import TEMPERATURES, temper
from pyro_crowdclust.pooling.comparison import is_clearly_better
from pyro_crowdclust.results.tables import CachedCopy
from pyro_crowdclust.results.text import sizes_of_classes
from pyro_crowdclust.training.argument_checks import check_has_class_labels

# A_0: held-out answers may be few, and they choose the models that predict answers, not classes.
_EVEN_ANSWERS = 1000.0
# Iterations of EM; weights have converged by then.
_ROUNDS = 500


def hold_out_answers(
    data: CrowdData, share: float = 0.2, seed: int = 0
) -> tuple[CrowdData, ClassLabels]:
    """The data without a random share of the class labels, and the labels held out.

    An answer is held out only if its item and its worker keep at least one other. The choice does
    not depend on the order of the rows. Of several answers by one worker about one item, the first
    stands for all, and the others are in neither part.

    Raises
    ------
    ValueError
        If there are no class labels, ``share`` is not between 0 and 1, or nothing can be held out.

    Examples
    --------
    >>> labels = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> rest, held = hold_out_answers(CrowdData(None, labels=labels), share=0.2)
    >>> rest.num_labels, len(held)
    (4, 1)
    """
    check_share("share", share)
    rng = np.random.default_rng(seed)
    check_has_class_labels(data)
    labels = data.class_labels
    assert labels is not None  # as was just checked
    every, labels = labels, labels.at(labels.is_first)
    items, workers = labels.item.numpy(), labels.worker.numpy()
    left = np.bincount(items), np.bincount(workers)
    wanted = max(1, round(share * len(labels)))
    chosen: list[int] = []
    sorted_answers = np.lexsort((labels.label.numpy(), workers, items))
    for answer in sorted_answers[rng.permutation(len(labels))]:
        item, worker = items[answer], workers[answer]
        if len(chosen) < wanted and left[0][item] > 1 and left[1][worker] > 1:
            chosen.append(answer)
            left[0][item] -= 1
            left[1][worker] -= 1
    if not chosen:
        raise ValueError(
            "no answer can be held out, since every item or every worker has only one: use "
            "infer_classes, which fits one model"
        )
    is_held = torch.zeros(len(labels), dtype=torch.bool).index_fill(0, torch.tensor(chosen), True)
    held = labels.at(is_held)
    # Several answers of the only worker are those of many.
    of_held = is_held if len(every) == len(labels) else torch.isin(every.source, held.source)
    return data.with_class_labels(every.at(~of_held)), held


class InferredClasses(Protocol):
    """A member of an average: a fit to class labels, or draws that started from one."""

    @property
    def data(self) -> CrowdData:
        """The items and their labels."""

    @property
    def probabilities(self) -> Float[np.ndarray, "item class"]:
        """q(y_i = k)."""

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """``probabilities`` by the user's ids."""

    @property
    def confusion(self) -> pd.DataFrame:
        """p(label | class) of every worker, in the column ``mean``."""

    def answer_probabilities(
        self,
        item: Int[np.ndarray, " answer"],
        worker: Int[np.ndarray, " answer"],
        label: Int[np.ndarray, " answer"],
    ) -> Float[np.ndarray, "answer class"]:
        """p(label | class) of answers that the fit has not used."""


@dataclass(frozen=True, eq=False, repr=False)
class AveragedClasses:
    """The weighted average of several fits to the same class labels.

    It consists of several fits, so that there is no single file of it. Its two tables are what is
    worth keeping; the example writes one and reads it again. ``confusion.to_csv`` keeps the other,
    whose index is ``["worker", "class", "label"]``.

    Attributes
    ----------
    members
        The fits, or the draws that started from them.
    temperatures, weights
        T_m and w_m.

    Examples
    --------
    >>> import io
    >>> from pyro_crowdclust.interface import infer_classes
    >>> said = {"item": [0, 0, 1, 1], "worker": list("abab"), "label": list("xxyy")}
    >>> result = infer_classes(CrowdData(None, labels=said), num_communities=[1], epochs=5)
    >>> average = AveragedClasses([result], [1.0], np.ones(1))
    >>> file = io.StringIO(average.class_probabilities.to_csv())
    >>> pd.read_csv(file, index_col="item").idxmax(axis=1).tolist()
    ['x', 'y']
    """

    members: Sequence[InferredClasses]
    temperatures: Sequence[float]
    weights: Float[np.ndarray, " member"]

    def __repr__(self) -> str:
        found = sizes_of_classes(self.class_probabilities)
        return f"AveragedClasses({count(len(self.members), 'member')}, {found})"

    @property
    def data(self) -> CrowdData:
        """The items and their labels."""
        return self.members[0].data

    @CachedCopy
    def class_probabilities(self) -> pd.DataFrame:
        """``sum_m w_m q_m(y_i = k)^(1 / T_m)``, every part normalized, by the user's ids."""
        frame = self.members[0].class_probabilities
        parts = zip(self.weights, self.members, self.temperatures, strict=True)
        probabilities = sum(w * temper(member.probabilities, t) for w, member, t in parts)
        return pd.DataFrame(probabilities, frame.index, frame.columns)

    @property
    def confusion(self) -> pd.DataFrame:
        """Posterior mean of ``p(label | class)`` of every worker."""
        means = [member.confusion["mean"] for member in self.members]
        return sum(w * mean for w, mean in zip(self.weights, means, strict=True)).to_frame()


def average_classes(
    data: CrowdData,
    fits: Sequence[Callable[[CrowdData], InferredClasses]],
    share: float = 0.2,
    seed: int = 0,
    standard: int | None = None,
    doubted: Sequence[int] = (),
) -> AveragedClasses:
    """Choose temperatures and weights with some answers held out, then fit to all answers.

    Parameters
    ----------
    data
        Items with class labels.
    fits
        Functions, each of which fits its model to the data given to it. Members that are left out
        are not fitted to all data.
    share, seed
        As for ``hold_out_answers``.
    standard
        Index of the member that all others are compared with: those that predict clearly worse, by
        two standard errors, are left out.
    doubted
        Indices of members that are kept only if they predict clearly better than the standard.
    """
    rest, held = hold_out_answers(data, share, seed)
    predictions = [_predict(fitted_to(rest), held) for fitted_to in fits]
    kept = [*range(len(predictions))]
    if standard is not None:
        logs = [np.log(likelihoods) for _, likelihoods in predictions]

        def is_kept(number: int) -> bool:
            if number in doubted:
                return is_clearly_better(logs[number], logs[standard])
            return number == standard or not is_clearly_better(logs[standard], logs[number])

        kept = [number for number in kept if is_kept(number)]
    temperatures, likelihoods = zip(*(predictions[number] for number in kept), strict=True)
    members = [fits[number](data) for number in kept]
    weights = len(held) * stacking_weights(np.array(likelihoods)) + _EVEN_ANSWERS / len(kept)
    return AveragedClasses(members, temperatures, weights / weights.sum())


def _predict(
    member: InferredClasses, held: ClassLabels
) -> tuple[float, Float[np.ndarray, " answer"]]:
    """The temperature under which the answers are likeliest, and p(answer) of each under it."""
    item, worker, label = (part.numpy() for part in (held.item, held.worker, held.label))
    named = member.answer_probabilities(item, worker, label)
    q = member.probabilities[item]
    found = {temperature: (temper(q, temperature) * named).sum(1) for temperature in TEMPERATURES}
    best = max(found, key=lambda temperature: np.log(found[temperature]).sum())
    return best, found[best]


def stacking_weights(
    likelihoods: Float[np.ndarray, "member answer"],
) -> Float[np.ndarray, " member"]:
    """``argmax_w sum_a log sum_m w_m p_m(a)`` on the simplex, by EM from even weights.

    A factor common to all likelihoods of an answer does not change the weights. So for
    log-likelihoods pass ``exp(logs - logs.max(0))``, which cannot underflow in all members. Answers
    with ``p_m(a) = 0`` for all m are ignored; weights are equal if no answer is left.

    Parameters
    ----------
    likelihoods
        ``p_m(a)``: probabilities or densities of the answers under each member.

    Raises
    ------
    ValueError
        For likelihoods that are negative (log-likelihoods, for example), infinite or NaN.

    Examples
    --------
    >>> stacking_weights(np.array([[0.9, 0.9, 0.9, 0.1], [0.5, 0.5, 0.5, 0.5]])).round(2).tolist()
    [0.62, 0.38]
    >>> stacking_weights(np.array([[0.9, 0.0], [0.9, 0.0]])).tolist()
    [0.5, 0.5]
    """
    bad = ~((likelihoods >= 0) & (likelihoods < np.inf))
    if bad.any():
        raise ValueError(
            f"likelihoods hold {likelihoods[bad][0]}, but must be finite and 0 or more: if these "
            "are log-likelihoods, pass exp(logs - logs.max(0))"
        )
    weights = np.full(len(likelihoods), 1 / len(likelihoods))
    likelihoods = likelihoods[:, likelihoods.any(axis=0)]
    if not likelihoods.size:
        return weights
    for _ in range(_ROUNDS):
        parts = weights[:, None] * likelihoods
        weights = (parts / parts.sum(0)).mean(1)
    return weights
