"""Chains of draws of classes and workers' rates, given class labels (Gibbs sampling).

theta | y ~ Dir(b + n)      gamma | y   from the counts n_jkl of labels l of worker j in class k
y_i | theta, gamma  ~  Cat(p_i),        p_ik  propto  theta_k prod_j p(a_ij | class k, gamma)

All chains start from a fit.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.learned_rows import LearnedRows, draw_log_shares
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.priors import ConjugatePosterior
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.inference.left_out_labels import LeavingOut
from pyro_crowdclust.inference.rows_around import RowMoments, SupportsExpectedRows, rows_around
from pyro_crowdclust.protocols import SupportsDraws
from pyro_crowdclust.protocols.annotators import LabelCounts


@runtime_checkable
class SupportsStateDraws(SupportsDraws, Protocol):
    """Class annotators whose sites can be drawn given the states of all items."""

    def log_states(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row column"]
    ) -> Float[Tensor, "*row class state"]:
        """``log p(a_i, s_i = s | y_i = k)`` from ``log p(a_i | k, s)``."""


def shares_of(states: Float[np.ndarray, "*row state"]) -> Float[np.ndarray, "*row state"]:
    """The rows, divided by their sums."""
    return states / states.sum(-1, keepdims=True).clip(SMALLEST_PROBABILITY)


def mean_confusion(
    states: Float[np.ndarray, "item class state"],
    rows: Float[np.ndarray, "worker class state label"],
) -> Float[np.ndarray, "worker class label"]:
    """``p(label | class)``, averaged over the states of the items of the class."""
    return np.einsum("ks,jksl->jkl", shares_of(states.sum(0)), rows)


class ClassChains:
    """All chains, drawn at the same time in one batch, which costs less overhead.

    Annotators without states are drawn as if every class had one state.

    Parameters
    ----------
    model
        A model of class labels alone, whose annotators can be drawn (``SupportsDraws``).
    posteriors
        Those of its sites, at whose means all chains start.
    data
        The labels.
    classes
        q(y), from which the first classes are drawn.
    num_chains
        The number of independent chains.
    rng
        Source of all draws.
    prior_steps
        Steps of learned priors for each draw. One is little where the fit is far from the mode: a
        mean field expects workers of few answers to be more alike than they are.
    """

    def __init__(
        self,
        model: Any,
        posteriors: Mapping[str, ConjugatePosterior],
        data: CrowdData,
        classes: Float[Tensor, "item class"],
        num_chains: int,
        rng: np.random.Generator,
        prior_steps: int = 1,
    ) -> None:
        self.labels: LabelMatrix = data.needed_class_labels.of_items(torch.arange(data.num_items))
        # Draws are on the processor, wherever the fit is.
        annotators: Any = copy.deepcopy(model.annotators).cpu()
        for part in annotators.modules():
            if isinstance(part, LearnedRows):
                part.steps_per_draw = prior_steps
        self.annotators: SupportsDraws = annotators
        # Checked only once, since the check takes a tenth of the time of a step.
        has_states = isinstance(annotators, SupportsStateDraws)
        self._of_states = annotators.log_states if has_states else None
        prior = model.weights.prior
        self.concentration = prior.family.standard(prior.natural_parameters).concentration.cpu()
        self.counts: LabelCounts = np.zeros(0)
        self.values: Mapping[str, Tensor] = {}
        for name, posterior in posteriors.items():
            mean = posterior.mean().cpu()
            self.values[name] = mean.expand(num_chains, *mean.shape)
        of_states = self._log_states(annotators.log_answers(self.values)).softmax(-1)
        self.q = classes.double().cpu()[:, None, :, None] * of_states
        self.rng = rng

    def step(self) -> Float[Tensor, "chain worker label state"]:
        """Draw the states, then the workers' rates; returns ``log p(label | state)``.

        Afterwards ``q`` is p(y, s) given these rates, ``[item, chain, class, state]``.
        """
        states = self._states()
        self.counts = counts = self._counts(states).numpy()
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

    def means(
        self, num_draws: int, leaving_out: LeavingOut | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means over draws and chains of ``q`` and of ``p(label | class, state)`` of every worker.

        The third array is the standard deviation of ``p(label | class)``, averaged over states by
        their frequencies in the draw. The draws are also added to those of ``leaving_out``.
        """
        states, rows, mean, square = (torch.zeros(()) for _ in range(4))
        for _ in range(num_draws):
            log_answers = self.step()
            if leaving_out is not None:
                leaving_out.add(self.q, log_answers)
            of_states = log_answers.exp().mT
            states = states + self.q.mean(1) / num_draws
            rows = rows + of_states.mean(0) / num_draws
            shares = torch.from_numpy(shares_of(self.q.sum(0).numpy()))
            of_states = of_states.unflatten(2, shares.shape[1:])
            confusion = torch.einsum("cks,cjksl->cjkl", shares, of_states)
            mean = mean + confusion.mean(0) / num_draws
            square = square + confusion.square().mean(0) / num_draws
        deviation = (square - mean.square()).clamp(min=0).sqrt()
        return states.numpy(), rows.unflatten(1, states.shape[1:]).numpy(), deviation.numpy()

    def row_moments(self, num_draws: int, vary: bool = False) -> RowMoments:
        """Moments of ``p(label | class)`` over draws and chains.

        If they ``vary``, rows do so around those that the drawn values expect (``rows_around``).
        """
        annotators = self.annotators
        if not (vary and isinstance(annotators, SupportsExpectedRows)):
            states, rows, deviation = self.means(num_draws)
            mean = mean_confusion(states, rows)
            return RowMoments(mean, mean**2 + deviation**2)
        mean, square = np.zeros(1), np.zeros(1)
        for _ in range(num_draws):
            self.step()
            expected = np.broadcast_to(annotators.expected_rows(self.values), self.counts.shape)
            of_draw = rows_around(expected, self.counts)
            mean = mean + of_draw.mean.mean(0) / num_draws
            square = square + of_draw.square.mean(0) / num_draws
        return RowMoments(mean, square)

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
        """n: how often each worker gave each label to items in each state, by weights."""
        num_states, num_labels = math.prod(self.q.shape[2:]), self.labels.num_classes
        shape = self.labels.num_workers, num_states, num_labels
        item = self.labels.item.numpy()
        cell = (self.labels.worker * (num_states * num_labels) + self.labels.label).numpy()
        weight = None if self.labels.weight is None else self.labels.weight.numpy()
        # Chain by chain, as small tables stay in the cache, and by NumPy, which counts faster.
        each = [
            np.bincount(cell + own[item], weight, math.prod(shape))
            for own in num_labels * states.numpy()
        ]
        return torch.from_numpy(np.stack(each)).double().reshape(len(states), *shape)
