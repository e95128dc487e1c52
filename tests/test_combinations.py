"""Everything with everything: help, guides and moves of clusters, a cell of the table each."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "combinations.py"
spec = importlib.util.spec_from_file_location("combinations", SCRIPT)
combinations = importlib.util.module_from_spec(spec)
sys.modules["combinations"] = combinations
spec.loader.exec_module(combinations)

CELLS = list(
    itertools.product(
        combinations.ANSWERS, combinations.SUPERVISIONS, combinations.GUIDES, combinations.MOVES
    )
)
# Grades differ from answers in what workers know, not in what others say: a few cells tell.
CELLS = [cell for cell in CELLS if cell[0] != "grades" or cell[1::2] == ("nothing", "merge")]
# Guides that hear nobody but workers, and what they say of it.
DEAF = {
    "amortized": "an AmortizedGuide cannot use known labels and links: use",
    "two-way": "no supervision that uses them: use SemiCrowdsourcedMixture with one, or build",
}
# Guides whose q(z) follows the mixture, so that the two halves of a cloud can be joined again.
FOLLOWING = "message passing", "message passing behind networks"


@pytest.mark.long
@pytest.mark.parametrize("cell", CELLS, ids=", ".join)
def test_cell(cell):
    """Fit, moves judged right, prediction, save and load; ``run_cell`` holds them to that."""
    _, supervision, guide, move = cell
    if supervision != "nothing" and guide in DEAF:
        with pytest.raises(ValueError, match=DEAF[guide]):
            combinations.run_cell(*cell, num_items=48, epochs=4)
        return
    probe = combinations.run_cell(*cell, num_items=48, epochs=4)
    assert probe.judged == 3
    assert probe.largest_error <= 1e-6
    if guide in FOLLOWING and move == "merge":
        assert probe.kept > 0
    if probe.kept:
        assert probe.lowest_gain > 0
