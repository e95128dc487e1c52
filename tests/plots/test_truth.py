"""Which item a true label is of: by the index of a series, or by its place."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.plots import plot_calibration, plot_contingency, plot_latent

from ..crowds import blobs
from .pictures import NUM_ITEMS, offsets, rows


def titled(result, labels):
    return plot_calibration(result, labels).axes[0].get_title()


def shares(result, labels):
    return np.asarray(plot_contingency(result, labels).images[0].get_array()).tolist()


def colored(result, labels):
    panel = plot_latent(result, true_labels=labels).axes[1]
    return {group.get_label(): rows(offsets(group)) for group in panel.collections}


@pytest.mark.long
@pytest.mark.parametrize("drawn", [titled, shares, colored])
@pytest.mark.parametrize("ids", [[f"i{n}" for n in range(NUM_ITEMS)], range(NUM_ITEMS)])
def test_a_series_of_true_labels_may_say_by_its_index_which_items_they_are_of(deep, drawn, ids):
    result = dataclasses.replace(deep, data=deep.data.with_parts(item_ids=pd.Index(ids)))
    truth = blobs(NUM_ITEMS)[1]
    order = np.random.default_rng(0).permutation(NUM_ITEMS)
    in_order, shuffled = pd.Series(truth, ids), pd.Series(truth, ids).iloc[order]
    expected = drawn(result, truth)
    assert drawn(result, in_order) == drawn(result, shuffled) == expected
    longer = pd.concat([pd.Series([7], ["nobody was asked"]), shuffled])
    assert drawn(result, longer) == expected
    # Whatever the index is if not the ids, once each, labels are in the order of the items.
    others = [f"other {n}" for n in order]
    assert drawn(result, pd.Series(truth, others)) == expected
    assert drawn(result, pd.Series(truth, [ids[0]] * NUM_ITEMS)) == expected
    assert drawn(result, shuffled.to_numpy()) != expected
    with pytest.raises(
        ValueError, match=f"true_labels has {NUM_ITEMS - 1} entries, but there are {NUM_ITEMS}"
    ):
        drawn(result, shuffled.iloc[1:])
