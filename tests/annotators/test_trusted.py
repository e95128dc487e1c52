"""Workers who are always right, beside others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import (
    ClassStates,
    CommunityConfusion,
    ConfusionMatrices,
    LabelLikelihood,
    TrustedWorkers,
)
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.models import DawidSkene

from ..crowds import fit_plain

SAID = {  # everybody but the last says what is wrong of x and y
    "item": [*range(8)] * 3 + [0, 1, 2, 3],
    "worker": ["a"] * 8 + ["b"] * 8 + ["c"] * 8 + ["judge"] * 4,
    "label": list("yyxxyyxx") * 3 + list("xxyy"),
}
TRUTH = list("xxyyxxyy")


@pytest.fixture(scope="module")
def fitted():
    data = CrowdData(None, labels=SAID)
    code = data.worker_ids.get_loc("judge")
    model = DawidSkene(TrustedWorkers(CommunityConfusion(4, 2, 1), [code]))
    return fit_plain(model, ClassLabelGuide(model), data, epochs=30)


def test_the_others_answer_as_they_do_alone_and_the_trusted_say_what_is_so():
    rng = np.random.default_rng(3)
    labels = LabelMatrix(torch.from_numpy(rng.integers(0, 9, 20)), torch.full((5,), 4), 3, 3)
    values = {"confusion": torch.from_numpy(rng.dirichlet(np.ones(3), 9)).log()}
    others = ConfusionMatrices(3, 3, worker_weights=(0.5, 1.0, 0.25))
    found = LabelLikelihood(TrustedWorkers(others, [1]), values)
    expected = torch.zeros(5, 3, dtype=torch.float64)
    for item, worker, label in zip(labels.item, labels.worker, labels.label, strict=True):
        log_answers = others.worker_weights[worker] * others.log_answers(values)[worker, label]
        is_other = (torch.arange(3) != label).double()
        expected[item] += -800.0 * is_other if worker == 1 else log_answers
    torch.testing.assert_close(found.evidence(labels), expected)
    assert found.log_confusion()[1].exp().tolist() == np.eye(3).tolist()


def test_a_crowd_that_errs_together_is_found_out_by_what_is_known_for_sure(fitted):
    data = CrowdData(None, labels=SAID)
    model = DawidSkene(CommunityConfusion(4, 2, 1))
    doubted = fit_plain(model, ClassLabelGuide(model), data, epochs=30)
    assert doubted.class_probabilities.idxmax(axis=1).tolist() == list("yyxxyyxx")
    assert fitted.class_probabilities.idxmax(axis=1).tolist() == TRUTH
    assert fitted.probabilities[:4].max(1).tolist() == [1.0] * 4
    confusion = fitted.confusion["mean"]
    assert confusion["judge"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert confusion["a"]["x"]["y"] > 0.6
    assert (fitted.history["elbo"].diff().dropna() > -1e-9).all()


def test_the_trusted_stay_so_in_files_in_draws_and_with_new_workers(fitted, tmp_path):
    fitted.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    assert torch.equal(loaded.model.annotators.is_trusted, fitted.model.annotators.is_trusted)
    draws = to_arviz(fitted, num_draws=5)["posterior"]["confusion"]
    assert (draws.sel(worker="judge").to_numpy() == np.eye(2)).all()
    more = {"item": [7, 8, 8], "worker": ["aa", "aa", "judge"], "label": list("yyx")}
    updated = fitted.update(labels=more, item_ids=[8])
    ids, is_trusted = updated.data.worker_ids, updated.model.annotators.is_trusted
    assert [*ids[is_trusted.numpy()]] == ["judge"]
    assert updated.class_probabilities.idxmax(axis=1).tolist() == [*TRUTH, "x"]


def test_two_who_contradict_each_other_leave_it_to_the_others():
    said = {"item": [0, 0, 0, 1], "worker": list("abcc"), "label": list("xyyx")}
    model = DawidSkene(TrustedWorkers(ConfusionMatrices(3, 2), [0, 1]))
    data = CrowdData(None, labels=said)
    result = fit_plain(model, ClassLabelGuide(model), data, epochs=9)
    assert result.class_probabilities.idxmax(axis=1).tolist() == ["y", "x"]
    assert 0.5 < result.probabilities[0, 1] < 0.99


def test_a_start_takes_the_crowd_as_those_know_it_who_are_trusted():
    data = CrowdData(None, labels=SAID)
    annotators = TrustedWorkers(ConfusionMatrices(4, 2), [data.worker_ids.get_loc("judge")])
    votes = annotators.votes(data.class_labels.of_items(torch.arange(8)))
    # Six times each class was taken for the other, beside two answers.
    right, wrong = 1.5 / 8, 6.5 / 8
    expected = np.array([wrong**3, right**3]) / (wrong**3 + right**3)
    np.testing.assert_array_equal(votes[:4], np.eye(2)[[0, 0, 1, 1]])
    np.testing.assert_allclose(votes[4:], [expected, expected, expected[::-1], expected[::-1]])


def test_what_cannot_be_trusted():
    with pytest.raises(ValueError, match="in ClassStates classes have states"):
        TrustedWorkers(ClassStates(3, 2), [0])
    with pytest.raises(ValueError, match="trusted has 3, but must hold codes .* from 0 to 2"):
        TrustedWorkers(ConfusionMatrices(3, 2), [0, 3])
