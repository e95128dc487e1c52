"""Refit the workers' rates to a mixture or a regression whose other parameters stay fixed."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators.informative import first_rates
from pyro_crowdclust.annotators.suited import expected_counts
from pyro_crowdclust.annotators.two_coin import TRUSTED
from pyro_crowdclust.distributions.pairs import agreement, components_together
from pyro_crowdclust.distributions.priors import set_to_counts
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.protocols import SupportsSites, SupportsWithTrust

# Number of alternating rounds of items and workers.
_ROUNDS = 20
# The same for pages, which take longer and settle sooner.
_ROUNDS_OF_PAGES = 6


def can_refit(annotators: Any) -> bool:
    """Whether the items alone determine the rates of workers who answer about pairs.

    Of workers who lapse they do not determine whether these looked.
    """
    return isinstance(annotators, SupportsWithTrust) and not isinstance(annotators, SupportsSites)


@torch.no_grad()
def refit_workers(guide: Any, annotators: Any, batch: Batch) -> None:
    """Alternate updates of the workers' rates and of q(z) of a batch.

    Nothing else changes. The rates begin with those of ``first_rates``. With
    ``s_ij = q(z_i, z_j in one cluster)``, given the answers, for worker m

        alpha_m ~ Beta(a + sum s_ij L_ij, b + sum s_ij (1 - L_ij))

    over the worker's answers, and the specificity likewise with ``1 - s_ij`` and ``1 - L_ij``.
    Workers who sort pages begin at their prior, and have ``SortedPages.expected_counts``.

    Parameters
    ----------
    guide
        The guide of the mixture or regression; its posteriors of the workers change.
    annotators
        The model of the workers, with two coins, grades or sorted pages.
    batch
        All answers, in double precision.
    """
    if batch.pages is not None:
        _refit_sorters(guide, annotators, batch, batch.pages)
        return
    label, together = batch.needed_label, owned_together(guide)
    for name, rates in first_rates(annotators, batch.worker, label, TRUSTED).items():
        guide.posteriors[name].set_natural_parameters(rates)
    for _ in range(_ROUNDS):
        same = same_cluster(guide.infer(batch).assignments, together, batch)
        counts = expected_counts(annotators, same, batch.worker, label.double())
        set_to_counts(guide.posteriors, annotators.priors(), counts)


def _refit_sorters(guide: Any, annotators: Any, batch: Batch, pages: BatchPages) -> None:
    """``refit_workers`` for workers who sort pages."""
    own = "owners" in guide.posteriors
    owners = guide.posteriors["owners"].mean().double() if own else None
    priors = annotators.priors()
    for name, prior in priors.items():
        guide.posteriors[name].set_natural_parameters(prior.natural_parameters)
    for _ in range(_ROUNDS_OF_PAGES):
        z = guide.infer(batch).assignments.double()
        clusters = z if owners is None else z @ owners
        counts = annotators.expected_counts(guide.rate_statistics(), clusters, pages)
        set_to_counts(guide.posteriors, priors, counts)


def owned_together(guide: Any) -> Float[Tensor, "component component"] | None:
    """Probability that two components are in one cluster; None if each is its own cluster."""
    if "owners" not in guide.posteriors:
        return None
    return components_together(guide.posteriors["owners"].mean()).double()


def same_cluster(
    assignments: Float[Tensor, "item component"],
    together: Float[Tensor, "component component"] | None,
    batch: Batch,
) -> Float[Tensor, " pair"]:
    """Probability that both items of every answer of a batch share a cluster, by their q(z)."""
    return agreement(assignments, batch.left, batch.right, together).clamp(0, 1)
