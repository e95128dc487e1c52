"""Files are written as a whole, beside each other, and never over somebody else's."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyro_crowdclust.files.writing import check_room, replace_file

from ..refusals import refuses


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "fit", tmp_path / "link"
    link.symlink_to("data/fit")
    for content in (b"one", b"two"):  # to a file that is not there yet, and to one that is
        check_room(link, 1)
        replace_file(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["data", "fit", "link"]


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664])
def test_a_file_keeps_its_mode(tmp_path, kept):
    path = tmp_path / "fit"
    path.write_bytes(b"old")
    path.chmod(kept)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert mode(path) == kept


def test_a_new_file_has_the_usual_mode(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    replace_file(tmp_path / "fit", b"new")
    assert mode(tmp_path / "fit") == mode(tmp_path / "usual")


def test_writers_have_partial_files_of_their_own(tmp_path, monkeypatch):
    path, seen = tmp_path / "fit", []
    sync = os.fsync

    def look(number: int) -> None:
        seen.append({file.name for file in tmp_path.glob("*.partial")})
        sync(number)

    monkeypatch.setattr(os, "fsync", look)
    contents = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: replace_file(path, content), contents))
    assert path.read_bytes() in contents
    assert len(set().union(*seen)) == 8
    assert [file.name for file in tmp_path.iterdir()] == ["fit"]


def test_a_partial_file_that_somebody_left_is_no_hindrance(tmp_path):
    (tmp_path / "fit.partial").mkdir()
    replace_file(tmp_path / "fit", b"new")
    assert (tmp_path / "fit").read_bytes() == b"new"


def test_names_as_long_as_they_can_be(tmp_path):
    longest = tmp_path / ("n" * 255)
    check_room(longest, 10)
    replace_file(longest, b"new")
    assert longest.read_bytes() == b"new"
    for place in (tmp_path / ("n" * 256), tmp_path / "/".join(["folder"] * 1000)):
        with refuses(
            "cannot write 0.0 MB at .* \\(File name too long\\): free disk space, or name a"
        ):
            check_room(place, 10)


def test_what_is_no_place_for_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with refuses("pipe is a device or a pipe: name a file"):
        check_room(pipe, 1)
    with refuses("is not the name of a file: .*embedded null"):
        check_room(tmp_path / "a\0b", 1)
    with refuses("/dev/null is a device or a pipe"):
        check_room("/dev/null", 1)
    with refuses("is a folder: name a file in it"):
        check_room(tmp_path, 1)
    (tmp_path / "circle").symlink_to("circle")
    with refuses("cannot write"):
        check_room(tmp_path / "circle", 1)
    (tmp_path / "astray").symlink_to("nowhere/fit")
    with refuses("there is no folder"):
        check_room(tmp_path / "astray", 1)
