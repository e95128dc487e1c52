"""Words of a fit, the one line that says what is wrong, and a choice of few models."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pyro_crowdclust.interface import choice_for


def fit_words(crowd: Path, folder: Path) -> list[str]:
    files = ["--features", str(crowd / "features.csv"), "--pairs", str(crowd / "answers.csv")]
    options = ["--clusters", "6", "--model", "gaussian", "--starts", "1", "--quiet"]
    return ["fit", *files, "--out", str(folder), *options]


def only_error(capsys) -> str:
    """The one line on standard error, with nothing on standard output."""
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("pyro-crowdclust: error: ")
    return line


def few_candidates(monkeypatch):
    """A choice between two models instead of ten."""

    def choice(data, num_clusters):
        found = choice_for(data, num_clusters=num_clusters)
        return dataclasses.replace(
            found, forms=found.forms[:2], sizes=(num_clusters,), first_size=num_clusters
        )

    monkeypatch.setattr("pyro_crowdclust.interface.clustering.choice_for", choice)
