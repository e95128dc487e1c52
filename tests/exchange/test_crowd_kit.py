"""Frames of crowd-kit, of answers and of questions; see test_peers.py for the package itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.exchange import CrowdAnswers, CrowdKit, PlainCsv

from .small_crowd import LABELS, PAIRS, expected_labels, expected_pages, expected_pairs, same_tables


def test_frames_of_crowd_kit_come_back():
    form = CrowdKit()
    for name, table in (("pairs", expected_pairs()), ("labels", expected_labels())):
        answers = CrowdAnswers.of_tables(**{name: table})
        frame = form.frame(answers)
        assert frame.columns[:3].tolist() == ["task", "worker", "label"]
        same_tables(form.answers(frame), {name: table}, 0)
    assert form.tasks(PAIRS)["task"].nunique() == len(PAIRS)


@pytest.mark.parametrize("nothing", [None, np.nan, " ", "Can\u2019t tell"])
def test_a_label_that_a_frame_of_crowd_kit_lacks_is_unanswered(nothing):
    """As it is in a plain table of the same."""
    labels = LABELS.assign(label=["insect", nothing, "mammal"])
    pairs = PAIRS.assign(label=[1, 0, nothing, 1])
    for plain, task in ((labels, labels["item"]), (pairs, pairs["left"] + pairs["right"])):
        expected = PlainCsv().answers(plain)
        found = CrowdKit().answers(plain.assign(task=task))
        same_tables(found, expected.tables(), 1)
        assert found.unanswered.equals(expected.unanswered)
    with pytest.raises(ValueError, match="answers row 1 .*: worker is missing"):
        CrowdKit().answers({"task": ["a", "b"], "worker": ["ann", None], "label": [None, "ant"]})


def test_tasks_of_crowd_kit_are_pairs_without_order():
    pairs = pd.DataFrame(
        {
            "left": ["a", "b", "a | b", "a", "a", "a\\", "a"],
            "right": ["b", "a", "c", "b | c", "\\", "", "\\"],
        }
    )
    answers = CrowdAnswers.of_tables(pairs=pairs.assign(worker="ann", label=1))
    tasks = CrowdKit().frame(answers)["task"]
    assert tasks[0] == tasks[1] == "a | b"
    assert tasks[4] == tasks[6]
    assert tasks.nunique() == 5
    asked = CrowdKit().tasks(pairs[:4])
    assert asked["task"].tolist() == tasks[:4].tolist()
    assert asked[["left", "right"]].equals(pairs[:4])
    said = pairs[:4].assign(worker="ann", label=["same", "Yes", "no", "1"])
    found = CrowdKit().frame(CrowdAnswers.of_tables(pairs=said))["label"]
    assert found.tolist() == ["same", "same", "no", "same"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"pairs": expected_pairs(), "labels": expected_labels()},
            "about pairs and class labels",
        ),
        ({"placements": expected_pages()}, "crowd-kit has no sorted pages: pass the pairs"),
    ],
)
def test_answers_of_which_crowd_kit_has_no_frame(tables, message):
    with pytest.raises(ValueError, match=message):
        CrowdKit().frame(CrowdAnswers.of_tables(**tables))
