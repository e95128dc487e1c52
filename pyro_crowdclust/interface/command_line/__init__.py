"""The command line ``pyro-crowdclust``: reads files, and writes tables, results and reports."""

from pyro_crowdclust.interface.command_line.running import main

__all__ = ["main"]
