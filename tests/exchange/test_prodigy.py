"""Prodigy's tasks and answers where there are classes; see test_formats.py for pairs."""

from __future__ import annotations

from pyro_crowdclust.exchange import Prodigy

from .small_crowd import (
    CLASSES,
    ITEMS,
    LABELS,
    SAID_OF_LABELS,
    expected_labels,
    in_prodigy,
    same_tables,
)


def test_labels_come_back_from_prodigy():
    form = Prodigy(classes=CLASSES)
    export = in_prodigy(form.tasks(LABELS, ITEMS), SAID_OF_LABELS)
    expected = expected_labels().assign(worker=["set-ann", "set-ann"])
    same_tables(form.answers(export), {"labels": expected}, 1)
