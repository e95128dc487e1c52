"""Annotators of class labels with one rate per worker."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from numpy.random import Generator
from torch import Tensor, nn

from pyro_crowdclust.annotators.confusion import check_sizes
from pyro_crowdclust.annotators.learned_rows import draw_log_shares
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior, sample_sites
from pyro_crowdclust.families import Beta, PosteriorSummary
from pyro_crowdclust.families.summaries import summarize_shares
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.protocols.annotators import ItemCounts, LabelCounts


@described
class OneCoin(nn.Module):
    """``gamma_jkk = alpha_j ~ Beta``: one accuracy per worker; all wrong labels equally likely.

    Parameters
    ----------
    num_workers, num_classes
        M and K.
    accuracy
        Pseudo-counts (right answers, wrong answers) of the Beta prior.

    Raises
    ------
    ValueError
        If there are no workers, or fewer than two classes.

    Examples
    --------
    >>> from pyro_crowdclust import CrowdData, fit
    >>> from pyro_crowdclust.guides import ClassLabelGuide
    >>> from pyro_crowdclust.models import DawidSkene
    >>> labels = {"item": [0, 0, 0, 1, 1, 1], "worker": list("abcabc"), "label": list("xxyzzz")}
    >>> data = CrowdData(None, labels=labels)
    >>> model = DawidSkene(OneCoin(data.num_workers, data.num_classes))
    >>> options = {"batch_size": None, "step_size": 1.0, "epochs": 20, "progress": False}
    >>> result = fit(model, ClassLabelGuide(model), data, **options)
    >>> result.confusion["mean"].loc["c", "x"].round(2).to_dict()
    {'x': 0.63, 'y': 0.19, 'z': 0.19}
    """

    def __init__(
        self, num_workers: int, num_classes: int, accuracy: tuple[float, float] = (4.0, 2.0)
    ) -> None:
        super().__init__()
        check_sizes(num_workers, num_classes)
        self.num_workers, self.num_classes = num_workers, num_classes
        family = Beta()
        right, wrong = torch.tensor(accuracy, dtype=torch.float64)
        self.accuracy = ConjugatePrior(
            family, family.natural(right, wrong), num_workers, dims=("worker",)
        )

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global site ``accuracy``, one Beta for every worker."""
        return {"accuracy": self.accuracy}

    def sample(self) -> dict[str, Tensor]:
        """Run the site of the accuracies in a model."""
        return sample_sites(self.priors())

    def log_answers(
        self, values: Mapping[str, Tensor]
    ) -> Float[Tensor, "*chain worker label class"]:
        """``log a`` of the label that is the class, ``log((1 - a) / (K - 1))`` of every other."""
        return self._log_rows(values["accuracy"])

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """The accuracy on the diagonal; the rest is shared equally by the other labels."""
        right, wrong = posteriors["accuracy"].standard()
        identity = torch.eye(self.num_classes, dtype=torch.bool)
        summary = summarize_shares(
            torch.where(identity, right[:, None, None], wrong[:, None, None]),
            torch.where(identity, wrong[:, None, None], right[:, None, None]),
            interval,
        )
        # Wrong answers are shared equally by the other labels.
        share = np.where(identity.numpy(), 1.0, 1 / (self.num_classes - 1))
        return PosteriorSummary(*(part * share for part in summary))

    def log_leave_one_out(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        classes: Float[Tensor, "item class"],
    ) -> Float[Tensor, "answer class"]:
        """``log E_-i[gamma_jka]`` of every answer a, without what it has added to the counts.

            E[gamma_jka]  =  (r_j - q(a)) / n_j                if k = a
                             (w_j - 1 + q(a)) / n_j / (K - 1)  otherwise

        with n_j = r_j + w_j - 1, and r and w the right and wrong answers of the worker, with those
        of the prior.
        """
        counted = torch.stack([*posteriors["accuracy"].standard()], -1)
        prior = torch.stack([*self._prior()], -1).to(counted)
        own = classes.to(counted)[labels.item, labels.label]
        own = labels.of_source(torch.stack([own, 1 - own], -1))
        # Never less than the prior: some answers may not have been counted at all.
        left = torch.maximum(counted[labels.worker] - own, prior[labels.worker])
        log_right, log_wrong = self._log_shares((left / left.sum(-1, keepdim=True)).log())
        is_named = torch.nn.functional.one_hot(labels.label, self.num_classes).bool()
        return torch.where(is_named, log_right[:, None], log_wrong[:, None])

    def expected_rows(
        self, values: Mapping[str, Tensor]
    ) -> Float[np.ndarray, "*chain worker class label"]:
        """The rows themselves: none of a worker's own is a parameter."""
        return self.log_answers(values).mT.softmax(-1).numpy(force=True)

    def draw(
        self, values: Mapping[str, Tensor], counts: LabelCounts, items: ItemCounts, rng: Generator
    ) -> dict[str, Tensor]:
        """``alpha_j ~ Beta(a + right_j, b + wrong_j)``."""
        right = np.trace(counts, axis1=-2, axis2=-1)
        answers = np.stack([right, counts.sum((-2, -1)) - right], -1)
        prior = torch.stack([*self._prior()], -1).numpy(force=True)
        return {"accuracy": draw_log_shares(prior + answers, rng)}

    def _log_rows(
        self, log_shares: Float[Tensor, "*batch 2"]
    ) -> Float[Tensor, "*batch label class"]:
        """Log probabilities of labels, given those of right and wrong answers."""
        right, wrong = (one[..., None, None] for one in self._log_shares(log_shares))
        identity = torch.eye(self.num_classes, dtype=right.dtype, device=right.device)
        return wrong + (right - wrong) * identity

    def _log_shares(
        self, log_shares: Float[Tensor, "*batch 2"]
    ) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
        """Log probabilities of the label that is right, and of each one that is wrong."""
        right, wrong = log_shares.unbind(-1)
        return right, wrong - float(np.log(self.num_classes - 1))

    def _prior(self) -> tuple[Float[Tensor, " worker"], Float[Tensor, " worker"]]:
        return self.accuracy.family.standard(self.accuracy.natural_parameters)
