"""Workers who answer several times about an item, as a language model that is sampled does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import advice, average_annotator_models, classify, infer_classes
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.pooling.cross_validation import cross_validated
from pyro_crowdclust.pooling.labels_together import LabelsTogether

NUM_ITEMS, TIMES = 150, 5
ACCURACY = 0.75, 0.75, 0.85, 0.8


@pytest.fixture(scope="module")
def judged():
    """Classes, all labels, and the ones that are meant: worker 0 repeats 19 of 20 answers."""
    rng = np.random.default_rng(2)
    kind = rng.integers(2, size=NUM_ITEMS)
    meant, rows = [], []
    for worker, accuracy in enumerate(ACCURACY):
        label = np.where(rng.random(NUM_ITEMS) < accuracy, kind, 1 - kind)
        meant += [*zip(range(NUM_ITEMS), [worker] * NUM_ITEMS, label, strict=True)]
        for _ in range(TIMES if worker == 0 else 1):
            said = np.where(rng.random(NUM_ITEMS) < 0.95, label, 1 - label)
            rows += [*zip(range(NUM_ITEMS), [worker] * NUM_ITEMS, said, strict=True)]
    tables = (pd.DataFrame(one, columns=["item", "worker", "label"]) for one in (rows, meant))
    return kind, *tables


@pytest.fixture(scope="module")
def data(judged):
    with pytest.warns(UserWarning, match="count together as one"):
        return CrowdData(None, labels=judged[1])


def right(found, kind):
    return float((found.to_numpy().argmax(1) == kind).mean())


@pytest.mark.long
def test_who_repeats_themself_is_no_crowd(judged, data):
    kind, _, meant = judged
    result = infer_classes(data, epochs=30)
    expected = infer_classes(CrowdData(None, labels=meant), epochs=30)
    shares = [right(one.class_probabilities, kind) for one in (result, expected)]
    assert shares[0] > shares[1] - 0.05
    table = result.confusion.reset_index()
    own = table[(table["worker"] == 0) & (table["class"] == table["label"])]
    assert own["mean"].between(0.6, 0.85).all()
    assert (own["lower"] < 0.75).all()


@pytest.mark.long
def test_every_call_counts_them_alike(judged, data):
    kind, labels, _ = judged
    average = average_annotator_models(data, progress=False)
    rng = np.random.default_rng(0)
    features = kind[:, None] + 0.8 * rng.normal(size=(NUM_ITEMS, 2))
    with pytest.warns(UserWarning, match="count together as one"):
        both = classify(features, labels, folds=2, epochs=12, progress=False)
    for result in (average, both):
        assert right(result.class_probabilities, kind) > 0.86


def test_minibatches_files_and_updates_keep_the_weights(data, judged, tmp_path):
    kind, labels, _ = judged
    model = DawidSkene(ConfusionMatrices(4, 2))
    options = {"epochs": 20, "batch_size": 50, "progress": False}
    result = fit(model, ClassLabelGuide(model), data, **options)
    assert right(result.class_probabilities, kind) > 0.86
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    np.testing.assert_array_equal(loaded.data.class_labels.weight, data.class_labels.weight)
    first = labels.iloc[: 4 * NUM_ITEMS]
    with pytest.warns(UserWarning, match="there is one worker only, all count as if others"):
        begun = CrowdData(None, labels=first, item_ids=range(NUM_ITEMS), classes=[0, 1])
    model = DawidSkene(ConfusionMatrices(1, 2))
    begun = fit(model, ClassLabelGuide(model), begun, **options | {"epochs": 2})
    assert begun.data.class_labels.weight is None  # of a single worker, who may be many
    with pytest.warns(UserWarning, match="count together as one"):
        updated = begun.update(labels=labels.iloc[4 * NUM_ITEMS :], epochs=2)
    np.testing.assert_array_equal(updated.data.class_labels.weight, data.class_labels.weight)


def test_advice_says_how_they_count(data):
    model = DawidSkene(ConfusionMatrices(4, 2))
    result = fit(model, ClassLabelGuide(model), data, epochs=20, progress=False)
    (said,) = [one for one in advice(result) if "two classes or more" in one]
    assert "count together as those of 1.2 workers in the mean" in said


def test_what_is_left_out_is_not_said_again(data):
    labels = data.class_labels.of_items(torch.arange(data.num_items))
    assert labels.can_be_left_out.sum() == data.class_labels.is_first.sum()

    def fit_without(part):
        fit_without.seen.append(set(part.class_labels.source.tolist()))
        model = DawidSkene(ConfusionMatrices(4, 2))
        return fit(model, ClassLabelGuide(model), part, epochs=1, progress=False)

    fit_without.seen = []
    found = cross_validated(fit_without, data)
    assert len(found.named) == data.class_labels.is_first.sum()
    every = set(data.class_labels.source.tolist())
    left = [every - seen for seen in fit_without.seen]
    assert set.union(*left) == every
    assert sum(map(len, left)) == len(every)


def test_agreement_is_that_of_different_workers(data):
    together = LabelsTogether(data).all_together
    assert together.common.tolist() == [NUM_ITEMS] * 6
