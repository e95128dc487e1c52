"""Draws of sites from a posterior, with names and dimensions for diagnostics."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Num
from torch import Tensor


@dataclass(frozen=True)
class SiteDraws:
    """Draws of one global site; the first axis counts the draws.

    Attributes
    ----------
    value
        theta: a tensor, or a named tuple of tensors.
    statistics
        The site's value in the model at each draw: t(theta), or theta for ordinary sites.
    plates
        Names of the plates that the site is in, in the order of its axes.
    is_random
        False for a point estimate.
    reruns
        Whether the guide was run for every draw.
    """

    value: Any
    statistics: Num[Tensor, "draw ..."]
    plates: tuple[str, ...]
    is_random: bool
    reruns: bool = False


class NamedDraws(NamedTuple):
    """Draws of a variable; ``dims`` names the axes after the first, which is the draw."""

    values: Tensor
    dims: tuple[str, ...]

    def with_free_dims(self, taken: Container[str]) -> NamedDraws:
        """The same with ``_dim`` at the end of names of axes that are taken."""
        return self._replace(dims=tuple(f"{d}_dim" if d in taken else d for d in self.dims))


def named_draws(name: str, site: SiteDraws, dims: Sequence[str] = ()) -> dict[str, NamedDraws]:
    """A variable for each part of theta, named after the site and the part.

    Parameters
    ----------
    name
        Name for the site.
    site
        Its draws.
    dims
        Names of the axes: of its plates, then those within one theta, as many as the largest part
        needs. Axes without a name here are named after the plate, or numbered. If theta is a tuple
        without field names, its parts have separate axes, with the number of the part.
    """
    plates = len(site.plates)
    of_plates = (*dims[:plates], *site.plates[len(dims) :])
    within = tuple(dims[plates:])
    variables = {}
    for key, number, value in _parts(name, site.value):
        free = value.dim() - 1 - plates
        own = tuple(f"{axis}{number}" for axis in within[:free])
        numbered = tuple(f"{key}_dim_{axis}" for axis in range(len(within), free))
        variables[key] = NamedDraws(value, of_plates + own + numbered)
    return variables


def _parts(name: str, value: Any, number: str = "") -> Iterator[tuple[str, str, Tensor]]:
    """The tensors of a theta: of named tuples by field, of other tuples by number."""
    if isinstance(value, Tensor):
        yield name, number, value
        return
    # Named tuples have no common base class, so they are recognized by their fields.
    is_named = type(value) is not tuple
    fields = value._fields if is_named else range(len(value))
    for field, part in zip(fields, value, strict=True):
        yield from _parts(f"{name}_{field}", part, number if is_named else f"{number}_{field}")
