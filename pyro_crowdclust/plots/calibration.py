"""Calibration: whether a share p of the pairs with P(same) = p are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from pyro_crowdclust.metrics import expected_calibration_error
from pyro_crowdclust.plots.style import COLORS, HALF_OF_90, new_figure, pale, quiet
from pyro_crowdclust.plots.truth import labels_of_items
from pyro_crowdclust.protocols import FittedModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

# The number of bins of probabilities, of equal width, and of pairs that are drawn.
_BINS, _NUM_PAIRS = 10, 50_000
_SEED = 0


def plot_calibration(
    fitted: FittedModel,
    true_labels: ArrayLike,
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """The share of pairs that are the same, against ``P(z_i = z_j)``, in bins of the latter.

    Probabilities are those of ``same_cluster_probability``, for random pairs of different items.
    Points stand at the mean probability of a bin, with 90 % Wilson intervals of the share; the
    panel below shows the number of pairs per bin. Pairs share items, so that the intervals are too
    narrow if few items make many pairs.

    Parameters
    ----------
    fitted
        The result of ``fit``.
    true_labels
        True class of every item; a series is matched by its index if that has the ids of the items.
    figure
        Figure to draw in; default: a new one.

    Raises
    ------
    ValueError
        If ``true_labels`` is not one label per item, or there are fewer than two items.
    """
    labels, num_items = labels_of_items(fitted, true_labels), fitted.data.num_items
    if num_items < 2:
        raise ValueError("calibration needs pairs of items, but the data have only one item")
    rng = np.random.default_rng(_SEED)
    left = rng.integers(num_items, size=_NUM_PAIRS)
    right = (left + rng.integers(1, num_items, size=_NUM_PAIRS)) % num_items
    same_cluster = fitted.same_cluster_by_position(left, right)
    predicted = np.clip(same_cluster, 0, 1)
    same = (labels[left] == labels[right]).astype(float)

    bins = np.minimum((predicted * _BINS).astype(int), _BINS - 1)
    counts = np.bincount(bins, minlength=_BINS)
    used = np.flatnonzero(counts)
    mean, share = (
        np.bincount(bins, values, _BINS)[used] / counts[used] for values in (predicted, same)
    )
    lower, upper = _wilson(share, counts[used])

    figure = figure or new_figure(4.4, 5.0)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    top.plot([0, 1], [0, 1], color="0.4", linewidth=0.9, linestyle="--", zorder=1)
    top.vlines(mean, lower, upper, color=pale(COLORS[0]), linewidth=3)
    top.plot(mean, share, "o", color=COLORS[0], markersize=5)
    top.set_ylabel("share that is the same")
    top.set_ylim(-0.03, 1.03)
    error = expected_calibration_error(predicted, same, _BINS)
    top.set_title(f"expected calibration error {error:.3f}", fontsize="medium")
    edges = np.linspace(0, 1, _BINS + 1)
    bottom.bar(
        edges[:-1], counts, np.diff(edges), align="edge", color=pale(COLORS[0]), edgecolor="white"
    )
    bottom.set_yscale("symlog", linthresh=1)
    bottom.set_ylim(bottom=0)
    bottom.set_ylabel("pairs")
    bottom.set_xlabel("probability of being the same")
    for axes in (top, bottom):
        quiet(axes, grid="both")
    return figure


def _wilson(
    share: Float[np.ndarray, " bin"], count: Int[np.ndarray, " bin"]
) -> tuple[Float[np.ndarray, " bin"], Float[np.ndarray, " bin"]]:
    """``(p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)``, Wilson 1927."""
    z = HALF_OF_90
    middle = share + z**2 / (2 * count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return (middle - half) / (1 + z**2 / count), (middle + half) / (1 + z**2 / count)
