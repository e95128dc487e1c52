"""Components that are mistaken for each other are joined one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.mixture.overlap import groups_by_overlap


def test_groups_are_chains_and_empty_components_stay_alone():
    q = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.55, 0.45, 0.0], [0.45, 0.0, 0.55, 0.0]])
    group = groups_by_overlap(q)
    assert len(group[:3].unique()) == 1
    assert group[3] == 3
    assert (groups_by_overlap(q, threshold=0.9) == torch.arange(4)).all()


def joined_one_by_one(q: np.ndarray, threshold: float) -> list[set[int]]:
    """Groups of components, of which in turn the two that overlap most are joined."""
    groups = [{one} for one in range(q.shape[1])]
    while True:
        of_group = np.stack([q[:, [*group]].sum(1) for group in groups], 1)
        given = of_group.argmax(1)
        overlap = {
            (k, m): of_group[given == m, k].sum() / of_group[:, k].sum()
            for k in range(len(groups))
            for m in range(len(groups))
            if k != m
        }
        one, other = max(overlap, key=overlap.__getitem__)
        if overlap[one, other] < threshold:
            return groups
        joined = groups[one] | groups[other]
        groups = [group for group in groups if not group & joined] + [joined]


@pytest.mark.parametrize("seed", range(4))
def test_those_that_overlap_most_are_joined_first(seed):
    q = np.random.default_rng(seed).dirichlet(np.array([0.02, 0.05, 0.1, 0.2, 0.1, 0.3]), 60)
    found = groups_by_overlap(torch.from_numpy(q), threshold=0.15).numpy()
    groups = {frozenset(np.flatnonzero(found == one).tolist()) for one in found}
    assert groups == set(map(frozenset, joined_one_by_one(q, 0.15)))
    assert 1 < len(groups) < 6
