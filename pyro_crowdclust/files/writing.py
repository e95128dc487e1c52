"""Atomic writing of files: if the process dies, there is the old file or the new one."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

# Characters of the file's name in the name of its partial file, which has at most 255 bytes.
_NAME_LENGTH = 40


def replace_file(path: str | os.PathLike, content: bytes) -> None:
    """Write a file next to ``path``, wait until it is on the disk, and rename it to ``path``.

    A symbolic link is kept, and the file that it points to is replaced; the new file has the
    permissions of the old one.
    """
    target = Path(os.path.realpath(path))
    partial, file = _partial_file(target)
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        # So that the new name survives a loss of power, too.
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _partial_file(target: Path) -> tuple[Path, BinaryIO]:
    """A new file in the target's folder with a unique name."""
    while True:
        name = f"{target.name[:_NAME_LENGTH]}.{secrets.token_hex(4)}.partial"
        partial = target.with_name(name)
        try:
            return partial, partial.open("xb")
        except FileExistsError:
            continue


def check_room(path: str | os.PathLike, num_bytes: int) -> None:
    """Raise a ``ValueError`` unless a file of this size can be written at ``path``.

    This many bytes are written next to ``path``, and removed: only the file system knows quotas and
    permissions.
    """
    path = Path(path)
    try:
        _check_place(path)
        partial, file = _partial_file(Path(os.path.realpath(path)))
        try:
            with file:
                zeros = bytes(2**20)
                for start in range(0, num_bytes, len(zeros)):
                    file.write(zeros[: num_bytes - start])
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(
            f"cannot write {num_bytes / 2**20:.1f} MB at {_shown(path)} "
            f"({error.strerror or error}): free disk space, or name a file in a folder in which "
            "you may write"
        ) from error


def _shown(path: Path, length: int = 200) -> str:
    """A path for a message; the middle of a long one is left out."""
    text = str(path)
    return text if len(text) <= length else f"{text[: length // 2]}...{text[-length // 2 :]}"


def _check_place(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    except ValueError as error:  # a null character in the name
        raise ValueError(f"{str(path)!r} is not the name of a file: {error}") from error
    if mode is not None and stat.S_ISDIR(mode):
        raise ValueError(
            f"{path} is a folder: name a file in it, such as {path / 'fit.safetensors'}"
        )
    if mode is not None and not stat.S_ISREG(mode):
        raise ValueError(f"{path} is a device or a pipe: name a file")
    if not Path(os.path.realpath(path)).parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} in: make it first")
