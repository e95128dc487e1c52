"""Writing a file as a whole: whenever the process dies, the old one or the new one is there."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

# Of the file's name so much is in that of its partial file, which may be no longer than 255 bytes.
_NAME_LENGTH = 40


def replace_file(path: str | os.PathLike, content: bytes) -> None:
    """Write a file beside ``path``, wait until it is on the disk, and put it in its place.

    A symbolic link stays one, and the file that it leads to is replaced; a file that was there
    passes its permissions on.
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
        # The new name, too, is to survive a loss of power.
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _partial_file(target: Path) -> tuple[Path, BinaryIO]:
    """A new file in the target's folder, which no other writer has."""
    while True:
        name = f"{target.name[:_NAME_LENGTH]}.{secrets.token_hex(4)}.partial"
        partial = target.with_name(name)
        try:
            return partial, partial.open("xb")
        except FileExistsError:
            continue


def check_room(path: str | os.PathLike, num_bytes: int) -> None:
    """Raise a ``ValueError`` unless a file of this size can be written at ``path``.

    The bytes are really written, beside ``path``, and removed: quotas and permissions are known to
    the file system alone.
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
            f"({error.strerror or error}): make room, or name a file in a folder that can be "
            "written"
        ) from error


def _shown(path: Path, length: int = 200) -> str:
    """A path, of which the middle is left out where it is long."""
    text = str(path)
    return text if len(text) <= length else f"{text[: length // 2]}...{text[-length // 2 :]}"


def _check_place(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    except ValueError as error:  # of a null in the name
        raise ValueError(f"{str(path)!r} names no file: {error}") from error
    if mode is not None and stat.S_ISDIR(mode):
        raise ValueError(
            f"{path} is a folder: name a file in it, such as {path / 'fit.safetensors'}"
        )
    if mode is not None and not stat.S_ISREG(mode):
        raise ValueError(f"{path} is a device or a pipe: name a file")
    if not Path(os.path.realpath(path)).parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} in: make it first")
