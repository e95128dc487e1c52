from __future__ import annotations

import pytest

from pyro_crowdclust.supervision import HiddenMarkovField


@pytest.fixture(autouse=True)
def fixed_potential(monkeypatch):
    """The potential of fields is held fixed, as only then the bound never falls."""
    monkeypatch.setattr(HiddenMarkovField, "refresh", lambda *_: None)
