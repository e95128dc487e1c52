"""The mean-field guide of models of class labels; Felt et al. 2015, section 4.

    q = prod_sites q(theta) prod_i q(y_i)
    q(gamma_jk) = Dir(b_k + sum_i a_ij q(y_i = k))
    q(y_i = k) prop. to exp(E[log p(y_i = k)] + E[log p(x_i | k)] + sum_jl a_ijl E[log gamma_jkl])

Every site returns its mean, so that Pyro's own ELBO is the bound. A natural step with step size rho
is the update of the paper, averaged with the old value: ``rho = 1`` on all data is coordinate
ascent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import (
    LabelLikelihood,
    sample_evidence,
    weighted_leave_one_out,
    worker_weights_of,
)
from pyro_crowdclust.data import CrowdData, LabelMatrix
from pyro_crowdclust.distributions import (
    AssignmentAtMean,
    ConjugatePosterior,
    ConjugatePrior,
    FullPlate,
    PointEstimate,
    sample_sites,
)
from pyro_crowdclust.families import PosteriorSummary, summary_of_moments
from pyro_crowdclust.files import described, rebuilt
from pyro_crowdclust.guides.model_checks import check_model
from pyro_crowdclust.inference import (
    ClassChains,
    ClassReading,
    LocalPosterior,
    SupportsExpectedRows,
    rows_of_drawn_classes,
)
from pyro_crowdclust.minibatches import Batch, item_batches, items_alone
from pyro_crowdclust.protocols import ClassAnnotators, SupportsDraws, SupportsStates
from pyro_crowdclust.training import held_steps

# The vote of at most this many labelled items is the start of training.
_START_ITEMS = 10_000
# Steps of size 1 at given q(y): communities of workers and their rates depend on each other.
_REFIT_STEPS = 3
# Draws for deviations of rates: chains, draws of each that are not used, and that are. Priors that
# are learned move slowly, so that most are not used, and that these take several steps a draw.
_CHAINS, _UNUSED_DRAWS, _DRAWS = 4, 250, 50
_PRIOR_STEPS = 5
# Labels times classes, and cells of all matrices, for which such draws take at most a few seconds.
_MAX_DRAWN = 20_000


@runtime_checkable
class SupportsVotes(Protocol):
    """Class annotators with prior knowledge of who is better: for starts."""

    def votes(self, labels: LabelMatrix) -> Float[Tensor, "item class"]:
        """Weighted votes for each class, before training."""


class ClassLabelModel(Protocol):
    """What the guide needs of a model: ``DawidSkene``, ``MomResp``, ``LogResp`` or your own."""

    annotators: ClassAnnotators

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name."""

    def log_joint(self, values: dict[str, Tensor], batch: Batch) -> Float[Tensor, "item class"]:
        """``E[log p(y_i = k, x_i)]``."""


@described
class ClassLabelGuide(nn.Module):
    """The mean-field posterior q(Theta) q(Y) of a model of class labels.

    Parameters
    ----------
    model
        The model whose posterior this approximates.
    start_steps
        Training starts at the majority vote. If the model has priors to learn, q(y) is held at the
        vote for this many steps: training would end in worse optima if q(y) were free before the
        priors fit the workers.
    points
        Names of global sites that get a point estimate (maximum a posteriori) instead of a
        posterior, such as LogResp's ``coefficients``, as in Felt et al. 2015. The optimizer
        ``optim`` of ``fit`` learns them.
    reading
        Fields of ``ClassReading``: how q(y) is computed after training.

    Raises
    ------
    ValueError
        If ``points`` names a site of the workers, or one that the model does not have, or if the
        annotators cannot be read in this way.

    Examples
    --------
    >>> from pyro_crowdclust import fit
    >>> from pyro_crowdclust.annotators import ConfusionMatrices
    >>> from pyro_crowdclust.models import DawidSkene
    >>> answers = {"item": [0, 0, 0, 1], "worker": list("abca"), "label": list("xxyy")}
    >>> data, model = CrowdData(None, labels=answers), DawidSkene(ConfusionMatrices(3, 2))
    >>> result = fit(model, ClassLabelGuide(model), data, epochs=9, progress=False)
    >>> result.class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """

    def __init__(
        self,
        model: ClassLabelModel,
        start_steps: int = 50,
        points: Sequence[str] = (),
        **reading: Any,
    ) -> None:
        super().__init__()
        check_model(self, "model of class labels, such as DawidSkene", model, "log_joint")
        self.model, self.reading = model, ClassReading(**reading)
        self.reading.check(model.annotators)
        self.start_steps, self.points = start_steps, points
        priors = model.priors()
        estimable = priors.keys() - model.annotators.priors().keys()
        if unknown := set(points) - estimable:
            raise ValueError(
                f"points has {min(unknown)!r}, but only "
                f"{', '.join(map(repr, sorted(estimable))) or 'no site'} can have a point "
                "estimate: the table of confusion matrices needs the posteriors of the workers"
            )
        self.posteriors: Any = nn.ModuleDict(
            {
                name: PointEstimate(prior, True) if name in points else ConjugatePosterior(prior)
                for name, prior in priors.items()
            }
        )
        self.held: Tensor | None = None

    @property
    def feature_weight(self) -> float:
        """tau, the power of the features' likelihood in q(y)."""
        return self.reading.feature_weight

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` if ``evidence_weights`` is for other workers."""
        given, number = self.reading.evidence_weights, data.num_workers
        if given is not None and len(given) != number:
            raise ValueError(
                f"evidence_weights has numbers for {len(given)} workers, but the data have "
                f"{number}: make a guide with one for each worker"
            )

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does."""
        values = sample_sites(self.posteriors)
        with FullPlate("items", batch.items.shape[0], batch.item_scale):
            evidence = sample_evidence(self.model.annotators, values, batch)
            logits = self.held
            if logits is None:
                with torch.no_grad():
                    joint = self.model.log_joint(values, batch)
                    logits = joint if evidence is None else joint + evidence
            pyro.sample("z", AssignmentAtMean(logits))

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(y) of a batch, with the labels that it holds."""
        reading, labels, values = self.reading, batch.class_labels, self._means()
        joint = self.model.log_joint(values, batch)
        logits = reading.shifted(self._without_labels(values, joint))
        if labels is None:
            return LocalPosterior(logits, None)
        if reading.moderated or reading.evidence_weights is not None:
            log_labels = self._log_labels(values, joint, labels)
            evidence = labels.per_item(reading.weighed(log_labels, labels))
        else:
            evidence = LabelLikelihood(self.model.annotators, values).evidence(labels)
        return LocalPosterior(reading.joined(logits, evidence, labels.size), None)

    @torch.no_grad()
    def log_labels(self, batch: Batch) -> Float[Tensor, "answer class"]:
        """``w_j log p(a_ij | y_i = k)`` of every label of a batch, as q(y) counts it.

        With the weights of ``worker_weights``, but before ``evidence_weights``.
        """
        labels, values = batch.class_labels, self._means()
        assert labels is not None  # as the caller has checked
        return self._log_labels(values, self.model.log_joint(values, batch), labels)

    def _means(self) -> dict[str, Tensor]:
        return {name: posterior.mean() for name, posterior in self.posteriors.items()}

    def _without_labels(
        self, values: dict[str, Tensor], joint: Float[Tensor, "item class"]
    ) -> Float[Tensor, "item class"]:
        """The log-joint at this weight of the features."""
        if self.feature_weight == 1:
            return joint
        weights = getattr(self.model, "weights", None)
        # The shares of the classes are not tempered, only what depends on features.
        shares = 0.0 if weights is None else weights.log_weights(values["weights"])
        return shares + self.feature_weight * (joint - shares)

    def _log_labels(
        self, values: dict[str, Tensor], joint: Float[Tensor, "item class"], labels: LabelMatrix
    ) -> Float[Tensor, "answer class"]:
        annotators = self.model.annotators
        likelihood = LabelLikelihood(annotators, values)
        if not self.reading.moderated:
            return likelihood.of_answers(labels)
        if self.reading.evidence_weights is None:
            evidence = likelihood.evidence(labels)
        else:  # then the workers were fitted to q(y) with this evidence
            evidence = labels.per_item(self.reading.weighed(likelihood.of_answers(labels), labels))
        counted = (joint + evidence.to(joint)).softmax(-1)
        return weighted_leave_one_out(annotators, self.posteriors, labels, counted)

    def read_at(self, feature_weight: float | None = None, **reading: Any) -> ClassLabelGuide:
        """The same posterior, read in another way.

        Parameters
        ----------
        feature_weight
            tau; that of this guide by default.
        reading
            Of the other fields of ``ClassReading`` those that differ.
        """
        tau = self.feature_weight if feature_weight is None else feature_weight
        return self._read(replace(self.reading, feature_weight=tau, **reading))

    def in_full(self) -> ClassLabelGuide:
        """The same posterior with all labels counted in full, as they are in training."""
        return self._read(self.reading.in_full())

    def _read(self, reading: ClassReading) -> ClassLabelGuide:
        other = rebuilt(self, **vars(reading))
        other.posteriors.load_state_dict(self.posteriors.state_dict())
        return other

    def refit(self, batch: Batch, logits: Float[Tensor, "item class"]) -> None:
        """Fit the posteriors to given q(y) of a batch of all items; learned priors stay."""
        held_steps(self.model, self, batch, [logits] * _REFIT_STEPS, 1.0)

    def start(
        self,
        data: CrowdData,
        generator: torch.Generator,
        classes: Float[Tensor, "item class"] | None = None,
        steps: int | None = None,
    ) -> None:
        """Fit all posteriors, and learned priors, to a given q(y) of the labelled items.

        Parameters
        ----------
        data, generator
            As in a ``Start``.
        classes
            q(y) of all items; the majority vote by default.
        steps
            The number of natural steps. The first has step size 1, all others 0.5, since a
            regression may diverge with 1. Default: ``start_steps`` if priors are learned, otherwise
            one.
        """
        labelled = data.needed_class_labels.labelled_items
        chosen = torch.randperm(len(labelled), generator=generator)[:_START_ITEMS]
        items = labelled[chosen.sort().values]
        batch = items_alone(data, items, class_labels=True)
        batch.item_weight.mul_(len(labelled) / len(items))
        assert batch.class_labels is not None  # of items with labels
        votes = self._votes(batch.class_labels) if classes is None else classes[items]
        logits = (votes / votes.sum(-1, keepdim=True)).clamp_min(1e-30).log()
        conjugate = [q for q in self.posteriors.values() if isinstance(q, ConjugatePosterior)]
        own = {id(q.natural_parameters) for q in conjugate}
        learned = [p for p in self.parameters() if p.requires_grad and id(p) not in own]
        adam = torch.optim.Adam(learned, lr=0.1) if learned else None
        if steps is None:
            steps = self.start_steps if learned else 1
        held = [logits] * steps
        # The first step moves q of the workers all the way from the prior to the vote.
        held_steps(self.model, self, batch, held[:1], 1.0)
        held_steps(self.model, self, batch, held[1:], 0.5, adam)

    def _votes(self, labels: LabelMatrix) -> Float[Tensor, "item class"]:
        annotators = self.model.annotators
        return annotators.votes(labels) if isinstance(annotators, SupportsVotes) else labels.votes()

    @torch.no_grad()
    def answer_probabilities(
        self,
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``p(label | class)`` of answers that are not in ``labels``, given those that are."""
        annotators = self.model.annotators
        if isinstance(annotators, SupportsStates):
            return annotators.answer_probabilities(self.posteriors, labels, item, worker, label)
        mean = annotators.summary(self.posteriors, 0.0).mean
        return torch.as_tensor(mean, device=worker.device)[worker, :, label]

    @torch.no_grad()
    def confusion(self, interval: float = 0.9) -> PosteriorSummary:
        """Posterior of every worker's confusion matrix."""
        return self.model.annotators.summary(self.posteriors, interval)

    @torch.no_grad()
    def confusion_given(self, data: CrowdData, interval: float = 0.9) -> PosteriorSummary:
        """``confusion``, with deviations that count how uncertain the classes are.

        q(Theta) is narrow, since it takes q(y) as given. The deviations are those of draws of
        classes and rates together from these means, ``E[(gamma - E_q[gamma])^2]``, and never below
        those of q. Where draws are not possible, or take long, they are those of q: with
        ``worker_weights``, ``evidence_weights`` or features, and with many labels, which determine
        most classes.

        If ``rows_vary``, rows vary around those that the annotators expect by as much as labels
        show, and means are those with classes drawn from q(y) (``inference.rows_around``). So a
        worker who mixes up two classes is seen, and intervals of rows with few labels are wide,
        even if the model has one rate for all classes.

        Parameters
        ----------
        data
            The labels, those of training.
        interval
            Mass of the intervals.
        """
        found = self.confusion(interval)
        if data.class_labels is None or not self._counts_in_full():
            return found
        (batch,) = item_batches(data, data.num_items, class_labels=True)
        batch = batch.to(next(self.parameters()).device)
        rng = np.random.default_rng(0)  # a table is the same whenever it is read
        annotators = self.model.annotators
        if varies := self.reading.rows_vary and isinstance(annotators, SupportsExpectedRows):
            q = self.in_full().infer(batch).logits.double().softmax(-1).numpy(force=True)
            expected = annotators.expected_rows(self._means())
            mean, square = rows_of_drawn_classes(expected, data.class_labels, q, rng)
            found = summary_of_moments(mean, square - mean**2, interval)
        cells = annotators.num_workers * annotators.num_classes**2
        if max(len(data.class_labels) * annotators.num_classes, cells) > _MAX_DRAWN:
            return found
        classes = self.infer(batch).logits.softmax(-1)
        parts = self.model, self.posteriors, data, classes, _CHAINS, rng
        chains = ClassChains(*parts, prior_steps=_PRIOR_STEPS)
        for _ in range(_UNUSED_DRAWS):
            chains.step()
        drawn = chains.row_moments(_DRAWS, varies)
        around = drawn.square - 2 * drawn.mean * found.mean + found.mean**2
        return summary_of_moments(found.mean, np.maximum(around, found.sd**2), interval)

    def _counts_in_full(self) -> bool:
        """Whether the model is of class labels alone, each of which counts in full."""
        annotators = self.model.annotators
        return (
            isinstance(annotators, SupportsDraws)
            and worker_weights_of(annotators) is None
            and self.reading.evidence_weights is None
            and {*self.posteriors} == {"weights", *annotators.priors()}
        )
