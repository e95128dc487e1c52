"""One and the same posterior, read by a model that differs from the fitted one in a part."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor, nn

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import annotators_for
from pyro_crowdclust.annotators.suited import expected_counts
from pyro_crowdclust.callbacks import LearnedPrior, OwnershipMoves
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import PairAnnotators

# Joined clusters are sure: log q(c_k) of the owner less that of any other.
_SURE = 50.0


def weighted(result: Fitted, feature_weight: float) -> Fitted:
    """The result of a mixture, read with features that count less than they did in the fit."""
    if feature_weight == 1:
        return result
    return _read_by(result, result.model.ownership, feature_weight)


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
    owners = _SURE * nn.functional.one_hot(group, len(group)).double()
    read.guide.posteriors["owners"].set_natural_parameters(owners)
    return read


@torch.no_grad()
def with_workers_heard(result: Fitted, data: CrowdData) -> Fitted:
    """The result of a mixture without answers, with workers who are judged by its clusters.

    Answers are expected under the clusters of the features alone, ``s_ij = q(z_i = z_j)``, and
    teach the workers' rates, but not the clusters: of worker m

        alpha_m ~ Beta(a + sum s_ij L_ij, b + sum s_ij (1 - L_ij))

    over its answers, and the specificity likewise with ``1 - s_ij`` and ``1 - L_ij``. (A cut, as of
    Plummer 2015.)

    Parameters
    ----------
    result
        A fit to features.
    data
        Items of the same features, and answers.
    """
    answers = data.answers
    assert answers is not None  # that are heard
    silent = replace(result, data=data.with_parts(answers=None, _pairs_index=None))
    ids = data.item_ids
    left, right = (ids[end.numpy()].tolist() for end in (answers.left, answers.right))
    same = torch.as_tensor(silent.same_cluster_probability(left, right)).double().clamp(0, 1)
    annotators = annotators_for(data)
    counts = expected_counts(annotators, same, answers.worker, answers.label.double())
    number = result.model.num_clusters
    if result.model.ownership is None and number > 1:
        result = _owning(result, torch.arange(number))
    model = result.model
    read = _read_by(result, model.ownership, model.feature_weight, annotators)
    for name, prior in annotators.priors().items():
        learned = prior.natural_parameters + counts[name]
        read.guide.posteriors[name].set_natural_parameters(learned)
    # With more answers, by ``update``, these say which components are one cluster.
    hearing, moves = result.train_on, [OwnershipMoves()] if read.model.ownership else []
    if isinstance(hearing, TrainingOptions):
        hearing = replace(hearing, callbacks=[LearnedPrior(), *moves])
    return replace(read, data=data, train_on=hearing)


def _read_by(
    result: Fitted,
    ownership: Ownership | None,
    feature_weight: float,
    annotators: PairAnnotators | None = None,
) -> Fitted:
    model = result.model
    other = SemiCrowdsourcedMixture(
        model.weights,
        model.components,
        model.emission,
        annotators or model.annotators,
        model.supervision,
        sum_out_assignments=None if annotators else model.sum_out_assignments,
        ownership=ownership,
        feature_weight=feature_weight,
    )
    guide = MessagePassingGuide(other)
    found = guide.posteriors.state_dict() | result.guide.posteriors.state_dict()
    guide.posteriors.load_state_dict(found)
    return replace(result, model=other, guide=guide)
