"""How sure a candidate may be, by the labels that it predicted."""

import numpy as np

from pyro_crowdclust.interface.class_labels.trials import ClassCandidate, ClassTrial


def sure(number, *weights, share_right=1.0):
    """A trial of two classes of features that are so sure: odds of 1,000 to one, to a power."""
    odds = 1000.0 ** np.array(weights)[:, None]
    right = np.arange(number) < share_right * number
    own = np.where(right, np.log(odds / (1 + odds)), np.log(1 / (1 + odds)))
    of_others = np.full(own.shape, np.log(odds / (1 + odds)) + np.log(1 / (1 + odds))) / 2
    candidate = ClassCandidate("columns", "full Gaussians", None, weights)
    return ClassTrial(candidate, own, of_others, number, 0.0)


def test_the_score_counts_half_an_item_more_that_features_mislead_about():
    rng = np.random.default_rng(0)
    own, of_others = rng.normal(size=(2, 3, 7))
    trial = ClassTrial(
        ClassCandidate("columns", "kind", None, (1.0, 0.5, 0.2)), own, of_others, 7, 0.0
    )
    expected = [
        (one.sum() + other.mean() / 2) / 7.5 for one, other in zip(own, of_others, strict=True)
    ]
    np.testing.assert_allclose(trial.scores, expected)
    best = int(np.argmax(expected))
    assert trial.feature_weight == (1.0, 0.5, 0.2)[best]
    np.testing.assert_array_equal(trial.by_item, own[best])


def test_to_be_right_of_few_items_is_no_reason_to_be_sure():
    powers = (1.0, 0.5, 0.35, 0.2)
    assert [sure(number, *powers).feature_weight for number in (3, 12, 400)] == [0.35, 0.5, 1.0]
    assert sure(400, *powers, share_right=0.8).feature_weight == 0.2
