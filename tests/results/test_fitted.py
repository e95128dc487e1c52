"""What is read from a fit: tables by the user's ids, predictions, the bound."""

from __future__ import annotations

import dataclasses
from statistics import fmean
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats
import torch
from pyro.infer import Trace_ELBO

from pyro_crowdclust import CrowdData, Fitted, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.diagnostics.draws import global_draws
from pyro_crowdclust.emissions import BernoulliEmission, Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import classify
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP

from ..crowds import (
    NUM_CLUSTERS,
    amortized_pair,
    blobs,
    crowd,
    message_passing_pair,
    plain_pair,
    quiet_fit,
)
from ..problems import location_guide, location_model
from ..registries import OneAccuracy
from .saved_fits import fitted

NUM_ITEMS = 60
# Ids whose order is not that of the positions.
IDS = [f"item-{(7 * i) % NUM_ITEMS:02d}" for i in range(NUM_ITEMS)]
MAKERS = {
    "plain": plain_pair,
    "message passing": message_passing_pair,
    "amortized": amortized_pair,
}


@pytest.fixture(scope="module")
def results() -> dict[str, Fitted]:
    """One fit of every kind. Networks in double precision: the tests' default comes later."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    data = crowd(NUM_ITEMS, item_ids=IDS)
    fitted = {name: quiet_fit(*make(), data, epochs=8) for name, make in MAKERS.items()}
    torch.set_default_dtype(before)
    return fitted


@pytest.fixture(params=MAKERS)
def result(request, results) -> Fitted:
    return results[request.param]


def truth() -> np.ndarray:
    return blobs(NUM_ITEMS)[1]


def unannotated(result: Fitted) -> np.ndarray:
    return np.setdiff1d(np.arange(NUM_ITEMS), result.data.annotated_items.numpy())


def test_items_come_in_the_order_of_the_data(result):
    assert result.probabilities.shape == (NUM_ITEMS, NUM_CLUSTERS)
    assert result.probabilities.sum(1) == pytest.approx(1.0)
    assert (result.assignments == result.probabilities.argmax(1)).all()
    # Clear clouds: only items in their own places have their own clusters.
    assert clustering_accuracy(truth(), result.assignments) > 0.95
    assert clustering_accuracy(np.roll(truth(), 1), result.assignments) < 0.8
    assert list(result.data.item_ids) == IDS


def test_items_without_answers_are_predicted_from_their_features(result):
    alone = unannotated(result)
    assert 0 < len(alone) < NUM_ITEMS
    new = result.data.features[alone]
    np.testing.assert_allclose(result.predict_proba(new), result.probabilities[alone], rtol=1e-12)
    assert (result.predict(new) == result.assignments[alone]).all()
    frame = pd.DataFrame(new, index=[f"new {i}" for i in range(len(new))])
    assert (result.predict_proba(frame) == result.predict_proba(new)).all()
    assert (result.predict_proba(torch.tensor(new)) == result.predict_proba(new)).all()
    assert (result.predict(new[:1]) == result.assignments[alone[:1]]).all()


def test_answers_change_the_assignments_of_their_items(results):
    result = results["plain"]
    answered = result.data.annotated_items.numpy()
    from_features = result.predict_proba(result.data.features[answered])
    assert not np.allclose(from_features, result.probabilities[answered], rtol=1e-3, atol=0)
    direct = result.guide.infer(full_batch(result.data))
    order = full_batch(result.data).items.numpy()
    expected = direct.assignments[:, result.cluster_order]
    np.testing.assert_allclose(result.probabilities[order], expected, rtol=1e-12)


def test_many_items_are_predicted_in_parts(result, monkeypatch):
    new = blobs(50, seed=3)[0]
    whole = result.predict_proba(new)
    monkeypatch.setattr("pyro_crowdclust.results.item_posterior.PREDICTION_ROWS", 7)
    np.testing.assert_allclose(result.predict_proba(new), whole, rtol=1e-12)


NAMES = ["wing", "beak", "tail", "mass"]


def named(features: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(features, columns=NAMES[: features.shape[1]])


def test_columns_are_found_by_their_names(tmp_path):
    features = named(blobs(NUM_ITEMS)[0])
    fitted = quiet_fit(*plain_pair(), CrowdData(features))
    fitted.save(tmp_path / "fit.safetensors")
    moved = features[features.columns[::-1]].assign(note=1.0)
    for result in (fitted, load(tmp_path / "fit.safetensors")):
        assert result.data.feature_names.tolist() == features.columns.tolist()
        for verb in (result.predict, result.predict_proba):
            np.testing.assert_array_equal(verb(moved), verb(features))
        # Without names columns are told by their order.
        np.testing.assert_array_equal(result.predict(features.to_numpy()), result.assignments)
        with pytest.raises(ValueError, match="lack 1 column .*: 'wing'; .*did you mean 'Wing'"):
            result.predict(features.rename(columns={"wing": "Wing"}))


def test_names_that_occur_twice():
    frame = pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="features have two columns 'a': rename or drop one"):
        CrowdData(frame)


def test_rows_to_predict_may_share_names():
    """As rows drawn with replacement do, and those of two tables one below the other."""
    features = named(blobs(NUM_ITEMS)[0])
    result = quiet_fit(*plain_pair(), CrowdData(features))
    twice = pd.concat([features, features])
    np.testing.assert_array_equal(result.predict(twice), np.tile(result.assignments, 2))


def test_columns_without_names_are_told_by_their_order():
    features = blobs(NUM_ITEMS)[0]
    result = quiet_fit(*plain_pair(), CrowdData(pd.DataFrame(features)))
    assert result.data.feature_names is None
    np.testing.assert_array_equal(result.predict(named(features)), result.assignments)


def test_clusters_are_numbered_by_size(result):
    sizes = np.bincount(result.assignments, minlength=NUM_CLUSTERS)
    assert (np.diff(sizes) <= 0).all()
    order = result.cluster_order
    batch = full_batch(result.data)
    own = result.guide.infer(batch).assignments.double().argmax(1).numpy()
    assert np.array_equal(order[result.assignments[batch.items]], own)


def test_the_numbers_of_clusters_are_those_of_the_saved_fit(result, tmp_path):
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors")
    assert np.array_equal(loaded.cluster_order, result.cluster_order)
    pd.testing.assert_frame_equal(loaded.clusters, result.clusters)
    pd.testing.assert_frame_equal(loaded.components, result.components)


def test_same_cluster_probability_of_one_pair(result):
    q = result.probabilities
    for i, j in [(0, 1), (3, 59), (41, 8)]:
        value = result.same_cluster_probability(IDS[i], IDS[j])
        assert isinstance(value, float)
        assert value == pytest.approx(q[i] @ q[j], rel=1e-12)
        assert value == result.same_cluster_probability(IDS[j], IDS[i])


def test_same_cluster_probability_of_many_pairs(result):
    q, i, j = result.probabilities, [5, 2, 5], [9, 2, 7]
    lefts, rights = ([IDS[at] for at in ends] for ends in (i, j))
    expected = [q[5] @ q[9], 1.0, q[5] @ q[7]]
    for convert in (list, tuple, np.array, pd.Index, pd.Series, pd.array, pd.Categorical, iter):
        values = result.same_cluster_probability(convert(lefts), convert(rights))
        assert isinstance(values, np.ndarray)
        assert values == pytest.approx(expected, rel=1e-12)
    assert result.same_cluster_by_position(torch.tensor(i), np.array(j)).tolist() == [*values]
    assert result.same_cluster_probability([], []).shape == (0,)
    assert result.same_cluster_probability(IDS[2], IDS[2]) == 1.0


def test_same_cluster_probability_of_tuples_that_are_ids():
    ids = [(i // 6, i % 6) for i in range(NUM_ITEMS)]
    data = CrowdData(blobs(NUM_ITEMS)[0], item_ids=ids)
    result = quiet_fit(*plain_pair(), data)
    q = result.probabilities
    values = result.same_cluster_probability([(0, 1), (2, 0)], [(0, 2), (2, 1)])
    assert values == pytest.approx([q[1] @ q[2], q[12] @ q[13]])
    assert result.same_cluster_probability((2, 0), (2, 1)) == pytest.approx(values[1])


def test_same_cluster_probability_of_one_and_several(result):
    for left, right in ((IDS[:2], IDS[2]), (IDS[2], IDS[:2])):
        with pytest.raises(ValueError, match="a single id, the other a sequence of ids"):
            result.same_cluster_probability(left, right)
    with pytest.raises(ValueError, match="ids is a set, which has no order: pass a list"):
        result.same_cluster_probability({IDS[0], IDS[1]}, [IDS[2], IDS[3]])


def test_new_features_that_no_emission_makes_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("pyro_crowdclust.results.item_posterior.PREDICTION_ROWS", 4)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(2), GaussianComponents(2, 1), BernoulliEmission(SkipMLP((1, 3, 4)))
    )
    guide = MessagePassingGuide(model, GaussianRecognition(SkipMLP((4, 3, 2)), 1))
    features = np.random.default_rng(0).random((9, 4))
    result = quiet_fit(model, guide, CrowdData(features), epochs=1)
    features[6, 2] = 255
    for read in (
        result.predict,
        result.transform,
        lambda given: result.write_items(tmp_path / "items.parquet", given),
    ):
        with pytest.raises(ValueError, match="row 6 has 255: rescale"):
            read(features)


def test_predictions_need_features(result):
    with pytest.raises(ValueError, match="new items need features"):
        result.predict(None)


def test_same_cluster_probability_of_unknown_items(result):
    with pytest.raises(ValueError, match="ids row 0 is 'item-99', not among the item ids"):
        result.same_cluster_probability("item-99", IDS[0])
    with pytest.raises(ValueError, match="ids row 1 is 'item-99'"):
        result.same_cluster_probability(IDS[:2], [IDS[0], "item-99"])
    with pytest.raises(ValueError, match="left has 2 ids and right 1: give two sequences"):
        result.same_cluster_probability(IDS[:2], IDS[:1])


WORKER_COLUMNS = [
    *("sensitivity", "sensitivity_sd", "sensitivity_lower", "sensitivity_upper"),
    *("specificity", "specificity_sd", "specificity_lower", "specificity_upper"),
    *("weight", "weight_sd", "answers"),
]


def test_workers(results):
    data = crowd(NUM_ITEMS)
    names = np.array(["wu", "ada", "Bo"])
    pairs = data.pairs.assign(worker=names[data.pairs["worker"]])
    result = quiet_fit(*message_passing_pair(), CrowdData(data.features, pairs), epochs=4)
    workers = result.workers
    assert list(workers.columns) == WORKER_COLUMNS
    assert list(workers.index) == ["Bo", "ada", "wu"]
    assert workers.index.name == "worker"
    assert workers["answers"].to_dict() == pairs["worker"].value_counts().to_dict()
    posterior = {name: q.standard() for name, q in result.guide.posteriors.items()}
    weight, variance = 0.0, 0.0
    for name in ("sensitivity", "specificity"):
        yes, no = (part.detach().numpy() for part in posterior[name])
        q = scipy.stats.beta(yes, no)
        np.testing.assert_allclose(workers[name], yes / (yes + no))
        np.testing.assert_allclose(workers[f"{name}_sd"], q.std())
        coverage = q.cdf(workers[f"{name}_upper"]) - q.cdf(workers[f"{name}_lower"])
        np.testing.assert_allclose(coverage, 0.9)
        assert (workers[f"{name}_lower"] < workers[name]).all()
        assert (workers[name] < workers[f"{name}_upper"]).all()
        draws = scipy.special.logit(q.rvs((200_000, 3), random_state=0))
        weight, variance = weight + draws.mean(0), variance + draws.var(0)
    np.testing.assert_allclose(workers["weight"], weight, rtol=0.02)
    np.testing.assert_allclose(workers["weight_sd"], np.sqrt(variance), rtol=0.02)


def test_workers_at_point_estimates(results):
    workers = results["amortized"].workers
    assert list(workers.columns) == WORKER_COLUMNS
    points = results["amortized"].guide.points
    rates = [points[name].value().detach().numpy() for name in ("sensitivity", "specificity")]
    np.testing.assert_allclose(workers["sensitivity"], rates[0])
    np.testing.assert_allclose(workers["weight"], sum(scipy.special.logit(rate) for rate in rates))
    assert workers[["sensitivity_sd", "specificity_lower", "weight_sd"]].isna().all(axis=None)


def test_clusters(result):
    clusters = result.clusters
    assert list(clusters.columns) == ["expected_items", "assigned_items", "share", "weight"]
    assert clusters.index.name == "cluster"
    assert clusters.index.tolist() == list(range(NUM_CLUSTERS))
    assert clusters["expected_items"].sum() == pytest.approx(NUM_ITEMS)
    assert clusters["assigned_items"].sum() == NUM_ITEMS
    assert clusters["share"].sum() == pytest.approx(1.0)
    assert clusters["weight"].sum() == pytest.approx(1.0)
    assert clusters["assigned_items"].is_monotonic_decreasing
    weights = result.guide.mixture().weights[result.cluster_order]
    for cluster, row in clusters.iterrows():
        assert row["expected_items"] == pytest.approx(result.probabilities[:, cluster].sum())
        assert row["assigned_items"] == (result.assignments == cluster).sum()
        assert row["weight"] == pytest.approx(weights[cluster].item())


def test_elbo_is_a_direct_evaluation(results):
    for result in results.values():
        batch = full_batch(result.data)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            objective = Trace_ELBO(max_plate_nesting=1)
            draws = [-objective.loss(result.model, result.guide, batch) for _ in range(64)]
        assert result.elbo == pytest.approx(fmean(draws), rel=1e-12)
        if len(set(draws)) == 1:  # no latents are drawn
            assert result.elbo == draws[0]
        again = dataclasses.replace(result)  # without what the first has stored
        assert again.elbo == result.elbo


def test_latent_means(results):
    assert results["plain"].latent_means is None
    with pytest.raises(
        ValueError, match="there are no latents: the components are on the features"
    ):
        results["plain"].transform(results["plain"].data.features)
    for name in ("message passing", "amortized"):
        result = results[name]
        alone = unannotated(result)
        new = result.data.features[alone]
        assert result.latent_means.shape == (NUM_ITEMS, 2)
        np.testing.assert_allclose(result.transform(new), result.latent_means[alone], rtol=1e-12)
        direct = result.guide.infer(full_batch(CrowdData(new))).latent.mean.detach()
        np.testing.assert_allclose(result.transform(new), direct, rtol=1e-12)


@pytest.mark.parametrize(
    ("table", "verb"),
    [
        ("assignments", "infer"),
        ("probabilities", "infer"),
        ("latent_means", "infer"),
        ("workers", "workers"),
        ("clusters", "mixture"),
    ],
)
def test_a_guide_without_the_verb_of_a_table(table, verb):
    result = quiet_fit(location_model, location_guide, crowd())
    assert list(result.history.columns) == ["epoch", "step", "seconds", "elbo"]
    with pytest.raises(
        ValueError, match=rf"guide location_guide has no {verb}\(\), which this table is"
    ):
        getattr(result, table)
    with pytest.raises(ValueError, match=r"has no infer\(\)"):
        result.predict(crowd().features)
    assert np.isfinite(result.elbo)


def test_a_guide_of_ones_own_with_the_verbs():
    def infer(batch):
        cluster = (batch.features[:, 0] > 0).long()
        return SimpleNamespace(assignments=torch.eye(2)[cluster], latent=None)

    no_verbs = quiet_fit(location_model, location_guide, crowd())
    result = dataclasses.replace(no_verbs, guide=SimpleNamespace(infer=infer))
    assert (result.assignments == (crowd().features[:, 0] > 0)).all()


def test_a_result_is_immutable(result):
    for name in ("seed", "probabilities", "history"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(result, name, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del result.guide


def test_what_is_read_cannot_be_changed():
    for array in (fitted("amortized").probabilities, fitted("amortized").latent_means):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


def test_changes_of_what_was_read_do_not_change_the_fit():
    result = fitted("message passing")
    for name in ("workers", "clusters", "components", "history"):
        before, changed = getattr(result, name).copy(), getattr(result, name)
        changed["one more"] = 0.0
        changed.iloc[:, 0] *= 100
        pd.testing.assert_frame_equal(getattr(result, name), before)
    for name in (
        "component_probabilities",
        "component_probabilities_by_features",
        "inferred_latents",
    ):
        before = getattr(result, name)
        getattr(result, name).zero_()
        assert before.abs().sum() > 0
        assert torch.equal(getattr(result, name), before)


def test_reading_does_not_change_what_is_read(result):
    first = [result.probabilities.copy(), result.elbo, result.clusters.copy()]
    result.predict(result.data.features)
    again = dataclasses.replace(result)
    assert (again.probabilities == first[0]).all()
    assert again.elbo == first[1]
    pd.testing.assert_frame_equal(again.clusters, first[2])
    assert repr(result).startswith("CrowdData(")


@pytest.mark.parametrize("annotators", [TwoCoin, OneAccuracy])
def test_a_weight_is_what_an_answer_counts(annotators):
    """``w(same) - w(different)`` of eq. 14 at draws of the rates, also of workers with one rate."""
    data = crowd(NUM_ITEMS)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(NUM_CLUSTERS, 1.0),
        GaussianComponents(NUM_CLUSTERS, data.features.shape[1]),
        Identity(),
        annotators(data.num_workers),
    )
    result = quiet_fit(model, MessagePassingGuide(model), data, batch_size=None, step_size=0.5)
    with result.inside():
        draws = global_draws(result, 4000)
        worker = torch.arange(data.num_workers)
        weights = []
        for draw in range(4000):
            rates = {name: draws.at(draw)[name] for name in result.model.annotators.priors()}
            yes, no = (
                result.model.annotators.log_likelihood_ratio(rates, worker, label)
                for label in (torch.ones(data.num_workers), torch.zeros(data.num_workers))
            )
            weights.append(yes - no)
    weights = torch.stack(weights).numpy()
    error = 5 * weights.std(0) / np.sqrt(4000)
    assert (np.abs(weights.mean(0) - result.workers["weight"]) < error).all()
    np.testing.assert_allclose(weights.std(0), result.workers["weight_sd"], rtol=0.1)


def test_workers_of_class_labels_have_an_accuracy():
    """Also where the fit is an average, whose guide has no rates of pairs."""
    rng = np.random.default_rng(0)
    truth = rng.choice(["dog", "cat"], 40)
    said = [
        (item, worker, truth[item] if rng.random() < right else rng.choice(["dog", "cat"]))
        for item in range(40)
        for worker, right in (("cem", 0.0), ("ann", 0.95), ("ben", 0.9))
        if worker != "ann" or item < 30
    ]
    labels = pd.DataFrame(said, columns=["item", "worker", "label"])
    result = classify(None, labels, progress=False)
    assert type(result.guide).__name__ == "AveragedGuide"
    shares, confusion = result.class_probabilities.mean(), result.confusion["mean"]
    expected = {
        worker: sum(shares[kind] * confusion[worker, kind, kind] for kind in ("cat", "dog"))
        for worker in ("ann", "ben", "cem")
    }
    assert result.workers["accuracy"].to_dict() == pytest.approx(expected)
    assert result.workers["accuracy"].idxmin() == "cem"
    assert result.workers["labels"].to_dict() == {"ann": 30, "ben": 40, "cem": 40}
    with pytest.raises(ValueError, match="not clusters: read result.class_probabilities"):
        result.clusters  # noqa: B018
