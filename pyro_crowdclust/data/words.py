"""The parts of the data in a few words, for their ``repr``."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.data.class_labels import ClassLabels
from pyro_crowdclust.data.columns import Columns
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.placements import Placements
from pyro_crowdclust.errors import count


def features_in_words(features: Any | None, columns: Columns | None, num_missing: int) -> list[str]:
    """The kind of features that items have, and how many values are missing.

    Examples
    --------
    >>> import numpy as np
    >>> features_in_words(np.zeros((5, 3)), None, 2)
    ['features float64 [3]', '2 missing values']
    """
    if features is None:
        return ["no features"]
    dtype = str(features.dtype).removeprefix("torch.")
    held = f"{dtype} {list(features.shape[1:])}"
    if columns is not None and {*columns.kinds} != {"real"}:
        held = f"{columns}"
    return [f"features {held}", *([count(num_missing, "missing value")] if num_missing else [])]


def class_labels_in_words(labels: ClassLabels) -> str:
    """How many labels there are, of how many classes, on how many items and by how many workers."""
    items, workers = count(len(labels.labelled_items), "item"), count(labels.num_workers, "worker")
    return f"{count(len(labels), 'label')} of {labels.num_classes} classes on {items} by {workers}"


def answers_in_words(
    answers: Answers | Placements,
    num_workers: int,
    num_pages: int,
    is_sorted: bool,
    num_rows: int | None = None,
) -> str:
    """How many answers about pairs or placements there are, and how many pages.

    ``num_rows`` is how many there are in all, if not all of them count.
    """
    if isinstance(answers, Placements):
        number, items, kind = count(len(answers), "placement"), answers.item, ""
    else:
        number, items = count(answers.num_pairs, "answer"), answers.items
        if num_rows is not None:
            number = f"{count(num_rows, 'answer')} (of which {answers.num_pairs} count)"
        kind = " sorted into groups" if is_sorted else ""
    single = _single_pairs(answers)
    pages = f" in {count(num_pages - single, 'page')}{kind}" if num_pages else ""
    pages += f" and {count(single, 'single pair')}" if single else ""
    return (
        f"{number} by {count(num_workers, 'worker')} on {count(len(items.unique()), 'item')}{pages}"
    )


def _single_pairs(answers: Answers | Placements) -> int:
    """How many pages have one pair each, where others have more."""
    if isinstance(answers, Placements) or answers.page is None:
        return 0
    sizes = torch.bincount(answers.page)
    single = int((sizes == 1).sum())
    return single if single < int((sizes > 0).sum()) else 0


def known_in_words(known: Int[Tensor, " item"], known_ids: pd.Index) -> str:
    """How many labels are known, and how many different ones."""
    return f"{count(int((known >= 0).sum()), 'known label')} of {count(len(known_ids), 'kind')}"
