"""Where a result is written."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "result.safetensors"
