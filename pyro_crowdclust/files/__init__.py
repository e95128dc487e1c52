"""Values as JSON and tensors, and the files that hold them."""

from pyro_crowdclust.files.parts import described

__all__ = [
    "described",
]
