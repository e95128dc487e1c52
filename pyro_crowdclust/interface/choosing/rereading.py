"""One and the same posterior, read by a model that differs from the fitted one in a part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import annotators_for
from pyro_crowdclust.annotators.suited import expected_counts
from pyro_crowdclust.annotators.two_coin import TRUSTED
from pyro_crowdclust.callbacks import LearnedPrior
from pyro_crowdclust.distributions.pairs import agreement, components_together
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.guides import ClassLabelGuide, MessagePassingGuide, PairRegressionGuide
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.interface.candidates.recipes import OWNERS_LEARNED
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import answered_batch
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import PairAnnotators, SupportsSites, SupportsTrust, part_of

# Joined clusters are sure: log q(c_k) of the owner less that of any other.
_SURE = 50.0
# Rounds of items and workers in turn.
_ROUNDS = 20
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
        whole = _parts_like(model, guide, model.ownership, feature_weight=1.0)
        result = super().__call__(*whole, data, **changes)
        return judged(weighted(result, self.feature_weight, model.prior_weight))


def weighted(result: Fitted, feature_weight: float, prior_weight: float = 1.0) -> Fitted:
    """The result, read with features that count less than they did in the fit.

    An update trains as the fit did, and is read in the same way, of a mixture by workers who are
    ``judged``. Guides of a regression and of class labels have their ``sharpness`` themselves,
    which has no part in training.
    """
    if feature_weight == 1:
        return result
    if isinstance(result.guide, PairRegressionGuide | ClassLabelGuide):
        return replace(result, guide=result.guide.sharpened(feature_weight))
    ownership, train_on = result.model.ownership, result.train_on
    read = _read_by(result, ownership, feature_weight, prior_weight=prior_weight)
    return replace(read, train_on=reweighted(train_on, feature_weight))


def read_at(result: Fitted, weight: float) -> Fitted:
    """The result of a mixture or a regression, read with a power of all that features say of z.

    In enough rounds of messages for answers to lead items elsewhere, and with a guide of its own.
    """
    solver = LocalSolver(exchanges=_FAR)
    if isinstance(result.guide, PairRegressionGuide):
        return replace(result, guide=result.guide.sharpened(weight, solver))
    return _read_by(result, result.model.ownership, weight, prior_weight=weight, solver=solver)


def at_full_weight(result: Fitted) -> Fitted:
    """The result of a mixture as it was fitted, with features that count in full."""
    model = result.model
    is_mixture = isinstance(model, SemiCrowdsourcedMixture)
    if not is_mixture or model.feature_weight == model.prior_weight == 1:
        return result
    return _read_by(result, model.ownership, feature_weight=1.0)


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
        judge_workers(result, heard.to(result.device, torch.float64))
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
    read = _read_by(result, Ownership(len(group)), result.model.feature_weight)
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

    Components stay those of the features alone, and ``judge_workers`` moves the items that were
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
        result, result.model.ownership, feature_weight, annotators, prior_weight=feature_weight
    )
    judge_workers(read, heard.to(None, torch.float64))
    # With more answers, by ``update``, these say which components are one cluster.
    hearing, moves = result.train_on, OWNERS_LEARNED if read.model.ownership else ()
    if isinstance(hearing, TrainingOptions):
        hearing = replace(hearing, callbacks=[LearnedPrior(), *moves])
    return replace(read, data=data, train_on=reweighted(hearing, feature_weight))


@torch.no_grad()
def judge_workers(result: Fitted, batch: Batch) -> None:
    """Update workers, who begin as trusted, and the items of a batch in turn; nothing else moves.

    With ``s_ij = q(z_i, z_j of one cluster)``, answers heard, of worker m

        alpha_m ~ Beta(a + sum s_ij L_ij, b + sum s_ij (1 - L_ij))

    over its answers, and the specificity likewise with ``1 - s_ij`` and ``1 - L_ij``.

    Parameters
    ----------
    result
        Of a mixture whose workers are two coins or graders; its guide learns.
    batch
        All answers, in double precision.
    """
    model, guide, label = result.model, result.guide, batch.label
    assert label is not None  # there are answers
    together = owned_together(result)
    for name, trusted in model.annotators.with_trust(TRUSTED).priors().items():
        guide.posteriors[name].set_natural_parameters(trusted.natural_parameters)
    for _ in range(_ROUNDS):
        same = same_cluster(guide.infer(batch).assignments, together, batch)
        counts = expected_counts(model.annotators, same, batch.worker, label.double())
        for name, prior in model.annotators.priors().items():
            guide.posteriors[name].set_natural_parameters(prior.natural_parameters + counts[name])


def owned_together(result: Fitted) -> Float[Tensor, "component component"]:
    """Probability that two components are one cluster; each is its own where none own several."""
    if part_of(result.model, "ownership", Ownership) is None:
        return torch.eye(result.model.num_clusters, dtype=torch.float64, device=result.device)
    return components_together(result.guide.posteriors["owners"].mean()).double()


def same_cluster(
    assignments: Float[Tensor, "item component"],
    together: Float[Tensor, "component component"],
    batch: Batch,
) -> Float[Tensor, " pair"]:
    """Probability that both items of every answer of a batch share a cluster, by their q(z)."""
    return agreement(assignments, batch.left, batch.right, together).clamp(0, 1)


def _read_by(
    result: Fitted,
    ownership: Ownership | None,
    feature_weight: float,
    annotators: PairAnnotators | None = None,
    prior_weight: float = 1.0,
    solver: LocalSolver = LocalSolver(),  # noqa: B008, frozen
) -> Fitted:
    model, guide = _parts_like(
        result.model, result.guide, ownership, feature_weight, annotators, prior_weight, solver
    )
    return replace(result, model=model, guide=guide)


def _parts_like(
    model: SemiCrowdsourcedMixture,
    guide: MessagePassingGuide,
    ownership: Ownership | None,
    feature_weight: float,
    annotators: PairAnnotators | None = None,
    prior_weight: float = 1.0,
    solver: LocalSolver = LocalSolver(),  # noqa: B008, frozen
) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    other = SemiCrowdsourcedMixture(
        model.weights,
        model.components,
        model.emission,
        annotators or model.annotators,
        model.supervision,
        sum_out_assignments=None if annotators else model.sum_out_assignments,
        ownership=ownership,
        feature_weight=feature_weight,
        prior_weight=prior_weight,
    )
    of_other = MessagePassingGuide(other, solver=solver)
    found = of_other.posteriors.state_dict() | guide.posteriors.state_dict()
    of_other.posteriors.load_state_dict(found)
    return other, of_other
