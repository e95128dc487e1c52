"""Plots of a fitted result.

A function with one panel takes an ``Axes`` to draw in and returns it; one with several panels takes
a ``Figure`` (or a ``SubFigure`` of a larger one) and returns that. Without this argument, a new
figure is made; save it with ``figure.savefig`` or ``axes.figure.savefig``. The functions do not use
pyplot, so that no figure stays in its global list, and matplotlib is imported only when something
is drawn. ``new_figure``, ``new_axes``, ``quiet`` and ``COLORS`` give plots of your own the same
style.

>>> import torch
>>> from pyro_crowdclust.plots import plot_partition
>>> axes = plot_partition(torch.randn(30, 2), [0, 1, 2] * 10)
>>> [text.get_text() for text in axes.texts]
['0', '1', '2']
"""

from pyro_crowdclust.plots.calibration import plot_calibration
from pyro_crowdclust.plots.campaign import plot_campaign
from pyro_crowdclust.plots.clusters import plot_cluster_sizes, plot_contingency
from pyro_crowdclust.plots.confusion import plot_confusion
from pyro_crowdclust.plots.history import plot_history
from pyro_crowdclust.plots.latent import plot_latent
from pyro_crowdclust.plots.partition import plot_partition
from pyro_crowdclust.plots.samples import plot_cluster_samples
from pyro_crowdclust.plots.style import COLORS, new_axes, new_figure, quiet
from pyro_crowdclust.plots.workers import plot_worker_weights, plot_workers

__all__ = [
    "COLORS",
    "new_axes",
    "new_figure",
    "plot_calibration",
    "plot_campaign",
    "plot_cluster_samples",
    "plot_cluster_sizes",
    "plot_confusion",
    "plot_contingency",
    "plot_history",
    "plot_latent",
    "plot_partition",
    "plot_worker_weights",
    "plot_workers",
    "quiet",
]
