"""Export of fits to ArviZ: groups of arrays with named dimensions and the user's ids."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from pyro_crowdclust._version import __version__
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.stored_features import StoredFeatures
from pyro_crowdclust.diagnostics.alignment import aligned_order
from pyro_crowdclust.diagnostics.arviz_adapter import Groups, as_tree, dataset
from pyro_crowdclust.diagnostics.chains import chain_of, reorder
from pyro_crowdclust.diagnostics.exported_data import (
    ExportedRows,
    data_groups,
    have_clusters,
    ids_by_dimension,
)
from pyro_crowdclust.diagnostics.named_axes import check_coordinates, rename_axes
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.protocols import FittedModel, name_of
from pyro_crowdclust.training.fingerprint import digest


def to_arviz(
    results: FittedModel | Sequence[FittedModel],
    num_draws: int = 500,
    *,
    max_items: int = 1000,
    max_answers: int = 5000,
    latent_draws: int = 10,
    log_likelihood: bool = True,
    seed: int | None = None,
    coords: Mapping[str, Sequence[Hashable]] = MappingProxyType({}),
    dims: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Any:
    """Draws from q, with log-likelihoods and predictions of the data, in ArviZ's schema.

    ==================== ===========================================================================
    group                content
    ==================== ===========================================================================
    posterior            every global site: of a mixture ``weights`` (cluster), ``component_mean``
                         (cluster, dim), ``component_covariance``, or ``component_parameter`` of
                         components without such parts; with an ownership these have the axis
                         component, and ``owners`` (component, cluster) is q(c); of workers
                         ``sensitivity`` and ``specificity`` (worker), or ``accuracy`` (worker) and
                         ``habits`` (worker, page_state) of sorted pages, or ``if_same`` and
                         ``if_different`` (worker, grade), or ``halves_1`` and ``halves_2``
                         (worker, half) and the shares within a half, such as ``within_upper``
                         (worker, grade_upper), or ``confusion`` (worker, class, label);
                         of any other model its sites by name
    log_likelihood       ``features`` (item): log p(o_i | theta); ``answers`` (answer):
                         log p(L_a | theta, all other data); of class labels ``items``
                         (labelled_item), with all labels of each, and ``labels`` (class_answer),
                         each left out in turn; ``known`` (known_item) of labels that are known,
                         under a class table: log p(y_i | o_i, theta); ``groups`` (placement) of
                         sorted pages: log p(g_a | theta, all other data)
    posterior_predictive ``features`` (item, ...), ``answers`` (answer), ``labels`` (class_answer),
                         ``known`` (known_item), ``groups`` (placement): replications
    sample_stats         ``elbo`` (epoch): the history of the fit; ``log_guide``: log q(theta)
    observed_data        ``features`` (item, ...), ``answers`` (answer), ``labels`` (class_answer):
                         the data, with labels as positions in the coordinate ``label``, and grades
                         as positions in ``grade``; ``groups`` (placement) of sorted pages;
                         ``known`` (known_item), as positions in ``known_class``
    constant_data        ``left``, ``right``, ``worker_of_answer`` (answer), ``item_of_label``,
                         ``worker_of_label`` (class_answer), ``page_of_placement`` and others, by
                         the user's ids; ``probabilities``
                         (chain, item, cluster or class): q(z_i = k)
    ==================== ===========================================================================

    The coordinates ``item``, ``worker``, ``class`` and ``label`` are the user's ids; ``answer`` and
    ``class_answer`` are the row indices of the pairs and of the labels. Clusters are numbered as in
    the result, and components of an ownership as the rows of its ``owners``. Components of features
    are in the units of the features, and ``dim`` holds the features' names, if they have any. For a
    feature that the fit transformed by a power, the name ends in "(transformed)", and units are
    those of the power.

    All draws of a point estimate are equal, as under ``AmortizedGuide`` or ``AutoDelta``, so that
    its intervals are empty. The attribute ``equal_draws`` of the tree names such variables.

    Parameters
    ----------
    results
        What ``fit`` returned, or a list of fits of the same data, such as ``fit_restarts`` returns.
        Each becomes a chain, with its clusters and components in the order that best matches those
        of the first fit; classes keep their order.
    num_draws
        The number of draws from q of each fit.
    max_items, max_answers
        At most this many items, and answers, labels or placements, evenly spaced, have
        log-likelihoods and replications. Features are replicated for fewer items if there would be
        more than ten million numbers.
    latent_draws
        Draws of a latent in each item's log-likelihood; see ``likelihood``.
    log_likelihood
        Whether to compute the groups ``log_likelihood`` and ``posterior_predictive``, which takes
        most of the time.
    seed
        Seed of the draws; default: that of each fit.
    coords, dims
        As for ``arviz.from_dict``: the coordinates of some dimensions, and the names of the
        dimensions of some variables, without chain and draw. The dimension ``features_dim_0`` has
        the names of the features as coordinates.

    Returns
    -------
    ``arviz.InferenceData`` with ArviZ 0.x, ``xarray.DataTree`` with 1.x.

    Raises
    ------
    ValueError
        If there is no fit, or fits are not of the same items, answers, model and number of
        clusters, or ``coords`` and ``dims`` do not suit the variables.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust import cluster
    >>> from pyro_crowdclust.mixture import GaussianComponents
    >>> x = torch.cat([torch.randn(50, 2) - 4, torch.randn(50, 2) + 4])
    >>> result = cluster(x, components=GaussianComponents, num_clusters=2, progress=False)
    >>> tree = to_arviz(result, num_draws=20)
    >>> dict(tree["posterior"]["component_mean"].sizes)
    {'chain': 1, 'draw': 20, 'cluster': 2, 'dim': 2}
    """
    fits = list(results) if isinstance(results, Sequence) else [results]
    _check(fits, num_draws)
    rows = ExportedRows.of(fits[0], num_draws, max_items, max_answers)
    chains = [chain_of(fit, num_draws, rows, latent_draws, log_likelihood, seed) for fit in fits]
    _check_alike(chains)
    _align(fits, chains)
    groups = _joined(chains) | data_groups(fits, rows)
    rename_axes(groups, dims)
    check_coordinates(groups, coords)
    attributes = _attributes(fits, num_draws) | _of_equal_draws(chains)
    own = {name: np.asarray(values) for name, values in coords.items()}
    return as_tree(
        {
            name: dataset(variables, ids_by_dimension(fits, rows, name) | own, attributes)
            for name, variables in groups.items()
            if variables
        },
        attributes,
    )


def _check(fits: list[FittedModel], num_draws: int) -> None:
    if not fits:
        raise ValueError("there is no fit to export: results is an empty list")
    check_whole("num_draws", num_draws, least=1)
    first = fits[0].data
    for number, result in enumerate(fits):
        if result.data is not first and digest(_said(result.data)) != digest(_said(first)):
            raise ValueError(
                f"fit {number} has the data {result.data}, but the first fit has {first}: pass "
                "fits of the same data"
            )


def _said(data: CrowdData) -> list[Any]:
    """Who said what about which items; features are left out, since loaded fits may lack them."""
    ids = data.item_ids, data.worker_ids, data.page_ids, data.grade_ids, data.class_ids
    return [*ids, data.answers, data.placements, data.class_labels]


def _check_alike(chains: list[Groups]) -> None:
    """Raise a ``ValueError`` if a fit has other parameters than the first, or other shapes."""
    first, *others = (
        {name: values.shape[1:] for name, (_, values) in chain["posterior"].items()}
        for chain in chains
    )
    for number, shapes in enumerate(others, 1):
        for name in dict.fromkeys([*first, *shapes]):
            if shapes.get(name) != first.get(name):
                raise ValueError(
                    f"fit {number} has {_in_words(name, shapes)}, but the first fit has "
                    f"{_in_words(name, first)}: pass fits of one model, with the same number of "
                    "clusters"
                )


def _in_words(name: str, shapes: dict[str, tuple[int, ...]]) -> str:
    return f"{name} of the shape {[*shapes[name]]}" if name in shapes else f"no {name}"


def _align(fits: list[FittedModel], chains: list[Groups]) -> None:
    """Put clusters and components of every fit into the order that matches the first fit."""
    if len(fits) == 1 or not have_clusters(fits):
        return
    for result, groups in zip(fits[1:], chains[1:], strict=True):
        reorder(groups, aligned_order(fits[0].probabilities, result.probabilities))
        if result.owners is not None:
            q = (fit.component_probabilities.numpy() for fit in (fits[0], result))
            reorder(groups, aligned_order(*q), "component")


def _joined(chains: list[Groups]) -> Groups:
    """All fits stacked along an axis ``chain``; shorter ELBO histories end in missing values."""
    joined: Groups = {}
    for group, variables in chains[0].items():
        joined[group] = {}
        for name, (dims, _) in variables.items():
            parts = [chain[group][name][1] for chain in chains]
            longest = max(len(part) for part in parts)
            if any(len(part) < longest for part in parts):
                parts = [
                    np.pad(part, (0, longest - len(part)), constant_values=np.nan) for part in parts
                ]
            joined[group][name] = (("chain", *dims), np.stack(parts))
    return joined


def _attributes(fits: list[FittedModel], num_draws: int) -> dict[str, Any]:
    """Metadata of the fits: numbers and strings only, which every file format can hold."""
    first = fits[0]
    # A fit may have ended before its first epoch did.
    steps = [int(result.history["step"].iloc[-1]) if len(result.history) else 0 for result in fits]
    return {
        "inference_library": "pyro_crowdclust",
        "inference_library_version": __version__,
        "model": name_of(first.model),
        "guide": name_of(first.guide),
        "num_draws": num_draws,
        "dtype": str(first.dtype).removeprefix("torch."),
        "seed": [result.seed for result in fits],
        "epochs": [len(result.history) for result in fits],
        "steps": steps,
        "seconds": [float(result.seconds) for result in fits],
        "stop_reason": "; ".join(result.stop_reason for result in fits),
        "elbo": [_bound(result) for result in fits],
    }


def _of_equal_draws(chains: list[Groups]) -> dict[str, str]:
    """Which variables do not vary over the draws of a fit, such as point estimates; none of one."""
    equal = {
        name: None
        for chain in chains
        for name, (_, values) in chain["posterior"].items()
        if len(values) > 1 and bool((values == values[:1]).all())
    }
    return {"equal_draws": ", ".join(equal)} if equal else {}


def _bound(result: FittedModel) -> float:
    """The ELBO of all data; NaN for features in a file, as all would have to be read."""
    return math.nan if isinstance(result.data.features, StoredFeatures) else result.elbo
