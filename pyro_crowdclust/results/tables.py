"""The tables of a result, with a row for each worker, page, cluster or label."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.page_coupling import PAGE_STATES
from pyro_crowdclust.annotators.sorted_pages import SortedPages
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import outcome_names
from pyro_crowdclust.distributions.pages import overlap_of
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import PosteriorSummary
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.partitions import PagedItems

_Value = TypeVar("_Value")

# Draws of a partition that are processed at a time.
_DRAWS = 20


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, made read-only, since the result and its users share it."""
    array.flags.writeable = False
    return array


class CachedCopy(cached_property[_Value]):
    """A property that is computed once, and of which every reader gets a copy to change.

    Tables and tensors cannot be made read-only.

    Examples
    --------
    >>> class Fit:
    ...     @CachedCopy
    ...     def clusters(self):
    ...         return pd.DataFrame({"share": [1.0]})
    >>> fit = Fit()
    >>> read = fit.clusters
    >>> read["share"] *= 100
    >>> fit.clusters["share"].tolist()
    [1.0]
    """

    def __set_name__(self, owner: type, name: str) -> None:
        # Under its own name the value would be read without ``__get__``.
        super().__set_name__(owner, f"_cached_{name}")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        value = super().__get__(instance, owner)
        return self if instance is None else copy.deepcopy(value)


class CopiedField(Generic[_Value]):
    """A field of a dataclass, without a default, of which every reader gets a copy to change.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Fit:
    ...     history: CopiedField[pd.DataFrame] = CopiedField()
    >>> fit = Fit(pd.DataFrame({"elbo": [1.0]}))
    >>> read = fit.history
    >>> read["elbo"] = 2.0
    >>> fit.history["elbo"].tolist()
    [1.0]
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> _Value:
        if instance is None:
            raise AttributeError(self._name)  # what is read of the class is the default
        value: _Value = vars(instance)[self._name]
        return copy.deepcopy(value)

    def __set__(self, instance: Any, value: _Value) -> None:
        vars(instance)[self._name] = value


def workers_table(summary: WorkerSummary, data: CrowdData) -> pd.DataFrame:
    """``Fitted.workers``, from the posterior of the rates and weights of all workers."""
    columns: dict[str, np.ndarray] = {}
    outcomes = outcome_names(data.grade_ids)
    for site, rate in summary.rates.items():
        for name, entry in _entries(site, rate, outcomes):
            columns |= {
                name: entry.mean,
                f"{name}_sd": entry.sd,
                f"{name}_lower": entry.lower,
                f"{name}_upper": entry.upper,
            }
    columns |= {"weight": summary.weight, "weight_sd": summary.weight_sd}
    columns["answers"] = data.answers_per_worker
    return pd.DataFrame(columns, index=data.worker_ids.rename("worker"))


def _entries(
    site: str, rate: PosteriorSummary, outcomes: Sequence[str]
) -> Iterator[tuple[str, PosteriorSummary]]:
    """The columns of a site: its name, for vectors followed by the grade or number of the entry."""
    if rate.mean.ndim == 1:
        yield site, rate
        return
    entries = [part.reshape(len(part), -1).T for part in rate]
    is_graded = len(outcomes) > 1 and len(entries[0]) in (len(outcomes) - 1, len(outcomes))
    names = outcomes if is_graded else range(len(entries[0]))
    for name, entry in zip(names, zip(*entries, strict=True), strict=False):
        yield f"{site}_{name}", PosteriorSummary(*entry)


def pages_table(
    annotators: SortedPages,
    rate_statistics: dict[str, Tensor],
    probabilities: Float[np.ndarray, "item cluster"],
    data: CrowdData,
) -> pd.DataFrame:
    """``Fitted.pages``, from E[t] of the workers' sites and q(z) of all items."""
    placements = data.needed_placements
    pages = BatchPages.of(
        placements, torch.arange(placements.num_pages), torch.arange(data.num_items)
    )
    assignments = torch.from_numpy(np.array(probabilities))
    posterior = annotators.posterior(rate_statistics, assignments, pages)
    states = posterior.states.numpy()
    counts = pages.counts(assignments)
    homes = posterior.mean_homes
    at_home = (homes[..., 1:] * counts).sum((1, 2))
    # The home of a cluster without items on the page was not observed.
    held = counts.sum(-1, keepdim=True).clamp(max=1.0)
    columns = {
        **_known_of_pages(data),
        **{name: states[:, state] for state, name in enumerate(PAGE_STATES)},
        "lumped_pairs": overlap_of(homes * held).numpy(),
        "misplaced": (placements.page_sizes - at_home).numpy(),
    }
    return pd.DataFrame(columns, index=data.page_ids.rename("page"))


def drawn_pages_table(draws: Int[Tensor, "draw item"], data: CrowdData) -> pd.DataFrame:
    """``Fitted.pages`` for draws of a partition: means over the draws."""
    placements = data.needed_placements
    paged = PagedItems(data.num_items, placements)
    faults = torch.stack([paged.faults(some).sum(0) for some in draws.split(_DRAWS)]).sum(0)
    misplaced, lumped = (faults / len(draws)).unbind(1)
    columns = _known_of_pages(data) | {
        "lumped_pairs": lumped.numpy(),
        "misplaced": misplaced.numpy(),
    }
    return pd.DataFrame(columns, index=data.page_ids.rename("page"))


def _known_of_pages(data: CrowdData) -> dict[str, Any]:
    """The worker of every page, and its numbers of items and groups."""
    placements = data.needed_placements
    return {
        "worker": data.worker_ids[placements.worker.numpy()],
        "items": placements.page_sizes.numpy(),
        "groups": placements.num_groups.numpy(),
    }


def class_table(probabilities: Float[np.ndarray, "item class"], data: CrowdData) -> pd.DataFrame:
    """A table as ``Fitted.class_probabilities``, from q(y) of all items."""
    columns = data.class_ids.rename("class")
    return pd.DataFrame(probabilities, data.item_ids.rename("item"), columns)


def confusion_table(
    columns: Mapping[str, Float[np.ndarray, "worker class label"]], data: CrowdData
) -> pd.DataFrame:
    """A table as ``Fitted.confusion``, from the columns of all confusion matrices."""
    levels = [data.worker_ids, data.class_ids, data.class_ids]
    index = pd.MultiIndex.from_product(levels, names=["worker", "class", "label"])
    return pd.DataFrame({name: part.ravel() for name, part in columns.items()}, index=index)


def clusters_table(
    weights: Float[np.ndarray, " cluster"] | None,
    probabilities: Float[np.ndarray, "item cluster"],
    assignments: Int[np.ndarray, " item"],
) -> pd.DataFrame:
    """``Fitted.clusters``, from E[pi], q(z) and the most probable clusters of all items."""
    expected = probabilities.sum(0)
    columns = {
        "expected_items": expected,
        "assigned_items": np.bincount(assignments, minlength=len(expected)),
        "share": expected / expected.sum(),
    }
    if weights is not None:
        columns["weight"] = weights
    return pd.DataFrame(columns, index=pd.RangeIndex(len(expected), name="cluster"))


def class_workers_table(
    confusion: pd.DataFrame, probabilities: pd.DataFrame, data: CrowdData
) -> pd.DataFrame:
    """``Fitted.workers`` for class labels: ``accuracy``, and the number of ``labels``.

    The accuracy is ``sum_k E[pi_k] E[p(k | k)]``, with the shares of the classes among the items.

    Parameters
    ----------
    confusion, probabilities
        ``Fitted.confusion`` and ``Fitted.class_probabilities``.
    data
        The labels.
    """
    rates = confusion["mean"].to_numpy().reshape(-1, data.num_classes, data.num_classes)
    accuracy = np.einsum("wkk,k->w", rates, probabilities.to_numpy().mean(0))
    labels = data.needed_class_labels
    number = torch.bincount(labels.worker, minlength=labels.num_workers).numpy()
    index = data.worker_ids.rename("worker")
    return pd.DataFrame({"accuracy": accuracy, "labels": number}, index=index)


def components_table(
    location: Float[np.ndarray, "cluster column"], labels: list[Hashable]
) -> pd.DataFrame:
    """``Fitted.components``, from the means of every cluster and the labels of the columns."""
    index = pd.RangeIndex(len(location), name="cluster")
    return pd.DataFrame(location, index, pd.Index(labels, name="feature", dtype="object"))
