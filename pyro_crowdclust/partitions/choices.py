"""What items could choose in a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Choices:
    """What every item of a sweep could choose, and what it chose: from this priors learn.

    Attributes
    ----------
    sizes
        Of every item the sizes of the clusters that it could join.
    chosen
        The size of the one that it joined, 0 where it is alone.
    """

    sizes: list[list[int]] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
