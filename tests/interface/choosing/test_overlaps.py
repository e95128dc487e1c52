"""Components that overlap, or are of one known class, are one cluster without answers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface.candidates.suited_forms import forms_for
from pyro_crowdclust.interface.choosing.overlaps import (
    groups_by_class,
    with_classes_joined,
    with_overlaps_joined,
)
from pyro_crowdclust.results import cluster_classes, known_class_probabilities


def fitted(apart: float):
    """Three components on three clouds, of which two are so far from each other."""
    rng = np.random.default_rng(0)
    kinds = np.arange(240) % 3
    centers = np.array([[0.0, 0.0], [apart, 0.0], [0.0, 12.0]])
    data = CrowdData(centers[kinds] + rng.normal(size=(240, 2)))
    return forms_for(data)[0].recipe(data, 3).fit(progress=False), kinds


@pytest.mark.parametrize(("apart", "clusters"), [(10.0, 3), (1.5, 2)])
def test_clouds_are_joined_where_they_cannot_be_told_apart(apart, clusters, tmp_path):
    result, kinds = fitted(apart)
    joined = with_overlaps_joined(result)
    assert len(np.unique(joined.assignments)) == clusters
    assert len(set(joined.assignments[kinds == 2])) == 1
    assert joined.probabilities.sum(1) == pytest.approx(1)
    if clusters == 3:
        assert joined is result
        return
    assert (joined.probabilities.max(1) > 0.9).mean() > 0.95
    joined.save(tmp_path / "joined.safetensors")
    np.testing.assert_allclose(
        load(tmp_path / "joined.safetensors").probabilities, joined.probabilities
    )


def test_components_of_one_class_are_grouped_and_those_of_none_stay_alone():
    q = torch.eye(8)[[0, 1, 2, 3, 4, 5, 5, 6, 7, 6]].double()
    q[8] = 0.45 * q[8] + 0.55 * q[0]  # less than half of a label
    known = ["a", "b", "c", "a", "b", "a", "b", None, "a", None]
    data = CrowdData(np.zeros((10, 1)), known=known)
    assert groups_by_class(given(data, q, 20 * q)).tolist() == [0, 1, 2, 0, 1, 5, 6, 7]


def given(data, q, log_joint):
    """A fit of these probabilities of items, and of these of labelled items by their features."""
    guide = SimpleNamespace(infer=lambda batch: SimpleNamespace(logits=log_joint[batch.items]))
    return SimpleNamespace(
        data=data, guide=guide, component_probabilities=q, owners=None, device="cpu"
    )


@pytest.mark.parametrize(("nats", "is_joined"), [(6.4, False), (6.6, True)])
def test_a_component_is_of_a_class_if_that_makes_labelled_items_likelier(nats, is_joined):
    """Four labels are in one component, the fifth in one of the same size, by so many nats.

    With both, log p changes by log(1/2) for each of the four, and by log((1 + exp(nats)) / 2), in
    all by nats - 5 log 2 + log(1 + exp(-nats)).
    """
    q = torch.eye(2)[[0] * 4 + [1] * 4 + [0, 1]].double()
    known = ["a"] * 4 + ["a"] + [None] * 5
    log_joint = torch.tensor([[0.0, -99.0]]).repeat(10, 1).double()
    log_joint[4] = torch.tensor([0.0, nats])
    data = CrowdData(np.zeros((10, 1)), known=known)
    group = groups_by_class(given(data, q, log_joint))
    assert (len(group.unique()) == 1) == is_joined
    gain = nats - 5 * np.log(2) + np.log1p(np.exp(-nats))
    assert (gain > 3) == is_joined


def test_a_class_owns_its_components_and_a_new_kind_stays_alone(tmp_path):
    rng = np.random.default_rng(0)
    clouds = np.arange(240) % 4
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    known = [["left", "right", "left", None][cloud] for cloud in clouds]
    known = [label if place % 3 else None for place, label in enumerate(known)]
    data = CrowdData(centers[clouds] + rng.normal(size=(240, 2)), known=known)
    plain = forms_for(data)[0].recipe(data, 4).fit(progress=False)
    joined = with_classes_joined(plain)
    kinds = np.array([0, 1, 0, 2])[clouds]
    assert len(set(zip(joined.assignments, kinds, strict=True))) == 3
    # What is known of the items' classes is now of the clusters, of which each has more labels.
    classes = [known_class_probabilities(one) for one in (joined, plain)]
    np.testing.assert_allclose(*classes, atol=0.01)
    np.testing.assert_array_equal(*(one.argmax(1) for one in classes))
    table = cluster_classes(joined).to_numpy()
    assert table.sum(1) == pytest.approx(1)
    assert table[joined.assignments[kinds == 0][0]].max() > 0.99
    joined.save(tmp_path / "joined.safetensors")
    again = load(tmp_path / "joined.safetensors")
    np.testing.assert_allclose(known_class_probabilities(again), known_class_probabilities(joined))
