"""All pictures: none stays behind in pyplot, and a dollar sign in a name begins no formula."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.command_line.report import report_page
from pyro_crowdclust.plots import (
    plot_confusion,
    plot_contingency,
    plot_history,
    plot_partition,
    plot_worker_weights,
    plot_workers,
)

from ..crowds import crowd, plain_pair, quiet_fit
from .pictures import NUM_ITEMS


def test_pyplot_keeps_no_figure(deep):
    before = plt.get_fignums()
    plot_history(deep)
    plot_partition(np.zeros((3, 2)), [0, 1, 2])
    assert plt.get_fignums() == before


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*repeats an earlier answer")
def test_names_that_look_like_formulas():
    names = {0: "$x_$", 1: "$", 2: r"a\$b$_{"}
    pairs = crowd(NUM_ITEMS).pairs
    pairs = pairs.assign(worker=pairs["worker"].map(names))
    data = CrowdData(crowd(NUM_ITEMS).features, pairs)
    result = quiet_fit(*plain_pair(), data, epochs=1)
    for draw in (plot_workers, plot_worker_weights):
        figure = draw(result)
        figure.savefig(io.BytesIO())
        shown = [text.get_text().replace(r"\$", "$") for text in figure.axes[0].get_yticklabels()]
        assert {"$x_$", "$"} <= set(shown)
    plot_confusion(np.eye(2)[None], workers=["$x_$"], classes=["$a_$", "b"]).savefig(io.BytesIO())
    groups = np.array(["$x_$", "$_$"] * 30)
    plot_partition(data.features[:, :2], groups).figure.savefig(io.BytesIO())
    plot_contingency(result, groups).figure.savefig(io.BytesIO())
    assert "$x_$" in report_page(result)
