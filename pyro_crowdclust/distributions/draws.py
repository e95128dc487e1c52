"""Draws of a site from q, under the names and dimensions that a reader expects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

# Plates that stand for something a user knows, and the dimension that they become.
DIMENSION_OF_PLATE = {
    "components_plate": "cluster",
    "class_table_plate": "cluster",
    "coefficients_plate": "class",
    "workers": "worker",
    "accuracy_plate": "worker",
    "sensitivity_plate": "worker",
    "specificity_plate": "worker",
    "community_plate": "worker",
    "sources_plate": "worker",
    "states_plate": "class",
    "habit_plate": "worker",
    "items": "item",
    "pairs": "answer",
}


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
        Whether the guide had to run for every draw.
    """

    value: Any
    statistics: Float[Tensor, "draw ..."]
    plates: tuple[str, ...]
    is_random: bool
    reruns: bool = False


class NamedDraws(NamedTuple):
    """Draws of a variable; ``dims`` names the axes after the first, which counts the draws."""

    values: Tensor
    dims: tuple[str, ...]


def by_site(
    name: str,
    site: SiteDraws,
    event_dims: tuple[str, ...] | None = None,
    plates: tuple[str, ...] | None = None,
) -> dict[str, NamedDraws]:
    """A variable for each part of theta, named after the site and the part.

    Parameters
    ----------
    name
        What to call the site.
    site
        Its draws.
    event_dims
        Names of the axes within one theta, as many as the largest part needs.
    plates
        Names of the dimensions of its plates, in place of those that they usually become.
    """
    if plates is None:
        plates = tuple(DIMENSION_OF_PLATE.get(plate, plate) for plate in site.plates)
    variables = {}
    for key, value in _parts(name, site.value):
        free = value.dim() - 1 - len(plates)
        names = tuple(f"{key}_dim_{axis}" for axis in range(free))
        if event_dims is not None:
            names = event_dims[:free]
        variables[key] = NamedDraws(value, plates + names)
    return variables


def _parts(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a theta: of named tuples by field, of other tuples by number."""
    if isinstance(value, Tensor):
        yield name, value
        return
    fields = value._asdict() if hasattr(value, "_asdict") else dict(enumerate(value))
    for field, part in fields.items():
        yield from _parts(f"{name}_{field}", part)
