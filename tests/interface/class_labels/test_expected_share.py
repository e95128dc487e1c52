from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import norm, uniform

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.class_labels.expected_share import expected_share, share_of_votes
from pyro_crowdclust.interface.class_labels.trait import latent_trait


def crowd(number: int, positive: int) -> CrowdData:
    """Three workers who agree: ``positive`` items of ``number`` have the second class."""
    label = np.repeat(np.arange(number) < positive, 3).astype(int)
    columns = {"item": np.repeat(np.arange(number), 3), "worker": [*"abc"] * number, "label": label}
    return CrowdData(None, labels=columns, classes=[0, 1])


@pytest.mark.parametrize("positive", [1, 3, 10, 20, 45, 70])
def test_log_odds_are_a_posterior_mean(positive):
    data = crowd(98, positive)
    votes = logit((positive + 1) / 100)
    grid = np.linspace(-9, 9, 20_001)
    centre = logit(0.8)
    prior = norm.pdf(grid, centre, 0.6) + norm.pdf(grid, -centre, 0.6) + uniform.pdf(grid, -6, 12)
    weight = prior * norm.pdf(votes, grid, 0.6)
    mean = (grid * weight).sum() / weight.sum()
    assert expected_share(data) == pytest.approx(expit(mean), abs=1e-3)


def test_a_rare_class_is_expected_to_be_rarer_than_its_votes():
    shares = {positive: expected_share(crowd(98, positive)) for positive in (29, 49, 69)}
    assert shares[29] < 0.27
    assert shares[49] == pytest.approx(0.5)
    assert shares[29] + shares[69] == pytest.approx(1)  # classes may be exchanged


@pytest.mark.parametrize("positive", [1, 97])
def test_votes_for_a_class_of_one_item_in_fifty_or_less_stand(positive):
    assert expected_share(crowd(98, positive)) == pytest.approx((positive + 1) / 100, abs=0.003)


def test_a_trait_expects_this_share_unless_another_is_given():
    data = crowd(98, 29)
    assert latent_trait(data, None).annotators.share == expected_share(data)
    assert latent_trait(data, 0.4).annotators.share == 0.4


def test_votes_of_workers_who_always_say_the_same_do_not_count():
    rng = np.random.default_rng(0)
    label = (rng.random(300) < 0.3)[:, None] ^ (rng.random((300, 3)) < 0.1)
    item, worker = np.indices(label.shape)
    columns = {"item": item.ravel(), "worker": worker.ravel(), "label": label.ravel().astype(int)}
    answers = pd.DataFrame(columns)
    dull = [pd.DataFrame({"item": range(300), "worker": 90 + one, "label": 0}) for one in range(9)]
    plain = share_of_votes(CrowdData(None, labels=answers))
    both = share_of_votes(CrowdData(None, labels=pd.concat([answers, *dull])))
    assert both == pytest.approx(plain)
