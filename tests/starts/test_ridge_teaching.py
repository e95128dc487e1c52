"""Teaching in closed form: errors of items left out by refits, and clusters that are wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.linear_model import Ridge

from pyro_crowdclust import CrowdData
from pyro_crowdclust.minibatches import item_batches
from pyro_crowdclust.networks import PatchClassifier, SkipMLP
from pyro_crowdclust.starts import RidgeTeaching, TaughtStart
from pyro_crowdclust.starts.ridge_teaching import along_directions, left_out_errors, regressed

from ..striped_photos import SIZE, guide_with, stripes


@pytest.mark.parametrize("penalty", [0.3, 5.0])
@pytest.mark.parametrize("num_features", [4, 20])
def test_errors_of_items_left_out_are_those_of_refits(num_features, penalty):
    rng = np.random.default_rng(0)
    seen, target = rng.normal(size=(12, num_features)), rng.normal(size=(12, 3))
    expected = []
    for out in range(12):
        kept = np.arange(12) != out
        refit = Ridge(alpha=penalty).fit(seen[kept], target[kept])
        expected.append(target[out] - refit.predict(seen[out : out + 1])[0])
    x, y = (torch.from_numpy(part - part.mean(0)) for part in (seen, target))
    points, directions = along_directions(x)
    torch.testing.assert_close(points @ directions, x)
    solution = points.mT @ y / (points.square().sum(0) + penalty).unsqueeze(1)
    found = left_out_errors(points, y, solution, torch.tensor(penalty))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_penalty_and_sharpness_are_those_that_name_items_left_out_best():
    rng = np.random.default_rng(1)
    clusters = rng.integers(3, size=20)
    seen = rng.normal(size=(20, 5)) + 2 * np.eye(3, 5)[clusters]
    target, unit = np.eye(3)[clusters], np.square(seen - seen.mean(0)).sum() / 20
    refits = [Ridge(alpha=unit * 2.0**power) for power in range(-7, 4)]
    losses = {}
    for number, refit in enumerate(refits):
        scores = []
        for out in range(20):
            kept = np.arange(20) != out
            scores.append(refit.fit(seen[kept], target[kept]).predict(seen[[out]])[0])
        for sharpness in (1, 2, 4, 6, 8, 12, 16):
            logs = log_softmax(sharpness * np.array(scores), axis=1)
            losses[number, sharpness] = -logs[np.arange(20), clusters].mean()
    number, sharpness = min(losses, key=losses.__getitem__)
    best = refits[number].fit(seen, target)
    weight, bias = regressed(torch.from_numpy(seen), torch.from_numpy(clusters), 3)
    np.testing.assert_allclose(weight, sharpness * best.coef_, atol=1e-8)
    np.testing.assert_allclose(bias, sharpness * best.intercept_, atol=1e-8)
    assert 0 < number < 10


def test_many_items_of_few_features_take_no_square_of_items():
    clusters = torch.arange(2000) % 3
    seen = torch.eye(3)[clusters] + torch.randn(2000, 3, generator=torch.Generator().manual_seed(0))
    with torch.profiler.profile(profile_memory=True) as profile:
        regressed(seen, clusters, 3)
    largest = max(abs(event.self_cpu_memory_usage) for event in profile.events())
    assert largest < 2000**2


def test_wrong_clusters_are_not_learned_by_heart():
    images, kind = stripes(300, 0)
    generator = torch.Generator().manual_seed(1)
    wrong = torch.rand(300, generator=generator) < 0.2
    said = torch.where(wrong, (kind + 1) % 3, kind)
    known = torch.where(torch.arange(300) < 150, said, -1)
    network = PatchClassifier((1, SIZE, SIZE), 3, num_patterns=12, size=4, stride=2)
    guide, data = guide_with(network), CrowdData(images)
    TaughtStart(known, RidgeTeaching())(guide.model, guide, data, generator)
    found = guide.infer(next(item_batches(data, 300))).assignments.argmax(1)
    assert float((found == kind).float().mean()) > 0.9
    with torch.no_grad():
        seen = network.standardized(network.pooled(images[:150]))
        weight, bias = regressed(seen, said[:150], 3)
    torch.testing.assert_close(seen.mean(0), torch.zeros(seen.shape[1]), atol=1e-4, rtol=0)
    torch.testing.assert_close(network.head.bias, bias, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(network.head.weight, weight, atol=1e-3, rtol=1e-3)


def test_other_networks_are_refused():
    images, kind = stripes(30, 0)
    guide = guide_with(SkipMLP((SIZE**2, 8, 3)))
    with pytest.raises(ValueError, match="teach a PatchClassifier only, not a SkipMLP"):
        TaughtStart(kind, RidgeTeaching())(guide.model, guide, CrowdData(images), torch.Generator())
