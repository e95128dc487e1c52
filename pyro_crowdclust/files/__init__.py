"""Values as JSON and tensors, and the files that hold them."""

from pyro_crowdclust.files.parts import described, rebuilt

__all__ = [
    "described",
    "rebuilt",
]
