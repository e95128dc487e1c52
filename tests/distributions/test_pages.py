"""Homes and placements on pages: normalizers and draws against sums over all homes."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from pyro_crowdclust.distributions.pages import (
    GroupPlacement,
    PageHomes,
    log_home_normalizer,
    log_home_normalizers,
)

OVERLAP = 0.01


def weight(homes: tuple[int, ...], overlap: float) -> float:
    """One factor for every pair of clusters with one home; those without a home share none."""
    return overlap ** sum(a == b > 0 for a, b in itertools.combinations(homes, 2))


def normalizer(num_clusters: int, num_groups: int, overlap: float) -> float:
    every = itertools.product(range(num_groups + 1), repeat=num_clusters)
    return sum(weight(homes, overlap) for homes in every)


@pytest.mark.parametrize("num_clusters", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("num_groups", [1, 2, 3])
@pytest.mark.parametrize("overlap", [1.0, OVERLAP, 1e-6])
def test_the_normalizer_is_the_sum_over_all_homes(num_clusters, num_groups, overlap):
    found = log_home_normalizer(num_clusters, num_groups, math.log(overlap))
    assert found == pytest.approx(math.log(normalizer(num_clusters, num_groups, overlap)))
    sizes = torch.tensor([[1, num_clusters], [2, num_groups]])
    of_pages = log_home_normalizers(*sizes)
    expected = [math.log(normalizer(num_clusters, num_groups, odds)) for odds in (OVERLAP, 1.0)]
    assert of_pages[1].tolist() == pytest.approx(expected)


def assert_shares(counts: torch.Tensor, probabilities: torch.Tensor) -> None:
    """Counts are within five deviations of a multinomial's."""
    draws = counts.sum()
    deviation = (draws * probabilities * (1 - probabilities)).sqrt()
    assert ((counts - draws * probabilities).abs() <= 5 * deviation + 1e-9).all()


@pytest.mark.long
def test_homes_are_drawn_with_their_probabilities():
    """Three of four clusters are seen, in two groups; in the other state homes are independent."""
    pages, num_groups = 1500, 2
    seen = torch.tensor([True, False, True, True]).expand(pages, 4)
    groups = torch.full((pages,), num_groups)
    site = PageHomes(torch.rand(pages, 3), groups, 4, lambda: seen)
    homes = site.sample()
    assert homes.shape == (pages, 2, 4, num_groups + 1)
    assert not homes[:, :, 1].any()
    places = homes[:, :, [0, 2, 3]]
    assert (places.sum(-1) == 1).all()
    code = places.argmax(-1) @ torch.tensor([9, 3, 1])
    every = list(itertools.product(range(3), repeat=3))
    for state, overlap in enumerate((OVERLAP, 1.0)):
        expected = torch.tensor([weight(own, overlap) for own in every], dtype=torch.float64)
        counts = code[:, state].bincount(minlength=27)
        assert_shares(counts, expected / expected.sum())
        # Overlapping pairs, whichever they are, are less scattered.
        pairs = torch.tensor([round(math.log(weight(own, OVERLAP), OVERLAP)) for own in every])
        of_pairs = torch.zeros(2, 4, dtype=torch.float64)
        of_pairs.index_add_(1, pairs, torch.stack([counts.double(), expected]))
        assert_shares(of_pairs[0], of_pairs[1] / of_pairs[1].sum())


@pytest.mark.parametrize("state", ["sorted", "lumped", "careless"])
@pytest.mark.parametrize("home", [0, 2])
def test_placements_are_drawn_with_their_probabilities(state, home):
    """Of three groups and one that stayed empty, which is the place of clusters without a home."""
    count, num_groups, right = 8000, 3, 0.6
    attentive = torch.tensor([state == "sorted", state == "lumped"]).double()
    accuracy = torch.tensor([right, 1 - right]).log().expand(count, 2)
    homes = torch.eye(num_groups + 1)[home].expand(count, -1)

    def site(at_home: torch.Tensor) -> GroupPlacement:
        groups = torch.full((len(at_home),), num_groups)
        own = accuracy[: len(at_home)], attentive.expand(len(at_home), 2), groups
        return GroupPlacement(at_home, *own, lambda: homes[: len(at_home)])

    places = torch.arange(num_groups + 1)
    at_home = (places == (home - 1) % (num_groups + 1)).unsqueeze(1) * attentive
    probabilities = site(at_home).log_prob(places).exp()
    slip = (1 - right) / (num_groups if state == "sorted" else num_groups + 1)
    expected = torch.full((num_groups + 1,), slip)
    if state == "careless":
        expected = torch.full((num_groups + 1,), 1 / (num_groups + 1))
    else:
        expected[(home - 1) % (num_groups + 1)] = right + slip * (state == "lumped")
    torch.testing.assert_close(probabilities, expected)
    drawn = site(torch.zeros(count, 2)).sample()
    assert_shares(drawn.bincount(minlength=num_groups + 1), expected)
