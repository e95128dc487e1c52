"""Rooms are loaded before pytest collects their files, which it would else load a second time."""

from importlib import import_module
from pkgutil import iter_modules

import pyro_crowdclust

for room in iter_modules(pyro_crowdclust.__path__, "pyro_crowdclust."):
    import_module(room.name)
