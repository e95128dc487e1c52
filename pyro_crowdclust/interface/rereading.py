"""One and the same posterior, read by a model that differs from the fitted one in a part."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor, nn

from pyro_crowdclust import Fitted
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture

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
    if len(group.unique()) == len(group):
        return result
    read = _read_by(result, Ownership(len(group)), result.model.feature_weight)
    owners = _SURE * nn.functional.one_hot(group, len(group)).double()
    read.guide.posteriors["owners"].set_natural_parameters(owners)
    return read


def _read_by(result: Fitted, ownership: Ownership | None, feature_weight: float) -> Fitted:
    model = result.model
    other = SemiCrowdsourcedMixture(
        model.weights,
        model.components,
        model.emission,
        model.annotators,
        model.supervision,
        sum_out_assignments=model.sum_out_assignments,
        ownership=ownership,
        feature_weight=feature_weight,
    )
    guide = MessagePassingGuide(other)
    found = guide.posteriors.state_dict() | result.guide.posteriors.state_dict()
    guide.posteriors.load_state_dict(found)
    return replace(result, model=other, guide=guide)
