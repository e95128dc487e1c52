"""Classes from draws of the joint posterior of workers and classes (Gibbs sampling).

    theta | y ~ Dir(b + n)      gamma | y   from the counts n_jkl of labels l of worker j in class k
    y_i | theta, gamma  ~  Cat(p_i),        p_ik  propto  theta_k prod_j p(a_ij | class k, gamma)

are drawn in turn, starting from a fit. The result is the mean of p, which is less noisy than that
of y. With few answers per item or per worker, classes and rates are uncertain jointly. A mean field
ignores this, so that its classes may differ and are too certain. Concentrations that the fit
learned are updated by a step of their fixed point in every draw. If classes have states
(``ClassStates``), these are drawn, too: ``p_iks  propto  theta_k pi_ks prod_j p(a_ij | k, s)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from pyro_crowdclust.annotators.label_sites import worker_weights_of
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.families.summaries import summary_of_moments
from pyro_crowdclust.inference.class_chains import ClassChains, mean_confusion, shares_of
from pyro_crowdclust.inference.left_out_labels import LeavingOut, LeftOutLabels
from pyro_crowdclust.protocols import SupportsDraws
from pyro_crowdclust.results.fitted import Fitted, check_fit
from pyro_crowdclust.results.tables import class_table, confusion_table
from pyro_crowdclust.results.text import sizes_of_classes

_CHAINS = 8


@dataclass(frozen=True, eq=False, repr=False)
class DrawnClasses:
    """What ``draw_classes`` found.

    Attributes
    ----------
    fitted
        The fit from which the draws started.
    states
        Mean of ``p(y_i = k, s_i = s | theta, pi, gamma, labels)``; with one state if the classes
        have no states.
    rows
        Mean of ``p(label | class, state)``.
    deviations
        Standard deviation of ``p(label | class)``.
    left_out
        Every label, predicted without it.
    """

    fitted: Fitted
    states: Float[np.ndarray, "item class state"]
    rows: Float[np.ndarray, "worker class state label"]
    deviations: Float[np.ndarray, "worker class label"]
    left_out: LeftOutLabels

    def __repr__(self) -> str:
        return f"DrawnClasses({self.data}, {sizes_of_classes(self.class_probabilities)})"

    @property
    def probabilities(self) -> Float[np.ndarray, "item class"]:
        """Mean of ``p(y_i = k | theta, gamma, labels)``."""
        return self.states.sum(-1)

    @property
    def mean_confusion(self) -> Float[np.ndarray, "worker class label"]:
        """Mean of ``p(label | class)``, averaged over the states of the items of the class."""
        return mean_confusion(self.states, self.rows)

    @property
    def data(self) -> CrowdData:
        """The items and their labels."""
        return self.fitted.data

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """``probabilities`` by the user's ids of items and classes."""
        return class_table(self.probabilities, self.data)

    def answer_probabilities(
        self,
        item: Int[np.ndarray, " answer"],
        worker: Int[np.ndarray, " answer"],
        label: Int[np.ndarray, " answer"],
    ) -> Float[np.ndarray, "answer class"]:
        """``p(label | class)`` of answers that were not used, by positions in ``data``."""
        return (shares_of(self.states[item]) * self.rows[worker, :, :, label]).sum(-1)

    @property
    def confusion(self) -> pd.DataFrame:
        """``p(label | class)`` by the user's ids of workers and classes.

        Columns: ``mean``, ``sd`` and ``lower``, ``upper``, which enclose 90 %.
        """
        summary = summary_of_moments(self.mean_confusion, self.deviations**2, 0.9)
        return confusion_table(summary._asdict(), self.data)


@torch.no_grad()
def draw_classes(
    result: Fitted,
    num_draws: int = 75,
    seed: int = 0,
) -> DrawnClasses:
    """Draw the classes and the workers' rates of a fit of class labels, by Gibbs sampling.

    Eight independent chains start from the fit. If they end in different optima, the result is an
    average over these.

    Parameters
    ----------
    result
        A fit of ``DawidSkene`` whose annotators can be drawn (``protocols.SupportsDraws``), such as
        ``ConfusionMatrices``, ``CommunityConfusion``, ``AnswerSources`` and ``ClassStates``.
    num_draws
        Draws per chain that count. Three times as many are made before and discarded, since chains
        move away from the fit slowly.
    seed
        Seed of the draws.

    Raises
    ------
    ValueError
        If the result is not a fit, its annotators cannot be drawn, its model also uses features, or
        the number of draws is below 1.

    Examples
    --------
    >>> from pyro_crowdclust.interface import infer_classes
    >>> labels = {
    ...     "item": [0, 0, 0, 1, 1, 1, 2, 2, 2],
    ...     "worker": list("abcabcabc"),
    ...     "label": list("xxyyyyxxx"),
    ... }
    >>> result = infer_classes(CrowdData(None, labels=labels), num_communities=[1])
    >>> draw_classes(result, num_draws=50).class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y', 'x']
    """
    check_fit(result)
    check_whole("num_draws", num_draws, least=1)
    annotators = result.model.annotators
    if not isinstance(annotators, SupportsDraws):
        raise ValueError(
            f"{type(annotators).__name__} cannot be drawn, since it has no method draw(): use the "
            "probabilities of the fit itself"
        )
    if worker_weights_of(annotators) is not None:
        raise ValueError(
            "answers count in part where workers copy each other, and then classes cannot be "
            "drawn: use the probabilities of the fit itself, or a fit of infer_classes"
        )
    if {*result.guide.posteriors} != {"weights", *annotators.priors()}:
        raise ValueError(
            f"{type(result.model).__name__} also learns from features, which draws ignore: use "
            "the probabilities of the fit itself, or a fit of infer_classes(CrowdData(None, "
            "labels=labels))"
        )
    chains = ClassChains(
        result.model,
        result.guide.posteriors,
        result.data,
        torch.tensor(result.probabilities),
        _CHAINS,
        np.random.default_rng(seed),
    )
    for _ in range(3 * num_draws):
        chains.step()
    leaving_out = LeavingOut(chains.labels)
    states, rows, deviations = chains.means(num_draws, leaving_out)
    return DrawnClasses(result, states, rows, deviations, leaving_out.found(states.shape[-1]))
