"""What is frozen in a fit stays so in its updates, and in its file."""

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.families import Beta
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pairs

TRUTH = np.arange(60) % 3
FEATURES = 3.0 * np.eye(3)[TRUTH] + np.random.default_rng(0).normal(size=(60, 3))
RATES = ["sensitivity", "specificity"]


def answers(seed, **names):
    table = simulate_pairs(TRUTH, [0.6, 0.6, 0.6], [0.6, 0.6, 0.6], pairs_per_worker=40, seed=seed)
    return table.assign(worker="w" + table["worker"].astype(str)).replace({"worker": names})


@pytest.fixture(scope="module")
def frozen_fit():
    model = SemiCrowdsourcedMixture(
        DirichletWeights(3), GaussianComponents(3, 3), Identity(), TwoCoin(3)
    )
    guide = MessagePassingGuide(model)
    for name in RATES:
        known = Beta().natural(torch.tensor(50.0), torch.tensor(5.0)).double()
        guide.posteriors[name].set_natural_parameters(known.expand(3, -1))
        guide.posteriors[name].requires_grad_(False)
    options = {"epochs": 5, "batch_size": None, "step_size": 0.5, "progress": False}
    return fit(model, guide, CrowdData(FEATURES, answers(0)), **options)


def test_rates_that_are_frozen_stay_in_updates_and_new_workers_stay_at_the_prior(frozen_fit):
    again = frozen_fit.update(answers(1))
    pd.testing.assert_frame_equal(again.workers[RATES], frozen_fit.workers[RATES])
    with_new = frozen_fit.update(answers(1, w0="zoe")).workers[RATES]
    np.testing.assert_allclose(with_new.drop("zoe"), 50 / 55)
    zoe = frozen_fit.update(answers(1, w0="zoe")).guide.posteriors
    priors = frozen_fit.model.annotators.priors()
    for name in RATES:
        of_zoe = zoe[name].natural_parameters[-1].detach()
        torch.testing.assert_close(of_zoe, priors[name].natural_parameters[-1])


def test_rates_that_are_frozen_stay_so_in_a_file(frozen_fit, tmp_path):
    frozen_fit.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=frozen_fit.data)
    for fitted in (loaded, frozen_fit):
        found = {name for name, one in fitted.guide.named_parameters() if not one.requires_grad}
        assert found == {f"posteriors.{name}.natural_parameters" for name in RATES}
    again = loaded.update(answers(1))
    pd.testing.assert_frame_equal(again.workers[RATES], frozen_fit.workers[RATES])
