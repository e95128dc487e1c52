"""Finds, runs, checks and summarizes the sites of any annotator model."""

from __future__ import annotations

from collections.abc import Mapping

import pyro
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators.pair_sites import PairSites
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.point_estimates import PointEstimate
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import (
    Annotators,
    AnswerSites,
    PairAnnotators,
    SupportsSites,
    WorkerSites,
)


def summarize_workers(
    annotators: PairAnnotators | SupportsSites | None, sites: WorkerSites, interval: float
) -> WorkerSummary | None:
    """The rates and weight of every worker, from the posteriors (or points) of the sites.

    None if there are no annotators.
    """
    return None if annotators is None else sites_of(annotators).summarize(sites, interval)


def sites_of(
    annotators: PairAnnotators | SupportsSites,
    owners: Float[Tensor, "component cluster"] | None = None,
) -> AnswerSites:
    """The verbs of the sites of an annotator model of sorted pages or pairs, or a user-defined one.

    Parameters
    ----------
    annotators
        The model.
    owners
        The cluster of every component or its probabilities, where clusters own components
        (``Ownership``); assignments are then those of components.
    """
    if isinstance(annotators, SupportsSites):
        return annotators.sites(owners)
    return PairSites(annotators, owners)


def sites_in(
    annotators: PairAnnotators | SupportsSites | None,
    batch: Batch,
    owners: Float[Tensor, "component cluster"] | None = None,
) -> AnswerSites | None:
    """The verbs of the sites as by ``sites_of``; None without annotators or answers in a batch."""
    if annotators is None:
        return None
    sites = sites_of(annotators, owners)
    return sites if sites.in_batch(batch) else None


def sample_rates(
    annotators: Annotators | None,
    sites: Mapping[str, ConjugatePrior | ConjugatePosterior | PointEstimate],
) -> dict[str, Tensor]:
    """Run the sites of the workers' rates, if there are any, with these priors or posteriors."""
    if annotators is None:
        return {}
    with FullPlate("workers", annotators.num_workers):
        return {name: pyro.sample(name, sites[name].distribution()) for name in annotators.priors()}


@torch.no_grad()
def rate_statistics(annotators: Annotators | None, sites: WorkerSites) -> dict[str, Tensor]:
    """E[t] of the workers' rates, or t at points, by site; empty if there are no annotators."""
    return {} if annotators is None else {name: sites[name].mean() for name in annotators.priors()}


def sample_answers(
    annotators: PairAnnotators | SupportsSites | None,
    z: Float[Tensor, "*enumerated item cluster"],
    batch: Batch,
    owners: Float[Tensor, "component cluster"] | None = None,
) -> None:
    """Run the sites of the workers' rates, if there are any, and those of every pair or page.

    ``owners`` is as in ``sites_of``.
    """
    if annotators is None:
        return
    rates = sample_rates(annotators, annotators.priors())
    if sites := sites_in(annotators, batch, owners):
        sites.sample(z, rates, batch)


def check_annotators(annotators: PairAnnotators | SupportsSites | None, data: CrowdData) -> None:
    """Raise a ``ValueError`` if the data have answers that do not suit the annotators."""
    if not data.has_answers:
        return
    if annotators is None:
        found = f"{data.num_pairs} answers" if data.placements is None else "sorted pages"
        kind = "TwoCoin" if data.placements is None else "SortedPages"
        raise ValueError(
            f"the data have {found}, but the model has no annotators: build "
            f"it with {kind}(data.num_workers), or pass CrowdData without pairs"
        )
    sites_of(annotators).check(data)
    if annotators.num_workers != data.num_workers:
        raise ValueError(
            f"the model has {annotators.num_workers} workers, but the answers come from "
            f"{data.num_workers}: build it with {type(annotators).__name__}(data.num_workers)"
        )
