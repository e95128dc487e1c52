"""Questions about a few items, what people say, and how every tool exports that."""

from __future__ import annotations

import copy

import pandas as pd

from pyro_crowdclust import CrowdData
from pyro_crowdclust.exchange import CrowdAnswers, LabelStudio

ITEMS = {"a": "an ant", "b": "a <b>bee</b>", "c": "a \"cat\", 'grey'", "d": "=1+1", "e": "é"}
PAIRS = pd.DataFrame(
    {"left": ["a", "a", "b", "c"], "right": ["b", "c", "d", "e"], "worker": ["ann", "ben"] * 2}
)
PAGES = pd.DataFrame(
    {"page": ["p"] * 3 + ["q"] * 2, "item": list("abcde"), "worker": ["ann"] * 3 + ["ben"] * 2}
)
LABELS = pd.DataFrame({"item": list("abc"), "worker": ["ann", "ann", "ben"]})
CLASSES = ("insect", "mammal")

# What is said below, whatever the tool: "same", "different", nothing, "same"; one item of page p
# is not put into a group; the last label is missing.
SAID_OF_PAIRS = ["same", "different", None, "same"]
SAID_OF_PAGES = {"p": {"a": "1", "b": "1"}, "q": {"d": "1", "e": "2"}}
SAID_OF_LABELS = ["insect", "mammal", None]


def expected_pairs(workers=("ann", "ben", "ben")):
    return pd.DataFrame(
        {"left": list("aac"), "right": list("bce"), "worker": workers, "label": [1, 0, 1]}
    )


def expected_pages():
    return pd.DataFrame(
        {
            "page": list("ppqq"),
            "item": list("abde"),
            "worker": ["ann", "ann", "ben", "ben"],
            "group": list("1112"),
        }
    )


def expected_labels():
    return pd.DataFrame(
        {"item": ["a", "b"], "worker": ["ann", "ann"], "label": ["insect", "mammal"]}
    )


NUMBERS = {"ann": 7, "ben": 8}


def annotation(worker, name, kind, value):
    result = [{"from_name": name, "to_name": "x", "type": kind, "id": "r", "value": value}]
    return {
        "id": 1,
        "completed_by": NUMBERS[worker],
        "was_cancelled": False,
        "lead_time": 2.5,
        "result": result,
    }


def in_label_studio(tasks, said):
    """What Label Studio exports where people with these names answered so."""
    export = []
    for task, answer in zip(copy.deepcopy(tasks), said, strict=True):
        worker = task["data"]["worker"]
        if isinstance(answer, dict):
            buckets = {"_": [entry["id"] for entry in task["data"]["list"]]}
            for item, group in answer.items():
                buckets["_"].remove(item)
                buckets.setdefault(group, []).append(item)
            own = annotation(worker, "groups", "ranker", {"ranker": buckets})
        else:
            choice = "can't tell" if answer is None else answer
            own = annotation(worker, "answer", "choices", {"choices": [choice]})
        export.append({"id": len(export), **task, "annotations": [own], "predictions": []})
    return export


def in_prodigy(tasks, said):
    export = []
    for task, answer in zip(copy.deepcopy(tasks), said, strict=True):
        worker = {"_session_id": f"set-{task['meta']['worker']}", "_annotator_id": None}
        if answer is None:
            export.append({**task, **worker, "answer": "ignore"})
        elif "options" in task:
            export.append({**task, **worker, "answer": "accept", "accept": [answer]})
        else:
            word = "accept" if answer == "same" else "reject"
            export.append({**task, **worker, "answer": word})
    return export


def in_argilla(tasks, said):
    export = copy.deepcopy(tasks)
    for record, answer in zip(export, said, strict=True):
        value = "can't tell" if answer is None else answer
        user = record["metadata"]["worker"]
        record["responses"] = {"answer": [{"value": value, "user_id": user}]}
    return export


def in_dedupe(tasks, said):
    lists = {"same": "match", "different": "distinct", None: "uncertain"}
    export = {"match": [], "distinct": [], "uncertain": []}
    for pair, answer in zip(tasks["uncertain"], said, strict=True):
        export[lists[answer]].append(pair)
    return export


def in_table(tasks, said):
    answer = "group" if "page" in tasks else "label"
    if "page" in tasks:
        said = [said[row.page].get(row.item) for row in tasks.itertuples()]
    return tasks.assign(**{answer: ["" if value is None else value for value in said]})


def same_tables(answers: CrowdAnswers, expected: dict[str, pd.DataFrame], num_unanswered: int):
    found = answers.tables()
    assert list(found) == list(expected)
    for name, table in expected.items():
        own = found[name][table.columns.tolist()].sort_values(table.columns[:2].tolist())
        own = own.reset_index(drop=True).replace({"label": {"same": 1, "different": 0}})
        pd.testing.assert_frame_equal(own, table, check_dtype=False)
    assert len(answers.unanswered) == num_unanswered
    CrowdData(None, item_ids=list(ITEMS), **found)


STUDIO = LabelStudio(classes=CLASSES, workers={7: "ann", 8: "ben"})

CANNOT_TELL = [
    "can't tell",
    "Can\u2019t tell",
    " CAN'T  TELL ",
    "can`t tell",
    "cannot tell",
    "Unsure",
]
