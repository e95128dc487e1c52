"""Pictures of a fitted result.

A function with one panel takes an ``Axes`` to draw in and returns it; one with several takes a
``Figure`` (or a ``SubFigure`` of a larger one) and returns that. Without one, each makes its own;
save it with ``figure.savefig`` or ``axes.figure.savefig``. Nothing is drawn through pyplot, so no
figure stays behind in its global list, and matplotlib is imported when something is drawn.
``new_figure``, ``new_axes``, ``quiet`` and ``COLORS`` are for pictures of your own that look alike.

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
