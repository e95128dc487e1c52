"""The sites of sorted pages."""

from __future__ import annotations

from collections.abc import Mapping

import pyro
import torch
from torch import Tensor

from pyro_crowdclust.annotators.page_coupling import PAGE_STATES, PageCoupling
from pyro_crowdclust.annotators.page_owners import PageOwners
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.at_mean import ConjugateAtMean
from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.distributions.pages import (
    AtHome,
    GroupPlacement,
    HomesAtMean,
    PageHomes,
    mean_homes,
)
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import Categorical, PosteriorSummary
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.protocols import Rates, WorkerSites


def _pages(batch: Batch) -> BatchPages:
    """The pages of a batch, which must have some."""
    if batch.pages is None:
        raise ValueError(f"{batch} has no sorted pages")
    return batch.pages


class PageSites:
    """The verbs of the sites of ``SortedPages``.

    Parameters
    ----------
    priors
        Priors of the workers' sites, by name.
    owners
        As in ``sites_of``.
    """

    def __init__(self, priors: Mapping[str, ConjugatePrior], owners: Tensor | None = None) -> None:
        self._priors, self._owners = priors, owners

    def _clusters(self, z: Tensor) -> Tensor:
        """Assignments to clusters, from assignments to components."""
        return z if self._owners is None else z @ self._owners.to(z.dtype)

    def check(self, data: CrowdData) -> None:
        if data.placements is None:
            raise ValueError(
                "SortedPages needs pages sorted into groups, but the data are answers about pairs: "
                "pass data.as_placements() if these are sorted pages, otherwise build the model "
                "with TwoCoin(data.num_workers)"
            )

    def in_batch(self, batch: Batch) -> bool:
        return batch.pages is not None

    def sample(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        z, pages = self._clusters(z), _pages(batch)
        habits = rates["habits"].index_select(0, pages.worker)
        with FullPlate("pages", pages.num_pages, pages.weight):
            state = pyro.sample("page_state", Assignment(habits))
            like = state, pages.num_groups, z.shape[-1]
            homes = pyro.sample("home", PageHomes(*like, lambda: pages.counts(z).sum(-1) > 0))
        with FullPlate("placements", pages.num_placements, pages.placement_weight):
            where = pages.row, pages.page, pages.group
            at_home = pyro.sample("at_home", AtHome(z, state, homes, *where))
            accuracy = rates["accuracy"].index_select(0, pages.worker.index_select(0, pages.page))
            attentive = state[:, : homes.shape[1]].index_select(0, pages.page)
            num_groups = pages.num_groups.index_select(0, pages.page)

            def home_of_item() -> Tensor:
                own = z[pages.row].to(homes.dtype).unsqueeze(1)
                return (own @ mean_homes(state, homes)[pages.page]).squeeze(1)

            placement = GroupPlacement(at_home, accuracy, attentive, num_groups, home_of_item)
            pyro.sample("group", placement, obs=pages.group)

    def sample_guide(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        z, pages = self._clusters(z), _pages(batch)
        posterior = PageCoupling(dict(rates), pages, len(z)).posterior(z)
        with FullPlate("pages", pages.num_pages, pages.weight):
            q_state = ConjugateAtMean(Categorical(len(PAGE_STATES)), posterior.state_logits)
            state = pyro.sample("page_state", q_state)
            homes = pyro.sample("home", HomesAtMean(posterior.homes, state))
        with FullPlate("placements", pages.num_placements, pages.placement_weight):
            where = pages.row, pages.page, pages.group
            pyro.sample("at_home", AtHome(z, state, homes, *where))

    def coupling(
        self, rates: Rates, batch: Batch, dtype: torch.dtype, weighted: bool = False
    ) -> PageCoupling:
        of_pages = dict(rates), _pages(batch), batch.num_paired
        return PageCoupling(*of_pages, weighted, self._owners)

    def merge_gain(self, rates: Rates, assignments: Tensor, batch: Batch) -> Tensor:
        return self.coupling(rates, batch, assignments.dtype).merge_gain(assignments)

    def owners_evidence(self, rates: Rates, assignments: Tensor, batch: Batch) -> PageOwners:
        return PageOwners(dict(rates), _pages(batch), assignments)

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        accuracy, pages = sites["accuracy"], sites["habits"].summary(interval)
        # The marginal of every share of a Dirichlet is a Beta.
        shares = {
            name: PosteriorSummary(*(part[:, state] for part in pages))
            for state, name in enumerate(PAGE_STATES)
            if name != "sorted"
        }
        right, wrong = accuracy.mean().unbind(-1)
        direction = right.new_tensor([1.0, -1.0]).expand(len(right), 2)
        variance = accuracy.variance(direction)
        weight, deviation = (part.numpy(force=True) for part in (right - wrong, variance.sqrt()))
        return WorkerSummary({"accuracy": accuracy.summary(interval)} | shares, weight, deviation)

    def first_points(self, rate: float) -> dict[str, Tensor]:
        habits = self._priors["habits"]
        pages = habits.family.standard(habits.natural_parameters).concentration
        return {
            "accuracy": torch.full_like(pages[:, 0], rate),
            "habits": pages / pages.sum(-1, keepdim=True),
        }
