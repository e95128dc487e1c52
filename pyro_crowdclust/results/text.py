"""The text of a result in three lines, and its HTML with small tables for notebooks."""

from __future__ import annotations

import html

import numpy as np
import pandas as pd

from pyro_crowdclust.data.stored_features import StoredFeatures
from pyro_crowdclust.protocols import (
    FittedModel,
    SupportsInfer,
    SupportsMixture,
    SupportsPartition,
    SupportsWorkers,
    name_of,
)

# Number of rows of a table that a notebook shows.
_ROWS = 10
_WORKER_COLUMNS = (
    *("sensitivity", "specificity", "accuracy", "attention", "careless"),
    *("weight", "answers"),
)


def three_lines(result: FittedModel) -> str:
    """The data; the clusters or classes and why training ended; the most reliable worker.

    Without answers of workers the last line has the ELBO and the time of the fit.
    """
    data = f"{result.data}"
    if result.data.features is None and result.feature_shape is not None:
        data += ", loaded without its features"
    lines = [data, f"{what_was_found(result)}; {result.stop_reason}"]
    if result.data.has_answers and isinstance(result.guide, SupportsWorkers):
        workers = result.workers
        error = workers["weight_sd"].fillna(0.0)  # unknown where rates are point estimates
        lines.append(most_and_least_reliable(weight_with_lapses(workers), error))
    else:
        lines.append(f"{_bound(result)} in {result.seconds:.1f} s, seed {result.seed}")
    return "\n".join(lines)


def weight_with_lapses(workers: pd.DataFrame) -> pd.Series:
    """The mean weight of an answer of each worker, careless pages included.

    ``weight`` is that of an answer on a page that was not careless. It is multiplied by the
    probability that a page of the worker was not careless.

    Examples
    --------
    >>> weight_with_lapses(pd.DataFrame({"weight": [3.0, 2.0], "careless": [0.5, 0.0]})).tolist()
    [1.5, 2.0]
    """
    if "attention" in workers:
        attention = workers["attention"]
    elif "careless" in workers:
        attention = 1 - workers["careless"]
    else:
        return workers["weight"]
    return (workers["weight"] * attention).rename("weight with lapses")


def most_and_least_reliable(reliability: pd.Series, error: pd.Series | float = 0.0) -> str:
    """The most and the least reliable worker, by a column of the workers' table.

    They are those of whom this is surest: the most reliable has the largest ``reliability - error``
    and the least reliable, of those below, the smallest ``reliability + error``. By ``reliability``
    alone they would be workers with few answers, whose estimates vary most.

    Parameters
    ----------
    reliability
        How reliable every worker is; the name of the column is shown.
    error
        Its standard deviation.

    Examples
    --------
    >>> most_and_least_reliable(pd.Series([0.9, 0.5], ["ann", "ben"], name="accuracy"))
    'most reliable worker ann (accuracy 0.90), least ben (0.50)'
    >>> few = pd.Series([4.4, 3.9, 0.2], ["ann", "ben", "cat"], name="weight")
    >>> most_and_least_reliable(few, pd.Series([1.5, 0.4, 0.4], few.index))
    'most reliable worker ben (weight 3.90), least cat (0.20)'
    >>> most_and_least_reliable(pd.Series([0.9], ["ann"], name="accuracy"))
    'one worker, ann (accuracy 0.90)'
    >>> most_and_least_reliable(pd.Series([0.9, 0.9], ["ann", "ben"], name="accuracy"))
    '2 workers, all alike (accuracy 0.90)'
    """
    names, place = reliability.index, int((reliability - error).argmax())
    most = f"{names[place]} ({reliability.name} {reliability.iloc[place]:.2f})"
    if len(reliability) == 1:
        return f"one worker, {most}"
    if f"{reliability.min():.2f}" == f"{reliability.max():.2f}":
        return f"{len(reliability)} workers, all alike ({reliability.name} {reliability.max():.2f})"
    is_below = reliability < reliability.iloc[place]
    if not is_below.any():  # of all others little is known
        return f"most reliable worker {most}"
    last = int((reliability + error).where(is_below, np.inf).argmin())
    return f"most reliable worker {most}, least {names[last]} ({reliability.iloc[last]:.2f})"


def _bound(result: FittedModel) -> str:
    """The ELBO; of features in a file that of the last epoch, as all would have to be read."""
    if not isinstance(result.data.features, StoredFeatures):
        return f"ELBO {result.elbo:,.1f} nats"
    elbo = result.history["elbo"].iloc[-1] if len(result.history) else float("nan")
    return f"ELBO of the last epoch {elbo:,.1f} nats"


def what_was_found(result: FittedModel) -> str:
    """What was found: clusters or classes and their sizes, or else the names of the parts."""
    if isinstance(result.guide, SupportsMixture):
        stored = isinstance(result.data.features, StoredFeatures)
        if stored and "clusters_in_use" in result.history:  # inferring all items may take hours
            return f"{result.history['clusters_in_use'].iloc[-1]} clusters in use"
        return _sizes("cluster", result.clusters["assigned_items"])
    if isinstance(result.guide, SupportsPartition):
        return _sizes("cluster", result.clusters["assigned_items"])
    if result.data.class_labels is not None and isinstance(result.guide, SupportsInfer):
        return sizes_of_classes(result.class_probabilities)
    return f"{name_of(result.model)}, {name_of(result.guide)}"


def sizes_of_classes(probabilities: pd.DataFrame) -> str:
    """The number of items whose most probable class is each class, largest first.

    Examples
    --------
    >>> sizes_of_classes(pd.DataFrame({"bee": [0.9, 0.2, 0.8], "wasp": [0.1, 0.8, 0.2]}))
    '2 classes with 2, 1 items'
    """
    return _sizes("class", probabilities.idxmax(axis=1).value_counts())


def _sizes(kind: str, sizes: pd.Series) -> str:
    sizes = sizes[sizes > 0]
    plural = {"cluster": "clusters", "class": "classes"}[kind]
    some = ", ".join(map(str, sizes[:_ROWS])) + ", ..." * (len(sizes) > _ROWS)
    items = "item" if [*sizes] == [1] else "items"
    return f"{len(sizes)} {kind if len(sizes) == 1 else plural} with {some} {items}"


def as_html(result: FittedModel) -> str:
    """The three lines, the clusters with items, and the workers with the largest weights."""
    lines = "<br>".join(map(html.escape, three_lines(result).splitlines()))
    tables = []
    if isinstance(result.guide, SupportsMixture | SupportsPartition) and not isinstance(
        result.data.features, StoredFeatures
    ):
        tables.append(result.clusters.query("assigned_items > 0"))
    if result.data.has_answers and isinstance(result.guide, SupportsWorkers):
        workers = result.workers
        order = weight_with_lapses(workers).sort_values(ascending=False, kind="stable").index
        tables.append(workers.loc[order, [name for name in _WORKER_COLUMNS if name in workers]])
    shown = [
        table.head(_ROWS).reset_index().to_html(index=False, border=0, float_format="{:.3g}".format)
        for table in tables
    ]
    return f"<div><p>{lines}</p>{''.join(shown)}</div>"
