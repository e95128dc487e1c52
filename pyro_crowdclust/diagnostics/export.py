"""Fits as ArviZ reads them: groups of arrays with named dimensions and the user's own ids."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust._version import __version__
from pyro_crowdclust.annotators.sorted_pages import PAGE_STATES
from pyro_crowdclust.data.pair_answers import outcome_names
from pyro_crowdclust.diagnostics.alignment import aligned_order
from pyro_crowdclust.diagnostics.arviz_adapter import as_tree
from pyro_crowdclust.diagnostics.class_labels import label_draws
from pyro_crowdclust.diagnostics.draws import GlobalDraws, global_draws, variables_of
from pyro_crowdclust.diagnostics.likelihood import item_log_likelihood, left_out_answers
from pyro_crowdclust.diagnostics.predictive import (
    outcome_log_likelihoods,
    replicated_answers,
    replicated_features,
    same_cluster_draws,
)
from pyro_crowdclust.emissions import Emission
from pyro_crowdclust.mixture.components import Components
from pyro_crowdclust.protocols import FittedModel, part_of
from pyro_crowdclust.training.trainer import spaced_items

if TYPE_CHECKING:
    import xarray


# A variable is its dimensions, chain first, and its values.
_Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]
_Groups = dict[str, _Variables]

# What describes a component: of a mean one axis, of a covariance both.
_AXES = "dim", "dim_other"
# Features are drawn anew for as many items as make at most so many numbers (80 MB).
_MOST_REPLICATED = 10_000_000


def to_arviz(
    results: FittedModel | Sequence[FittedModel],
    num_draws: int = 500,
    *,
    max_items: int = 1000,
    max_answers: int = 5000,
    latent_draws: int = 10,
    log_likelihood: bool = True,
    seed: int | None = None,
) -> Any:
    """Draws from q and what they say of the data, in ArviZ's schema.

    ==================== ===========================================================================
    group                what it holds
    ==================== ===========================================================================
    posterior            every global site: of a mixture ``weights`` (cluster), ``component_mean``
                         (cluster, dim), ``component_covariance``; of workers ``sensitivity`` and
                         ``specificity`` (worker), or ``accuracy`` (worker) and ``habits`` (worker,
                         page_state) of sorted pages, or ``if_same`` and ``if_different`` (worker,
                         grade), or ``confusion`` (worker, class, label); of any other model its
                         sites by name
    log_likelihood       ``features`` (item): log p(o_i | theta); ``answers`` (answer):
                         log p(L_a | theta, all other data); of class labels ``items``
                         (labelled_item), with all labels of each, and ``labels`` (class_answer),
                         each left out in turn
    posterior_predictive ``features`` (item, ...), ``answers`` (answer), ``labels`` (class_answer):
                         drawn anew
    sample_stats         ``elbo`` (epoch): the history of the fit; ``log_guide``: log q(theta)
    observed_data        ``features`` (item, ...), ``answers`` (answer), ``labels`` (class_answer):
                         what was given, labels as positions in the coordinate ``label``, grades in
                         ``grade``;
                         ``groups`` (placement) of sorted pages
    constant_data        ``left``, ``right``, ``worker_of_answer`` (answer), ``item_of_label``,
                         ``worker_of_label`` (class_answer), ``page_of_placement`` and others, by
                         the user's ids; ``probabilities``
                         (chain, item, cluster or class): q(z_i = k)
    ==================== ===========================================================================

    Coordinates ``item``, ``worker``, ``class`` and ``label`` are the user's ids, ``answer`` and
    ``class_answer`` the row indices of the pairs and of the labels. Clusters are numbered as in the
    result. Where components are on the features, they are in the features' units, and ``dim`` holds
    their names, if they have any.

    Parameters
    ----------
    results
        What ``fit`` returned, or a list of fits of the same data, such as ``fit_restarts`` returns.
        Each becomes a chain, its clusters in the order that matches those of the first fit best;
        classes keep theirs.
    num_draws
        Draws from q, of each fit.
    max_items, max_answers
        Evenly spaced items, answers and labels, at most so many, have a log-likelihood and a
        prediction. Features are drawn anew of fewer items where they would be more than ten
        million numbers.
    latent_draws
        Draws of a latent in each item's log-likelihood; see ``likelihood``.
    log_likelihood
        Whether to make the groups ``log_likelihood`` and ``posterior_predictive``, which take the
        time.
    seed
        Of the draws; default each fit's own.

    Returns
    -------
    ``arviz.InferenceData`` with ArviZ 0.x, ``xarray.DataTree`` with 1.x.

    Raises
    ------
    ValueError
        If there is no fit, or fits are not of the same data and number of clusters.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust import CrowdData, fit
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.guides import MessagePassingGuide
    >>> from pyro_crowdclust.mixture import (
    ...     DirichletWeights,
    ...     GaussianComponents,
    ... )
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> x = torch.cat([torch.randn(50, 2) - 4, torch.randn(50, 2) + 4])
    >>> model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 2), Identity())
    >>> result = fit(model, MessagePassingGuide(model), CrowdData(x), batch_size=None,
    ...              step_size=1.0, epochs=5, progress=False)
    >>> tree = to_arviz(result, num_draws=20)
    >>> dict(tree["posterior"]["component_mean"].sizes)
    {'chain': 1, 'draw': 20, 'cluster': 2, 'dim': 2}
    """
    fits = list(results) if isinstance(results, Sequence) else [results]
    _check(fits, num_draws)
    rows = _Rows.of(fits[0], num_draws, max_items, max_answers)
    chains = [_chain(fit, num_draws, rows, latent_draws, log_likelihood, seed) for fit in fits]
    _align(fits, chains)
    groups = _joined(chains) | _data(fits, rows)
    attributes = _attributes(fits, num_draws)
    return as_tree(
        {
            name: _dataset(variables, _coordinates(fits, rows, name), attributes)
            for name, variables in groups.items()
            if variables
        },
        attributes,
    )


def weight_draws(result: FittedModel, num_draws: int, seed: int | None = None) -> np.ndarray:
    """Draws of the cluster weights from q, ``[draw, cluster]``.

    Raises
    ------
    ValueError
        If the model has no site for them.
    """
    with result.inside(seed):
        variables = variables_of(result.model, global_draws(result, num_draws).sites)
    if "weights" not in variables:
        raise ValueError(f"the model has no weights of clusters, but {sorted(variables)}")
    values = _array(variables["weights"].values)
    order = _order_of_components(result)
    return values if order is None else values[:, order]


def _check(fits: list[FittedModel], num_draws: int) -> None:
    if not fits:
        raise ValueError("there is no fit to export: the list is empty")
    if num_draws < 1:
        raise ValueError(f"num_draws is {num_draws}, but must be at least 1")
    first = fits[0].data
    for number, result in enumerate(fits):
        same = result.data is first or (
            result.data.item_ids.equals(first.item_ids)
            and result.data.worker_ids.equals(first.worker_ids)
            and result.data.num_pairs == first.num_pairs
            and np.array_equal(result.data.answers_per_worker, first.answers_per_worker)
        )
        if not same:
            raise ValueError(
                f"fit {number} is of {result.data}, but the first of {first}: chains must be fits "
                "of the same data"
            )


def _spaced(count: int, at_most: int) -> Int[Tensor, " row"]:
    if count <= at_most:
        return torch.arange(count)
    return torch.linspace(0, count - 1, at_most, dtype=torch.float64).round().long()


class _Rows(NamedTuple):
    """What of the data is exported: positions of items, and rows of answers and labels.

    ``replicated`` are the items whose features are drawn anew, ``labelled`` those with labels.
    """

    items: Int[Tensor, " item"]
    replicated: Int[Tensor, " item"]
    labelled: Int[Tensor, " labelled_item"]
    answers: Int[Tensor, " answer"]
    labels: Int[Tensor, " class_answer"]

    @classmethod
    def of(cls, result: FittedModel, num_draws: int, max_items: int, max_answers: int) -> _Rows:
        data = result.data
        items = spaced_items(data.num_items, max_items)
        numbers = num_draws * math.prod(result.feature_shape or ())
        labelled = items[:0]
        if data.class_labels is not None:
            labelled = items[torch.isin(items, data.class_labels.labelled_items)]
        return cls(
            items,
            items[_spaced(len(items), max(_MOST_REPLICATED // numbers, 1))],
            labelled,
            _spaced(data.num_pairs, max_answers),
            _spaced(data.num_labels, max_answers),
        )


def _chain(
    result: FittedModel,
    num_draws: int,
    rows: _Rows,
    latent_draws: int,
    log_likelihood: bool,
    seed: int | None,
) -> _Groups:
    """The groups of one fit; all variables with the draw as the first axis, but for the ELBO."""
    with result.inside(seed):
        draws = global_draws(result, num_draws)
        posterior = {
            name: (("draw", *variable.dims), _array(variable.values))
            for name, variable in variables_of(result.model, draws.sites).items()
        }
        groups: _Groups = {
            "posterior": posterior,
            "sample_stats": {
                "elbo": (("epoch",), result.history["elbo"].to_numpy()),
                "log_guide": (("draw",), _array(draws.log_density)),
            },
        }
        if log_likelihood:
            likelihood, predictive = _likelihoods(result, draws, rows, latent_draws)
            groups |= {"log_likelihood": likelihood, "posterior_predictive": predictive}
    order = _order_of_components(result)
    if order is not None:
        _reorder(groups, order)
    return groups


def _order_of_components(result: FittedModel) -> Int[np.ndarray, " cluster"] | None:
    """The guide's own number of every cluster; None where clusters own components, as these are."""
    return result.cluster_order if result.owners is None else None


def _reorder(groups: _Groups, order: Int[np.ndarray, " cluster"]) -> None:
    """Put the clusters of every variable in this order."""
    for variables in groups.values():
        for name, (dims, values) in variables.items():
            for axis in np.flatnonzero(np.array(dims) == "cluster"):
                values = values.take(order, axis=axis)
            variables[name] = (dims, values)


def _likelihoods(
    result: FittedModel, draws: GlobalDraws, rows: _Rows, latent_draws: int
) -> tuple[_Variables, _Variables]:
    """Variables of the groups ``log_likelihood`` and ``posterior_predictive``."""
    likelihood: _Variables = {}
    predictive: _Variables = {}
    if result.data.features is not None:
        of_features = item_log_likelihood(result, draws, rows.items, latent_draws)
        if of_features is not None:
            likelihood["features"] = (("draw", "item"), _array(of_features))
        replicated = replicated_features(result, draws, rows.replicated)
        if replicated is not None:
            predictive["features"] = (("draw", *_axes(replicated[0])), _array(replicated))
    if len(rows.answers) and result.has_assignments:
        given = _of_answers(result, draws, rows.answers)
        if given is not None:
            dims = ("draw", "answer")
            likelihood["answers"], predictive["answers"] = ((dims, _array(part)) for part in given)
    if len(rows.labels):
        labels = label_draws(result, draws, rows.labelled, rows.labels, latent_draws)
        if labels is not None:
            likelihood["items"] = (("draw", "labelled_item"), _array(labels.of_items))
        if labels is not None and labels.of_labels is not None and labels.replicated is not None:
            dims = ("draw", "class_answer")
            likelihood["labels"] = (dims, _array(labels.of_labels))
            predictive["labels"] = (dims, _array(labels.replicated))
    return likelihood, predictive


def _of_answers(
    result: FittedModel, draws: GlobalDraws, answers: Int[Tensor, " answer"]
) -> tuple[Tensor, Tensor] | None:
    """Log-likelihood of answers, each left out in turn, and answers drawn anew."""
    # Of every answer all that it could be: the likelihood needs the one that was given.
    of_outcomes = outcome_log_likelihoods(result, draws, answers)
    if of_outcomes is None:
        return None
    data = result.data.answers
    assert data is not None  # there are answers to ask about
    given = result.data.outcomes.places(data.label[answers])
    if_same, if_different = (one[:, given, torch.arange(len(answers))] for one in of_outcomes)
    ends = data.left[answers], data.right[answers]
    left, right = (result.probabilities[part.numpy()] for part in ends)
    of_answers = left_out_answers(if_same, if_different, (left * right).sum(1))
    same = same_cluster_draws(result, answers, draws.num_draws)
    replicated = replicated_answers(same, *of_outcomes)
    return of_answers, replicated.to(torch.int8)


def _align(fits: list[FittedModel], chains: list[_Groups]) -> None:
    """Put the clusters of every fit into the order of the first one's."""
    if len(fits) == 1 or not _has_clusters(fits):
        return
    for result, groups in zip(fits[1:], chains[1:], strict=True):
        _reorder(groups, aligned_order(fits[0].probabilities, result.probabilities))


def _joined(chains: list[_Groups]) -> _Groups:
    """All fits side by side; a shorter ELBO history ends in missing values."""
    joined: _Groups = {}
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


def _has_clusters(fits: list[FittedModel]) -> bool:
    """Whether z numbers clusters, whose order is arbitrary; classes have ids."""
    return all(result.has_assignments and result.data.class_labels is None for result in fits)


def _data(fits: list[FittedModel], rows: _Rows) -> _Groups:
    """What was observed, and what stays as it is."""
    data = fits[0].data
    observed: _Variables = {}
    constant: _Variables = {}
    if data.features is not None:
        features = _array(data.rows(rows.items))
        observed["features"] = (_axes(features), features)
    if data.pairs is not None and len(rows.answers):
        pairs = data.pairs.iloc[rows.answers.numpy()]
        assert data.answers is not None  # which pairs are made of
        said = data.outcomes.places(data.answers.label[rows.answers])
        observed["answers"] = (("answer",), _array(said))
        for name, column in (("left", "left"), ("right", "right"), ("worker_of_answer", "worker")):
            constant[name] = (("answer",), _labels(pairs[column]))
    pages = data.pages
    if pages is not None:
        observed["groups"] = (("placement",), pages["group"].to_numpy())
        for name in ("page", "item", "worker"):
            constant[f"{name}_of_placement"] = (("placement",), _labels(pages[name]))
    if data.labels is not None and data.class_labels is not None and len(rows.labels):
        labels = data.labels.iloc[rows.labels.numpy()]
        codes = data.class_labels.label[rows.labels]
        observed["labels"] = (("class_answer",), _array(codes))
        for name, column in (("item_of_label", "item"), ("worker_of_label", "worker")):
            constant[name] = (("class_answer",), _labels(labels[column]))
    if fits[0].has_assignments:
        found = [result.probabilities for result in fits]
        kind = "class"
        if _has_clusters(fits):
            found, kind = [q[:, aligned_order(found[0], q)] for q in found], "cluster"
        chosen = np.stack(found)[:, rows.items.numpy()]
        constant["probabilities"] = (("chain", "item", kind), chosen)
    return {"observed_data": observed, "constant_data": constant}


def _component_labels(fits: list[FittedModel]) -> dict[str, np.ndarray]:
    """Names of the features that components are on, by the axis, where fits agree on them."""
    found = []
    for result in fits:
        names = result.data.feature_names
        emission: Any = part_of(result.model, "emission", Emission)
        components = part_of(result.model, "components", Components)
        if names is None or components is None or emission is None:
            return {}
        if not emission.observes_latent or emission.mixes_features:
            return {}
        labels = components.part_labels(emission.coordinate_names(list(names)))
        found.append({f"{axis}{part}": own for part, own in labels.items() for axis in _AXES})
    return {axis: _labels(own) for axis, own in found[0].items()} if found[1:] == found[:-1] else {}


def _axes(features: np.ndarray | Tensor) -> tuple[str, ...]:
    return ("item", *(f"features_dim_{axis}" for axis in range(features.ndim - 1)))


def _coordinates(fits: list[FittedModel], rows: _Rows, group: str) -> dict[str, np.ndarray]:
    """The user's ids, by dimension; labels and classes in the order of their codes."""
    data = fits[0].data
    items = rows.replicated if group == "posterior_predictive" else rows.items
    names = data.feature_names
    of_features = np.array([]) if names is None else _labels(names)
    coordinates = {
        **_component_labels(fits),
        "features_dim_0": of_features,
        "item": _labels(data.item_ids[items.numpy()]),
        "labelled_item": _labels(data.item_ids[rows.labelled.numpy()]),
        "worker": _labels(data.worker_ids),
        "class": _labels(data.class_ids),
        "label": _labels(data.class_ids),
        "known_class": _labels(data.known_ids),
        "page_state": np.array(PAGE_STATES),
        "grade": np.array(outcome_names(data.grade_ids)),
    }
    if data.pairs is not None and len(rows.answers):
        coordinates["answer"] = _labels(data.pairs.index[rows.answers.numpy()])
    if data.labels is not None and len(rows.labels):
        coordinates["class_answer"] = _labels(data.labels.index[rows.labels.numpy()])
    longest = max((result.history for result in fits), key=len)
    coordinates["epoch"] = longest["epoch"].to_numpy()
    return coordinates


def _dataset(
    variables: _Variables, coordinates: dict[str, np.ndarray], attributes: dict[str, Any]
) -> xarray.Dataset:
    """Numbers 0, 1, 2, ... stand in where a dimension has no ids of its own."""
    import xarray

    sizes: dict[str, int] = {}
    for dims, values in variables.values():
        sizes |= dict(zip(dims, values.shape, strict=True))
    own = {
        dim: coordinates[dim] if len(coordinates.get(dim, ())) == size else np.arange(size)
        for dim, size in sizes.items()
    }
    return xarray.Dataset(variables, coords=own, attrs=attributes)


def _attributes(fits: list[FittedModel], num_draws: int) -> dict[str, Any]:
    """Where the draws are from; numbers and strings only, so that every file format takes them."""
    first = fits[0]
    return {
        "inference_library": "pyro_crowdclust",
        "inference_library_version": __version__,
        "model": type(first.model).__name__,
        "guide": type(first.guide).__name__,
        "num_draws": num_draws,
        "dtype": str(first.dtype).removeprefix("torch."),
        "seed": [result.seed for result in fits],
        "epochs": [len(result.history) for result in fits],
        "steps": [int(result.history["step"].max()) for result in fits],
        "seconds": [float(result.seconds) for result in fits],
        "stop_reason": "; ".join(result.stop_reason for result in fits),
        "elbo": [float(result.history["elbo"].iloc[-1]) for result in fits],
    }


def _array(values: Tensor) -> np.ndarray:
    return values.numpy(force=True)


def _labels(ids: Sequence[Hashable] | pd.Index | pd.Series) -> np.ndarray:
    """Ids as an array of numbers, or of strings where they are anything else."""
    values = np.asarray(ids)
    if values.dtype.kind in "biuf":
        return values
    return np.array([str(value) for value in ids], dtype=str)
