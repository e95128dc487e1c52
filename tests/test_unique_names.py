"""Every public name means one thing in the whole library."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The command ``fit`` has the name of what it runs.
TWICE = {"fit"}


def test_public_names_are_unique():
    found = Counter()
    for folder in ("pyro_crowdclust", "models", "guides"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    found[node.name] += 1
                elif isinstance(node, ast.Assign | ast.AnnAssign):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    found.update(one.id for one in targets if isinstance(one, ast.Name))
    again = {name for name, number in found.items() if number > 1 and not name.startswith("_")}
    assert again == TWICE
