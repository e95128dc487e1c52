"""k-means as starts need it: scikit-learn's own, of as many clusters as points can fill."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.cluster import KMeans

from pyro_crowdclust.starts.k_means import k_means


def test_it_is_that_of_scikit_learn_with_a_seed_of_the_generator():
    points = torch.randn(60, 3, generator=torch.Generator().manual_seed(1)).double()
    seed = int(torch.randint(2**31, (), generator=torch.Generator().manual_seed(2)))
    found = k_means(points, 4, torch.Generator().manual_seed(2), num_starts=3)
    expected = KMeans(4, n_init=3, random_state=seed).fit(points.numpy())
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)


def test_points_that_are_the_same_are_no_clusters_of_their_own():
    points = torch.tensor([[0.0, 1.0], [0.0, 1.0], [2.0, 3.0]]).repeat(4, 1)
    found = k_means(points, 5, torch.Generator().manual_seed(0))
    assert len(found.cluster_centers_) == 2
    assert len({*found.labels_}) == 2
