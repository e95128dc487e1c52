"""Of every pair of model and guide a fit can be drawn."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust.plots import plot_cluster_sizes, plot_contingency, plot_history

from ..crowds import quiet_fit
from ..registries import PAIRS_OF_MODEL_AND_GUIDE
from .pictures import rendered


@pytest.mark.parametrize("name", PAIRS_OF_MODEL_AND_GUIDE)
def test_every_fit_has_its_training_and_its_clusters_drawn(name):
    """What ``docs/plots.md`` says needs nothing, or known classes alone."""
    model, guide, data = PAIRS_OF_MODEL_AND_GUIDE[name]()
    fitted = quiet_fit(model, guide, data, epochs=2)
    rendered(plot_history(fitted))
    rendered(plot_cluster_sizes(fitted))
    rendered(plot_contingency(fitted, np.arange(data.num_items) % 2))
