"""``mixture_for``: a mixture with fixed parts, as model, guide and training options."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import SortedPages, annotators_on_pages
from pyro_crowdclust.callbacks import ClassMoves, MergeMoves
from pyro_crowdclust.emissions import Standardized
from pyro_crowdclust.errors import count
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.interface.about_data import as_answered, feature_shape, supervision_of
from pyro_crowdclust.interface.candidates.columns import components_for
from pyro_crowdclust.interface.candidates.coordinates import location_and_scale
from pyro_crowdclust.interface.networks import Networks
from pyro_crowdclust.interface.recipe import Recipe, takes_all
from pyro_crowdclust.mixture import Components, DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import PairAnnotators
from pyro_crowdclust.supervision import Supervision
from pyro_crowdclust.training import RobbinsMonro, Stopping
from pyro_crowdclust.training.argument_checks import check_data


def mixture_for(
    data: CrowdData,
    *,
    num_clusters: int = 10,
    components: Callable[[int, int], Components] | None = None,
    networks: Networks | None = None,
    supervision: Supervision | None = None,
) -> Recipe:
    """Model, guide and training options that suit the data.

    Parameters
    ----------
    data
        Items with features, and answers, labels or links, if there are any.
    num_clusters
        An upper bound: clusters that are not needed stay empty.
    components
        Makes the components from the numbers of clusters and features: a class, such as
        ``BernoulliComponents`` for rows of 0 and 1 or ``PoissonComponents`` for counts, or a
        function, which may return ``MixedComponents``. Default: what suits the columns, see
        ``components_for``; for real numbers ``GaussianComponents``. Real features are standardized,
        all others are taken as they are.
    networks
        None for clusters on the features themselves; Gaussian components suit up to some fifty
        numbers per item. For images and similar data ``DeepBernoulli()`` or ``DeepNormal()``.
    supervision
        How known labels and links enter the model. Default: a ``ClassTable`` if the data have known
        labels, ``CertainLinks`` if they have links.

    Returns
    -------
    Recipe
        Its ``fit()`` trains. Answers on sorted pages (``CrowdData.is_sorted``) are modelled as
        pages, all others as pairs. Without networks: up to 100 epochs, until the ELBO per item
        stops rising; small data in full in every step, larger ones in minibatches; without answers
        with the assignments summed out. With networks: 10 to 40 epochs, about 4,000 steps, and a
        term that trains the recognition network on the answers, with weight 20. If there are
        answers, also merge moves; with networks after the first quarter of the epochs.

    Raises
    ------
    ValueError
        If the data have no features, if ``num_clusters`` is below 1, or if both components and
        networks are given.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.mixture import PoissonComponents
    >>> rng = np.random.default_rng(0)
    >>> visits = rng.poisson([[1, 20], [20, 1]], size=(40, 2, 2)).reshape(80, 2)
    >>> recipe = mixture_for(CrowdData(visits), num_clusters=2, components=PoissonComponents)
    >>> result = recipe.fit(progress=False)
    >>> np.bincount(result.assignments).tolist()
    [40, 40]
    """
    check_data(data)
    shape = feature_shape(data)
    _check_parts(components, networks, data)
    supervision = supervision or supervision_of(data, num_clusters)
    data = as_answered(data)
    annotators: PairAnnotators | SortedPages | None = None
    if data.has_answers:
        # The order of grades is known, so that their prior trusts workers; for pairs it is flat.
        trust = (2.0, 1.0) if len(data.grade_ids) else (1.0, 1.0)
        annotators = annotators_on_pages(data, trust)
    if networks is None:
        made = (components or components_for(data))(num_clusters, math.prod(shape))
        model = SemiCrowdsourcedMixture(
            DirichletWeights(num_clusters),
            made,
            Standardized(*location_and_scale(data, made.is_continuous)),
            annotators,
            supervision,
            sum_out_assignments=None if annotators or supervision.couples_items else torch.float64,
        )
        return Recipe(model, MessagePassingGuide(model), data, _plain_options(data, model))
    if isinstance(networks, Networks) and networks.standardizes:
        every = torch.ones(math.prod(shape), dtype=torch.bool)
        networks = networks.in_units(*location_and_scale(data, every))
    model = SemiCrowdsourcedMixture(
        DirichletWeights(num_clusters),
        GaussianComponents(num_clusters, networks.dim),
        networks.emission(shape),
        annotators,
        supervision,
    )
    networks.check(data)
    term = RecognitionTerm(20.0) if data.has_answers else None
    guide = MessagePassingGuide(model, networks.recognition(shape), recognition_term=term)
    return Recipe(model, guide, data, _deep_options(data))


def _check_parts(components: Any, networks: Any, data: CrowdData) -> None:
    """Raise a ``ValueError`` for wrong ``components`` or ``networks``, or both, for these data."""
    if components is not None and (not callable(components) or isinstance(components, nn.Module)):
        raise ValueError(
            f"components is {_name(components)}, but must be a class, such as GaussianComponents, "
            "or a function that makes components from the numbers of clusters and features"
        )
    if networks is None:
        return
    verbs = "dim", "emission", "recognition", "check"
    missing = [verb for verb in verbs if not hasattr(networks, verb)]
    if isinstance(networks, type) or missing:
        lacks = "" if isinstance(networks, type) else f"; this one has no {missing[0]}"
        raise ValueError(
            f"networks is {_name(networks)}, but must be DeepNormal(), DeepBernoulli() or an "
            f"object with their methods{lacks}"
        )
    if components is not None:
        raise ValueError(
            "components are for models without networks; with networks they are always Gaussian: "
            "pass components or networks, not both"
        )
    if data.has_gaps:
        raise ValueError(
            "networks need complete rows, but the features lack "
            f"{count(data.num_missing, 'value')} (NaN): fill these in, or leave networks out, so "
            "that they are integrated out"
        )
    if data.columns is not None and data.columns.of_kind("category"):
        place = data.columns.of_kind("category")[0]
        raise ValueError(
            f"networks need numbers, but column {data.columns.labels()[place]!r} holds categories: "
            "drop it, or leave networks out"
        )


def _name(part: Any) -> str:
    is_module = isinstance(part, nn.Module)
    return f"an object of {type(part).__name__}" if is_module else repr(part)


def _plain_options(data: CrowdData, model: SemiCrowdsourcedMixture) -> dict[str, Any]:
    common = {"epochs": 100, "stopping": Stopping(1e-4), "dtype": torch.float64}
    moves = [MergeMoves()] if data.has_answers else []
    common |= {"callbacks": moves + ([ClassMoves()] if moves and data.num_known_classes else [])}
    if takes_all(data, model):
        return common | {"batch_size": None, "step_size": 0.5}
    return common | {"batch_size": 1024, "step_size": RobbinsMonro(0.5, delay=20.0)}


def _deep_options(data: CrowdData) -> dict[str, Any]:
    batch_size = 128
    epochs = min(max(math.ceil(4000 * batch_size / data.num_items), 10), 40)
    return {
        "epochs": epochs,
        "batch_size": batch_size,
        "step_size": RobbinsMonro(0.1, delay=200.0),
        "optim": partial(torch.optim.Adam, lr=3e-3),
        "dtype": torch.get_default_dtype(),  # the precision in which the networks were made
        "callbacks": [MergeMoves(first_epoch=epochs // 4)] if data.has_answers else [],
    }
