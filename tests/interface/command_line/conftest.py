"""A fit that several commands go on from."""

from __future__ import annotations

import pytest

from pyro_crowdclust.interface.command_line import main

from ...short_searches import shorten
from .command_lines import fit_words


@pytest.fixture(scope="session")
def fitted(crowd, tmp_path_factory):
    """A folder that ``fit`` wrote."""
    folder = tmp_path_factory.mktemp("fitted") / "out"
    with pytest.MonkeyPatch.context() as patch:  # that of a module comes after it, or before
        shorten(patch)
        assert main([*fit_words(crowd, folder), "--epochs", "10"]) == 0
    return folder
