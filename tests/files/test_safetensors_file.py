"""Files that are cut short, damaged, newer or of others are refused, and nothing in them is run."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_crowdclust import fit, load
from pyro_crowdclust.files.safetensors_file import file_digest
from pyro_crowdclust.training import Checkpoint

from ..crowds import crowd, plain_pair, quiet_fit
from ..refusals import refuses


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "result.safetensors"


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> bytes:
    """A whole file of a result."""
    path = tmp_path_factory.mktemp("saved") / "result"
    fit(*plain_pair(), crowd(), epochs=1, progress=False).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "result"


@given(share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_files_cut_short(saved, damaged, share):
    damaged.write_bytes(saved[: int(share * len(saved))])
    with refuses("is not a result of pyro_crowdclust, .*cut short|is damaged or cut short"):
        load(damaged)


@given(share=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_files_with_a_wrong_byte(saved, damaged, share, change):
    content = bytearray(saved)
    content[int(share * len(saved))] ^= change
    damaged.write_bytes(content)
    # A byte may stand in what nothing depends on, such as the library's version.
    with contextlib.suppress(ValueError):
        assert load(damaged).stop_reason.startswith("budget")


@given(content=st.binary(max_size=200))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_files_of_random_bytes(damaged, content):
    damaged.write_bytes(content)
    with refuses("is not a result of pyro_crowdclust, or is damaged"):
        load(damaged)


class Evil:
    """What a pickle would run."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return Path.write_text, (self.witness, "it ran")


def _zip(witness: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data.pkl", pickle.dumps(Evil(witness)))
    return buffer.getvalue()


def _torch_file(witness: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(Evil(witness), buffer)
    return buffer.getvalue()


def _safetensors(metadata: dict[str, str] | None) -> bytes:
    return safetensors.torch.save({"weight": torch.ones(2)}, metadata)


FOREIGN = {
    "empty": lambda witness: b"",
    "text": lambda witness: b"item,worker,label\n" * 9,
    "json": lambda witness: json.dumps({"format": "pyro_crowdclust result"}).encode(),
    "deep json": lambda witness: (100_000).to_bytes(8, "little") + b"[" * 100_000,
    "list": lambda witness: (2).to_bytes(8, "little") + b"[]",
    "pickle": lambda witness: pickle.dumps(Evil(witness)),
    "zip": _zip,
    "torch": _torch_file,
    "safetensors": lambda witness: _safetensors(None),
    "other metadata": lambda witness: _safetensors({"format": "pt"}),
    "wrong version": lambda witness: _safetensors(
        {"format": "pyro_crowdclust result", "version": "?", "content": "{}", "sha256": ""}
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files(kind, path, tmp_path):
    witness = tmp_path / "witness"
    path.write_bytes(FOREIGN[kind](witness))
    with refuses(f"{path.name} is not a result of pyro_crowdclust, or is damaged"):
        load(path)
    assert not witness.exists()


def written(path: Path, saved: bytes, change) -> Path:
    """A file of a result with other metadata."""
    tensors = safetensors.torch.load(saved)
    size = int.from_bytes(saved[:8], "little")
    metadata = json.loads(saved[8 : 8 + size])["__metadata__"]
    change(metadata)
    path.write_bytes(safetensors.torch.save(tensors, metadata))
    return path


def test_files_of_a_newer_version(saved, path):
    def newer(metadata: dict[str, str]) -> None:
        metadata |= {"version": "2", "library": "9.1"}

    with refuses(
        r"format version 2 \(of pyro_crowdclust 9.1\), .* reads formats up to 1: install a newer"
    ):
        load(written(path, saved, newer))


def test_files_that_do_not_exist(tmp_path):
    with refuses("cannot read .*nothing: No such file"):
        load(tmp_path / "nothing")
    with refuses("cannot read .*: Is a directory"):
        load(tmp_path)


def test_a_checkpoint_is_no_result(saved, path, tmp_path):
    quiet_fit(*plain_pair(), crowd(), checkpoint=path)
    with refuses("is not a result but a pyro_crowdclust checkpoint: resume from it with fit"):
        load(path)
    path.write_bytes(saved)
    with refuses(
        "is not a checkpoint but a pyro_crowdclust result: read it with pyro_crowdclust.load"
    ):
        quiet_fit(*plain_pair(), crowd(), checkpoint=Checkpoint(path, resume=True))


@pytest.mark.parametrize(
    "content",
    ["[1, 2", "[]", "3", "{}", '{"structure": null}', "[" * 100_000, '{"$tensor": "nothing"}'],
    ids=range(7),
)
def test_wrong_json(content, saved, path):
    """With the right checksum: somebody's own work."""
    tensors = safetensors.torch.load(saved)

    def change(metadata: dict[str, str]) -> None:
        metadata["content"] = content
        metadata["sha256"] = file_digest(content, tensors)

    with refuses("is damaged"):
        load(written(path, saved, change))
