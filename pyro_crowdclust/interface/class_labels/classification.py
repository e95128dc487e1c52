"""``classify``: class labels by workers and features of items, combined in one call.

There are two ways to combine labels and features, and neither is always better. In ``MomResp`` the
features are drawn given the class: it learns from items without labels, too, and is better while
labels are few. In ``LogResp`` the classes are regressed on the features: it makes no assumption
about the distribution of the features in a class. Both are tried in a few coordinates, and averaged
by how well they predict held-out labels. No true classes are needed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data import some_items
from pyro_crowdclust.data.tables import in_pandas
from pyro_crowdclust.errors import check_whole, count
from pyro_crowdclust.interface.candidates.deviating import about_deviating
from pyro_crowdclust.interface.candidates.forms import MAX_ITEMS
from pyro_crowdclust.interface.class_labels.calibrating import calibrated
from pyro_crowdclust.interface.class_labels.candidate_average import fitted_to_all
from pyro_crowdclust.interface.class_labels.candidates import class_candidates
from pyro_crowdclust.interface.class_labels.copies import copy_discounts, in_words
from pyro_crowdclust.interface.class_labels.infer_classes import infer_classes
from pyro_crowdclust.interface.class_labels.options import OF_FEATURES, shared_options
from pyro_crowdclust.interface.class_labels.search import ClassSearch
from pyro_crowdclust.interface.class_labels.second_labels import may_err_together
from pyro_crowdclust.interface.class_labels.trait import (
    AverageWithTrait,
    averaged_with_trait,
    fit_trait,
    shared_errors_in_words,
)
from pyro_crowdclust.interface.class_labels.trusted_reading import counts_in_words
from pyro_crowdclust.interface.class_labels.workers import Workers, codes_of_workers
from pyro_crowdclust.interface.option_checks import check_no_checkpoint, check_options
from pyro_crowdclust.results import with_step
from pyro_crowdclust.results.agreement import warn_of_contradictions
from pyro_crowdclust.results.chosen import INTERRUPTED
from pyro_crowdclust.training import is_interrupted
from pyro_crowdclust.training.option_checks import check_values


@torch.inference_mode(False)  # as some steps are trained outside of fit
def classify(
    features: Any,
    labels: Any,
    *,
    item_ids: Iterable[Hashable] | None = None,
    classes: Iterable[Hashable] | None = None,
    kinds: Mapping[Hashable, str] | None = None,
    trusted: Iterable[Hashable] = (),
    folds: int | None = None,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> Fitted:
    """The classes of all items, from features and from workers' labels of some of the items.

    Candidates are Gaussian classes, with a common covariance or with their own, and a softmax
    regression. They are on the columns as they are and made symmetric, or, if there are more than
    50 columns, on the first 20 and 40 principal directions. On up to 50 columns there are also
    Gaussian processes, whose classes may have any shape (``transforms.Landmarks``). Another
    candidate is the labels alone. The result is a model of their average (``AveragedPredictions``):
    a candidate has a weight in proportion to the square root of the probability of the held-out
    labels under it (``weight`` in the table), computed as if its features had misled it about half
    an item more, since to be right about a few items does not justify certainty. Candidates with a
    weight below .03 are left out, the others are fitted to all data. Features may count less than
    Gaussians imply (``feature_weight`` in the table). Candidates are tried on 2,000 items at most.

    The confusion matrices of workers vary around a common one, which is learned, or have a prior
    that is not learned; of each candidate and of the average, the fit with the larger ELBO is kept.
    (With one label an item, nothing can be learned about all workers together except that they
    agree with themselves.) Where some workers agree more often than the classes explain, as copies
    do, and answers predict features clearly better if these workers count as fewer independent ones
    (``discount_copies``), the model is fitted once more with discounted answers. Otherwise, for two
    classes, items with labels have the average with a trait of the items, as in ``infer_classes``,
    for workers who err about the same items. The features move its classes a quarter as much as if
    they told something else than the labels (``GivenFeatures``): they learn the classes from
    labels, and so the errors that all workers make.

    Missing features are integrated out by Gaussians on up to 50 columns, where numbers far from all
    others of their column count as missing, too; otherwise they are imputed from the other columns
    (``transforms.Filled``). Ctrl-C ends the trials with the average of the candidates so far
    (during the first trial with nothing), and ends the last fits at their current state. Without
    features the result is ``infer_classes`` of the labels; new items cannot be predicted.

    Parameters
    ----------
    features
        A row for every item, as for ``CrowdData``, or None. A column of categories is one-hot
        encoded.
    labels
        ``item, worker, label``, about any of the items.
    item_ids, classes, kinds
        As for ``CrowdData``, except that counts are treated like other numbers.
    trusted
        Workers who are always right, such as an expert. Pass labels that are certain, such as those
        of test questions, as labels of an additional worker.
    folds
        Number of parts of the labelled items, each held out once; by default three (two if there
        are only two labelled items).
    seed
        Of the parts and of the fits.
    progress
        Show the progress of the trials and of the last fit; without features, of each fit.
    options
        Of ``fit``, for all candidates.

    Returns
    -------
    The fit; see its ``class_probabilities``, ``predict_class_probabilities(new)`` and
    ``confusion``, and ``chosen`` for what was tried.

    Raises
    ------
    ValueError
        Where ``CrowdData`` raises one; if only one item has labels, there are fewer labelled items
        than folds, or a trusted worker gave no label; and for a checkpoint, as several fits are
        compared.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> kind = np.arange(60) % 2
    >>> features = rng.normal(size=(60, 2)) + 4 * kind[:, None]
    >>> said = {"item": range(20), "worker": ["ann", "ben"] * 10, "label": kind[:20]}
    >>> result = classify(features, said, folds=2, epochs=15, progress=False)
    >>> bool((result.class_probabilities.idxmax(axis=1) == kind).mean() > 0.95)
    True
    >>> new = np.array([[0.0, 0.0], [4.0, 4.0]])
    >>> result.predict_class_probabilities(new).idxmax(axis=1).tolist()
    [0, 1]
    """
    check_options(classify, options)
    _check_given(features, labels, kinds=kinds, folds=folds, seed=seed)
    if features is None:
        data = CrowdData(None, labels=labels, item_ids=item_ids, classes=classes)
        return infer_classes(data, trusted=trusted, seed=seed, progress=progress, **options)
    features = in_pandas(features)
    kinds = _as_numbers(features, kinds)
    data = CrowdData(features, labels=labels, item_ids=item_ids, classes=classes, kinds=kinds)
    folds = _folds(data, folds)
    options = OF_FEATURES | {"seed": seed, "progress": False} | options
    check_values(data, options)
    check_no_checkpoint(options)
    given = Workers(trusted=codes_of_workers(trusted, data))
    warn_of_contradictions(given.trusted, data)
    search = ClassSearch(items_to_try(data, seed), class_candidates(data), options, folds, given)
    reason = search.run(progress)

    last = options | {"progress": progress}
    fitted = partial(fitted_to_all, search.trials, data, last)
    result = fitted(given)
    trait = None
    if data.num_classes == 2 and not (given.trusted or is_interrupted(result)):
        of_trait = shared_options(last)
        trait = fit_trait(data, **of_trait)
    worker_weights = None if is_interrupted(result) else copy_discounts(result, trait)
    if worker_weights is not None:
        result = fitted(given._replace(worker_weights=worker_weights))
        reason += f"; {in_words(worker_weights, data)}"
    result = calibrated(result)
    if trait is not None and worker_weights is None and may_err_together(data):
        result = with_step(averaged_with_trait(result, trait), AverageWithTrait(of_trait))
        if words := shared_errors_in_words(result):
            reason += f"; {words}"
    if counts := counts_in_words(result):
        reason += f"; {counts}"
    reason += _about_deviating(result, data)
    result = replace(result, chosen=search.chosen(reason))
    return replace(result, stop_reason=INTERRUPTED) if search.interrupted else result


def _about_deviating(result: Fitted, data: CrowdData) -> str:
    """``about_deviating`` of the first member of an average that leaves numbers out."""
    members = getattr(result.model, "members", ())
    notes = [about_deviating(model, data) for model in (result.model, *(m.model for m in members))]
    return next(filter(None, notes), "")


def _check_given(features: Any, labels: Any, *, kinds: Any, folds: int | None, seed: int) -> None:
    """Raise a ``ValueError`` about arguments of ``classify`` that can be checked without data."""
    check_whole("seed", seed)
    if folds is not None:
        check_whole("folds", folds)
    if getattr(labels, "ndim", 2) == 1 or (isinstance(labels, list) and not _are_rows(labels)):
        raise ValueError(
            "labels are a single list, but must be a table of who said what: pass {'item': ids, "
            "'worker': 'me', 'label': labels} for the items that have a label"
        )
    if features is None and (kinds or folds is not None):
        raise ValueError(
            "kinds and folds need features: pass features, or leave kinds and folds out"
        )


def _folds(data: CrowdData, folds: int | None) -> int:
    """The number of parts of the labelled items; raises a ``ValueError`` if there are too few."""
    number = 0 if data.class_labels is None else len(data.class_labels.labelled_items)
    if number < 2:
        raise ValueError(
            f"there are labels of {count(number, 'item')}, but labels of at least two are needed, "
            "as some are held out: label more items"
        )
    return min(3, number) if folds is None else folds


def _are_rows(labels: list[Any]) -> bool:
    """Whether a list contains rows of a table."""
    return all(hasattr(row, "__len__") and not isinstance(row, str) for row in labels)


def items_to_try(data: CrowdData, seed: int) -> CrowdData:
    """At most ``MAX_ITEMS`` random items, those with labels first."""
    if data.num_items <= MAX_ITEMS:
        return data
    rng = np.random.default_rng(seed)
    labelled = rng.permutation(data.needed_class_labels.labelled_items.numpy())
    others = rng.permutation(np.setdiff1d(np.arange(data.num_items), labelled))
    kept = np.concatenate([labelled, others])[:MAX_ITEMS]
    return some_items(data, torch.from_numpy(np.sort(kept)))


def _as_numbers(features: Any, kinds: Mapping[Hashable, str] | None) -> dict[Hashable, str]:
    """What columns hold, with counts, given or inferred, declared as real numbers."""
    found: dict[Hashable, str] = {}
    if isinstance(features, pd.DataFrame):
        found = dict.fromkeys(features.select_dtypes("number").columns, "real")
    given = {name: "real" if kind == "count" else kind for name, kind in (kinds or {}).items()}
    return found | given
