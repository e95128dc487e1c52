"""Files of a simulated crowd, as a user of the command line has them."""

from __future__ import annotations

import pytest

from pyro_crowdclust.interface.command_line import main


@pytest.fixture(scope="session")
def crowd(tmp_path_factory):
    """A folder with features, answers and the truth."""
    folder = tmp_path_factory.mktemp("crowd") / "files"
    size = ["--items", "60", "--true-clusters", "3", "--workers", "4", "--pages", "2"]
    assert main(["simulate", "--out", str(folder), *size, "--seed", "1", "--quiet"]) == 0
    return folder
