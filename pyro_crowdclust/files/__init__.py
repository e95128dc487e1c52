"""Reading and writing of values as JSON and tensors, and of files in general."""

from pyro_crowdclust.files.parts import described, rebuilt

__all__ = [
    "described",
    "rebuilt",
]
