"""Rows of parameters belong to the same items and answers in every batch, or are refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoNormal

from pyro_crowdclust import CrowdData
from pyro_crowdclust.minibatches import AnswerPlate, ItemPlate

from ..crowds import quiet_fit
from ..plain_mixtures import adam, two_clouds

LEFT, OTHERS = np.triu_indices(9, 1)
PAIRS = {"left": LEFT, "right": OTHERS, "worker": np.arange(36) % 3, "label": [1, 0, 1, 1] * 9}
PAIRS["page"] = np.arange(36)  # so that minibatches draw every answer on its own
DATA = two_clouds(9, PAIRS)


def by_length(batch):
    return pyro.plate("pairs", batch.num_pairs)


by_position = partial(AnswerPlate, "pairs")


def model(plate, batch):
    """An answer is yes with a probability of its own."""
    with ItemPlate("items", batch):
        pyro.sample("o", dist.Normal(0.0, 3.0), obs=batch.features[:, 0])
    if batch.num_pairs:
        with plate(batch):
            ease = pyro.sample("ease", dist.Normal(0.0, 1.0))
            pyro.sample("label", dist.Bernoulli(logits=ease), obs=batch.label)


def fitted(plate, batch_size, kind=AutoNormal, is_told=False, **options):
    own = partial(model, plate)
    guide = kind(own, create_plates=plate if is_told else None)
    options = {"epochs": 30, "optim": adam, "batch_size": batch_size, **options}
    return quiet_fit(own, guide, DATA, **options)


@pytest.mark.parametrize("kind", [AutoNormal, AutoDelta])
@pytest.mark.parametrize("is_told", [True, False])
def test_rows_of_answers_in_the_order_of_a_batch_are_refused(kind, is_told):
    """Every batch holds all answers, so that Pyro would find no wrong shape."""
    said = (
        r"rows of '.*ease' in the order of this batch.* of its answers, .*AnswerPlate\('pairs', b"
    )
    with pytest.raises(ValueError, match=said):
        fitted(by_length, 3, kind, is_told)
    fitted(by_length, None, kind, is_told, epochs=1)


def test_rows_by_position_are_the_same_in_minibatches():
    """The latents are independent, and so the optimum is that of every answer alone."""
    whole, parts = (
        fitted(by_position, size, AutoDelta, is_told=True, epochs=400) for size in (None, 3)
    )
    assert parts.elbo == pytest.approx(whole.elbo, abs=1e-3)
    ease = parts.guide.ease.detach()
    yes = torch.tensor(PAIRS["label"])
    # Where the derivative of log p(label | e) - e^2 / 2 is zero.
    torch.testing.assert_close(ease, yes - ease.sigmoid(), atol=1e-3, rtol=0, check_dtype=False)


def test_as_many_workers_as_answers_are_no_answers():
    def of_workers(batch):
        with pyro.plate("workers", 36):
            bias = pyro.sample("bias", dist.Normal(0.0, 1.0))
        if batch.num_pairs:
            with by_length(batch), poutine.scale(scale=batch.pair_weight):
                pyro.sample("label", dist.Bernoulli(logits=bias.sum()), obs=batch.label)

    options = {"batch_size": 3, "epochs": 1}
    quiet_fit(of_workers, AutoNormal(of_workers), DATA, **options)


def test_rows_of_class_labels_are_refused_in_minibatches():
    def of_labels(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        if batch.class_labels is not None:
            with pyro.plate("labels", len(batch.class_labels)):
                ease = pyro.sample("ease", dist.Normal(mean, 1.0))
                yes = dist.Bernoulli(logits=ease)
                pyro.sample("label", yes, obs=batch.class_labels.label.double())

    labels = {"item": [0, 1, 2, 3], "worker": [0, 1, 0, 1], "label": [0, 1, 1, 0]}
    data = CrowdData(torch.zeros(4, 1), labels=labels)
    guide = AutoNormal(of_labels)
    with pytest.raises(ValueError, match="of its class labels, .* fit with batch_size=None"):
        quiet_fit(of_labels, guide, data, epochs=1, batch_size=2)
    quiet_fit(of_labels, guide, data, epochs=1, batch_size=None)


def test_rows_of_placements_are_refused_in_minibatches():
    def of_places(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        if batch.pages is not None:
            with pyro.plate("places", len(batch.pages.row)):
                pyro.sample("ease", dist.Normal(mean, 1.0))

    pages = {"page": [0, 0, 0, 0], "item": [0, 1, 2, 3], "worker": ["a"] * 4, "group": [0, 0, 1, 1]}
    data = CrowdData(torch.zeros(4, 1), placements=pages)
    with pytest.raises(ValueError, match="of its placements, .* fit with batch_size=None"):
        quiet_fit(of_places, AutoNormal(of_places), data, epochs=1, batch_size=2)
