"""The page about choosing gives the numbers that decide as they are in the code."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([\w/]+)\.py` \| `(\w+)` \| ([\d.]+) \|", PAGE, flags=re.MULTILINE)


def test_every_row_is_read():
    section = PAGE.split("## The numbers that decide")[1].split("\n## ")[0]
    assert len(ROWS) == section.count("\n| `") > 30
    assert len(ROWS) == len(set(ROWS))


@pytest.mark.parametrize(("file", "name", "value"), ROWS, ids=[name for _, name, _ in ROWS])
def test_a_number_has_the_value_in_the_code(file, name, value):
    room = "" if file.startswith(("pooling/", "mixture/")) else "interface."
    module = importlib.import_module(f"pyro_crowdclust.{room}{file.replace('/', '.')}")
    assert getattr(module, name) == float(value)
