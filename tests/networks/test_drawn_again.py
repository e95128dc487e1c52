"""Networks that begin anew with every fit."""

from __future__ import annotations

import torch

from pyro_crowdclust.networks.drawn_again import cast_networks

from ..crowds import message_passing_pair


def test_networks_have_the_precision_of_the_features():
    model, guide = message_passing_pair()
    cast_networks(model, guide, torch.float16)
    assert {one.dtype for one in guide.recognition.parameters()} == {torch.float16}
    assert {one.dtype for one in guide.posteriors.parameters()} == {torch.float64}
