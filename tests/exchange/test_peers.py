"""Files and frames through the tools' own packages, where these are installed."""

from __future__ import annotations

import io
import json
import uuid

import pandas as pd
import pytest

from pyro_crowdclust.exchange import (
    Argilla,
    CrowdAnswers,
    CrowdKit,
    Dedupe,
    LabelStudio,
    read_answers,
    write_tasks,
)

# Their packages may warn of what they like.
pytestmark = pytest.mark.filterwarnings("ignore")

SHOPS = pd.DataFrame(
    {"name": ["Bob's", "Bobs", "Cafe Uno", "Due", "Uno"], "town": ["x", "x", "y", "y", "z"]},
    index=[f"s{number}" for number in range(5)],
)
PAIRS = pd.DataFrame({"left": ["s0", "s2", "s0"], "right": ["s1", "s3", "s4"]})
PAGES = pd.DataFrame({"page": ["p"] * 3 + ["q"] * 2, "item": SHOPS.index})
LABELS = pd.DataFrame({"item": SHOPS.index})


def package(name: str):
    return pytest.importorskip(name, reason=f"{name} is not installed", exc_type=ImportError)


def test_crowd_kit_takes_our_frames_and_we_take_its():
    aggregation = package("crowdkit.aggregation")
    rows = [
        ("s0", "ann", "bar"),
        ("s0", "ben", "bar"),
        ("s0", "cem", "cafe"),
        ("s1", "ann", "cafe"),
    ]
    labels = pd.DataFrame(rows, columns=["item", "worker", "label"])
    frame = CrowdKit().frame(CrowdAnswers.of_tables(labels=labels))
    found = aggregation.MajorityVote().fit_predict(frame)
    assert found.to_dict() == {"s0": "bar", "s1": "cafe"}
    answered = PAIRS.assign(worker="ann", label=[1, 0, 0])
    pairs = CrowdKit().frame(CrowdAnswers.of_tables(pairs=answered))
    found = aggregation.DawidSkene(n_iter=2).fit_predict(pairs)
    assert found.tolist() == pairs.set_index("task")["label"].loc[found.index].tolist()
    back = CrowdKit().answers(pairs).pairs
    assert back.to_numpy().tolist() == answered.to_numpy().tolist()


def test_dedupe_reads_and_writes_our_training(tmp_path):
    dedupe = package("dedupe")
    (path,) = write_tasks(tmp_path, Dedupe(), PAIRS, SHOPS)
    with path.open(encoding="utf-8") as file:
        training = dedupe.serializer.read_training(file)
    assert training["uncertain"] == Dedupe().tasks(PAIRS, SHOPS)["uncertain"]
    # Somebody decides, dedupe learns of it and writes it down, and it comes back.
    matcher = dedupe.Dedupe([dedupe.variables.Exact("town")])
    records = {item: {"item": item, **row} for item, row in SHOPS.to_dict("index").items()}
    matcher.prepare_training(records)
    decided = {"match": training["uncertain"][:2], "distinct": training["uncertain"][2:]}
    matcher.mark_pairs(decided)
    with (tmp_path / "decided.json").open("w", encoding="utf-8") as file:
        matcher.write_training(file)
    found = read_answers(tmp_path / "decided.json", form=Dedupe(worker="ann")).pairs
    assert found["label"].tolist() == [1, 1, 0]
    assert found[["left", "right"]].to_numpy().tolist() == PAIRS.to_numpy().tolist()
    # And what a crowd said is training for it.
    ours = io.StringIO(json.dumps(Dedupe().training(found, SHOPS)))
    again = dedupe.Dedupe([dedupe.variables.Exact("town")])
    again.prepare_training(records, ours)
    assert [len(again.training_pairs[name]) for name in ("match", "distinct")] == [2, 1]


def test_argilla_makes_records_of_ours_and_exports_them(tmp_path):
    rg = package("argilla")
    (path,) = write_tasks(tmp_path, Argilla(), PAIRS, SHOPS)
    records = [rg.Record.from_dict(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    people = [uuid.UUID(int=1), uuid.UUID(int=2)]
    said = ["same", "can't tell", "different"]
    for record, value in zip(records, said, strict=True):
        for who in people:
            record.responses.add(rg.Response("answer", value, user_id=who, status="submitted"))
    records[0].suggestions.add(rg.Suggestion("answer", "different", agent="judge"))
    io_of_records = package("argilla.records._io").JsonIO
    io_of_records.to_json(records, tmp_path / "export.json")
    answers = read_answers(tmp_path / "export.json", form=Argilla())
    assert answers.pairs["label"].tolist() == [1, 1, 0, 0, 0]
    assert answers.pairs["worker"].tolist() == [*map(str, people), "judge", *map(str, people)]
    assert len(answers.unanswered) == 2


@pytest.mark.parametrize(
    ("questions", "control", "value"),
    [
        (PAIRS, "answer", {"choices": ["same"]}),
        (PAGES, "groups", {"ranker": {"1": ["s0", "s2"], "can't tell": ["s1"]}}),
        (LABELS, "answer", {"choices": ["bar"]}),
    ],
    ids=["pairs", "pages", "labels"],
)
def test_label_studio_finds_configuration_tasks_and_results_valid(questions, control, value):
    package("label_studio_sdk")
    interfaces = package("label_studio_sdk.label_interface")
    form = LabelStudio(classes=["bar", "cafe"])
    interface = interfaces.LabelInterface(form.configuration(questions, SHOPS))
    interface.validate()
    tasks = form.tasks(questions, SHOPS)
    assert all(interface.validate_task(task) for task in tasks)
    tag = interface.get_control(control)
    result = {"from_name": control, "to_name": tag.to_name[0], "type": tag.tag.lower()}
    annotation = {"completed_by": 1, "result": [{**result, "value": value, "id": "r"}]}
    assert interface.validate_annotation({**annotation, "was_cancelled": False})
    (answered,) = form.answers([{**tasks[0], "annotations": [annotation]}]).tables().values()
    assert len(answered) == (2 if control == "groups" else 1)
