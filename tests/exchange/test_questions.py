"""What may be asked, what there is to choose from, and what is no answer."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.exchange import Argilla, LabelStudio, PlainCsv, Prodigy

from .small_crowd import (
    CANNOT_TELL,
    ITEMS,
    LABELS,
    PAGES,
    PAIRS,
    STUDIO,
    in_argilla,
    in_label_studio,
)


@pytest.mark.parametrize("classes", [range(3), np.arange(3), pd.Index([0, 1, 2]), (0, 1, 2)])
def test_classes_are_any_sequence(classes):
    questions = pd.DataFrame({"item": [5]})
    configuration = LabelStudio(classes=classes).files(questions)["labelling.xml"]
    assert re.findall('Choice value="(.*)"', configuration) == ["0", "1", "2", "can't tell"]
    (task,) = json.loads(json.dumps(Prodigy(classes=classes).tasks(questions)))
    assert [option["id"] for option in task["options"]] == ["0", "1", "2"]
    assert Prodigy().answers([{**task, "answer": "accept", "accept": ["2"]}]).labels[
        "label"
    ].tolist() == ["2"]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("insect", "is 'insect': pass a list of classes"),
        ([1, "1"], "has '1' twice: name every"),
        (["insect", "Unsure"], "has 'Unsure', which is read as no answer: leave it out"),
    ],
)
@pytest.mark.parametrize("form", [LabelStudio, Prodigy])
def test_classes_that_are_none(form, classes, message):
    with pytest.raises(ValueError, match=f"{form.__name__}.classes=. {message}"):
        form(classes=classes).files(LABELS)


@pytest.mark.parametrize("words", CANNOT_TELL)
def test_who_cannot_tell_gave_no_answer_however_it_is_written(words):
    """An apostrophe of a word processor, another case, blanks around it."""
    for form, answered in ((STUDIO, in_label_studio), (Argilla(), in_argilla)):
        for questions in (PAIRS, LABELS):
            export = answered(form.tasks(questions, ITEMS), [words] * len(questions))
            assert form.answers(export).tables() == {}
            assert len(form.answers(export).unanswered) == len(questions)
    groups = [{"a": "1", "b": words, "c": words}, {"d": words, "e": words}]
    placements = STUDIO.answers(in_label_studio(STUDIO.tasks(PAGES, ITEMS), groups)).placements
    assert placements["item"].tolist() == ["a"]


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ({"x": [1]}, "questions have neither columns left, right"),
        ({"left": ["a"], "right": [None]}, "right is missing"),
        ({"item": [1.5]}, "item is 1.5, but ids in files are texts or integers"),
        ({"page": [1, 1], "item": ["a", "a"]}, "page 1 has the item 'a' twice"),
        ({"page": [1, 1], "item": ["a", "b"], "worker": ["ann", "ben"]}, "is for several workers"),
    ],
)
def test_questions_that_are_none(questions, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        PlainCsv().tasks(pd.DataFrame(questions))
