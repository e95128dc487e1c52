"""Class labels and features in one call: classes of all items, of new ones, and workers.

Labels and features can be joined in two ways, and neither is always better: classes that the
features are drawn from (``MomResp``), which learns from items without labels, too, and is ahead
while labels are few; and classes regressed on the features (``LogResp``), which does not mind what
the features of a class look like. Both are tried in a few coordinates, and what decides is how
well labels of items are predicted whose labels were kept out of the fit. No truth is needed.
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
from pyro_crowdclust.data.some_items import some_items
from pyro_crowdclust.data.tables import count, in_pandas
from pyro_crowdclust.errors import check_whole, warnings_once
from pyro_crowdclust.interface.candidates.deviating import about_deviating
from pyro_crowdclust.interface.candidates.forms import MOST_ITEMS
from pyro_crowdclust.interface.class_choice.candidates import class_candidates
from pyro_crowdclust.interface.class_choice.copies import in_words, worth_of_copies
from pyro_crowdclust.interface.class_choice.search import ClassSearch, ClassTrial
from pyro_crowdclust.interface.class_choice.workers import Workers
from pyro_crowdclust.interface.class_labels import codes_of_workers, infer_classes
from pyro_crowdclust.interface.options import check_no_checkpoint, check_options
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.results.agreement import warn_of_contradictions
from pyro_crowdclust.results.chosen import INTERRUPTED, Chosen
from pyro_crowdclust.results.sharpness import read_at
from pyro_crowdclust.training import Stopping, is_interrupted
from pyro_crowdclust.training.options import check_values

_OPTIONS: dict[str, Any] = {
    "batch_size": None,
    "step_size": 0.7,
    "epochs": 60,
    "optim": partial(torch.optim.Adam, lr=0.05),
    "stopping": Stopping(1e-4),
    "dtype": torch.float64,
}


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
    """The classes of all items, by features and by what workers said the classes of some are.

    Candidates are Gaussians of each class, with one covariance or with their own, and a softmax
    regression, on the columns as they are and made symmetric, or, of more than 50 columns, on the
    first 20 and 40 principal directions; on up to 50 columns Gaussian processes, whose classes may
    have any shape (``transforms.Landmarks``); and the labels alone. Of those that tell anything of
    held-out labels beyond chance (at a level of .05; of fewer than 20 items, that gain half a nat
    in all) the one is fitted to all data under which these are likeliest, as if it had been misled
    about half an item more: to have been right about a few is no reason to be sure. Features may
    count less than Gaussians say (``feature_weight`` in the table). Where none tells anything, it
    is the labels alone. Candidates are tried on 2,000 items at most.

    Workers have confusion matrices around a common one, which is learned, or under a prior that is
    not, whichever has the larger ELBO in the end: of one label an item nothing can be learned of
    all workers but that they agree with themselves. Where some agree more often than the classes
    explain, as copies do, and answers say clearly more of the features if they count as far as they
    are voices of their own (``discount_copies``), it is fitted once more with such answers.

    Missing features are integrated out by Gaussians on up to 50 columns, where numbers far from all
    others of their column count as missing, too; else they are filled with what the other columns
    let expect (``transforms.Filled``). Ctrl-C ends the trials with the best so far (in the first of
    them with nothing), and the last fits where they are. Without features it is ``infer_classes``
    of the labels, once more with such answers where copies explain best why some workers agree,
    which is ``chosen`` then; nothing is known of new items.

    Parameters
    ----------
    features
        A row for every item, as for ``CrowdData``, or None. A column of categories counts as a
        number for each of them, 1 for the own one and 0 for all others.
    labels
        ``item, worker, label``, about any of the items.
    item_ids, classes, kinds
        As for ``CrowdData``; but counts are numbers like others here.
    trusted
        Workers who are always right, such as an expert: give what is known for sure of some items,
        as of questions that were asked to try the crowd, as labels of one worker more.
    folds
        Parts of the labelled items, each held out once; by default three, or two of two items.
    seed
        Of the parts and of the fits.
    progress
        Show how far the last fit is; without features each one.
    options
        Of ``fit``, for all candidates.

    Returns
    -------
    The fit; ``class_probabilities``, ``predict_class_probabilities(new)`` and ``confusion`` are
    what most want of it, ``chosen`` what was tried.

    Raises
    ------
    ValueError
        For what ``CrowdData`` refuses, labels of one item alone, fewer labelled items than folds,
        somebody trusted who gave no label, and a checkpoint, as several fits are compared.

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
        return _by_labels_alone(data, trusted=trusted, seed=seed, progress=progress, **options)
    features = in_pandas(features)
    kinds = _as_numbers(features, kinds)
    data = CrowdData(features, labels=labels, item_ids=item_ids, classes=classes, kinds=kinds)
    folds = _folds(data, folds)
    options = _OPTIONS | {"seed": seed, "progress": False} | options
    check_values(data, **options)
    check_no_checkpoint(options)
    given = Workers(trusted=codes_of_workers(trusted, data))
    warn_of_contradictions(given.trusted, data)
    search = ClassSearch(_some_items(data, seed), class_candidates(data), options, folds, given)
    winner, reason = search.run(progress)

    fitted = partial(_best_fit, winner, data, options | {"progress": progress})
    result = fitted(given)
    worth = None if is_interrupted(result) else worth_of_copies(result)
    if worth is not None:
        result = fitted(given._replace(worth=worth))
        reason += f"; {in_words(worth, data)}"
    reason += about_deviating(result.model, data)
    result = replace(result, chosen=search.chosen(winner, reason))
    return replace(result, stop_reason=INTERRUPTED) if search.interrupted else result


def _check_given(features: Any, labels: Any, *, kinds: Any, folds: int | None, seed: int) -> None:
    """Raise a ``ValueError`` about arguments of ``classify`` that no data need be read for."""
    check_whole("seed", seed)
    if folds is not None:
        check_whole("folds", folds)
    if getattr(labels, "ndim", 2) == 1 or (isinstance(labels, list) and not _are_rows(labels)):
        raise ValueError(
            "labels are in one row, but must be a table of who said what: pass {'item': ids, "
            "'worker': 'me', 'label': labels} of the items that have one"
        )
    if features is None and (kinds or folds is not None):
        raise ValueError(
            "kinds and folds are for labels with features: pass features, or leave them out"
        )


def _folds(data: CrowdData, folds: int | None) -> int:
    """Into how many parts the labelled items are parted."""
    number = 0 if data.class_labels is None else len(data.class_labels.labelled_items)
    if number < 2:
        raise ValueError(
            f"there are labels of {count(number, 'item')}, but at least two are needed, as "
            "those of some are held out: label more"
        )
    return min(3, number) if folds is None else folds


def _best_fit(
    winner: ClassTrial, data: CrowdData, options: dict[str, Any], workers: Workers
) -> Fitted:
    """The fit of the winner with the largest ELBO, under priors of workers that err alike or not.

    Where somebody is trusted, it can be learned that all others err in the same way.
    """
    numbers = (1,) if workers.trusted else (1, 0)
    each = (workers._replace(num_communities=number) for number in numbers)
    fits = (partial(winner.candidate.fit, data, options, one) for one in each)
    return read_at(best_first(fits)[0], winner.sharpness)


@warnings_once()
def _by_labels_alone(data: CrowdData, **options: Any) -> Fitted:
    """``infer_classes``, once more where some workers copy others."""
    result = infer_classes(data, **options)
    worth = None if is_interrupted(result) else worth_of_copies(result)
    if worth is None:
        return result
    again = infer_classes(data, worth=worth, **options)
    row = {"features": "none", "components": data.num_classes, "held_out": np.nan}
    table = pd.DataFrame(
        [
            row | {"kind": "independent workers", "seconds": result.seconds, "chosen": False},
            row | {"kind": "copies discounted", "seconds": again.seconds, "chosen": True},
        ]
    )
    return replace(again, chosen=Chosen(table, in_words(worth, data)))


def _are_rows(labels: list[Any]) -> bool:
    """Whether a list holds the rows of a table."""
    return all(hasattr(row, "__len__") and not isinstance(row, str) for row in labels)


def _some_items(data: CrowdData, seed: int) -> CrowdData:
    """Those with labels, and others as far as there is room, all drawn at random."""
    if data.num_items <= MOST_ITEMS:
        return data
    assert data.class_labels is not None  # as classify was given
    rng = np.random.default_rng(seed)
    labelled = rng.permutation(data.class_labels.labelled_items.numpy())
    others = rng.permutation(np.setdiff1d(np.arange(data.num_items), labelled))
    kept = np.concatenate([labelled, others])[:MOST_ITEMS]
    return some_items(data, torch.from_numpy(np.sort(kept)))


def _as_numbers(features: Any, kinds: Mapping[Hashable, str] | None) -> dict[Hashable, str]:
    """What columns hold: counts are numbers like others here, and so are numbers that might be."""
    found: dict[Hashable, str] = {}
    if isinstance(features, pd.DataFrame):
        found = dict.fromkeys(features.select_dtypes("number").columns, "real")
    given = {name: "real" if kind == "count" else kind for name, kind in (kinds or {}).items()}
    return found | given
