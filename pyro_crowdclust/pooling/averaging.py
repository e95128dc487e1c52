"""Several models of the same class labels, averaged by how well they predict each from the others.

    q(y_i) = sum_m w_m q_m(y_i)^(1 / T_m)
    v = argmax_v sum_a log sum_m v_m p_m(a)            p_m(a) = sum_k q_m,-a(k)^(1 / T_m) g_a(k)
    w_m = (A v_m + A_0 / M) / (A + A_0)                g_a(k) = sum_m p_m(a | k, the others) / M

No annotator model is best for every crowd. The ELBO does not show which one is, since it measures
the fit to the workers rather than to the items. So each of the A answers is predicted from the
others. q_m,-a is the class of its item by these (``inference.LeftOutLabels``). T_m is the
temperature under which a model predicts best, and v are the weights under which the average of the
models does (stacking; Yao et al. 2018). w shrinks these towards equal weights, as if A_0 more
answers favoured no model. True classes are not needed.

The rows g are the same for all models, since it is their classes that are averaged. By rows of its
own, a model would also be chosen for how well it knows habits of the workers, which say nothing
about its classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import count
from pyro_crowdclust.pooling.calibration import at_best_temperature, temper
from pyro_crowdclust.pooling.comparison import is_clearly_better
from pyro_crowdclust.pooling.cross_validation import cross_validated
from pyro_crowdclust.pooling.drawn_classes import DrawnClasses
from pyro_crowdclust.pooling.inferred_classes import InferredClasses
from pyro_crowdclust.results.tables import CachedCopy
from pyro_crowdclust.results.text import sizes_of_classes
from pyro_crowdclust.training.argument_checks import check_has_class_labels

# A_0: answers may be few, and they choose the models that predict answers, not classes.
_EVEN_ANSWERS = 1000.0
# Iterations of EM; weights have converged by then.
_ROUNDS = 500


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
    seed: int = 0,
    standard: int | None = None,
    doubted: Sequence[int] = (),
) -> AveragedClasses:
    """Fit all members, and choose temperatures and weights by answers predicted from the others.

    Draws predict each answer without it. Any other member is fitted ten more times, each time
    without a tenth of the answers.

    Parameters
    ----------
    data
        Items with class labels.
    fits
        Functions, each of which fits its model to the data given to it.
    seed
        Seed of the division into tenths.
    standard
        Index of the member that all others are compared with: those that predict clearly worse, by
        two standard errors, are left out.
    doubted
        Indices of members that are kept only if they predict clearly better than the standard.

    Raises
    ------
    ValueError
        If there are no class labels, or no item has answers of two workers.
    """
    check_has_class_labels(data)
    labels = data.needed_class_labels
    matrix = labels.of_items(torch.arange(data.num_items))
    if not matrix.can_be_left_out.any():
        raise ValueError(
            "no answer can be predicted from others, since no item has answers of two workers: use "
            "infer_classes, which fits one model"
        )
    members = [fitted_to(data) for fitted_to in fits]
    left_out = [
        member.left_out
        if isinstance(member, DrawnClasses)
        else cross_validated(fitted_to, data, seed)
        for member, fitted_to in zip(members, fits, strict=True)
    ]
    kept = [*range(len(members))]
    if standard is not None:
        logs = [np.log(at_best_temperature(*one)[1]) for one in left_out]

        def is_kept(number: int) -> bool:
            if number in doubted:
                return is_clearly_better(logs[number], logs[standard])
            return number == standard or not is_clearly_better(logs[standard], logs[number])

        kept = [number for number in kept if is_kept(number)]
    rows = np.mean([left_out[number].named for number in kept], axis=0)
    found = [at_best_temperature(left_out[number].classes, rows) for number in kept]
    temperatures, likelihoods = zip(*found, strict=True)
    weights = len(rows) * stacking_weights(np.array(likelihoods)) + _EVEN_ANSWERS / len(kept)
    return AveragedClasses(
        [members[number] for number in kept], temperatures, weights / weights.sum()
    )


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
