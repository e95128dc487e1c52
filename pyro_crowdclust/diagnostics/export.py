"""Fits as ArviZ reads them: groups of arrays with named dimensions and the user's own ids."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.diagnostics.alignment import aligned_order
from pyro_crowdclust.diagnostics.arviz_adapter import as_tree
from pyro_crowdclust.diagnostics.draws import GlobalDraws, global_draws
from pyro_crowdclust.diagnostics.likelihood import (
    answer_log_likelihoods,
    item_log_likelihood,
    left_out_answers,
)
from pyro_crowdclust.diagnostics.naming import described
from pyro_crowdclust.diagnostics.predictive import replicated_answers, same_cluster_draws
from pyro_crowdclust.training import spaced_items

if TYPE_CHECKING:
    import xarray

    from pyro_crowdclust.result import Fitted

# A variable is its dimensions, chain first, and its values.
_Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]
_Groups = dict[str, _Variables]


def to_arviz(
    results: Fitted | Sequence[Fitted],
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
    posterior            every global site: of the mixture ``weights`` (cluster), ``component_mean``
                         (cluster, dim), ``component_covariance``; of workers ``sensitivity`` and
                         ``specificity`` (worker); of any other model its sites by name
    log_likelihood       ``features`` (item): log p(o_i | theta); ``answers`` (answer):
                         log p(L_a | theta, all other data)
    posterior_predictive ``answers`` (answer): answers drawn anew
    sample_stats         ``elbo`` (epoch): the history of the fit; ``log_guide``: log q(theta)
    observed_data        ``answers`` (answer); ``features`` (item, ...)
    constant_data        ``left``, ``right``, ``worker_of_answer`` (answer), by the user's ids;
                         ``probabilities`` (chain, item, cluster): q(z_i = k)
    ==================== ===========================================================================

    Coordinates ``item``, ``worker`` and ``answer`` are the user's ids and the row index of the
    pairs.

    Parameters
    ----------
    results
        What ``fit`` returned, or a list of fits of the same data, such as ``fit_restarts`` returns.
        Each becomes a chain, its clusters in the order that matches those of the first fit best.
    num_draws
        Draws from q, of each fit.
    max_items, max_answers
        Evenly spaced items and answers, at most so many, have a log-likelihood and a prediction.
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
    >>> from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
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
    data = fits[0].data
    items = spaced_items(data.num_items, max_items)
    answers = _spaced(data.num_pairs, max_answers)
    chains = [
        _chain(result, num_draws, items, answers, latent_draws, log_likelihood, seed)
        for result in fits
    ]
    _align(fits, chains)
    groups = _joined(chains)
    groups |= {"observed_data": {}, "constant_data": {}}
    _add_data(groups, fits, items, answers)
    coordinates = _coordinates(fits, items, answers)
    attributes = _attributes(fits, num_draws)
    return as_tree(
        {
            name: _dataset(variables, coordinates, attributes)
            for name, variables in groups.items()
            if variables
        },
        attributes,
    )


def weight_draws(result: Fitted, num_draws: int, seed: int | None = None) -> np.ndarray:
    """Draws of the cluster weights from q, ``[draw, cluster]``.

    Raises
    ------
    ValueError
        If the model has no site for them.
    """
    with result.inside(seed):
        variables = described(result.model, global_draws(result, num_draws).sites)
    if "weights" not in variables:
        raise ValueError(f"the model has no weights of clusters, but {sorted(variables)}")
    return _array(variables["weights"].values)


def _check(fits: list[Fitted], num_draws: int) -> None:
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


def _chain(
    result: Fitted,
    num_draws: int,
    items: Int[Tensor, " item"],
    answers: Int[Tensor, " answer"],
    latent_draws: int,
    log_likelihood: bool,
    seed: int | None,
) -> _Groups:
    """The groups of one fit; all variables with the draw as the first axis, but for the ELBO."""
    with result.inside(seed):
        draws = global_draws(result, num_draws)
        posterior = {
            name: (("draw", *variable.dims), _array(variable.values))
            for name, variable in described(result.model, draws.sites).items()
        }
        groups: _Groups = {
            "posterior": posterior,
            "sample_stats": {
                "elbo": (("epoch",), result.history["elbo"].to_numpy()),
                "log_guide": (("draw",), _array(draws.log_density)),
            },
        }
        if log_likelihood:
            groups |= _likelihoods(result, draws, items, answers, latent_draws)
    return groups


def _likelihoods(
    result: Fitted,
    draws: GlobalDraws,
    items: Int[Tensor, " item"],
    answers: Int[Tensor, " answer"],
    latent_draws: int,
) -> _Groups:
    likelihood, predictive = {}, {}
    if result.data.features is not None:
        of_items = item_log_likelihood(result, draws, items, latent_draws)
        likelihood["features"] = (("draw", "item"), _array(of_items))
    if len(answers) and hasattr(result.guide, "infer"):
        # Of every answer both what it could be: the likelihood needs the one that was given.
        labels = torch.tensor([1.0, 0.0]).repeat_interleave(len(answers))
        of_labels = answer_log_likelihoods(result, draws, answers.repeat(2), labels)
        if of_labels is not None:
            given = result.data.answers.label[answers].bool()
            yes_no = [log_prob.split(len(answers), 1) for log_prob in of_labels]
            of_given = [torch.where(given, yes, no) for yes, no in yes_no]
            ends = (part[answers] for part in (result.data.answers.left, result.data.answers.right))
            left, right = (result.probabilities[part.numpy()] for part in ends)
            of_answers = left_out_answers(*of_given, (left * right).sum(1))
            likelihood["answers"] = (("draw", "answer"), _array(of_answers))
            same = same_cluster_draws(result, answers, draws.num_draws)
            log_yes = [yes for yes, _ in yes_no]
            replicated = replicated_answers(same, *log_yes).to(torch.int8)
            predictive["answers"] = (("draw", "answer"), _array(replicated))
    return {"log_likelihood": likelihood, "posterior_predictive": predictive}


def _align(fits: list[Fitted], chains: list[_Groups]) -> None:
    """Put the clusters of every fit into the order of the first one's."""
    if len(fits) == 1 or not hasattr(fits[0].guide, "infer"):
        return
    for result, groups in zip(fits[1:], chains[1:], strict=True):
        order = aligned_order(fits[0].probabilities, result.probabilities)
        for variables in groups.values():
            for name, (dims, values) in variables.items():
                for axis in np.flatnonzero(np.array(dims) == "cluster"):
                    values = values.take(order, axis=axis)
                variables[name] = (dims, values)


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


def _add_data(
    groups: _Groups,
    fits: list[Fitted],
    items: Int[Tensor, " item"],
    answers: Int[Tensor, " answer"],
) -> None:
    data = fits[0].data
    observed, constant = groups["observed_data"], groups["constant_data"]
    if data.features is not None:
        features = _array(data.rows(items))
        axes = tuple(f"features_dim_{axis}" for axis in range(features.ndim - 1))
        observed["features"] = (("item", *axes), features)
    if len(answers):
        pairs = data.pairs.iloc[answers.numpy()]
        observed["answers"] = (("answer",), pairs["label"].to_numpy())
        for name, column in (("left", "left"), ("right", "right"), ("worker_of_answer", "worker")):
            constant[name] = (("answer",), _labels(pairs[column]))
    if all(hasattr(result.guide, "infer") for result in fits):
        first = fits[0].probabilities
        probabilities = [first] + [
            result.probabilities[:, aligned_order(first, result.probabilities)]
            for result in fits[1:]
        ]
        dims = ("chain", "item", "cluster")
        constant["probabilities"] = (dims, np.stack(probabilities)[:, items.numpy()])


def _coordinates(
    fits: list[Fitted], items: Int[Tensor, " item"], answers: Int[Tensor, " answer"]
) -> dict[str, np.ndarray]:
    data = fits[0].data
    coordinates = {
        "item": _labels(data.item_ids[items.numpy()]),
        "worker": _labels(data.worker_ids),
    }
    if len(answers):
        coordinates["answer"] = _labels(data.pairs.index[answers.numpy()])
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


def _attributes(fits: list[Fitted], num_draws: int) -> dict[str, Any]:
    """Where the draws are from; numbers and strings only, so that every file format takes them."""
    from pyro_crowdclust import __version__

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
