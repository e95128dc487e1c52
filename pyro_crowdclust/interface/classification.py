"""Class labels and features in one call: classes of all items, of new ones, and workers.

Labels and features can be joined in two ways, and neither is always better: classes that the
features are drawn from (``MomResp``), which learns from items without labels, too, and is ahead
while labels are few; and classes regressed on the features (``LogResp``), which does not mind what
the features of a class look like. Both are tried in a few coordinates, and what decides is how
well labels of items are predicted whose labels were kept out of the fit. No truth is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import CommunityConfusion
from pyro_crowdclust.callbacks import LearnedPrior
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_labels import infer_classes
from pyro_crowdclust.interface.coordinates import (
    in_common_units,
    power_transformed,
    projected,
    standardized,
    varying,
)
from pyro_crowdclust.interface.forms import MOST_FULL, MOST_ITEMS
from pyro_crowdclust.interface.held_out import some_items
from pyro_crowdclust.mixture import GaussianComponents, SoftmaxRegression
from pyro_crowdclust.models import LogResp, MomResp
from pyro_crowdclust.results import held_out_log_probability
from pyro_crowdclust.results.chosen import Chosen
from pyro_crowdclust.training import Stopping

# Of more columns than MOST_FULL so many principal directions are taken.
_DIRECTIONS = (20, 40)
# More pseudo-items than there are items: all classes share one covariance, which is learned.
_SHARED = 1000.0
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
    folds: int = 3,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> Fitted:
    """The classes of all items, by features and by what workers said the classes of some are.

    Candidates are Gaussians of each class, with one covariance or with their own, and a softmax
    regression, on the columns as they are and made symmetric, or, of more than 50 columns, on the
    first 20 and 40 principal directions; and the labels alone, where features tell nothing. The
    one under which held-out labels are likeliest is fitted to all data, if it is clearly better
    than the labels alone; candidates are tried on 2,000 items at most. Workers have confusion
    matrices around a common one, which is learned.

    Parameters
    ----------
    features
        Numbers, a row for every item, as for ``CrowdData``; without gaps. Columns of categories
        become numbers by ``pandas.get_dummies``.
    labels
        ``item, worker, label``, about any of the items.
    item_ids, classes
        As for ``CrowdData``.
    folds
        Parts of the labelled items, each held out once.
    seed
        Of the parts and of the fits.
    progress
        Show how far the last fit is.
    options
        Of ``fit``, for all candidates.

    Returns
    -------
    The fit; ``class_probabilities``, ``predict_class_probabilities(new)`` and ``confusion`` are
    what most want of it, ``chosen`` what was tried.

    Raises
    ------
    ValueError
        For what ``CrowdData`` refuses, features with gaps, and fewer labelled items than folds.

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
    data = CrowdData(
        features, labels=labels, item_ids=item_ids, classes=classes, kinds=_as_numbers(features)
    )
    columns = {} if data.columns is None else data.columns.table()["kind"].to_dict()
    categories = [name for name, kind in columns.items() if kind == "category"]
    if categories:
        raise ValueError(
            f"feature column {categories[0]!r} holds categories, which a classification cannot "
            "use: pass pandas.get_dummies(features)"
        )
    if data.has_gaps:
        raise ValueError(
            f"{data.num_missing} features are missing, which a classification cannot use: fill "
            "them in, or drop their rows or columns"
        )
    options = _OPTIONS | {"seed": seed, "progress": False} | options
    search = _Search(_some_items(data, seed), options, folds)
    search.add("none", "labels alone", _alone)
    for name, emission in _coordinates(data).items():
        for kind, make in _KINDS.items():
            search.add(name, kind, partial(make, emission))
    winner, reason = search.winner()
    result = winner.fit(data, options | {"progress": progress})
    return replace(result, chosen=search.chosen(winner, reason))


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


def _as_numbers(features: Any) -> dict[Hashable, str] | None:
    """Counts are numbers like others here."""
    if not isinstance(features, pd.DataFrame):
        return None
    numbers = features.select_dtypes("number").columns
    return dict.fromkeys(numbers, "real")


def _coordinates(data: CrowdData) -> dict[str, Identity]:
    assert data.features is not None  # as classify was given
    num_features = int(np.prod(data.features.shape[1:]))
    if num_features <= MOST_FULL:
        places = {"columns": standardized, "powers": power_transformed}
        return {name: varying(place, data) for name, place in places.items()}
    inner = in_common_units(data)
    most = min(num_features, data.num_items) - 1
    return {
        f"{number} directions": projected(data, inner, number, whiten=True)
        for number in sorted({min(number, most) for number in _DIRECTIONS})
    }


def _size(emission: Identity, data: CrowdData) -> int:
    return emission.latent(data.rows(torch.zeros(1, dtype=torch.int64))).shape[1]


def _workers(data: CrowdData) -> CommunityConfusion:
    return CommunityConfusion(data.num_workers, data.num_classes, 1)


# Fits of some data, with options of fit.
_Fit = Callable[[CrowdData, dict[str, Any]], Fitted]


def _gaussians(
    emission: Identity,
    data: CrowdData,
    options: dict[str, Any],
    *,
    least_degrees: float = 0.0,
) -> Fitted:
    dim = _size(emission, data)
    components = GaussianComponents(data.num_classes, dim, least_degrees=least_degrees)
    model = MomResp(components, _workers(data), emission=emission)
    return fit(model, ClassLabelGuide(model), data, callbacks=[LearnedPrior()], **options)


def _regression(emission: Identity, data: CrowdData, options: dict[str, Any]) -> Fitted:
    regression = SoftmaxRegression(data.num_classes, _size(emission, data))
    model = LogResp(regression, _workers(data), emission)
    return fit(model, ClassLabelGuide(model), data, **options)


def _alone(data: CrowdData, options: dict[str, Any]) -> Fitted:
    own = {name: options[name] for name in ("seed", "progress")}
    return infer_classes(data, num_communities=(1,), **own)


# Models of labels and features, in words.
_KINDS: dict[str, Callable[[Identity, CrowdData, dict[str, Any]], Fitted]] = {
    "Gaussians of one covariance": partial(_gaussians, least_degrees=_SHARED),
    "full Gaussians": _gaussians,
    "regression": _regression,
}


@dataclass(frozen=True)
class _Trial:
    """A candidate, in words and as a fit, and how well it predicts held-out labels."""

    features: str
    kind: str
    fit: _Fit
    held_out: float
    seconds: float


class _Search:
    """Candidates, each tried as it is added, on the same parts of the labelled items."""

    def __init__(self, data: CrowdData, options: dict[str, Any], folds: int) -> None:
        self._data, self._options, self._folds = data, options, folds
        self._trials: list[_Trial] = []

    def add(self, features: str, kind: str, fit_some: _Fit) -> None:
        """Fit it once for each part."""
        start = time.perf_counter()
        seed = self._options["seed"]
        held_out = held_out_log_probability(
            self._data, lambda part: fit_some(part, self._options), self._folds, seed
        )
        seconds = time.perf_counter() - start
        self._trials.append(_Trial(features, kind, fit_some, held_out, seconds))

    def winner(self) -> tuple[_Trial, str]:
        """The one that predicts held-out labels best, if clearly better than labels alone, and why.

        By more than the standard error of a mean of so many numbers that deviate by a nat.
        """
        alone, best = self._trials[0], max(self._trials, key=lambda trial: trial.held_out)
        if best.held_out > alone.held_out + self._data.num_labels**-0.5:
            return best, "it predicts held-out labels best"
        return alone, "with features held-out labels are not predicted clearly better"

    def chosen(self, winner: _Trial, reason: str) -> Chosen:
        """What was tried; the first trial tells what features add to."""
        columns = {
            "features": [trial.features for trial in self._trials],
            "kind": [trial.kind for trial in self._trials],
            "components": self._data.num_classes,
            "held_out": [trial.held_out for trial in self._trials],
            "seconds": [trial.seconds for trial in self._trials],
            "chosen": [trial is winner for trial in self._trials],
        }
        return Chosen(pd.DataFrame(columns), reason, self._trials[0].held_out)
