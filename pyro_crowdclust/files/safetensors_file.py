"""Files of tensors and JSON in the safetensors format, which cannot contain code.

A safetensors file is a JSON header, which says where every tensor is, and the tensors' bytes. The
library's own JSON is a string in the header's metadata:

    format    "pyro_crowdclust result" or "pyro_crowdclust checkpoint"
    version   version of the format, an integer
    library   version of the library that wrote it, for information
    content   the JSON, as ``describe`` makes it
    sha256    hash of content and all tensors

A single file can be replaced atomically, and structure and tensors cannot be separated.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from pyro_crowdclust._version import __version__
from pyro_crowdclust.files.allocation import limited_allocation
from pyro_crowdclust.files.description import build, describe
from pyro_crowdclust.files.writing import replace_file

VERSION = 1
_NAME = "pyro_crowdclust"
_MAX_HEADER = 100_000_000

# Errors that invalid content of a file may raise.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


def write_file(path: str | os.PathLike, kind: str, value: Any) -> None:
    """Write ``value`` atomically: if the process dies, there is the old file or the new one.

    Raises
    ------
    NotDescribable
        If the value cannot be described.
    OSError
        If the file cannot be written; an old one is then not changed.
    """
    tensors: dict[str, Tensor] = {}
    content = json.dumps(describe(value, tensors), allow_nan=False)
    # Tensors that share memory are written one by one.
    tensors = {name: tensor.cpu().contiguous().clone() for name, tensor in tensors.items()}
    metadata = {
        "format": f"{_NAME} {kind}",
        "version": str(VERSION),
        "library": __version__,
        "content": content,
        "sha256": file_digest(content, tensors),
    }
    replace_file(path, safetensors.torch.save(tensors, metadata))


def read_file(path: str | os.PathLike, kind: str) -> Any:
    """The value that ``write_file`` wrote; no code of the file is run.

    Raises
    ------
    ValueError
        If there is no such file, or if it is of another kind, damaged, or of a newer format.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"cannot read {path}: {reason}") from error
    metadata = _metadata(path, data, kind)
    damaged = f"{path} is damaged"
    try:
        tensors = safetensors.torch.load(data)
        if metadata["sha256"] != file_digest(metadata["content"], tensors):
            raise ValueError("its checksum does not match its content")
        with limited_allocation(len(data)):
            return build(json.loads(metadata["content"]), tensors)
    except SafetensorError as error:
        raise ValueError(f"{damaged} or cut short ({error}): get a whole copy of it") from error
    except UNREADABLE as error:
        # Any error of the constructor of a part, or of a table.
        raise ValueError(f"{damaged} ({error}): get a whole copy of it") from error


def kind_of_file(path: str | os.PathLike) -> str | None:
    """``"result"`` or ``"checkpoint"``, by the header of the file at ``path``; None for others."""
    try:
        with Path(path).open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            metadata = _own_metadata(file.read(size)) if size <= _MAX_HEADER else None
    except OSError:
        return None
    return None if metadata is None else metadata["format"].removeprefix(f"{_NAME} ")


def check_replaceable(path: str | os.PathLike, kind: str, remedy: str) -> None:
    """Raise a ``ValueError`` if there is a file at ``path`` that is not of this kind.

    An empty file may be replaced.
    """
    path = Path(path)
    if path.exists() and path.stat().st_size and kind_of_file(path) != kind:
        raise ValueError(f"{path} exists already and is not a {kind}, or is damaged: {remedy}")


def _own_metadata(header: bytes) -> dict[str, str] | None:
    """The library's metadata in a safetensors header, or None if there are none."""
    try:
        metadata = json.loads(header)["__metadata__"]
        is_own = metadata["format"].startswith(f"{_NAME} ") and int(metadata["version"]) > 0
        return metadata if is_own and {"content", "sha256"} <= metadata.keys() else None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _metadata(path: Path, data: bytes, kind: str) -> dict[str, str]:
    size = int.from_bytes(data[:8], "little")
    metadata = None if size > len(data) - 8 else _own_metadata(data[8 : 8 + size])
    if metadata is None:
        raise ValueError(
            f"{path} is not a {kind} of {_NAME}, or is damaged or cut short: name another file, or "
            "get a whole copy of it"
        )
    if int(metadata["version"]) > VERSION:
        raise ValueError(
            f"{path} has format version {metadata['version']} (of {_NAME} "
            f"{metadata.get('library')}), but this version reads formats up to {VERSION}: install "
            f"a newer {_NAME}"
        )
    if metadata["format"] != f"{_NAME} {kind}":
        remedies = {
            f"{_NAME} checkpoint": "resume from it with fit(..., "
            "checkpoint=Checkpoint(path, resume=True))",
            f"{_NAME} result": "read it with pyro_crowdclust.load",
        }
        remedy = remedies.get(metadata["format"], "")
        raise ValueError(f"{path} is not a {kind} but a {metadata['format']}: {remedy}")
    return metadata


def file_digest(content: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of the content and the tensors of a file."""
    digest = hashlib.sha256(content.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        content_of_tensor: Any = tensor.reshape(-1).view(torch.uint8).numpy()
        digest.update(content_of_tensor)
    return digest.hexdigest()
