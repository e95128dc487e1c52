"""Annotations of Label Studio: whose they are, and which of them count."""

from __future__ import annotations

import copy
import json

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.exchange import LabelStudio

from .small_crowd import ITEMS, PAGES, PAIRS, SAID_OF_PAGES, STUDIO, annotation, in_label_studio


def test_integers_stay_integers_in_json():
    pairs = pd.DataFrame({"left": np.array([1, 2]), "right": np.array([3, 4])})
    tasks = json.loads(json.dumps(STUDIO.tasks(pairs.assign(worker="ann"))))
    answers = STUDIO.answers(in_label_studio(tasks, ["same", "same"]))
    assert answers.pairs["right"].tolist() == [3, 4]


def test_the_last_of_two_annotations_by_one_person_counts():
    (task,) = in_label_studio(STUDIO.tasks(PAIRS[:1], ITEMS), ["same"])
    late = annotation("ann", "answer", "choices", {"choices": ["different"]})
    early = copy.deepcopy(task["annotations"][0])
    late["updated_at"], early["updated_at"] = "2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"
    task["annotations"] = [late, early]
    assert STUDIO.answers([task]).pairs["label"].tolist() == [0]


def test_cancelled_annotations_are_no_answers():
    (task,) = in_label_studio(STUDIO.tasks(PAIRS[:1], ITEMS), ["same"])
    task["annotations"][0]["was_cancelled"] = True
    answers = STUDIO.answers([task])
    assert answers.tables() == {}
    assert answers.unanswered[["left", "right", "worker"]].to_numpy().tolist() == [
        ["a", "b", "ann"]
    ]


@pytest.mark.parametrize(
    ("who", "name"),
    [(7, "ann"), (9, "9"), ({"id": 9, "email": "z@x.org"}, "z@x.org"), ({"id": 7}, "ann")],
)
def test_people_of_label_studio_have_names(who, name):
    (task,) = in_label_studio(STUDIO.tasks(PAIRS[:1], ITEMS), ["same"])
    task["annotations"][0]["completed_by"] = who
    found = STUDIO.answers([task]).pairs
    assert found["worker"].tolist() == [name]
    assert found["seconds"].tolist() == [2.5]


def test_an_item_that_was_not_on_the_page():
    tasks = STUDIO.tasks(PAGES, ITEMS)
    export = in_label_studio(tasks, SAID_OF_PAGES.values())
    export[0]["annotations"][0]["result"][0]["value"]["ranker"]["1"].append("z")
    with pytest.raises(ValueError, match="task 1, annotation 1, result 1, value, ranker: '1' has"):
        STUDIO.answers(export)


def own_project(**data):
    """A task of a project that was not made by this library."""
    said = annotation("ann", "mood", "choices", {"choices": ["glad"]})
    return {"data": data, "annotations": [said]}


def test_labels_of_a_project_of_ones_own():
    form = LabelStudio(control="mood", item="id", workers={7: "ann"})
    tasks = [own_project(id="a", text="Well!"), own_project(id=3, text="Oh.")]
    labels = form.answers(tasks).labels
    assert labels[["item", "worker", "label"]].to_numpy().tolist() == [
        ["a", "ann", "glad"],
        [3, "ann", "glad"],
    ]
    tasks[1]["predictions"] = [
        {"model_version": "m1", "result": tasks[1]["annotations"][0]["result"]}
    ]
    assert form.answers(tasks).labels["worker"].tolist() == ["ann", "ann", "m1"]


def test_an_export_as_json_min_is_told_of():
    task = {"id": 1, "left": "ant", "right": "bee", "answer": "same", "annotator": 1}
    with pytest.raises(ValueError, match="task 1: .* as JSON-MIN, .*: export the project as JSON$"):
        LabelStudio().answers([task])


def test_errors_about_a_project_of_ones_own_name_what_to_pass():
    with pytest.raises(ValueError, match=r"task 1.*pass item= the field of its id"):
        LabelStudio().answers([own_project(id="a")])
    with pytest.raises(ValueError, match=r"from \['mood'\]: pass control= the one that holds"):
        LabelStudio(item="id").answers([own_project(id="a")])
    with pytest.raises(ValueError, match=r"task 1, data has no field 'key'; it has \['id'\]"):
        LabelStudio(control="mood", item="key").answers([own_project(id="a")])
