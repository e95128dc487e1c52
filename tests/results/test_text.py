"""What a result says of itself."""

from __future__ import annotations

import copy
import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from pyro.infer.autoguide import AutoNormal

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.data import DatasetFeatures
from pyro_crowdclust.guides import ClassLabelGuide, MessagePassingGuide
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.results.text import most_and_least_reliable

from ..crowds import crowd, plain_mixture, plain_pair, quiet_fit
from ..problems import location_model


@pytest.fixture(scope="module")
def result():
    return quiet_fit(*plain_pair(), crowd(60), epochs=8)


def test_three_lines(result):
    first, second, third = repr(result).splitlines()
    assert first == repr(result.data)
    sizes = ", ".join(map(str, np.sort(np.bincount(result.assignments))[::-1]))
    assert second == f"3 clusters with {sizes} items; {result.stop_reason}"
    weight, error = result.workers["weight"], result.workers["weight_sd"]
    surest = (weight - error).idxmax()
    assert third.startswith(f"most reliable worker {surest} (weight {weight[surest]:.2f})")


def test_few_answers_make_nobody_the_most_or_the_least_reliable():
    weight = pd.Series([4.4, 3.9, 1.0, 0.9], list("abcd"), name="weight")
    error = pd.Series([1.5, 0.4, 0.4, 1.5], list("abcd"))
    said = "most reliable worker b (weight 3.90), least c (1.00)"
    assert most_and_least_reliable(weight, error) == said
    # Of all others it is only known that they may be better.
    assert most_and_least_reliable(weight[:2], error[:2]) == "most reliable worker b (weight 3.90)"


@pytest.mark.parametrize(
    "lapses",
    [{"careless": [0.7, 0.1, 0.1]}, {"attention": [0.3, 0.9, 0.9]}],
    ids=lambda one: [*one][0],
)
def test_whoever_does_not_look_is_not_the_most_reliable(result, lapses):
    table = result.workers.assign(weight=[2.0, 1.5, 1.0], weight_sd=0.1, **lapses)
    fitted = copy.copy(result)
    vars(fitted)["workers"] = table
    assert repr(fitted).splitlines()[2] == (
        "most reliable worker 1 (weight with lapses 1.35), least 0 (0.60)"
    )
    page = fitted._repr_html_()
    assert re.findall(r"<tr>\s*<td>(\d)</td>", page)[-3:] == ["1", "2", "0"]
    assert f"<th>{[*lapses][0]}</th>" in page


def test_a_loaded_fit_says_where_its_features_are(result, tmp_path):
    result.save(tmp_path / "fit.safetensors")
    first, *others = repr(load(tmp_path / "fit.safetensors")).splitlines()
    assert "no features" in first
    assert first.endswith(", loaded without its features")
    assert others == repr(result).splitlines()[1:]
    again = load(tmp_path / "fit.safetensors", data=result.data)
    assert repr(again) == repr(result)


def test_without_answers_the_last_line_tells_of_the_training():
    result = quiet_fit(*plain_pair(), CrowdData(crowd().features), epochs=2)
    assert repr(result).splitlines()[2].startswith(f"ELBO {result.elbo:,.1f} nats in ")


def test_a_notebook_gets_tables(result):
    page = result._repr_html_()
    assert page.count("<table") == 2
    for line in repr(result).splitlines():
        assert line in page


def test_ids_are_text_in_a_notebook(result):
    pairs = result.data.pairs
    pairs["worker"] = pairs["worker"].map({0: "<b>", 1: "ada", 2: "wu"})
    data = CrowdData(result.data.features, pairs)
    page = quiet_fit(*plain_pair(), data, epochs=1)._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_classes_have_sizes():
    said = {"item": [0, 0, 1, 1, 2, 2], "worker": list("ababab"), "label": list("xxyyyy")}
    data = CrowdData(None, labels=said)
    model = DawidSkene(ConfusionMatrices(2, 2))
    result = quiet_fit(model, ClassLabelGuide(model), data, batch_size=None, epochs=5)
    assert repr(result).splitlines()[1].startswith("2 classes with 2, 1 items; ")


def test_one_item_and_one_worker():
    said = {"item": [0, 0], "worker": ["ann"] * 2, "label": ["x", "y"]}
    model = DawidSkene(ConfusionMatrices(1, 2))
    data = CrowdData(None, labels=said)
    result = quiet_fit(model, ClassLabelGuide(model), data, batch_size=None, epochs=2)
    assert repr(result).splitlines()[1].startswith("1 class with 1 item; ")
    pairs = {"left": [0], "right": [1], "worker": ["ann"], "label": [1]}
    model = plain_mixture(num_workers=1)
    data = CrowdData(crowd().features, pairs)
    result = quiet_fit(model, MessagePassingGuide(model), data, epochs=1)
    assert repr(result).splitlines()[2].startswith("one worker, ann (weight ")


def test_features_on_disk_are_not_read_for_it(result):
    class Unreadable(DatasetFeatures):
        def read(self, start: int, stop: int) -> np.ndarray:
            raise AssertionError("the features were read")

    data = object.__new__(CrowdData)
    data.__dict__.update(result.data.__dict__, features=object.__new__(Unreadable))
    data.features.shape, data.features.dtype = result.data.features.shape, np.dtype(float)
    in_use = result.history["clusters_in_use"].iloc[-1]
    text = repr(dataclasses.replace(result, data=data))
    assert text.splitlines()[1].startswith(f"{in_use} clusters in use; ")


def test_any_model_has_three_lines():
    data = CrowdData(crowd().features)
    result = quiet_fit(location_model, AutoNormal(location_model), data, epochs=1)
    assert repr(result).splitlines()[1].startswith("location_model, AutoNormal; ")
    assert result._repr_html_().startswith("<div><p>CrowdData(")
