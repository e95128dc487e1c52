"""The sites of class labels and the checks of the data, which all models of class labels share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import pyro
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.class_labels import Evidence, ItemLabels
from pyro_crowdclust.distributions.draws import NamedDraws, SiteDraws, named_draws
from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.priors import ConjugatePosterior
from pyro_crowdclust.errors import check_suits
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import ClassAnnotators, SupportsStates


@runtime_checkable
class SupportsWorkerWeights(Protocol):
    """Class annotators each of whom may count as less than one independent worker."""

    @property
    def worker_weights(self) -> Float[Tensor, " worker"] | None:
        """The number of independent workers that each counts as; None if all count as one."""


@runtime_checkable
class SupportsLeaveOneOut(ClassAnnotators, Protocol):
    """Class annotators with leave-one-out evidence: rates without the answer in question."""

    def log_leave_one_out(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        classes: Float[Tensor, "item class"],
    ) -> Float[Tensor, "answer class"]:
        """``log E[p(label | class)]`` of every answer, without its own contribution to the rates.

        ``classes`` is the q(y) by which the answers were counted.
        """


class LabelLikelihood:
    """``p(labels | classes)`` of annotators, at given values of their sites.

    States of classes (``ClassStates``) are summed out, or drawn. Everything is computed on first
    use, since in a training step the model's sites replay values that the guide's sites have.

    Parameters
    ----------
    annotators
        The model of the workers.
    values
        Values of its sites.
    """

    def __init__(
        self,
        annotators: ClassAnnotators,
        values: Mapping[str, Tensor],
    ) -> None:
        self._annotators, self._values = annotators, values
        self.num_classes = annotators.num_classes

    @cached_property
    def _log_answers(self) -> Float[Tensor, "worker label state"]:
        return self._annotators.log_answers(self._values)

    def evidence(self, labels: LabelMatrix) -> Float[Tensor, "item class"]:
        """``log p(a_i | y_i = k)`` of all labels of every item, weighted by ``worker_weights``."""
        log_answers, worker_weights = self._log_answers, worker_weights_of(self._annotators)
        if worker_weights is not None:
            log_answers = worker_weights.view(-1, 1, 1) * log_answers
        return self._of_classes(labels.evidence(log_answers))

    def of_answers(self, labels: LabelMatrix) -> Float[Tensor, "answer class"]:
        """``w_j log p(a_ij | y_i = k)`` of every label, for classes without states.

        Times the weight of the label, if workers have several about an item.
        """
        found = labels.weighted(self._log_answers[labels.worker, labels.label])
        return weighted_by_worker(found, worker_weights_of(self._annotators), labels)

    def log_confusion(self) -> Float[Tensor, "worker label class"]:
        """``log p(label | class)`` of every worker, for a single label."""
        return self._of_classes(self._log_answers)

    def log_rows(
        self, assignments: Float[Tensor, "item class"], labels: LabelMatrix
    ) -> Float[Tensor, "answer label"]:
        """``log p(label)`` of every answer, to draw from, given the classes of the items."""
        if isinstance(self._annotators, SupportsStates):
            assignments = self._annotators.draw_states(self._values, assignments)
        rows = self._log_answers[labels.worker], assignments[labels.item]
        return torch.einsum("alk,ak->al", *rows)

    def _of_classes(self, of_states: Float[Tensor, "*row state"]) -> Float[Tensor, "*row class"]:
        if isinstance(self._annotators, SupportsStates):
            return self._annotators.sum_states(self._values, of_states)
        return of_states


def worker_weights_of(annotators: ClassAnnotators) -> Float[Tensor, " worker"] | None:
    """The number of independent workers that each counts as; None if all count in full."""
    return annotators.worker_weights if isinstance(annotators, SupportsWorkerWeights) else None


def weighted_leave_one_out(
    annotators: ClassAnnotators,
    posteriors: Mapping[str, ConjugatePosterior],
    labels: LabelMatrix,
    classes: Float[Tensor, "item class"],
) -> Float[Tensor, "answer class"]:
    """``w_j log E_-i[p(a_ij | y_i = k)]`` of every label, times the weight of the label.

    ``E_-i`` is the expectation under the posterior of the workers without their answers about the
    item itself, if these can be removed (``SupportsLeaveOneOut``), otherwise under the whole
    posterior.

    Parameters
    ----------
    annotators
        The model of the workers, in which classes have no states.
    posteriors
        The posteriors of its sites, given the labels.
    labels
        The answers.
    classes
        q(y), which weighted the labels in these posteriors.
    """
    found = labels.weighted(log_leave_one_out(annotators, posteriors, labels, classes))
    return weighted_by_worker(found, worker_weights_of(annotators), labels)


def weighted_by_worker(
    log_answers: Float[Tensor, "answer class"],
    weights: Float[Tensor, " worker"] | None,
    labels: LabelMatrix,
) -> Float[Tensor, "answer class"]:
    """``w_j l_a`` of every answer a, by worker j; unchanged without weights."""
    if weights is None:
        return log_answers
    return weights.to(log_answers)[labels.worker, None] * log_answers


def log_leave_one_out(
    annotators: ClassAnnotators,
    posteriors: Mapping[str, ConjugatePosterior],
    labels: LabelMatrix,
    classes: Float[Tensor, "item class"],
) -> Float[Tensor, "answer class"]:
    """``log E_-i[p(label | class)]`` of every answer; ``log E`` without ``SupportsLeaveOneOut``."""
    if isinstance(annotators, SupportsLeaveOneOut):
        return annotators.log_leave_one_out(posteriors, labels, classes)
    rows = torch.tensor(annotators.summary(posteriors, 0.0).mean, device=labels.cell.device)
    # Finite, so that 0 times it is 0.
    return rows[labels.worker, :, labels.label].clamp_min(SMALLEST_PROBABILITY).log()


def sample_evidence(
    annotators: ClassAnnotators, values: Mapping[str, Tensor], batch: Batch
) -> Float[Tensor, "item class"] | None:
    """Run the site ``evidence`` inside the plate of the items; None without labels."""
    if batch.class_labels is None:
        return None
    likelihood = LabelLikelihood(annotators, values)
    return pyro.sample("evidence", Evidence(likelihood, batch.class_labels))


def sample_classes(
    annotators: ClassAnnotators,
    values: Mapping[str, Tensor],
    logits: Float[Tensor, "*row class"],
    batch: Batch,
) -> Float[Tensor, "*value item class"]:
    """Run the sites ``z``, ``evidence`` and ``labels`` of the items; returns the classes y.

    Parameters
    ----------
    annotators
        The model of the workers.
    values
        Values of its sites.
    logits
        ``log p(y_i = k)``, up to a constant for each item.
    batch
        Items, and their labels if there are any.
    """
    with FullPlate("items", len(batch.items), batch.item_scale):
        y = pyro.sample("z", Assignment(logits))
        evidence, labels = sample_evidence(annotators, values, batch), batch.class_labels
        if evidence is not None and labels is not None:
            given = ItemLabels(y, evidence, LabelLikelihood(annotators, values), labels)
            pyro.sample("labels", given, obs=labels.label)
    return y


def check_class_annotators(model: str, annotators: Any) -> None:
    """Raise a ``ValueError`` unless the annotators of a model with this name give class labels."""
    check_suits(
        model,
        "annotators of class labels, such as ConfusionMatrices",
        annotators,
        ["num_classes", "log_answers"],
        "those of pairs go with SemiCrowdsourcedMixture, PairRegression or TwoWayMixture",
    )


def check_class_labels(annotators: ClassAnnotators, data: CrowdData) -> None:
    """Raise a ``ValueError`` unless the data have class labels that suit the annotators."""
    if data.class_labels is None:
        raise ValueError(
            "the data have no class labels, which this model needs: pass CrowdData(labels=frame)"
        )
    for what, given in (("known labels", data.known), ("links", data.links)):
        if given is not None:
            raise ValueError(
                f"the data have {what}, which this model of class labels does not use: leave them "
                "out, or pass the labels of an expert as labels= by a worker of their own, who can "
                "be trusted to be always right (TrustedWorkers, or trusted= of classify)"
            )
    for what, ours, theirs in (
        ("workers", annotators.num_workers, data.num_workers),
        ("classes", annotators.num_classes, data.num_classes),
    ):
        if ours != theirs:
            raise ValueError(
                f"the annotators have {ours} {what}, but the data {theirs}: build them with "
                f"{type(annotators).__name__}(data.num_workers, data.num_classes)"
            )


def describe_annotators(
    annotators: ClassAnnotators, draws: Mapping[str, SiteDraws]
) -> dict[str, dict[str, NamedDraws]]:
    """Draws of the workers' ``confusion`` matrices, and of the sites under their own names.

    ``confusion`` is p(label | class) of every worker, which all models have, whatever their sites.
    """
    priors = annotators.priors()
    every = {name: draws[name].statistics for name in priors}
    (num_draws,) = {len(statistics) for statistics in every.values()}
    confusion = [
        LabelLikelihood(annotators, {name: values[draw] for name, values in every.items()})
        .log_confusion()
        .exp()
        .mT
        for draw in range(num_draws)
    ]
    named = NamedDraws(torch.stack(confusion), ("worker", "class", "label"))
    sites = {name: named_draws(name, draws[name], prior.dims) for name, prior in priors.items()}
    return sites | {"confusion": {"confusion": named}}
