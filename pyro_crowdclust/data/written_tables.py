"""Answers as tables with the user's own ids, like those that were read."""

from __future__ import annotations

import pandas as pd

from pyro_crowdclust.data.class_labels import ClassLabels
from pyro_crowdclust.data.pair_answers import Answers, labels_of
from pyro_crowdclust.data.placements import Placements


def pairs_table(
    answers: Answers,
    *,
    items: pd.Index,
    workers: pd.Index,
    pages: pd.Index,
    grades: pd.Index,
    index: pd.Index | None = None,
) -> pd.DataFrame:
    """A row ``left, right, worker, label`` per answer, and ``page`` where there are pages.

    Examples
    --------
    >>> import torch
    >>> answers = Answers(*torch.tensor([[0], [2], [0]]), torch.tensor([1.0]))
    >>> ids = {"items": pd.Index(["ant", "bee", "cat"]), "workers": pd.Index(["ann"])}
    >>> pairs_table(answers, **ids, pages=pd.Index([]), grades=pd.Index([]))
      left right worker  label
    0  ant   cat    ann      1
    """
    columns = {
        "left": items[answers.left.numpy()],
        "right": items[answers.right.numpy()],
        "worker": workers[answers.worker.numpy()],
        "label": labels_of(answers, grades),
    }
    if answers.page is not None:
        columns["page"] = pages[answers.page.numpy()]
    return pd.DataFrame(columns, index=index)


def placements_table(
    placements: Placements, *, items: pd.Index, workers: pd.Index, pages: pd.Index
) -> pd.DataFrame:
    """A row ``page, item, worker, group`` per placement, page after page."""
    page = placements.page.numpy()
    return pd.DataFrame(
        {
            "page": pages[page],
            "item": items[placements.item.numpy()],
            "worker": workers[placements.worker.numpy()[page]],
            "group": placements.group.numpy(),
        }
    )


def labels_table(
    labels: ClassLabels,
    *,
    items: pd.Index,
    workers: pd.Index,
    classes: pd.Index,
    index: pd.Index | None = None,
) -> pd.DataFrame:
    """A row ``item, worker, label`` per class answer."""
    columns = {
        "item": items[labels.item.numpy()],
        "worker": workers[labels.worker.numpy()],
        "label": classes[labels.label.numpy()],
    }
    return pd.DataFrame(columns, index=index)
