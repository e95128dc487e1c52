"""How q(y), and tables, are computed from the posteriors of a trained ``ClassLabelGuide``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators.label_sites import weighted_by_worker
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.protocols import ClassAnnotators, SupportsStates


@dataclass(frozen=True)
class ClassReading:
    """What q(y) and tables are computed with after training; by default as in training.

    Attributes
    ----------
    feature_weight
        tau above 0: q(y) is computed with ``p(x_i | y_i = k)^tau``, or for a regression with
        ``p(y_i = k | x_i)^tau``. It can be chosen by held-out labels: models of many features are
        overconfident.
    moderated
        Compute q(y) with the rates of the workers integrated out, and each label weighed by the
        rates that its worker has on other items: ``log E_-i[gamma_jk(a)]``, with the counts of the
        label itself removed, instead of ``E[log gamma_jk(a)]``. The latter treats labels that a
        worker hardly ever gives as nearly impossible, and uses every label twice, with an effect
        that grows with the number of classes. The labels must be those of training.
    evidence_weights
        w, a number of at least 0 for every worker: the evidence of its labels about q(y) is
        multiplied by w_j. Items whose classes are known show how much the labels of workers who err
        together tell (``trusted=`` of ``infer_classes``). By default 1 for all workers.
    class_shift
        These numbers, one for every class, are added to the logits of q(y).
    temperature
        T, at least 1: the logits of items with labels are divided by it, since answers about an
        item agree more often than workers who err independently would
        (``pooling.calibrated_guide``).
    single_answer_probability
        lambda, at least 0 and below 1: all answers about an item are with this probability a single
        one, with their mean evidence, and independent otherwise. What misleads one worker may
        mislead all, which labels do not show.
    rows_vary
        Tables of the workers' rates are of rows that vary around those that the annotators expect
        by as much as the labels show (``inference.rows_around``), instead of the posterior under
        their prior: a prior that is right for finding the classes may hide who mixes up two of
        them.

    Raises
    ------
    ValueError
        If ``feature_weight`` is not above 0, ``temperature`` is below 1, or
        ``single_answer_probability`` is outside [0, 1).
    """

    feature_weight: float = 1.0
    moderated: bool = False
    evidence_weights: Sequence[float] | None = None
    class_shift: Sequence[float] | None = None
    temperature: float = 1.0
    single_answer_probability: float = 0.0
    rows_vary: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.feature_weight < math.inf:
            raise ValueError(
                f"feature_weight is {self.feature_weight}, but must be above 0, and finite"
            )
        if not 1 <= self.temperature < math.inf:
            raise ValueError(
                f"temperature is {self.temperature}, but must be at least 1, and finite"
            )
        if not 0 <= self.single_answer_probability < 1:
            raise ValueError(
                f"single_answer_probability is {self.single_answer_probability}, but must be at "
                "least 0, and below 1"
            )

    def check(self, annotators: ClassAnnotators) -> None:
        """Raise a ``ValueError`` if the annotators cannot be read in this way."""
        for name in ("moderated", "evidence_weights"):
            if getattr(self, name) and isinstance(annotators, SupportsStates):
                raise ValueError(
                    f"{name} is not possible with {type(annotators).__name__}, under which "
                    "the labels of an item depend on its state and not on its class alone: leave "
                    f"out {name}"
                )
        workers, classes = annotators.num_workers, annotators.num_classes
        _check_numbers("evidence_weights", self.evidence_weights, workers, "worker", 0.0)
        _check_numbers("class_shift", self.class_shift, classes, "class", -math.inf)

    def in_full(self) -> ClassReading:
        """The same with all labels counted in full, as in training."""
        plain = replace(self, evidence_weights=None, class_shift=None)
        return replace(plain, temperature=1.0, single_answer_probability=0.0)

    def shifted(self, logits: Float[Tensor, "item class"]) -> Float[Tensor, "item class"]:
        """Logits of q(y) with ``class_shift``."""
        if self.class_shift is None:
            return logits
        return logits + torch.tensor([*self.class_shift], dtype=torch.float64).to(logits)

    def weighed(
        self, log_labels: Float[Tensor, "answer class"], labels: LabelMatrix
    ) -> Float[Tensor, "answer class"]:
        """Log probabilities of labels, times ``evidence_weights``."""
        given = self.evidence_weights
        weights = None if given is None else torch.tensor([*given], dtype=torch.float64)
        return weighted_by_worker(log_labels, weights, labels)

    def joined(
        self,
        logits: Float[Tensor, "item class"],
        evidence: Float[Tensor, "item class"],
        counts: Float[Tensor, " item"],
    ) -> Float[Tensor, "item class"]:
        """Logits of q(y) from those without labels and the evidence of ``counts`` labels."""
        evidence, number = evidence.to(logits), counts.to(logits).unsqueeze(-1)
        hot = torch.where(number > 0, self.temperature, 1.0).to(logits)
        found = (logits + evidence) / hot
        probability = self.single_answer_probability
        if not probability:
            return found
        independent = math.log1p(-probability) + found.log_softmax(-1)
        as_one = (logits + evidence / number.clamp_min(1)).log_softmax(-1)
        return torch.logaddexp(independent, math.log(probability) + as_one)


def _check_numbers(
    name: str, given: Sequence[float] | None, number: int, of: str, least: float
) -> None:
    if given is None:
        return
    if len(given) != number or not all(least <= one < math.inf for one in given):
        above = "" if math.isinf(least) else f" of at least {least:g}"
        raise ValueError(
            f"{name} is {[*given]}, but must be a finite number{above} for each of {number} "
            f"{of}{'es' if of == 'class' else 's'}: leave it out to count all labels in full"
        )
