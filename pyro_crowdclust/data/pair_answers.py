"""Pairwise answers: how they are stored, read from a table and checked."""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.tables import codes_and_ids, item_positions, reject, where

_WORDS = {"same": 1.0, "1": 1.0, "true": 1.0, "different": 0.0, "0": 0.0, "false": 0.0}


@dataclass(frozen=True, eq=False)
class Answers:
    """Pairwise answers in positions and codes, one row per answer.

    Attributes
    ----------
    left, right
        Positions of the two items in the data.
    worker
        Code of the worker, an index into `CrowdData.worker_ids`.
    label
        1 where the worker said "same", 0 where "different".
    page
        Code of the task in which the answer was given, an index into `CrowdData.page_ids`; None
        where the answers have no page.
    """

    left: Int[Tensor, " pair"]
    right: Int[Tensor, " pair"]
    worker: Int[Tensor, " pair"]
    label: Float[Tensor, " pair"]
    page: Int[Tensor, " pair"] | None = None

    @property
    def num_pairs(self) -> int:
        """Number of answers."""
        return len(self.left)


def _number(label: Any) -> float:
    """What a label that is no plain number says, perhaps in words; NaN for anything else."""
    if isinstance(label, str):
        return _WORDS.get(label.strip().lower(), math.nan)
    return float(label) if isinstance(label, numbers.Real | np.bool_) else math.nan


def read_answers(
    table: pd.DataFrame, item_ids: pd.Index, worker: Int[Tensor, " pair"]
) -> tuple[Answers, pd.Index]:
    """The answers in codes, and the page ids."""
    left, right = (item_positions("pairs", table[name], item_ids) for name in ("left", "right"))
    reject("pairs", table["left"], left == right, "an item paired with itself; drop the row")

    labels = table["label"].to_numpy()
    if labels.dtype.kind not in "biuf":
        labels = np.array([_number(label) for label in labels], dtype=np.float64)
    valid = (labels == 0) | (labels == 1)
    remedy = "neither 1 nor 0; write 1 or same, 0 or different"
    reject("pairs", table["label"], ~valid, remedy)

    page: Tensor | None = None
    page_ids: pd.Index = pd.Index([], dtype=object)
    if "page" in table:
        page, page_ids = codes_and_ids(table["page"], "pairs")
    answers = Answers(
        left=left,
        right=right,
        worker=worker,
        label=torch.from_numpy(labels.astype(np.float64)),
        page=page,
    )
    return answers, page_ids


def warn_about_repeats(answers: Answers, index: pd.Index) -> None:
    """Warn about answers that repeat an earlier one; ``index`` holds the user's row labels."""
    ends = torch.stack([answers.left, answers.right], dim=1).sort(dim=1).values
    codes = [ends, answers.worker[:, None], answers.label[:, None].long()]
    codes += [] if answers.page is None else [answers.page[:, None]]
    repeated = pd.DataFrame(torch.cat(codes, dim=1).numpy()).duplicated().to_numpy()
    if repeated.any():
        warnings.warn(
            f"{where('pairs', index, repeated)}: repeats an earlier answer (same items, worker and "
            "label); all are kept, remove them if they are copies",
            UserWarning,
            stacklevel=3,
        )
