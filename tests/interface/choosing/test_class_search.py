"""Whether features tell of labels that were held out."""

import numpy as np
import pytest

from pyro_crowdclust.interface.choosing.class_search import tell_something


def predictions(sureness, share_right, num_items, seed):
    """Log-probability of a label, of two, by candidates that are right in some share of items."""
    rng = np.random.default_rng(seed)
    right = rng.random((6, num_items)) < share_right
    return np.log(np.where(right, sureness, 1 - sureness))


@pytest.mark.parametrize("sureness", [0.6, 0.99])
def test_chance_seldom_tells(sureness):
    even = np.full(100, np.log(0.5))
    told = [tell_something(predictions(sureness, 0.5, 100, seed), even) for seed in range(300)]
    assert np.mean(told) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)


def test_who_is_right_oftener_than_chance_tells_however_sure():
    even = np.full(100, np.log(0.5))
    found = predictions(0.999, 0.75, 100, seed=0)
    assert (found.mean(1) < even.mean()).all()
    assert tell_something(found, even)


def test_nothing_tells_where_nothing_was_tried():
    assert not tell_something([], np.zeros(9))
