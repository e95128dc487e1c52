"""Workers who are always right, such as an expert, together with others who may err.

    gamma_jkl = [l = k]               for trusted workers j
    gamma_j   as in another model     for all others

Classes that are known for sure, for instance those of test questions, are labels of a trusted
worker: they determine the class, and show how good all others are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.label_sites import log_leave_one_out, worker_weights_of
from pyro_crowdclust.annotators.more_workers import with_workers
from pyro_crowdclust.annotators.sources import Truth
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.families import PosteriorSummary
from pyro_crowdclust.files.parts import described, rebuilt
from pyro_crowdclust.protocols import ClassAnnotators, SupportsStates


@described
class TrustedWorkers(nn.Module):
    """``gamma_jkl = [l = k]`` for workers who are always right; all others may err.

    Nothing is learned about trusted workers. Where two of them contradict each other, the answers
    of all others decide.

    Parameters
    ----------
    others
        Model of the workers who may err, for as many workers as there are in all.
    trusted
        Codes of those who are always right, indices into ``CrowdData.worker_ids``.

    Raises
    ------
    ValueError
        If classes have states in the model of the others, or a code is not that of a worker.

    Examples
    --------
    >>> from pyro_crowdclust.annotators import ConfusionMatrices
    >>> annotators = TrustedWorkers(ConfusionMatrices(3, 2), trusted=[2])
    >>> annotators.is_trusted.tolist()
    [False, False, True]
    """

    is_trusted: Tensor

    def __init__(self, others: ClassAnnotators, trusted: Sequence[int]) -> None:
        super().__init__()
        if isinstance(others, SupportsStates):
            raise ValueError(
                f"in {type(others).__name__} classes have states, about which the label of a "
                "trusted worker says nothing: use annotators without states, such as "
                "CommunityConfusion"
            )
        self.num_workers, self.num_classes = others.num_workers, others.num_classes
        if wrong := [code for code in trusted if not 0 <= code < self.num_workers]:
            raise ValueError(
                f"trusted has {wrong[0]}, but must hold codes of workers from 0 to "
                f"{self.num_workers - 1}: see CrowdData.worker_ids"
            )
        self.others = others
        self.truth = Truth(self.num_workers, self.num_classes)
        is_trusted = torch.zeros(self.num_workers, dtype=torch.bool)
        is_trusted[[*trusted]] = True
        self.register_buffer("is_trusted", is_trusted)

    @property
    def worker_weights(self) -> Float[Tensor, " worker"] | None:
        """The number of independent workers that each of the others counts as."""
        return worker_weights_of(self.others)

    def trusted_workers(self) -> Bool[np.ndarray, " worker"]:
        """Which workers are always right."""
        return self.is_trusted.numpy(force=True)

    def with_workers(self, rows: Int[Tensor, " before"], number: int) -> TrustedWorkers | None:
        """The same for ``number`` workers, the earlier ones in ``rows``; new ones may err."""
        others = with_workers(self.others, rows, number)
        trusted = rows[self.is_trusted.cpu()].tolist()
        return None if others is None else rebuilt(self, others=others, trusted=trusted)

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """The global sites of the others; nothing else is learned."""
        return self.others.priors()

    def sample(self) -> dict[str, Tensor]:
        """Run the others' sites in a model."""
        return self.others.sample()

    def log_answers(
        self, values: Mapping[str, Tensor]
    ) -> Float[Tensor, "*chain worker label class"]:
        """``log [l = k]`` for trusted workers, and for all others what their model says."""
        found = self.others.log_answers(values)
        known = self.truth.log_answers(values).to(found)
        return torch.where(self.is_trusted.view(-1, 1, 1), known, found)

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """The identity for trusted workers, and for all others what their model says."""
        mask = self.is_trusted.numpy(force=True)[:, None, None]
        parts = (part.summary(posteriors, interval) for part in (self.truth, self.others))
        both = zip(*parts, strict=True)
        return PosteriorSummary(*(np.where(mask, known, found) for known, found in both))

    def log_leave_one_out(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        classes: Float[Tensor, "item class"],
    ) -> Float[Tensor, "answer class"]:
        """That of ``others``; nothing was learned about trusted workers."""
        found = log_leave_one_out(self.others, posteriors, labels, classes)
        known = log_leave_one_out(self.truth, posteriors, labels, classes).to(found)
        return torch.where(self.is_trusted[labels.worker, None], known, found)

    def votes(self, labels: LabelMatrix) -> Float[Tensor, "item class"]:
        """First probabilities of the classes, before anything is learned about single workers.

        For items with an answer of a trusted worker, these answers. For the rest, the posterior
        under one confusion matrix for all others, counted on the items with trusted answers: a
        majority vote would follow a crowd whose errors agree.
        """
        one = torch.eye(self.num_classes, dtype=torch.float64, device=self.is_trusted.device)
        of_trusted, of_others = (
            labels.evidence(mask.double().view(-1, 1, 1) * one)
            for mask in (self.is_trusted, ~self.is_trusted)
        )
        known = of_trusted / of_trusted.sum(-1, keepdim=True).clamp_min(1)
        # The prior: two answers for each class, most of which are right.
        counts = known.mT @ of_others + one + 1 / self.num_classes
        rows = counts / counts.sum(-1, keepdim=True)
        guessed = (of_others @ rows.log().mT).softmax(-1)
        is_known = of_trusted.sum(-1, keepdim=True) > 0
        return torch.where(is_known, known, guessed)
