"""Summaries of a guide's posteriors, for results, plots and diagnostics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.families import Moments, PosteriorSummary, softmax_without_denormals


@dataclass(frozen=True)
class LocalPosterior:
    """q of the local sites of a batch.

    Attributes
    ----------
    logits
        Unnormalized log q(z), shape ``[item, K]``.
    latent
        Moments of q(x); None where the features are the latents.
    """

    logits: Float[Tensor, "item cluster"]
    latent: Moments | None

    @property
    def assignments(self) -> Float[Tensor, "item cluster"]:
        """q(z)."""
        return softmax_without_denormals(self.logits)


# Smallest share of the items of a cluster in use, see ``metrics.clusters_in_use``.
_SHARE_IN_USE = 0.01


def num_in_use(weights: Float[Tensor, " cluster"]) -> int:
    """Number of clusters with a share of the items that is not negligible.

    Examples
    --------
    >>> import torch
    >>> num_in_use(torch.tensor([0.6, 0.395, 0.005]))
    2
    """
    return int((weights >= _SHARE_IN_USE).sum())


class ComponentSummary(NamedTuple):
    """Means and covariances of the features in every component.

    Attributes
    ----------
    location
        Mean of the features (or latents) of every component, one column per ``column_labels``.
    covariance
        Of Gaussian components, given their parameters: ``[cluster, dim, dim]``, or, of independent
        features, their variances ``[cluster, dim]``. None for discrete features.
    """

    location: Float[Tensor, "cluster column"]
    covariance: Float[Tensor, "cluster ..."] | None


class MixtureSummary(NamedTuple):
    """Weights, means and covariances of a mixture.

    Attributes
    ----------
    weights
        E[pi].
    location
        Mean of the features (or latents) of every component.
    covariance
        Of Gaussian components, or the variances of independent features; None for discrete ones.
    """

    weights: Float[Tensor, " cluster"]
    location: Float[Tensor, "cluster column"]
    covariance: Float[Tensor, "cluster ..."] | None


class WorkerSummary(NamedTuple):
    """Posterior summaries of every worker who answered about pairs.

    Attributes
    ----------
    rates
        Summary of every site of the annotators, worker by worker.
    weight, weight_sd
        Weight of an answer of the worker, in nats: posterior mean and standard deviation of
        ``w(same) - w(different)``, with w the log likelihood ratio. The deviation is NaN for point
        estimates.
    """

    rates: dict[str, PosteriorSummary]
    weight: Float[np.ndarray, " worker"]
    weight_sd: Float[np.ndarray, " worker"]
