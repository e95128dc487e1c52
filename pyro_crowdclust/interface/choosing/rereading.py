"""One and the same posterior, read by a model that differs from the fitted one in a part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import annotators_for
from pyro_crowdclust.callbacks import LearnedPrior
from pyro_crowdclust.files import rebuilt
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.inference.workers import refit_workers
from pyro_crowdclust.interface.candidates.recipes import OWNERS_LEARNED
from pyro_crowdclust.minibatches.making import answered_batch
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import SupportsSites, SupportsTrust
from pyro_crowdclust.results.sharpness import read_at

# Joined clusters are sure: log q(c_k) of the owner less that of any other.
_SURE = 50.0
# Rounds of messages from what features say to what answers do.
_FAR = 30


@dataclass(frozen=True)
class ReweightedTraining(TrainingOptions):
    """``fit`` with features that count in full, and its result read as if they counted less.

    Components that are learned while items count little would be blurred, and workers who are
    judged by items that no answer moves would be blamed for what the features have wrong.
    """

    feature_weight: float

    def __call__(
        self,
        model: SemiCrowdsourcedMixture,
        guide: MessagePassingGuide,
        data: CrowdData,
        **changes: Any,
    ) -> Fitted:
        """Fit with these options, but for changes."""
        whole = guide.read_at(1.0)
        result = super().__call__(whole.model, whole, data, **changes)
        weights = {"feature_weight": self.feature_weight, "prior_weight": model.prior_weight}
        read = _read_by(result, **weights)
        return judged(replace(read, train_on=reweighted(result.train_on, self.feature_weight)))


def weighted(result: Fitted, feature_weight: float) -> Fitted:
    """The result, read with features that count less than they did in the fit.

    Where the weight is a part of the model, as of a mixture, an update trains as the fit did, and
    is read in the same way, by workers who are ``judged``. The ``sharpness`` of other guides has no
    part in training.
    """
    read = read_at(result, feature_weight)
    if read.model is result.model:
        return read
    return replace(read, train_on=reweighted(result.train_on, feature_weight))


def tempered(result: Fitted, weight: float) -> Fitted:
    """The result of a mixture or a regression, read with a power of all that features say of z.

    In enough rounds of messages for answers to lead items elsewhere, and with a guide of its own.
    """
    guide = result.guide.tempered(weight, LocalSolver(exchanges=_FAR))
    return replace(result, model=guide.model, guide=guide)


def reweighted(
    train_on: Callable[..., Fitted] | None, feature_weight: float
) -> Callable[..., Fitted] | None:
    """The same training, whose result is read with features that count less."""
    if feature_weight == 1 or not isinstance(train_on, TrainingOptions):
        return train_on
    return ReweightedTraining(**vars(train_on) | {"feature_weight": feature_weight})


def judged(result: Fitted) -> Fitted:
    """The result of a mixture that was read anew, with workers judged by what items are now.

    Workers who lapse stay as they are: whether they looked is no matter of items alone.
    """
    heard = answered_batch(result.data)
    annotators = result.model.annotators
    is_of_pairs = isinstance(annotators, SupportsTrust) and not isinstance(
        annotators, SupportsSites
    )
    if heard is not None and is_of_pairs:
        batch = heard.to(result.device, torch.float64)
        refit_workers(result.guide, annotators, batch)
    return result


@torch.no_grad()
def grouped(result: Fitted, group: Int[Tensor, " component"]) -> Fitted:
    """The result of a mixture, whose clusters own the components of one group each.

    Parameters
    ----------
    result
        A fit in which every component is a cluster.
    group
        The number of one component of each group, for every component.
    """
    return result if len(group.unique()) == len(group) else _owning(result, group)


def _owning(result: Fitted, group: Int[Tensor, " component"]) -> Fitted:
    read = _read_by(result, ownership=Ownership(len(group)))
    one_hot = nn.functional.one_hot(group, len(group)).double()
    read.guide.posteriors["owners"].set_natural_parameters(_SURE * one_hot)
    # What is known of the components is now known of their clusters.
    for name in read.model.supervision.sites_of_clusters:
        posterior, prior = read.guide.posteriors[name], read.model.priors()[name]
        counts = posterior.natural_parameters - prior.natural_parameters
        posterior.set_natural_parameters(prior.natural_parameters + one_hot.mT @ counts)
    return read


@torch.no_grad()
def with_answers_heard(result: Fitted, data: CrowdData, feature_weight: float = 1.0) -> Fitted:
    """The result of a mixture without answers, in which they move their items and judge workers.

    Components stay those of the features alone, and ``refit_workers`` moves the items that were
    asked about. (A cut, as of Plummer 2015: no answer has a part in the components, so that no
    other item moves.)

    Parameters
    ----------
    result
        A fit to features.
    data
        Items of the same features, and answers.
    feature_weight
        Of all that the features say of an item beside the answers, ``(pi_z p(x | z))^tau``.
    """
    heard = answered_batch(data)
    assert heard is not None  # there are answers
    annotators = annotators_for(data)
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
    refit_workers(read.guide, annotators, heard.to(None, torch.float64))
    # With more answers, by ``update``, these say which components are one cluster.
    hearing, moves = result.train_on, OWNERS_LEARNED if read.model.ownership else ()
    if isinstance(hearing, TrainingOptions):
        hearing = replace(hearing, callbacks=[LearnedPrior(), *moves])
    return replace(read, data=data, train_on=reweighted(hearing, feature_weight))


def _read_by(result: Fitted, **changes: Any) -> Fitted:
    """The result of a mixture, read by a model that differs in these arguments."""
    model = rebuilt(result.model, **changes)
    return replace(result, model=model, guide=result.guide.for_model(model))
