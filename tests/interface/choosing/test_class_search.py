"""Whether a candidate tells of labels that were held out."""

import numpy as np
import pytest

from pyro_crowdclust.interface.choosing.class_search import (
    ClassCandidate,
    ClassSearch,
    ClassTrial,
    tells,
)

EVEN = np.full(100, np.log(0.5))


def predictions(sureness, share_right, seed):
    """Log-probability of labels, of two, by somebody who is right about some share of the items."""
    right = np.random.default_rng(seed).random(100) < share_right
    return np.log(np.where(right, sureness, 1 - sureness))


@pytest.mark.parametrize("sureness", [0.6, 0.99])
@pytest.mark.parametrize("num_candidates", [1, 6])
def test_chance_seldom_tells(sureness, num_candidates):
    found = (predictions(sureness, 0.5, seed) for seed in range(1000))
    told = [tells(one, EVEN, num_candidates) for one in found]
    level = 0.05 / num_candidates
    assert np.mean(told) < level + 3 * np.sqrt(level / 1000)


def test_who_is_right_oftener_than_chance_tells_however_sure():
    found = predictions(0.999, 0.75, seed=0)
    assert found.mean() < EVEN.mean()
    assert tells(found, EVEN, 6)


def test_features_count_less_where_held_out_labels_say_so_beyond_an_error():
    candidate = ClassCandidate("columns", "full Gaussians", None, (1.0, 0.5, 0.2))
    rng = np.random.default_rng(0)
    as_fitted, noise = rng.normal(size=100), rng.normal(size=(2, 100))
    alike = ClassTrial(candidate, np.stack([as_fitted, *(as_fitted + 0.5 * noise - 0.02)]), 0.0)
    assert alike.sharpness == 1
    better = ClassTrial(
        candidate, np.stack([as_fitted, as_fitted + 0.2, as_fitted + 0.25 + 3 * noise[0]]), 0.0
    )
    assert better.sharpness == 0.5
    np.testing.assert_array_equal(better.by_item, as_fitted + 0.2)


def test_classes_of_any_shape_have_to_be_better_beyond_an_error():
    rng = np.random.default_rng(0)
    score, noise = np.log(np.full(100, 0.7)), 0.2 * rng.normal(size=100)
    noise -= noise.mean()
    search = ClassSearch.__new__(ClassSearch)
    search.interrupted = False
    for gain, wins in ((0.01, False), (0.1, True)):
        search.trials = [
            ClassTrial(ClassCandidate("columns", kind, None, is_free=is_free), found[None], 0.0)
            for kind, is_free, found in (
                ("labels alone", False, EVEN),
                ("regression", False, score),
                ("Gaussian process", True, score + gain + noise),
            )
        ]
        winner, reason = search._winner()
        assert winner.candidate.is_free == wins
        assert reason.startswith("it predicts held-out labels best")
