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

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.label_sites import worker_weights_of
from pyro_crowdclust.annotators.learned_rows import draw_log_shares
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.families.summaries import summary_of_moments
from pyro_crowdclust.protocols import SupportsDraws, SupportsStateDraws
from pyro_crowdclust.results.fitted import Fitted, check_fit
from pyro_crowdclust.results.tables import confusion_table
from pyro_crowdclust.results.text import sizes_of_classes


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
    """

    fitted: Fitted
    states: Float[np.ndarray, "item class state"]
    rows: Float[np.ndarray, "worker class state label"]
    deviations: Float[np.ndarray, "worker class label"]

    def __repr__(self) -> str:
        return f"DrawnClasses({self.data}, {sizes_of_classes(self.class_probabilities)})"

    @property
    def probabilities(self) -> Float[np.ndarray, "item class"]:
        """Mean of ``p(y_i = k | theta, gamma, labels)``."""
        return self.states.sum(-1)

    @property
    def mean_confusion(self) -> Float[np.ndarray, "worker class label"]:
        """Mean of ``p(label | class)``, averaged over the states of the items of the class."""
        return np.einsum("ks,jksl->jkl", _shares(self.states.sum(0)), self.rows)

    @property
    def data(self) -> CrowdData:
        """The items and their labels."""
        return self.fitted.data

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """``probabilities`` by the user's ids of items and classes."""
        frame = self.fitted.class_probabilities
        return pd.DataFrame(self.probabilities, frame.index, frame.columns)

    def answer_probabilities(
        self,
        item: Int[np.ndarray, " answer"],
        worker: Int[np.ndarray, " answer"],
        label: Int[np.ndarray, " answer"],
    ) -> Float[np.ndarray, "answer class"]:
        """``p(label | class)`` of answers that were not used, by positions in ``data``."""
        return (_shares(self.states[item]) * self.rows[worker, :, :, label]).sum(-1)

    @property
    def confusion(self) -> pd.DataFrame:
        """``p(label | class)`` by the user's ids of workers and classes.

        Columns: ``mean``, ``sd`` and ``lower``, ``upper``, which enclose 90 %.
        """
        summary = summary_of_moments(self.mean_confusion, self.deviations**2, 0.9)
        return confusion_table(summary, self.data)


def _shares(states: Float[np.ndarray, "*row state"]) -> Float[np.ndarray, "*row state"]:
    return states / states.sum(-1, keepdims=True).clip(SMALLEST_PROBABILITY)


@torch.no_grad()
def draw_classes(
    result: Fitted,
    num_draws: int = 75,
    num_chains: int = 8,
    seed: int = 0,
) -> DrawnClasses:
    """Draw the classes and the workers' rates of a fit of class labels, by Gibbs sampling.

    Parameters
    ----------
    result
        A fit of ``DawidSkene`` whose annotators can be drawn (``protocols.SupportsDraws``), such as
        ``ConfusionMatrices``, ``CommunityConfusion``, ``AnswerSources`` and ``ClassStates``.
    num_draws
        Draws per chain that count. Three times as many are made before and discarded, since chains
        move away from the fit slowly.
    num_chains
        Number of independent chains, which all start from the fit. If they end in different optima,
        the result is an average over these.
    seed
        Seed of the draws.

    Raises
    ------
    ValueError
        If the result is not a fit, its annotators cannot be drawn, its model also uses features, or
        the number of draws or chains is below 1.

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
    check_whole("num_chains", num_chains, least=1)
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
    chains = _Chains(result, num_chains, np.random.default_rng(seed))
    for _ in range(3 * num_draws):
        chains.step()
    return DrawnClasses(result, *chains.means(num_draws))


class _Chains:
    """All chains, drawn at the same time in one batch, which costs less overhead.

    Annotators without states are drawn as if every class had one state.
    """

    def __init__(self, result: Fitted, num_chains: int, rng: np.random.Generator) -> None:
        data, posteriors = result.data, result.guide.posteriors
        assert data.class_labels is not None  # since its annotators are of class labels
        self.labels: LabelMatrix = data.class_labels.of_items(torch.arange(data.num_items))
        # Draws are on the processor, wherever the fit is.
        annotators: Any = copy.deepcopy(result.model.annotators).cpu()
        self.annotators: SupportsDraws = annotators
        # Checked only once, since the check takes a tenth of the time of a step.
        has_states = isinstance(annotators, SupportsStateDraws)
        self._of_states = annotators.log_states if has_states else None
        prior = result.model.weights.prior
        self.concentration = prior.family.standard(prior.natural_parameters).concentration.cpu()
        # The row of an answer in the counts of each chain.
        chain = torch.arange(num_chains).unsqueeze(1)
        self._row = chain * self.labels.num_workers + self.labels.worker
        self.values: Mapping[str, Tensor] = {}
        for name, posterior in posteriors.items():
            mean = posterior.mean().cpu()
            self.values[name] = mean.expand(num_chains, *mean.shape)
        of_states = self._log_states(annotators.log_answers(self.values)).softmax(-1)
        self.q = torch.tensor(result.probabilities)[:, None, :, None] * of_states
        self.rng = rng

    def step(self) -> Float[Tensor, "chain worker label state"]:
        """Draw the states, then the workers' rates; returns ``log p(label | state)``.

        Afterwards ``q`` is p(y, s) given these rates, ``[item, chain, class, state]``.
        """
        states = self._states()
        counts = self._counts(states).numpy()
        of_states = torch.stack(
            [torch.bincount(own, minlength=counts.shape[-2]).double() for own in states]
        )
        self.values = self.annotators.draw(self.values, counts, of_states.numpy(), self.rng)
        of_classes = of_states.unflatten(-1, self.q.shape[2:]).sum(-1)
        log_weights = draw_log_shares((self.concentration + of_classes).numpy(), self.rng)
        log_answers = self.annotators.log_answers(self.values)
        joint = log_weights.unsqueeze(-1) + self._log_states(log_answers)
        self.q = joint.flatten(2).softmax(-1).view_as(joint)
        return log_answers

    def means(self, num_draws: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means over draws and chains of ``q`` and of ``p(label | class, state)`` of every worker.

        The third array is the standard deviation of ``p(label | class)``, averaged over states by
        their frequencies in the draw.
        """
        states, rows, mean, square = (torch.zeros(()) for _ in range(4))
        for _ in range(num_draws):
            of_states = self.step().exp().mT
            states = states + self.q.mean(1) / num_draws
            rows = rows + of_states.mean(0) / num_draws
            shares = torch.from_numpy(_shares(self.q.sum(0).numpy()))
            of_states = of_states.unflatten(2, shares.shape[1:])
            confusion = torch.einsum("cks,cjksl->cjkl", shares, of_states)
            mean = mean + confusion.mean(0) / num_draws
            square = square + confusion.square().mean(0) / num_draws
        deviation = (square - mean.square()).clamp(min=0).sqrt()
        return states.numpy(), rows.unflatten(1, states.shape[1:]).numpy(), deviation.numpy()

    def _log_states(
        self, log_answers: Float[Tensor, "chain worker label column"]
    ) -> Float[Tensor, "item chain class state"]:
        num_chains, *_, num_states = log_answers.shape
        one_table = log_answers.movedim(0, -2).flatten(-2)
        evidence = self.labels.evidence(one_table).unflatten(-1, (num_chains, num_states))
        if self._of_states is None:
            return evidence.unsqueeze(-1)
        return self._of_states(self.values, evidence)

    def _states(self) -> Int[Tensor, "chain item"]:
        q = self.q.flatten(2)
        uniform = torch.from_numpy(self.rng.random((*q.shape[:2], 1)))
        # Probabilities may sum to a little less than one.
        return (q.cumsum(-1) < uniform).sum(-1).clamp(max=q.shape[-1] - 1).mT.contiguous()

    def _counts(
        self, states: Int[Tensor, "chain item"]
    ) -> Float[Tensor, "chain worker state label"]:
        """n: how often each worker gave each label to items in each state."""
        shape = (
            len(states),
            self.labels.num_workers,
            math.prod(self.q.shape[2:]),
            self.labels.num_classes,
        )
        place = self._row * shape[2] + states[:, self.labels.item]
        cell = place * shape[3] + self.labels.label
        return torch.bincount(cell.flatten(), minlength=math.prod(shape)).double().reshape(shape)
