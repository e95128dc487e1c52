"""Advice about workers: who lapsed, who err together, and whose labels say nothing."""

from __future__ import annotations

import pandas as pd
import torch

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.diagnostics import find_lapses
from pyro_crowdclust.errors import count, listed, show
from pyro_crowdclust.interface.choosing.shared_mistakes import find_shared_mistakes
from pyro_crowdclust.interface.class_labels.constant_workers import say_nothing
from pyro_crowdclust.protocols import SupportsLapses, SupportsPartition, part_of
from pyro_crowdclust.results import Fitted

# Pages that are careless with more than this probability should be left out.
_CARELESS = 0.9
# So many workers are named.
_NAMED = 3


def about_lapses(result: Fitted) -> list[str]:
    """Advice where pages of pairs look careless."""
    data = result.data
    if data.answers is None or not data.has_pages:
        return []
    has_lapses = part_of(result.model, "annotators", SupportsLapses) is not None
    if len(data.grade_ids) and not has_lapses:
        return []
    careless = find_lapses(result)["careless"]
    number = int((careless > _CARELESS).sum())
    if not number:
        return []
    page, worker = careless.index[int(careless.argmax())]
    what = "the fit gives them little weight" if has_lapses else "leave them out, and fit again"
    return [
        f"{number} of {len(careless)} pages of pairs look as if they were answered without "
        f"looking, above all page {page} of worker {worker} (see diagnostics.find_lapses): {what}"
    ]


def about_shared_mistakes(result: Fitted) -> list[str]:
    """Advice where two workers confirm each other's mistakes, which a choice has left out."""
    if result.chosen is not None and not isinstance(result.guide, SupportsPartition):
        said, done = result.chosen.shared_mistakes, ", which are left out of the fit"
    else:
        shared, done = find_shared_mistakes(result.data, result.seed), ""
        said = "" if shared is None else shared.sentence(result.data)
    if not said:
        return []
    return [
        f"{said}{done}; ask others about the same items, and if these two copy each other or are "
        "runs of one model, keep the answers of only one"
    ]


def about_other_view(result: Fitted) -> list[str]:
    """Advice where workers see other clusters, and agree with each other about these."""
    chosen = result.chosen
    return [chosen.other_view] if chosen is not None and chosen.other_view else []


def about_open_rates(result: Fitted) -> list[str]:
    """Advice where answers are all "same", or all "different": rates do not follow from these."""
    answers = result.data.answers
    if answers is None or len(result.data.grade_ids) or len(answers.label.unique()) > 1:
        return []
    word = "same" if answers.label[0] == 1 else "different"
    return [
        f'all answers are "{word}", from which the rates of workers cannot be told: those of the '
        "result, and their intervals, mean nothing; pass the other answers, too"
    ]


def about_constant_labels(data: CrowdData) -> list[str]:
    """Advice where workers always give the same label, whatever the item."""
    if data.class_labels is None:
        return []
    codes = torch.where(say_nothing(data))[0].numpy()
    if not len(codes):
        return []
    names = listed(list(data.worker_ids[codes]), _NAMED)
    return [
        "some workers always give the same label, whatever the item, which says nothing about it "
        f"(in workers: {names}): leave their labels out, or ask them again"
    ]


def about_other_labels(data: CrowdData) -> list[str]:
    """Advice where a worker gives two classes to one item, and how much these count."""
    labels = data.class_labels
    if labels is None:
        return []
    given = pd.DataFrame({"item": labels.item, "worker": labels.worker, "label": labels.label})
    classes = given.drop_duplicates().groupby(["item", "worker"], as_index=False).size()
    several = classes[classes["size"] > 1]
    if several.empty:
        return []
    first = several.iloc[0]
    item, worker = data.item_ids[first["item"]], data.worker_ids[first["worker"]]
    counted = "all of them count"
    if labels.weight is not None:
        of_each = pd.Series(labels.weight.numpy()).groupby(labels.source.numpy())
        together = of_each.sum()[of_each.size() > 1].mean()
        counted = (
            "answers that a worker repeats about an item count together as those of "
            f"{together:.1f} workers in the mean, as far as they are independent"
        )
    return [
        f"workers give two classes or more to one item in {count(len(several), 'case')}, such as "
        f"{show(worker)} to {show(item)}, and {counted}: if only one is meant, keep that"
    ]
