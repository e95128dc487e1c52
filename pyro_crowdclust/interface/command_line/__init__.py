"""``pyro-crowdclust``: files in, tables and a page out."""

from pyro_crowdclust.interface.command_line.arguments import main

__all__ = ["main"]
