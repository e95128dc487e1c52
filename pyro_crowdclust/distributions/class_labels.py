"""Statistic-valued Pyro distributions of class labels and of the items' classes."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.families import Dirichlet

# Parts of tables with this many short rows stay in the cache from one pass to the next.
_ROWS = 4096


class Likelihood(Protocol):
    """Interface of ``p(labels | classes)`` for these sites; see ``annotators.LabelLikelihood``."""

    num_classes: int

    def evidence(self, labels: LabelMatrix) -> Float[Tensor, "item class"]:
        """``log p(a_i | y_i = k)``."""

    def log_rows(
        self, assignments: Float[Tensor, "item class"], labels: LabelMatrix
    ) -> Float[Tensor, "answer label"]:
        """``log p(label)`` of every answer given the classes."""


class Evidence(StatisticValued):
    """``e_ik = sum_j log p(a_ij | class k)``, evidence of the labels for each class; ``log p = 0``.

    A function of the confusion matrices, and a site of its own so that the product with the sparse
    matrix of all answers is formed once: a guide needs it for q(z), and the model replays its
    value. Its log-density is zero on both sides; ``ItemLabels`` has the log-density of the labels.

    Parameters
    ----------
    likelihood
        ``p(labels | classes)`` of the workers, or the exponential of its expected logarithm.
    labels
        The labels of all workers for all items.
    """

    adds_nothing = True

    def __init__(self, likelihood: Likelihood, labels: LabelMatrix) -> None:
        self._likelihood, self._labels = likelihood, labels
        super().__init__(torch.Size([labels.num_items]), torch.Size([likelihood.num_classes]))

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "item class"]:
        self._one_draw(sample_shape)
        return self._likelihood.evidence(self._labels)

    def log_prob(self, value: Float[Tensor, "item class"]) -> Float[Tensor, " item"]:
        return value.new_zeros(value.shape[:-1])


class ItemLabels(StatisticValued):
    """All labels of every item: ``log p(a_i | z_i) = <z_i, e_i>``.

    The value is ragged: the label of every answer, item after item. The log-density has one number
    per item, so that the plate of the items scales it.

    Parameters
    ----------
    assignments
        One-hot classes or probabilities, ``[item, class]``.
    evidence
        Value of the site ``Evidence`` of the observed labels.
    likelihood
        As for ``Evidence``; used for labels that are drawn or differ from the observed ones.
    labels
        The labels of all workers for all items.
    """

    def __init__(
        self,
        assignments: Float[Tensor, "*value item class"],
        evidence: Float[Tensor, "item class"],
        likelihood: Likelihood,
        labels: LabelMatrix,
    ) -> None:
        self._assignments, self._evidence = assignments, evidence
        self._likelihood, self._labels = likelihood, labels
        super().__init__(assignments.shape[:-1], torch.Size([len(labels)]))

    def rsample(self, sample_shape: Any = ()) -> Int[Tensor, " answer"]:
        self._one_draw(sample_shape)
        rows = self._likelihood.log_rows(self._assignments, self._labels)
        return torch.distributions.Categorical(logits=rows, validate_args=False).sample()

    def log_prob(self, value: Int[Tensor, " answer"]) -> Float[Tensor, "*value item"]:
        evidence = self._evidence
        if value is not self._labels.label:
            evidence = self._likelihood.evidence(self._labels.relabelled(value))
        return _InnerProducts.apply(self._assignments, evidence)


class AssignmentAtMean(StatisticValued):
    """q(z) of many items: its site returns the probabilities, ``log q`` is minus the entropy.

    Equal to ``ConjugateAtMean`` of a categorical family, but for logits that need no gradient, in
    half the passes over memory.

    Parameters
    ----------
    logits
        Unnormalized log q(z), ``[item, class]``.
    """

    def __init__(self, logits: Float[Tensor, "item class"]) -> None:
        self._logits = logits.detach()
        self.probabilities = torch.empty_like(self._logits)
        self._minus_entropy = self._logits.new_empty(logits.shape[:-1])
        # Denormal numbers are slow; see families.softmax_without_denormals.
        smallest = torch.finfo(logits.dtype).tiny ** (1 / 3)
        ones = self._logits.new_ones(logits.shape[-1])
        tables = self._logits, self.probabilities, self._minus_entropy
        for part, q, minus_entropy in zip(*(t.split(_ROWS) for t in tables), strict=True):
            # torch's softmax and sum of short rows take several times as long as these passes.
            shifted = part - part.amax(-1, keepdim=True)
            total = torch.exp(shifted, out=q) @ ones
            torch.threshold_(q.div_(total.unsqueeze(-1)), smallest, 0.0)
            torch.sub(shifted.mul_(q) @ ones, total.log_(), out=minus_entropy)
        super().__init__(logits.shape[:-1], logits.shape[-1:])

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "item class"]:
        self._one_draw(sample_shape)
        return self.probabilities

    def log_prob(self, value: Float[Tensor, "item class"]) -> Float[Tensor, " item"]:
        if value is self.probabilities:
            return self._minus_entropy
        return (value * self._logits.log_softmax(-1)).sum(-1)


class _InnerProducts(torch.autograd.Function):
    """``sum_k left_ik right_ik`` of the rows of two tables, in half the passes of a sum."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        ones = left.new_ones(left.shape[-1])
        parts = zip(left.split(_ROWS), right.split(_ROWS), strict=True)
        return torch.cat([(one * other) @ ones for one, other in parts])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return tuple(
            gradient.unsqueeze(-1) * other if needed else None
            for other, needed in zip(ctx.saved_tensors[::-1], ctx.needs_input_grad, strict=True)
        )


class CommunityDirichlet(StatisticValued):
    """``log p(gamma_jk | c_j) = sum_c c_jc [<a_ck - 1, log gamma_jk> - log Z(a_ck)]``.

    The prior of rows of confusion matrices, given the worker's community; linear in the community
    and in the log rows.

    Parameters
    ----------
    concentration
        a, shape ``[community, class, label]``.
    community
        One-hot or probabilities, ``[worker, community]``.
    """

    def __init__(
        self,
        concentration: Float[Tensor, "community class label"],
        community: Float[Tensor, "worker community"],
    ) -> None:
        self._family = Dirichlet(concentration.shape[-1])
        self._eta = self._family.natural(concentration)
        self._community = community
        num_rows = len(community) * concentration.shape[1]
        super().__init__(torch.Size([num_rows]), concentration.shape[-1:])

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "row label"]:
        self._one_draw(sample_shape)
        eta = torch.einsum("mc,ckl->mkl", self._community, self._eta).flatten(0, 1)
        return self._family.sufficient_statistics(self._family.sample(eta))

    def log_prob(self, value: Float[Tensor, "row label"]) -> Float[Tensor, " row"]:
        rows = value.unflatten(0, (len(self._community), -1))
        eta = torch.einsum("mc,ckl->mkl", self._community, self._eta)
        log_normalizer = self._community @ self._family.log_normalizer(self._eta)
        return ((eta * rows).sum(-1) - log_normalizer).flatten()
