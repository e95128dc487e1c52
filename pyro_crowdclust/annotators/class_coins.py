"""Annotator models of class labels with one or two rates per worker."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.annotators.confusion import check_sizes
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior, sample_sites
from pyro_crowdclust.families import Beta, PosteriorSummary
from pyro_crowdclust.families.summaries import summarize_shares
from pyro_crowdclust.files.description import described


@described
class OneCoin(nn.Module):
    """``gamma_jkk = alpha_j``, all other labels evenly: one accuracy per worker, ``~ Beta``.

    Parameters
    ----------
    num_workers, num_classes
        M and K.
    accuracy
        Pseudo-counts (right answers, wrong answers) of the Beta prior.
    """

    def __init__(
        self, num_workers: int, num_classes: int, accuracy: tuple[float, float] = (4.0, 2.0)
    ) -> None:
        super().__init__()
        check_sizes(num_workers, num_classes)
        self.num_workers, self.num_classes = num_workers, num_classes
        self.accuracy = _beta_prior(accuracy, num_workers)

    def priors(self) -> dict[str, ConjugatePrior]:
        return {"accuracy": self.accuracy}

    def sample(self) -> dict[str, Tensor]:
        return sample_sites(self.priors())

    def log_answers(self, values: Mapping[str, Tensor]) -> Float[Tensor, "worker label class"]:
        right, wrong = values["accuracy"].unbind(-1)
        wrong = wrong - float(np.log(self.num_classes - 1))
        identity = torch.eye(self.num_classes, dtype=right.dtype, device=right.device)
        return wrong[:, None, None] + (right - wrong)[:, None, None] * identity

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        right, wrong = posteriors["accuracy"].standard()
        identity = torch.eye(self.num_classes, dtype=torch.bool)
        summary = summarize_shares(
            torch.where(identity, right[:, None, None], wrong[:, None, None]),
            torch.where(identity, wrong[:, None, None], right[:, None, None]),
            interval,
        )
        # The wrong answers are shared by the other labels.
        share = np.where(identity.numpy(), 1.0, 1 / (self.num_classes - 1))
        return PosteriorSummary(*(part * share for part in summary))


@described
class TwoCoinClasses(nn.Module):
    """Two classes: sensitivity ``p(1 | 1)`` and specificity ``p(0 | 0)`` per worker, ``~ Beta``.

    Class 1 is the second of ``CrowdData.class_ids``.

    Parameters
    ----------
    num_workers
        M.
    sensitivity, specificity
        Pseudo-counts (right answers, wrong answers) of the Beta priors.
    """

    num_classes = 2

    def __init__(
        self,
        num_workers: int,
        sensitivity: tuple[float, float] = (4.0, 2.0),
        specificity: tuple[float, float] = (4.0, 2.0),
    ) -> None:
        super().__init__()
        check_sizes(num_workers, 2)
        self.num_workers = num_workers
        self.sensitivity = _beta_prior(sensitivity, num_workers)
        self.specificity = _beta_prior(specificity, num_workers)

    def priors(self) -> dict[str, ConjugatePrior]:
        return {"sensitivity": self.sensitivity, "specificity": self.specificity}

    def sample(self) -> dict[str, Tensor]:
        return sample_sites(self.priors())

    def log_answers(self, values: Mapping[str, Tensor]) -> Float[Tensor, "worker label class"]:
        return torch.stack([values["specificity"], values["sensitivity"].flip(-1)], -1)

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        specificity = torch.stack(list(posteriors["specificity"].standard()), -1)
        sensitivity = torch.stack(list(posteriors["sensitivity"].standard()), -1).flip(-1)
        rows = torch.stack([specificity, sensitivity], 1)
        return summarize_shares(rows, rows.flip(-1), interval)


def _beta_prior(pseudo_counts: tuple[float, float], num_workers: int) -> ConjugatePrior:
    family = Beta()
    right, wrong = torch.tensor(pseudo_counts, dtype=torch.float64)
    return ConjugatePrior(family, family.natural(right, wrong), num_workers, dims=("worker",))
