"""Recognition networks, with classifiers and without."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pyro_crowdclust.families import Gaussian
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP

SIZES, DIM = (4, 7, 6, 3), 2


def test_gaussian_recognition_makes_potentials():
    recognition = GaussianRecognition(SkipMLP((4, 5, 2 * DIM)), DIM)
    o = torch.randn(6, 2, 2)
    raw_mean, raw = recognition.network(o.flatten(1)).chunk(2, -1)
    # softplus(raw + c) with softplus(c) = 20
    precision = torch.log1p(torch.exp(raw) * np.expm1(20.0))
    mean, covariance = Gaussian(DIM).standard(recognition(o).natural_parameters())
    torch.testing.assert_close(mean, raw_mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(covariance, (1 / precision).diag_embed(), rtol=1e-6, atol=1e-6)


def test_gaussian_recognition_starts_linear_and_confident():
    recognition = GaussianRecognition(SkipMLP((4, 5, 2 * DIM)), DIM)
    weight, bias = torch.randn(DIM, 4), torch.randn(DIM)
    recognition.start_at_linear(weight, bias)
    o = torch.randn(6, 4)
    mean, covariance = Gaussian(DIM).standard(recognition(o).natural_parameters())
    torch.testing.assert_close(mean, o @ weight.mT + bias, rtol=1e-6, atol=1e-6)
    expected = torch.eye(DIM).expand(6, -1, -1) / 20
    torch.testing.assert_close(covariance, expected, rtol=1e-6, atol=1e-6)


def test_gaussian_recognition_cannot_start_other_networks_linearly():
    network = nn.Linear(4, 2 * DIM)
    before = network.weight.clone()
    recognition = GaussianRecognition(network, DIM)
    assert recognition.start_at_linear(torch.ones(DIM, 4), torch.ones(DIM)) is False
    assert torch.equal(network.weight, before)


def test_other_networks_learn_points_and_the_initial_precision():
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    recognition = GaussianRecognition(nn.Linear(4, 2 * DIM), DIM)
    o = torch.randn(300, 4, generator=generator)
    points = o @ torch.randn(4, DIM, generator=generator) + 1
    recognition.start_at_points(o, points, generator, steps=2000)
    mean, covariance = Gaussian(DIM).standard(recognition(o).natural_parameters())
    torch.testing.assert_close(mean.float(), points.float(), atol=0.05, rtol=0)
    expected = torch.eye(DIM).expand(300, -1, -1) / 20
    torch.testing.assert_close(covariance.float(), expected.float(), atol=0.01, rtol=0)


@pytest.mark.parametrize(
    ("network", "match"),
    [
        (nn.Linear(5, 2 * DIM), "cannot run on 4 features per item.*Build it with input size 4"),
        (nn.Linear(4, DIM), f"returns {DIM} numbers.*need {2 * DIM}"),
    ],
)
def test_sizes_of_other_networks_are_checked(network, match):
    with pytest.raises(ValueError, match=match):
        GaussianRecognition(network, DIM).check_sizes(num_features=4, dim=DIM)


def test_networks_are_modules():
    network = nn.Linear(4, 2 * DIM)
    with pytest.raises(ValueError, match=r"network is a function.*must be an nn.Module"):
        GaussianRecognition(lambda o: network(o), DIM)


def test_amortized_recognition_scores_all_values_of_z_at_once():
    recognition = AmortizedRecognition((4, 6, 5), DIM, num_clusters=3)
    for parameter in recognition.parameters():
        nn.init.normal_(parameter, std=0.5)
    o = torch.randn(7, 4)
    logits, trunk = recognition.assignment_logits(o)
    assert logits.shape == (7, 3)
    one_hot = torch.eye(3).unsqueeze(1)
    all_at_once = recognition.latent(o, trunk, one_hot)
    assert all_at_once.mean.shape == (3, 7, DIM)
    for k in range(3):
        alone = recognition.latent(o, trunk, one_hot[k].expand(7, -1))
        torch.testing.assert_close(all_at_once.mean[k], alone.mean)
        torch.testing.assert_close(all_at_once.root[k], alone.root)
    assert (all_at_once.mean[0] - all_at_once.mean[1]).abs().max() > 0.01
    assert (all_at_once.root.diagonal(dim1=-2, dim2=-1) > 0).all()
    assert not all_at_once.root.triu(1).any()


def test_amortized_recognition_starts_linear_for_every_cluster():
    recognition = AmortizedRecognition((4, 6, 5), DIM, num_clusters=3)
    weight, bias = torch.randn(DIM, 4), torch.randn(DIM)
    recognition.start_at_linear(weight, bias)
    o = torch.randn(7, 4)
    moments = recognition.latent(o, recognition.trunk(o), torch.eye(3).unsqueeze(1))
    torch.testing.assert_close(moments.mean, (o @ weight.mT + bias).expand(3, -1, -1))
    torch.testing.assert_close(moments.root, 0.2 * torch.eye(DIM).expand(3, 7, -1, -1))


def separable() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    centers = 2 * torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 1.0]])
    features = centers[labels] + 0.3 * torch.randn(90, 4, generator=generator)
    return features, labels


def test_amortized_recognition_learns_a_partition():
    features, labels = separable()
    partition = nn.functional.one_hot(labels, 3).double()
    recognition = AmortizedRecognition((4, 16), DIM, num_clusters=3)
    untouched = [recognition.skip, recognition.moments, recognition.assignment]
    before = [p.clone() for module in untouched for p in module.parameters()]
    recognition.start_at_partition(features, partition, torch.Generator().manual_seed(1))
    logits, _ = recognition.assignment_logits(features)
    assert (logits.argmax(-1) == labels).all()
    assert logits.softmax(-1).max(-1).values.mean() > 0.9
    after = [p for module in untouched for p in module.parameters()]
    assert all(map(torch.equal, before, after))


def test_a_classifier_of_other_clusters_is_refused():
    features, labels = separable()
    recognition = AmortizedRecognition((4, 16), DIM, 3, classifier=nn.Linear(4, 5))
    partition = nn.functional.one_hot(labels, 3).double()
    with pytest.raises(ValueError, match="returns 5 logits, but the model has 3 clusters"):
        recognition.start_at_partition(features, partition, torch.Generator())


def test_a_partition_is_learned_the_same_way_twice():
    features, labels = separable()
    partition = nn.functional.one_hot(labels, 3).double()
    learned = []
    for _ in range(2):
        torch.manual_seed(5)
        recognition = AmortizedRecognition((4, 16), DIM, num_clusters=3)
        generator = torch.Generator().manual_seed(1)
        recognition.start_at_partition(features, partition, generator, steps=5)
        learned.append(recognition.logits.weight.clone())
    assert torch.equal(*learned)


def test_another_network_may_be_q_of_z():
    features = torch.randn(5, 4)
    other = nn.Linear(4, 3)
    gaussian = GaussianRecognition(SkipMLP((4, 6, 4)), 2, classifier=nn.Linear(4, 3))
    gaussian.set_classifier(other)
    amortized = AmortizedRecognition((4, 6, 6), 2, 3)
    amortized.set_classifier(other)
    expected = other(features)
    torch.testing.assert_close(gaussian.log_assignments(features), expected.log_softmax(-1))
    torch.testing.assert_close(amortized.assignment_logits(features)[0], expected)
    assert amortized.classifier is gaussian.classifier is other


def test_what_is_not_there_is_not_replaced():
    recognition = GaussianRecognition(SkipMLP((4, 6, 4)), 2)
    assert recognition.log_assignments(torch.randn(5, 4)) is None
    with pytest.raises(ValueError, match=r"has no classifier q\(z \| o\) .* with a classifier"):
        recognition.set_classifier(nn.Linear(4, 3))
