"""The common style of the plots.

Colours are those of Paul Tol's "muted" scheme and two more, which colour-blind readers can
distinguish; if there are more groups than colours, the markers differ, too.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def matrix(axes: Axes, shares: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Shares in [0, 1] as shades, with the percentage in every cell where it is at least one."""
    axes.imshow(shares, cmap="Purples", vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    if shares.size <= 400:
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.005:
                axes.text(
                    column,
                    row,
                    f"{100 * share:.0f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if share > 0.55 else "black",
                )
    longest = max((len(name) for name in columns), default=0)
    turned = 90 if longest > 3 else 0
    axes.set_xticks(np.arange(len(columns)), list(map(plain, columns)), rotation=turned)
    axes.set_yticks(np.arange(len(rows)), list(map(plain, rows)))
    axes.tick_params(length=0, labelsize="small")
    axes.spines[:].set_visible(False)
