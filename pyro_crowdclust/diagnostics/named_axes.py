"""Names and coordinates of axes that a user gives to the variables of an export."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from pyro_crowdclust.diagnostics.arviz_adapter import Groups
from pyro_crowdclust.errors import did_you_mean

_OF_DRAWS = ("chain", "draw")


def rename_axes(groups: Groups, dims: Mapping[str, Sequence[str]]) -> None:
    """Give axes of some variables, without chain and draw, other names.

    Raises
    ------
    ValueError
        If there is no such variable, or it has another number of axes.
    """
    known = {name for variables in groups.values() for name in variables}
    for name, given in dims.items():
        if name not in known:
            raise ValueError(
                f"dims name {name!r}, but there is no such variable{did_you_mean(name, known)}"
            )
        for variables in groups.values():
            if name not in variables:
                continue
            axes, values = variables[name]
            of_draws = tuple(axis for axis in axes if axis in _OF_DRAWS)
            others = axes[len(of_draws) :]
            if len(given) != len(others):
                raise ValueError(
                    f"dims of {name!r} are {list(given)}, but without chain and draw its axes are "
                    f"{list(others)}"
                )
            variables[name] = ((*of_draws, *given), values)


def check_coordinates(groups: Groups, coords: Mapping[str, Sequence[Hashable]]) -> None:
    """Raise a ``ValueError`` for coordinates of no axis, or of another length."""
    sizes = {
        axis: size
        for variables in groups.values()
        for axes, values in variables.values()
        for axis, size in zip(axes, values.shape, strict=True)
    }
    for name, values in coords.items():
        if name not in sizes:
            raise ValueError(
                f"coords name {name!r}, but no variable has such an axis{did_you_mean(name, sizes)}"
            )
        if len(values) != sizes[name]:
            raise ValueError(
                f"coords of {name!r} have {len(values)} values, but the axis has {sizes[name]}"
            )
