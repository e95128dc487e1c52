"""Runs the command line ``pyro-crowdclust``.

Exit codes: 0 done; 1 something is wrong with a file or a value, as one line on standard error says;
2 the command itself is not understood; 3 training diverged, and the last good state is saved; 130
interrupted with Ctrl-C, and what was learned is saved, too.
"""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from pyro_crowdclust.interface.command_line.arguments import PROGRAM, parser
from pyro_crowdclust.interface.command_line.wording import in_options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    Parameters
    ----------
    arguments
        Words of the command line; by default those of the process.
    """
    options = parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _show_warning
        try:
            _check_files(options)
            # Loading takes seconds, during which somebody may press Ctrl-C.
            from pyro_crowdclust.interface.command_line.commands import COMMANDS

            return COMMANDS[options.command](options)
        except KeyboardInterrupt:
            _print_line("error", "interrupted before there was anything to save")
            return 130
        except BrokenPipeError:
            # The program that reads the output, such as ``head``, has ended.
            sys.stderr.close()
            return 0
        except (ValueError, OSError) as error:
            _print_line("error", in_options(str(error)))
            return 1


def _check_files(options: Namespace) -> None:
    """Raise a ``ValueError`` about the first file to read that does not exist."""
    for name, value in vars(options).items():
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path) and name != "out" and not path.exists():
                raise ValueError(f"there is no {'folder' if name == 'folder' else 'file'} {path}")


def _print_line(kind: str, message: str) -> None:
    print(f"{PROGRAM}: {kind}: {' '.join(message.split())}", file=sys.stderr)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    _print_line("warning", in_options(str(message)))
