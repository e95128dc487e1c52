"""``pyro-crowdclust``: files in, tables and a page out.

Exit codes: 0 done; 1 something is wrong with a file or a value, said in one line; 2 the command
itself is not understood; 3 training went bad, and what had been learned before is saved; 130
interrupted with Ctrl-C, likewise.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from pyro_crowdclust.interface.command_line.arguments import PROGRAM, parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    Parameters
    ----------
    arguments
        Words of the command line; default those of the process.
    """
    options = parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _show_warning
        try:
            # Loading takes seconds, in which one may press Ctrl-C.
            from pyro_crowdclust.interface.command_line import commands

            return getattr(commands, options.command)(options)
        except KeyboardInterrupt:
            _say("error", "interrupted before there was anything to save")
            return 130
        except BrokenPipeError:
            # The reader of the output, ``head`` say, has seen enough.
            sys.stderr.close()
            return 0
        except (ValueError, OSError) as error:
            _say("error", str(error))
            return 1


def _say(kind: str, message: str) -> None:
    print(f"{PROGRAM}: {kind}: {' '.join(message.split())}", file=sys.stderr)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    _say("warning", str(message))
