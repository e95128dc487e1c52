"""All that a guide knows is saved: in the middle of training a loaded one infers what it did."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from pyro_crowdclust import CrowdData, guides, load
from pyro_crowdclust.annotators import ConfusionMatrices, OneCoin, TwoCoin
from pyro_crowdclust.guides import (
    AveragedGuide,
    ClassLabelGuide,
    PairRegressionGuide,
    TwoWayGuide,
)
from pyro_crowdclust.inference import LabelTerm
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import SoftmaxRegression
from pyro_crowdclust.models import DawidSkene, PairRegression, TwoWayMixture
from pyro_crowdclust.supervision import ClassTable, HiddenMarkovField

from ..crowds import (
    NUM_FEATURES,
    NUM_WORKERS,
    amortized_pair,
    crowd,
    message_passing_pair,
    quiet_fit,
)
from ..deep_problems import make_guide
from ..mixture_parts import CLUSTERS


def _structured() -> tuple:
    table = ClassTable(CLUSTERS, 2)
    guide = make_guide(
        annotators=TwoCoin(NUM_WORKERS), supervision=table, label_term=LabelTerm(2.0)
    )
    return guide.model, guide


def _two_way() -> tuple:
    model = TwoWayMixture(3, 2, NUM_FEATURES, TwoCoin(NUM_WORKERS))
    return model, TwoWayGuide(model, trusting_epochs=2)


def _pair_regression() -> tuple:
    model = PairRegression(SoftmaxRegression(3, NUM_FEATURES), TwoCoin(NUM_WORKERS))
    return model, PairRegressionGuide(model)


def _class_labels() -> tuple:
    model = DawidSkene(ConfusionMatrices(4, 3))
    return model, ClassLabelGuide(model)


def _averaged() -> tuple:
    model, guide = _class_labels()
    return model, AveragedGuide(guide, ClassLabelGuide(DawidSkene(OneCoin(4, 3))), 0.3)


def _said() -> CrowdData:
    generator = torch.Generator().manual_seed(0)
    item, worker = torch.cartesian_prod(torch.arange(12), torch.arange(4)).unbind(1)
    label = torch.where(torch.rand(48, generator=generator) < 0.7, item % 3, (item + worker) % 3)
    return CrowdData(
        None, labels={"item": item.numpy(), "worker": worker.numpy(), "label": label.numpy()}
    )


def _known() -> CrowdData:
    data = crowd()
    known = [i % 2 if i % 3 == 0 else None for i in range(data.num_items)]
    return CrowdData(data.features, data.pairs, known=known)


GUIDES: dict[str, tuple[Callable[[], tuple], Callable[[], CrowdData]]] = {
    "AmortizedGuide": (amortized_pair, crowd),
    "AveragedGuide": (_averaged, _said),
    "ClassLabelGuide": (_class_labels, _said),
    "MessagePassingGuide": (message_passing_pair, crowd),
    "PairRegressionGuide": (_pair_regression, crowd),
    "StructuredGuide": (_structured, _known),
    "TwoWayGuide": (_two_way, crowd),
}


def test_every_guide_of_the_library_is_here():
    classes = {name: one for name, one in vars(guides).items() if isinstance(one, type)}
    offered = {name for name in guides.__all__ if issubclass(classes.get(name, object), nn.Module)}
    # One is made of a user's model and guide, one is made of two fitted guides and not trained, and
    # two have draws and infer nothing: see tests/guides/test_enumerated.py, test_given_features.py,
    # test_partition.py and test_sorted_partition.py.
    others = {"EnumeratedGuide", "GivenFeatures", "PartitionGuide", "SortedPartitionGuide"}
    assert offered - others == set(GUIDES)


def same_after_loading(path, pair: tuple, data: CrowdData, epochs: int) -> None:
    result = quiet_fit(*pair, data, epochs=epochs, batch_size=None, step_size=0.5)
    result.save(path)
    loaded, batch = load(path, data=data), full_batch(data)
    # Computed by the loaded guide, not read from the file.
    assert loaded.elbo_of(batch) == pytest.approx(result.elbo_of(batch), rel=1e-12)
    with result.inside():
        expected = result.guide.infer(batch).assignments
    with loaded.inside():
        torch.testing.assert_close(loaded.guide.infer(batch).assignments, expected)


@pytest.mark.long
@pytest.mark.parametrize("name", GUIDES)
@pytest.mark.parametrize("epochs", [1, 4])
def test_a_loaded_guide_infers_what_the_saved_one_did(name, epochs, tmp_path):
    make, data = GUIDES[name]
    same_after_loading(tmp_path / "result.safetensors", make(), data(), epochs)


def test_a_field_is_where_it_was(tmp_path):
    data = _known()
    field = HiddenMarkovField.of(data, 3, strength=0.5)
    model, guide = message_passing_pair()
    model = type(model)(model.weights, model.components, model.emission, model.annotators, field)
    guide = type(guide)(model, guide.recognition)
    same_after_loading(tmp_path / "result.safetensors", (model, guide), data, epochs=3)
