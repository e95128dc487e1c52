"""A classifier that is taught by views: how sure it becomes of items that it is told nothing of."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.networks import RandomAffine, ResidualClassifier, SkipMLP
from pyro_crowdclust.starts import ViewTeaching

from ..striped_photos import SIZE, stripes
from .test_taught import known_of, quick, striped


@pytest.mark.long
def test_layers_are_normalized_over_batches_while_they_are_taught():
    images, kind = stripes(200, 0)
    torch.manual_seed(2)
    network = ResidualClassifier((1, SIZE, SIZE), 3, width=8)
    view = RandomAffine((1, SIZE, SIZE), degrees=2.0, shift=0.5)
    ViewTeaching(view, steps=150, batch_size=64, memory=0.9).teach(
        network, CrowdData(images), kind, torch.Generator().manual_seed(1)
    )
    assert not network.training
    assert not torch.equal(network.whitening, torch.eye(16))
    new, kind = stripes(200, 5)
    assert float((network(new).argmax(1) == kind).float().mean()) > 0.8


def test_others_become_as_sure_as_the_sharpness_says():
    data, human = striped()
    sure = {}
    for name, changes in {
        "known items alone": {"alone": 1.0},
        "sharp": {"sharpness": 4.0},
        "blunt": {"sharpness": 0.5},
    }.items():
        torch.manual_seed(1)
        network = SkipMLP((3, 16, 3))
        teaching = replace(quick, **changes)
        teaching.teach(network, data, known_of(human), torch.Generator().manual_seed(2))
        found = network(data.rows(torch.arange(60, data.num_items))).softmax(-1)
        sure[name] = found.max(1).values.mean().item()
    assert sure["sharp"] > sure["blunt"] + 0.05
    assert sure["known items alone"] > sure["blunt"] + 0.05
