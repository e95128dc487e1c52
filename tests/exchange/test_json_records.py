"""Records of other programs' files: what a line is, and what errors call a record."""

from __future__ import annotations

import json

import pytest

from pyro_crowdclust.exchange import Argilla, LabelStudio, Prodigy, read_answers, write_tasks

from .small_crowd import ITEMS, PAIRS, SAID_OF_PAIRS, expected_pairs, in_prodigy, same_tables


def test_texts_of_records_may_hold_what_ends_lines_elsewhere(tmp_path):
    shown = {key: f"{text}\u2028and\u2029more\u0085\x0b\x1c\n\r" for key, text in ITEMS.items()}
    (path,) = write_tasks(tmp_path, Prodigy(), PAIRS, shown)
    export = in_prodigy(Prodigy().parse(path.read_text(encoding="utf-8")), SAID_OF_PAIRS)
    path.write_text("\r\n".join(json.dumps(one, ensure_ascii=False) for one in export), "utf-8")
    expected = expected_pairs(("set-ann", "set-ben", "set-ben"))
    same_tables(read_answers(path), {"pairs": expected}, 1)


@pytest.mark.parametrize(
    ("form", "record", "place"),
    [
        (LabelStudio(), {"annotations": []}, "task 1"),
        (Prodigy(), {"answer": "accept"}, "record 1"),
        (Argilla(), {"responses": {}}, "record 1"),
    ],
)
def test_a_record_that_does_not_say_what_it_asked_is_named_once(form, record, place):
    with pytest.raises(ValueError, match=f"^{place} has no field '"):
        form.answers([record])
