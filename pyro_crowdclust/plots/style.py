"""The common style of the plots.

Colours are those of Paul Tol's "muted" scheme and two more, which colour-blind readers can
distinguish; if there are more groups than colours, the markers differ, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = (
    "#332288",  # indigo
    "#CC6677",  # rose
    "#117733",  # green
    "#DDCC77",  # sand
    "#88CCEE",  # cyan
    "#882255",  # wine
    "#44AA99",  # teal
    "#999933",  # olive
    "#AA4499",  # purple
    "#661100",  # brown
    "#6699CC",  # steel blue
)
MARKERS = "os^DvP*X<>"
# Half the width of a central 90 % interval of a normal distribution, in standard deviations.
HALF_OF_90 = 1.645
# The size of small letters in points.
SMALL = 8.3
# The cells of a matrix in which 1 % is left out, and those in which there are no numbers.
_LARGE, _MAX_NUMBERS = 400, 1600
# Groups with a smaller share of the items are grey.
_MIN_SHARE = 0.01


def is_large(size: int, num_items: int) -> bool:
    """Whether a group of this size has a colour, and not grey."""
    return size >= max(_MIN_SHARE * num_items, 1)


def color_of(rank: int, is_large: bool) -> str:
    """The colour of the group with this number."""
    return COLORS[rank % len(COLORS)] if is_large else "#BBBBBB"


def new_figure(width: float, height: float) -> Figure:
    """A figure of this size in inches, outside pyplot's global list."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=120)


def new_axes(width: float, height: float) -> Axes:
    """The axes of a new figure with one panel."""
    return new_figure(width, height).subplots()


def quiet(axes: Axes, grid: Literal["x", "y", "both"] | None = None) -> None:
    """Two spines instead of four, and a pale grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(axis=grid, color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)


def pale(color: str) -> tuple[float, float, float]:
    """The mean of a colour and white."""
    from matplotlib.colors import to_rgb

    red, green, blue = (0.5 + 0.5 * channel for channel in to_rgb(color))
    return red, green, blue


def plain(name: Any) -> str:
    r"""A user's name as text in which a dollar sign does not begin a formula.

    Examples
    --------
    >>> print(plain("$x_$"))
    \$x_\$
    """
    return str(name).replace("$", r"\$")


def width_of(names: Iterable[Any], points: float = 10.0) -> float:
    """The width in inches of the longest name, nearly, in letters of so many points."""
    # A letter is 0.6 of its size wide on average.
    return max((0.6 * points / 72 * len(str(name)) for name in names), default=0.0)


def height_of_columns(columns: Sequence[str]) -> float:
    """The height in inches of the names of a matrix's columns, which are upright if long."""
    return width_of(columns, SMALL) if _turned(columns) else SMALL / 72


def matrix(axes: Axes, shares: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Shares in [0, 1] as shades, with the percentage in every cell where it is at least one.

    In larger matrices it is at least two, and in very large ones a bar explains the shades instead.
    """
    style: Any = {"cmap": "Purples", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
    image = axes.imshow(shares, aspect="equal", **style)
    if shares.size <= _MAX_NUMBERS:
        least = 0.005 if shares.size <= _LARGE else 0.015
        for (row, column), share in np.ndenumerate(shares):
            if share >= least:
                axes.text(
                    column,
                    row,
                    f"{100 * share:.0f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if share > 0.55 else "black",
                )
    else:
        axes.figure.colorbar(image, ax=axes, shrink=0.5, format="{x:.0%}")
    axes.set_xticks(
        np.arange(len(columns)), list(map(plain, columns)), rotation=90 * _turned(columns)
    )
    axes.set_yticks(np.arange(len(rows)), list(map(plain, rows)))
    axes.tick_params(length=0, labelsize=SMALL)
    axes.spines[:].set_visible(False)


def _turned(columns: Sequence[str]) -> bool:
    return max(map(len, columns), default=0) > 3
