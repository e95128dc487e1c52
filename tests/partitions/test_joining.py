from __future__ import annotations

import numpy as np
import torch

from pyro_crowdclust.partitions.joining import join_best


def test_the_best_union_is_made_first_and_the_first_of_the_two_keeps_its_number():
    values = torch.tensor([0.0, 5.0, 1.0, 5.5, 9.0]).double()

    def nearness(member, numbers):
        centers = values @ member / member.sum(0)
        return -(centers[:, None] - centers).abs() + 0.01 * (numbers[:, None] > numbers)

    found = [join_best(torch.arange(5), nearness, fewest=most).tolist() for most in (5, 4, 3, 2)]
    assert found == [[0, 1, 2, 3, 4], [0, 3, 2, 3, 4], [2, 3, 2, 3, 4], [2, 4, 2, 4, 4]]
    assert join_best(torch.arange(5), nearness, least=-0.7).tolist() == found[1]
    assert join_best(torch.tensor([7, 7, 0, 3, 3]), nearness, fewest=3).tolist() == [7, 7, 0, 3, 3]


def test_average_linkage_is_that_of_scipy():
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist, squareform

    points = np.random.default_rng(0).normal(size=(14, 2))
    distance = torch.from_numpy(squareform(pdist(points)))

    def nearness(member, _):
        size = member.sum(0)
        return -(member.mT @ distance @ member) / torch.outer(size, size)

    found = join_best(torch.arange(14), nearness, fewest=4)
    expected = torch.from_numpy(fcluster(linkage(pdist(points), "average"), 4, "maxclust"))
    assert torch.equal(found[:, None] == found, expected[:, None] == expected)
