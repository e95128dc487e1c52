"""The estimator keeps scikit-learn's contract and is the same fit as ``cluster``."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats
import torch
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.interface import CrowdClusterer, DeepNormal, cluster
from pyro_crowdclust.interface.choosing.rereading import tempered_fit
from pyro_crowdclust.mixture import GaussianComponents, PoissonComponents, SoftmaxRegression
from pyro_crowdclust.models import PairRegression
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements
from pyro_crowdclust.supervision import ClassTable

CENTERS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])


def flowers(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Items with names, in three groups of unequal size; answers; the groups."""
    kinds = np.repeat([0, 1, 2], [30, 20, 10])
    rng = np.random.default_rng(seed)
    names = [f"flower {i}" for i in range(60)]
    features = pd.DataFrame(CENTERS[kinds] + rng.normal(size=(60, 2)), names, ["a", "b"])
    pairs = simulate_pairs(kinds, [0.95, 0.5], [0.95, 0.5], pairs_per_worker=80, seed=seed)
    named = pairs.assign(
        left=features.index[pairs["left"]],
        right=features.index[pairs["right"]],
        worker=pairs["worker"].map({0: "ann", 1: "ben"}),
    )
    return features, named, kinds


def clusterer(**parameters) -> CrowdClusterer:
    given = {"n_clusters": 5, "components": GaussianComponents, "n_init": 1}
    return CrowdClusterer(**(given | {"max_iter": 20, "random_state": 0} | parameters))


def not_for_clusterers(estimator: CrowdClusterer) -> dict[str, str]:
    """Checks that ask a clusterer with ``predict_proba`` for the tags of classifiers."""
    checks = ("check_estimator_sparse_array", "check_estimator_sparse_matrix")
    return dict.fromkeys(checks, "reads tags.classifier_tags.multi_class, which is for classifiers")


@parametrize_with_checks(
    [clusterer(n_clusters=3, max_iter=3)], expected_failed_checks=not_for_clusterers
)
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_answers_in_place_of_y_are_told_of():
    features, pairs, _ = flowers()
    with pytest.raises(ValueError, match="y is ignored, but is a table of answers: pass it by nam"):
        clusterer().fit(features, pairs)


def test_labels_are_the_clusters_of_the_fit_largest_first():
    features, pairs, kinds = flowers()
    fitted = clusterer().fit(features, pairs=pairs)
    assert np.array_equal(fitted.labels_, kinds)  # groups were numbered by size, too
    assert fitted.n_clusters_in_use_ == 3
    assert fitted.clusters_["assigned_items"].tolist() == [30, 20, 10, 0, 0]
    assert fitted.converged_ == fitted.result_.stop_reason.startswith("converged")
    given = {"num_clusters": 5, "components": GaussianComponents, "epochs": 20}
    alone = cluster(features, pairs, **given, seed=0, progress=False)
    assert np.array_equal(fitted.labels_, alone.assignments)
    assert fitted.result_.elbo == alone.elbo
    assert fitted.n_iter_ == len(alone.history)


def test_names_of_workers_and_items_come_through():
    features, pairs, _ = flowers()
    fitted = clusterer().fit(features, pairs=pairs)
    assert fitted.workers_.index.tolist() == ["ann", "ben"]
    assert fitted.workers_["weight"].idxmin() == "ben"
    assert fitted.result_.same_cluster_probability("flower 0", "flower 1") > 0.9
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    assert clusterer().fit(features).workers_ is None


def test_prediction_speaks_of_the_same_clusters_as_the_labels():
    features, pairs, kinds = flowers()
    fitted = clusterer().fit(features, pairs=pairs)
    new, _, new_kinds = flowers(seed=1)
    probabilities = fitted.predict_proba(new)
    assert np.allclose(probabilities.sum(1), 1)
    assert np.array_equal(fitted.predict(new), probabilities.argmax(1))
    assert (fitted.predict(new) == new_kinds).mean() > 0.95
    assert np.array_equal(clusterer().fit_predict(features, pairs=pairs), kinds)


def test_transform_without_networks_is_a_standard_scaler():
    features, pairs, _ = flowers()
    found = clusterer().fit(features, pairs=pairs).transform(features)
    np.testing.assert_allclose(found, StandardScaler().fit_transform(features), atol=1e-12)


def test_score_is_the_bound_of_the_mixture_in_the_units_of_the_features():
    features, pairs, _ = flowers()
    features = features * [100.0, 0.01] + [5.0, -3.0]
    fitted = clusterer().fit(features, pairs=pairs)
    guide = fitted.result_.guide
    concentration = guide.posteriors["weights"].standard().concentration.numpy(force=True)
    log_weights = scipy.special.digamma(concentration) - scipy.special.digamma(concentration.sum())
    m, kappa, s, nu = (part.numpy(force=True) for part in guide.posteriors["components"].standard())
    x, d = StandardScaler().fit_transform(features), 2
    log_density = np.empty((len(x), 5))
    for k in range(5):
        # E[-log|Sigma| / 2] and E[(x - mu)^T Sigma^-1 (x - mu)] under the NIW posterior.
        log_det = np.linalg.slogdet(s[k])[1] - d * np.log(2)
        log_det -= scipy.special.digamma((nu[k] - np.arange(d)) / 2).sum()
        away = x - m[k]
        square = nu[k] * np.einsum("ni,ij,nj->n", away, np.linalg.inv(s[k]), away) + d / kappa[k]
        log_density[:, k] = log_weights[k] - (d * np.log(2 * np.pi) + log_det + square) / 2
    expected = scipy.special.logsumexp(log_density, 1).mean()
    expected -= np.log(features.std(ddof=0)).sum()
    assert fitted.score(features) == pytest.approx(expected, abs=1e-9)
    assert fitted.score(features) > fitted.score(features + 3 * features.std())


def test_score_is_of_features_in_full_however_little_they_count():
    features, pairs, _ = flowers()
    fitted = clusterer().fit(features, pairs=pairs)
    expected = fitted.score(features)
    fitted.result_ = tempered_fit(fitted.result_, 0.2)
    assert fitted.score(features) == pytest.approx(expected)


def test_a_regression_has_coordinates_and_no_score():
    features, pairs, _ = flowers()
    fitted = clusterer().fit(features, pairs=pairs)
    model = PairRegression(SoftmaxRegression(3, features.shape[1]), TwoCoin(2))
    fitted.result_ = dataclasses.replace(fitted.result_, model=model)
    frame = fitted.set_output(transform="pandas").transform(features)
    assert frame.columns.tolist() == [f"crowdclusterer{j}" for j in range(features.shape[1])]
    with pytest.raises(ValueError, match="no density of features to score"):
        fitted.score(features)


def test_pipeline_with_pairs_by_row_and_by_name():
    features, pairs, kinds = flowers()
    pipeline = make_pipeline(StandardScaler(), clusterer())
    pipeline.fit(
        features,
        crowdclusterer__pairs=pairs,
        crowdclusterer__item_ids=features.index,
    )
    assert np.array_equal(pipeline[-1].labels_, kinds)
    assert np.array_equal(pipeline.predict(features), kinds)
    rows = pairs.assign(
        left=features.index.get_indexer(pairs["left"]),
        right=features.index.get_indexer(pairs["right"]),
    )
    by_row = clone(pipeline).fit(features, crowdclusterer__pairs=rows)
    assert by_row[-1].result_.elbo == pipeline[-1].result_.elbo


def test_sparse_features_in_a_pipeline():
    features, pairs, _ = flowers()
    features["colour"] = np.tile(["red", "blue"], 30)
    rows = {end: features.index.get_indexer(pairs[end]) for end in ("left", "right")}
    labels = []
    for is_sparse in (True, False):
        encoder = OneHotEncoder(sparse_output=is_sparse)
        step = ColumnTransformer(
            [("colour", encoder, ["colour"])], remainder="passthrough", sparse_threshold=1
        )
        pipeline = make_pipeline(step, clusterer(max_iter=5))
        pipeline.fit(features, crowdclusterer__pairs=pairs.assign(**rows))
        assert issparse(step.transform(features)) == is_sparse
        labels.append([*pipeline[-1].labels_, *pipeline.predict(features)])
    assert labels[0] == labels[1]
    assert get_tags(pipeline[-1]).input_tags.sparse


def test_grid_search_judges_by_the_score():
    features, _, _ = flowers()
    features = features.sample(frac=1, random_state=0)
    search = GridSearchCV(clusterer(max_iter=5), {"n_clusters": [1, 4]}, cv=3).fit(features)
    assert search.best_params_ == {"n_clusters": 4}


@pytest.mark.long
@pytest.mark.parametrize("as_array", [False, True])
def test_cross_validation_leaves_out_answers_about_items_outside_the_fold(as_array):
    features, pairs, kinds = flowers()
    order = np.random.default_rng(0).permutation(60)
    shuffled = features.iloc[order]
    given = {"pairs": pairs, "known": pd.Series({"flower 3": "a", "flower 40": "b"})}
    if as_array:  # which has no names: the rows' numbers go through the folds as ids
        rows = {"left": shuffled.index.get_indexer(pairs["left"])}
        rows["right"] = shuffled.index.get_indexer(pairs["right"])
        given = {"pairs": pairs.assign(**rows), "item_ids": np.arange(60)}
    X = shuffled.to_numpy() if as_array else shuffled
    seen = []

    class Recording(CrowdClusterer):
        def fit(self, X, y=None, **options):
            fitted = super().fit(X, y, **options)
            ids = fitted.result_.data.item_ids
            among = given["pairs"][["left", "right"]].isin(ids).all(axis=1).sum()
            seen.append((len(ids), fitted.result_.data.num_pairs == among))
            return fitted

    # One model, so that there is nothing to choose in every fold.
    options = {"components": GaussianComponents, "max_iter": 5, "random_state": 0}
    estimator = Recording(3, **options, ignore_other_items=True)
    scores = cross_val_score(estimator, X, cv=3, params=given)
    assert np.isfinite(scores).all()
    assert seen == [(40, True)] * 3
    search = GridSearchCV(estimator, {"n_clusters": [2, 4]}, cv=3).fit(X, **given)
    assert search.best_params_ == {"n_clusters": 4}
    strict = CrowdClusterer(3, max_iter=2, random_state=0)
    with pytest.raises(ValueError, match="not among the item ids|not a position"):
        strict.fit(X[:40], **(given if not as_array else {"pairs": given["pairs"]}))


@pytest.mark.parametrize("name", ["pairs", "placements", "known", "must_link", "cannot_link"])
def test_rows_without_ids_are_not_taken_for_others(name):
    """Row numbers of all items are others than those of a fold, which is refused."""
    X, kinds = flowers()[0].to_numpy(), flowers()[2]
    about = {
        "pairs": simulate_pairs(kinds, [0.95], [0.95], pairs_per_worker=80, seed=0),
        "placements": simulate_placements(kinds, [0.95], pages_per_worker=8, page_size=12, seed=0),
        "known": {0: "a", 59: "b"},
        "must_link": [(0, 1), (3, 59)],
        "cannot_link": np.array([[0, 59]]),
    }[name]
    estimator = clusterer(ignore_other_items=True, max_iter=2)
    with pytest.raises(ValueError, match=r"about item \d+, but X has 40 rows .* item_ids="):
        cross_val_score(estimator, X, cv=3, params={name: about}, error_score="raise")
    estimator.fit(X, **{name: about})  # all rows


@pytest.mark.parametrize(
    "made",
    [lambda table: table, lambda table: table.to_dict("records"), lambda table: table.to_records()],
    ids=["frame", "records", "array"],
)
def test_a_table_that_is_cut_with_the_items_is_told(made):
    features, pairs, _ = flowers()
    as_many = made(pairs.head(len(features)))
    search = GridSearchCV(clusterer(ignore_other_items=True), {"n_clusters": [2]}, cv=2)
    with pytest.warns(UserWarning, match="scikit-learn splits such a table like the items"):
        search.fit(features, pairs=as_many)


def test_a_whole_table_of_as_many_rows_as_a_fold_has_items_is_none_that_is_cut():
    features, pairs, _ = flowers()
    estimator = clusterer(ignore_other_items=True, max_iter=2)
    cross_val_score(estimator, features, cv=3, params={"pairs": pairs.head(40)})


def test_labels_in_another_order_that_are_cut_with_the_items_are_told():
    """scikit-learn cuts a series by its order, whatever its index says."""
    features, _, kinds = flowers()
    known = pd.Series(kinds, features.index).sample(frac=1, random_state=0)
    estimator = clusterer(ignore_other_items=True, max_iter=2)
    with pytest.warns(UserWarning, match=r"some of other items: .* known.reindex\(X.index\)"):
        cross_val_score(estimator, features, cv=3, params={"known": known})
    in_order = {"known": known.reindex(features.index)}
    assert np.isfinite(cross_val_score(estimator, features, cv=3, params=in_order)).all()


def test_dates_are_found_by_their_text_among_the_items():
    features, pairs, _ = flowers()
    days = pd.Series(pd.date_range("2026-01-01", periods=60), features.index)
    dated = features.set_axis(pd.DatetimeIndex(days), axis=0)
    texts = days.dt.strftime("%Y-%m-%d")
    answers = pairs.assign(left=pairs["left"].map(texts), right=pairs["right"].map(texts))
    plain = clusterer(max_iter=2).fit(dated, pairs=answers)
    among = clusterer(max_iter=2, ignore_other_items=True).fit(dated, pairs=answers)
    assert among.result_.data.num_pairs == plain.result_.data.num_pairs == len(pairs)


@pytest.mark.parametrize("name", ["pairs", "known"])
def test_numbers_that_are_written_as_texts_are_refused_and_not_left_out(name):
    features, pairs, kinds = flowers()
    numbers = pd.Series(range(60), features.index).map(str)
    said = {
        "pairs": pairs.assign(left=pairs["left"].map(numbers), right=pairs["right"].map(numbers)),
        "known": {"3": "a", "7": "b"},
    }
    numbered = features.set_axis(range(60), axis=0)
    with pytest.raises(ValueError, match=r"(is|has the item id) '\d+', not a position"):
        clusterer(ignore_other_items=True).fit(numbered, **{name: said[name]})


def test_without_an_answer_among_the_items_there_are_no_workers():
    features, pairs, _ = flowers()
    pairs = pairs[(pairs["left"] == "flower 0") | (pairs["right"] == "flower 0")]
    sure = {"known": {"flower 0": "a", "flower 20": "b"}, "must_link": [("flower 0", "flower 3")]}
    fitted = clusterer(ignore_other_items=True).fit(features.tail(50), pairs=pairs, **sure)
    assert fitted.workers_ is None
    data = fitted.result_.data
    assert (data.known_ids.tolist(), data.links) == (["b"], None)


@pytest.mark.parametrize("keys", [[3, 7], [3, 7, 25], [25, 3, 27]])
@pytest.mark.parametrize("made", [pd.Series, dict], ids=["series", "mapping"])
def test_labels_of_numbered_items_are_cut_to_the_items(keys, made):
    """Evenly spaced keys are a range to pandas, as are the numbers of rows."""
    features = flowers()[0].reset_index(drop=True)
    known = made(dict(zip(keys, "abc", strict=False)))
    fitted = clusterer(ignore_other_items=True, max_iter=2).fit(features[20:], known=known)
    expected = [label for key, label in zip(keys, "abc", strict=False) if key >= 20]
    assert fitted.result_.data.known_ids.tolist() == expected


def test_one_label_per_row_under_other_names_is_refused_and_not_cut():
    features, _, kinds = flowers()
    with pytest.raises(
        ValueError, match=r"known row 0 has the item id 0, .*pass known.to_numpy\(\)"
    ):
        clusterer(ignore_other_items=True).fit(features, known=pd.Series(kinds))


def test_answers_about_texts_are_cut_to_items_of_which_some_are_tuples():
    features, pairs, _ = flowers()
    renamed = {name: name if row % 2 else (name, row) for row, name in enumerate(features.index)}
    features.index = pd.Index([*renamed.values()], tupleize_cols=False)
    texts = pairs["left"].map(renamed).eq(pairs["left"])
    texts &= pairs["right"].map(renamed).eq(pairs["right"])
    known = {features.index[30]: "a", "flower 1": "b", "flower 31": "c"}
    estimator = clusterer(ignore_other_items=True, max_iter=2)
    data = estimator.fit(features[20:], pairs=pairs[texts], known=known).result_.data
    assert 0 < data.num_pairs < texts.sum()
    assert data.known_ids.tolist() == ["a", "c"]


def test_sorted_pages_are_heard_and_cut_to_the_items():
    features, _, kinds = flowers()
    pages = simulate_placements(kinds, [0.95], pages_per_worker=4, page_size=12, seed=0)
    pages["item"] = features.index[pages["item"]]
    fitted = clusterer(ignore_other_items=True).fit(features.tail(50), placements=pages)
    among = pages["item"].isin(features.index[10:])
    assert len(fitted.result_.data.placements) == among.sum() < len(pages)
    assert fitted.workers_["accuracy"].between(0.8, 1.0).all()
    assert (fitted.labels_ == kinds[10:]).mean() > 0.95  # one slip


def test_clone_keeps_parameters_and_nothing_else():
    networks = DeepNormal(dim=2, hidden=(8,))
    fitted = clusterer(networks=networks, components=None, max_iter=1).fit(flowers()[0])
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    assert not hasattr(copied, "result_")


def test_networks_give_latents():
    features, pairs, _ = flowers()
    fitted = clusterer(networks=DeepNormal(dim=1, hidden=(8,)), components=None, max_iter=2).fit(
        features, pairs=pairs
    )
    assert fitted.transform(features).shape == (60, 1)
    assert fitted.get_feature_names_out().tolist() == ["crowdclusterer0"]
    assert np.isfinite(fitted.score(features))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_tensors_are_read_as_cluster_reads_them(dtype):
    features, pairs, _ = flowers()
    X = torch.tensor(features.to_numpy(), dtype=dtype, requires_grad=True)
    fitted = clusterer().fit(X, pairs=pairs, item_ids=features.index)
    assert (fitted.predict(X) == fitted.predict(X.detach().double().numpy())).all()
    with pytest.raises(ValueError, match="X: a tensor that is sparse does not hold plain numbers"):
        fitted.predict(X.detach().to_sparse())


def test_what_is_masked_is_missing_and_not_its_number():
    features, _, _ = flowers()
    X = features.to_numpy(copy=True)
    X[0, 1] = 1e6
    masked = clusterer().fit(np.ma.masked_greater(X, 100.0))
    assert masked.result_.data.num_missing == 1
    X[0, 1] = np.nan
    assert (masked.labels_ == clusterer().fit(X).labels_).all()


def test_components_and_known_labels():
    features, _, kinds = flowers()
    counts = np.random.default_rng(0).poisson(1 + 9 * np.eye(3)[kinds])
    known = np.where(np.arange(60) % 10 == 0, kinds, -1)
    fitted = clusterer(n_clusters=3, components=PoissonComponents).fit(counts, known=known)
    assert isinstance(fitted.result_.model.supervision, ClassTable)
    assert np.array_equal(fitted.labels_, kinds)
    np.testing.assert_array_equal(fitted.transform(counts), counts)
    assert fitted.get_feature_names_out().tolist() == [f"crowdclusterer{j}" for j in range(3)]
    assert fitted.score(counts) > fitted.score(counts + 20)
    assert clone(fitted).components is PoissonComponents


def test_more_starts_never_end_lower():
    features, pairs, _ = flowers()
    elbos = [clusterer(random_state=seed).fit(features).result_.elbo for seed in (3, 4, 5)]
    best = clusterer(n_init=3, random_state=3).fit(features)
    assert best.result_.elbo == max(elbos)


def test_random_state_decides():
    features = flowers()[0]
    state = np.random.RandomState(7)
    first = clusterer(random_state=state).fit(features)
    second = clusterer(random_state=state).fit(features)
    assert first.result_.seed != second.result_.seed
    again = clusterer(random_state=np.random.RandomState(7)).fit(features)
    assert again.result_.seed == first.result_.seed


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 0}, "n_clusters is 0, but must be at least 1"),
        ({"n_clusters": 2.5}, "n_clusters is 2.5, but"),
        ({"n_init": 0}, "n_init is 0, but must be at least 1"),
        ({"max_iter": 0}, "max_iter is 0, but"),
        ({"tol": -1.0}, "tol is -1.0, but must be a number above 0, or None"),
    ],
)
def test_parameters_out_of_range(parameters, message):
    with pytest.raises(ValueError, match=message):
        clusterer(**parameters).fit(flowers()[0])


def test_answers_about_items_that_are_not_there():
    features, pairs, _ = flowers()
    with pytest.raises(ValueError, match="left is 'flower .*', not a position .* or pass item_ids"):
        clusterer().fit(features.to_numpy(), pairs=pairs)


def test_a_partition_says_why_it_predicts_no_other_items():
    """Of answers alone, and of what ``cluster`` takes for records."""
    _, pairs, _ = flowers()
    fitted = CrowdClusterer(max_iter=2, n_init=1).fit(None, pairs=pairs[:12])
    for read in (fitted.predict, fitted.predict_proba, fitted.transform, fitted.score):
        with pytest.raises(ValueError, match="partition of its own items.*n_clusters="):
            read(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="partition of its own items"):
        fitted.get_feature_names_out()
