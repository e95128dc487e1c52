"""Results recomputed with the same posterior, but a model that differs from the fitted one."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import SortedPages, TwoCoin, annotators_for, expected_counts
from pyro_crowdclust.callbacks import LearnedPrior
from pyro_crowdclust.data.extending import extended
from pyro_crowdclust.files import rebuilt
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.inference.owners import move_owners
from pyro_crowdclust.inference.owners_of_few import weigh_owners_of_few
from pyro_crowdclust.inference.workers import can_refit, refit_workers
from pyro_crowdclust.interface.candidates.recipes import OWNERS_LEARNED
from pyro_crowdclust.minibatches import Batch, answered_batch, items_alone
from pyro_crowdclust.minibatches.making import needed_batch
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.protocols import SupportsSites, part_of
from pyro_crowdclust.results import UpdateStep, read_at, step_of, with_own_parts, with_step

# Ownership of joined components is certain: log q(c_k) of the owner minus that of any other.
_CERTAIN = 50.0
# Rounds of messages, enough for answers to overrule features.
_EXCHANGES = 30
# Turns of owners and workers at fixed components.
_JOINS = 2


@dataclass(frozen=True)
class ReadAtWeight(UpdateStep):
    """Trains with features at full weight, and recomputes the result with features of less weight.

    Components that are learned at a low weight would be blurred, and rates of workers that are
    learned at full weight would be too low wherever the features are wrong.
    """

    feature_weight: float
    prior_weight: float

    def before(
        self, model: Any, guide: Any, data: CrowdData, changes: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """The same posterior at full weight."""
        whole = guide.read_at(1.0)
        return whole.model, whole

    def after(self, result: Fitted) -> Fitted:
        """The result at the weight, with owners of components and rates of workers that suit it."""
        result = with_step(result, self)
        if self.feature_weight == 1:
            return result
        weights = {"feature_weight": self.feature_weight, "prior_weight": self.prior_weight}
        return with_workers_refitted(with_owners_of_few_weighed(_read_by(result, **weights)))


def with_feature_weight(result: Fitted, feature_weight: float) -> Fitted:
    """The result, recomputed with features that count less than they did in the fit.

    If the weight is a part of the model, as in a mixture, an update trains as the fit did, and its
    result is recomputed in the same way (``ReadAtWeight``). In other guides the weight does
    not affect training.

    Parameters
    ----------
    result
        A fit whose guide has ``read_at`` (``protocols.SupportsFeatureWeight``).
    feature_weight
        tau, the power of the features' likelihood.
    """
    read = read_at(result, feature_weight)
    return read if read.model is result.model else updated_at_its_weight(read)


def tempered_fit(result: Fitted, feature_weight: float) -> Fitted:
    """The result of a mixture or a regression, with a power of the features' evidence about z.

    It has a guide of its own, with enough rounds of messages for answers to move items.
    """
    guide = result.guide.tempered(feature_weight, LocalSolver(exchanges=_EXCHANGES))
    return replace(result, model=guide.model, guide=guide)


def updated_at_its_weight(result: Fitted) -> Fitted:
    """The result of a mixture, whose updates are read at the same weight of the features."""
    model = result.model
    if model.feature_weight == 1 and step_of(result, ReadAtWeight) is None:
        return result
    return with_step(result, ReadAtWeight(model.feature_weight, model.prior_weight))


def with_owners_of_few_weighed(result: Fitted) -> Fitted:
    """A copy of the result of a mixture, with owners that suit features that count less.

    Which components are one cluster is learned at full weight. At a lower one some components keep
    hardly an item with answers, and ``weigh_owners_of_few`` finds their owners anew. Unchanged are
    fits at full weight, and those of pages, of workers who lapse, of known labels or of links.
    """
    data, model = result.data, result.model
    is_of_pairs = data.answers is not None and data.known is None and data.links is None
    owns = part_of(model, "ownership", Ownership) is not None
    if not (owns and is_of_pairs) or isinstance(model.annotators, SupportsSites):
        return result
    if model.feature_weight == 1 or not model.emission.observes_latent:
        return result
    read = with_own_parts(result)
    weigh_owners_of_few(read.guide, *answered_items(result))
    return read


def answered_items(result: Fitted) -> tuple[Batch, Batch]:
    """The items with answers, without and with all of these, in float64 where the fit is."""
    answered = needed_batch(result.data)
    alone = items_alone(result.data, answered.items)
    place = result.device, torch.float64
    return alone.to(*place), answered.to(*place)


def with_workers_refitted(result: Fitted) -> Fitted:
    """A copy of the result of a mixture, with workers' rates estimated from its assignments.

    Workers who lapse are not changed, as the items alone do not determine whether they looked.
    """
    answered = answered_batch(result.data)
    if answered is None or not can_refit(result.model.annotators):
        return result
    refitted = with_own_parts(result)
    batch = answered.to(result.device, torch.float64)
    refit_workers(refitted.guide, refitted.model.annotators, batch)
    return refitted


@torch.no_grad()
def with_workers_rated_by(result: Fitted, data: CrowdData, workers: Sequence[int]) -> Fitted:
    """A copy of the result, with the rates of some workers estimated from all their answers.

    Parameters
    ----------
    result
        A fit, whose clusters judge the answers. It is returned itself unless its workers have two
        coins.
    data
        The same items and workers, and all answers, some of which may not be in the fit.
    workers
        Codes of the workers.
    """
    annotators = part_of(result.model, "annotators", TwoCoin)
    answers = data.answers
    if annotators is None or answers is None:
        return result
    found = result.same_cluster_by_position(answers.left, answers.right)
    same = torch.as_tensor(found).double()
    own = torch.isin(answers.worker, torch.tensor(workers))
    counts = expected_counts(
        annotators, same[own], answers.worker[own], answers.label[own].double()
    )
    rates = {}
    for name, prior in annotators.priors().items():
        rates[name] = result.guide.posteriors[name].natural_parameters.clone()
        of_other = (prior.natural_parameters + counts[name]).to(rates[name])
        rates[name][[*workers]] = of_other[[*workers]]
    return with_rates(result, rates)


def with_rates(result: Fitted, rates: Mapping[str, Float[Tensor, "worker size"]]) -> Fitted:
    """A copy of the result, with these natural parameters of workers' rates in its guide."""
    found = with_own_parts(result)
    for name, natural_parameters in rates.items():
        found.guide.posteriors[name].set_natural_parameters(natural_parameters)
    return found


@dataclass(frozen=True)
class RateWorkers(UpdateStep):
    """Rates some workers by all of their answers, those that are left out of the fit included.

    Attributes
    ----------
    left_out
        The columns of the table of these answers.
    """

    rates_workers: ClassVar[bool] = True

    left_out: Mapping[Hashable, Sequence[Any]]

    @classmethod
    def of(cls, data: CrowdData, is_left_out: Bool[Tensor, " row"]) -> RateWorkers:
        """The step for rows of ``data.pairs`` that are left out of the fit."""
        assert data.pairs is not None  # as some are left out
        return cls(data.pairs[is_left_out.numpy()].to_dict("list"))

    def beside(self, other: RateWorkers | None) -> RateWorkers:
        """The step for the answers of both, whose tables have the same columns."""
        if other is None:
            return self
        both = {name: [*other.left_out[name], *own] for name, own in self.left_out.items()}
        return RateWorkers(both)

    def all_answers(self, data: CrowdData) -> CrowdData:
        """The data with the answers that were left out."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they are was said when they were given
            return extended(data, pairs=pd.DataFrame({**self.left_out}))

    def after(self, result: Fitted) -> Fitted:
        """The result with these rates."""
        data = self.all_answers(result.data)
        workers = data.worker_ids.get_indexer(pd.Index(self.left_out["worker"]).unique())
        return with_step(with_workers_rated_by(result, data, workers.tolist()), self)


@torch.no_grad()
def grouped(result: Fitted, group: Int[Tensor, " component"]) -> Fitted:
    """The result of a mixture in which each cluster owns the components of one group.

    Parameters
    ----------
    result
        A fit in which every component is a cluster.
    group
        For every component, the number of one component of its group.
    """
    return result if len(group.unique()) == len(group) else _owning(result, group)


def _owning(result: Fitted, group: Int[Tensor, " component"]) -> Fitted:
    read = _read_by(result, ownership=Ownership(len(group)))
    owners = read.guide.posteriors["owners"]
    one_hot = nn.functional.one_hot(group, len(group)).to(owners.natural_parameters)
    owners.set_natural_parameters(_CERTAIN * one_hot)
    # What was learned about the components now holds for their clusters.
    for name in read.model.supervision.sites_of_clusters:
        posterior, prior = read.guide.posteriors[name], read.model.priors()[name]
        counts = posterior.natural_parameters - prior.natural_parameters
        posterior.set_natural_parameters(prior.natural_parameters + one_hot.mT @ counts)
    return read


@torch.no_grad()
def with_answers_added(result: Fitted, data: CrowdData, feature_weight: float = 1.0) -> Fitted:
    """The result of a mixture without answers, with answers added at fixed components.

    Components stay those of the features alone. ``refit_workers`` moves only the items that have
    answers, and estimates the rates of workers. (This is a cut, see Plummer 2015: answers do not
    affect the components, so that no other item moves.)

    Parameters
    ----------
    result
        A fit to features.
    data
        Items of the same features, and answers.
    feature_weight
        Power tau of the features' evidence about an item, ``(pi_z p(x | z))^tau``, besides answers.
    """
    answered = needed_batch(data)
    sorts = data.placements is not None
    annotators = SortedPages(data.num_workers) if sorts else annotators_for(data)
    number = result.model.num_clusters
    if result.model.ownership is None and number > 1:
        result = _owning(result, torch.arange(number))
    read = _read_by(
        result,
        annotators=annotators,
        sum_out_assignments=None,
        feature_weight=feature_weight,
        prior_weight=feature_weight,
    )
    refit_workers(read.guide, annotators, answered.to(result.device, torch.float64))
    # An ``update`` with more answers also learns which components are one cluster.
    training, moves = result.train_on, OWNERS_LEARNED if read.model.ownership else ()
    if isinstance(training, TrainingOptions):
        training = replace(training, callbacks=[LearnedPrior(), *moves])
    return updated_at_its_weight(replace(read, data=data, train_on=training))


@torch.no_grad()
def with_components_joined(result: Fitted, data: CrowdData, feature_weight: float = 1.0) -> Fitted:
    """``with_answers_added``, and clusters own the components that the answers show to be one.

    Components stay as they are, but items without answers move with their components. Which are one
    is learned at full weight of the features, like the components.

    Parameters
    ----------
    result, data, feature_weight
        As for ``with_answers_added``.
    """
    read = with_answers_added(result, data)
    batch = needed_batch(data).to(result.device, torch.float64)
    for _ in range(_JOINS):
        move_owners(read.guide, batch)
        refit_workers(read.guide, read.model.annotators, batch)
    return read if feature_weight == 1 else with_answers_added(read, data, feature_weight)


def _read_by(result: Fitted, **changes: Any) -> Fitted:
    """The result of a mixture, recomputed by a model that differs in these arguments."""
    model = rebuilt(result.model, **changes)
    return replace(result, model=model, guide=result.guide.for_model(model))
