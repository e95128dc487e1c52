"""``pyro-crowdclust``: files in, tables and a page out."""

from pyro_crowdclust.interface.command_line.running import main

__all__ = ["main"]
