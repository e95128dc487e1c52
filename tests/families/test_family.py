"""What a family does not define is refused by name."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.families import REGISTRY, Beta, Categorical


def test_a_family_without_a_summary_says_so():
    with pytest.raises(NotImplementedError, match="define summary"):
        REGISTRY["gaussian"].summary(torch.zeros(6), 0.9)


def test_a_family_of_single_numbers_has_no_features():
    with pytest.raises(NotImplementedError, match="not the conjugate prior of a likelihood of vec"):
        _ = Beta().num_features


@pytest.mark.parametrize(
    "verb", ["observation_statistics", "log_base_measure", "sample_observation"]
)
def test_a_family_without_a_likelihood_says_so(verb):
    with pytest.raises(NotImplementedError, match="not the conjugate prior"):
        getattr(Categorical(3), verb)(torch.zeros(3))


def test_a_family_that_cannot_go_back_says_so():
    with pytest.raises(NotImplementedError, match="no natural_of_mean"):
        Categorical(3).natural_of_mean(torch.ones(3) / 3)
