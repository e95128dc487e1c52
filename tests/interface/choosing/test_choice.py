"""The choice of a model: what is tried, what decides, and what is left of it."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import (
    CrowdClusterer,
    choice_for,
    cluster,
    infer_classes,
    mixture_for,
    recipe_for,
)
from pyro_crowdclust.interface.choosing import choice as choice_module
from pyro_crowdclust.interface.choosing import complete_fits, corrections, several_starts, trying
from pyro_crowdclust.interface.choosing.choice import Choice
from pyro_crowdclust.interface.choosing.search_space import SIZES
from pyro_crowdclust.interface.choosing.trying import NUM_SPLITS
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import PoissonComponents
from pyro_crowdclust.restarts import INTERRUPTED_STARTS
from pyro_crowdclust.results import known_or_likeliest
from pyro_crowdclust.simulation import simulate_placements
from pyro_crowdclust.supervision import ClassTable

from ...control_c import press_control_c
from ..small_choices import (
    LINK,
    PAIRS,
    answered,
    known_part,
    linked_part,
    small,
    sorted_part,
    two_groups,
    two_rings,
    wide_clusters,
)


@pytest.mark.parametrize("call", [choice_for, mixture_for, infer_classes], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "data", [np.eye(3), pd.DataFrame({"x": [1.0, 2.0]})], ids=["array", "frame"]
)
def test_data_in_no_container(call, data):
    message = f"data is a {type(data).__name__}, but must be a CrowdData: wrap your features"
    with pytest.raises(ValueError, match=message):
        call(data)


@pytest.mark.long
def test_a_seed_of_numpy_gives_what_pythons_does():
    choice = small(answered(*two_rings(60), 20), 2, forms=1)
    choice = dataclasses.replace(choice, by_features=None)
    of_numpy, plain = (choice.fit(seed=seed, progress=False) for seed in (np.int64(3), 3))
    np.testing.assert_array_equal(of_numpy.probabilities, plain.probabilities)


@pytest.mark.parametrize("seed", range(3))
def test_columns_of_yes_and_no_that_tell_nothing_of_each_other_are_one_cluster(seed):
    features = np.random.default_rng(seed).random((200, 8)) < 0.4
    choice = dataclasses.replace(
        choice_for(CrowdData(features.astype(float))), sizes=SIZES[:4], first_size=SIZES[3]
    )
    result = choice.fit(num_starts=1, progress=False)
    assert len(result.clusters) == len(set(result.assignments)) == 1


@pytest.mark.parametrize("said", [{"pairs": PAIRS}, {"must_link": LINK}], ids=["pairs", "link"])
def test_where_items_are_said_to_be_related_there_are_two_clusters_or_more(said, monkeypatch):
    monkeypatch.setattr(choice_module, "SIZES", SIZES)
    choice = choice_for(CrowdData(two_groups(), **said))
    assert choice.sizes[0] == 2
    # Beside answers there is a search space of the features alone, which relates none.
    assert (choice.by_features and choice.by_features.sizes[0]) == (1 if "pairs" in said else None)


def test_a_table_in_which_nothing_varies_is_warned_of_once():
    with pytest.warns(UserWarning, match="no column varies, so the features say nothing") as shown:
        choice_for(answered(np.ones((60, 2)), np.arange(60) % 2, 40))
    assert len(shown) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choice_for(CrowdData(np.array([[1.0, 0.0], [1.0, 2.0]])))


def test_gaps_in_columns_that_are_left_out_are_no_matter():
    """A constant and a copy, both with gaps, beside two columns without."""
    kinds = np.arange(30) % 2
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["x", "y"])
    table["x"] += 8 * kinds
    odd = kinds == 1
    table = table.assign(constant=np.where(odd, 1.0, np.nan), again=table["x"].where(odd))
    result = small(CrowdData(table), 2, forms=1).fit(num_starts=1, progress=False)
    assert clustering_accuracy(kinds, result.assignments) == 1.0
    assert result.chosen.reason.endswith("left out as constant or redundant: 'constant', 'again'")


def test_answers_choose_the_components_that_clusters_own(rings):
    result, ring = rings
    table = result.chosen.table
    assert table["chosen"].sum() == 1
    assert clustering_accuracy(ring, result.assignments) > 0.9
    best = table.loc[table["chosen"], "held_out"].item()
    assert table["splits"].between(1, NUM_SPLITS).all()
    assert table.loc[table["chosen"], "splits"].item() == table["splits"].max()
    assert best > result.chosen.chance
    assert best > table.loc[table["components"] == 3, "held_out"].max()
    assert "held-out" in result.chosen.reason
    assert result.chosen.winner in str(result.chosen.winner)
    assert result.chosen.reason in str(result.chosen)


def test_the_choice_is_saved_with_the_result(rings, tmp_path):
    result, _ = rings
    result.save(tmp_path / "rings.safetensors")
    chosen = load(tmp_path / "rings.safetensors").chosen
    pd.testing.assert_frame_equal(chosen.table, result.chosen.table)
    assert (chosen.reason, chosen.chance) == (result.chosen.reason, result.chosen.chance)


def test_a_loaded_result_knows_its_clusters(rings, tmp_path):
    result, _ = rings
    result.save(tmp_path / "rings.safetensors")
    loaded = load(tmp_path / "rings.safetensors")
    np.testing.assert_allclose(loaded.probabilities, result.probabilities)
    assert loaded.same_cluster_probability(0, 2) == result.same_cluster_probability(0, 2)


@pytest.mark.long
def test_a_regression_is_chosen_where_classes_are_regions_of_one_cloud():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(150, 4))
    side = (features[:, 0] + features[:, 1] > 0).astype(int)
    data = answered(features, side, 200, range(70))
    choice = choice_for(data)
    of_columns = [form for form in choice.forms if form.features == "columns"]
    choice = dataclasses.replace(choice, forms=of_columns, sizes=(2, 4), first_size=4)
    result = choice.fit(progress=False)
    assert result.chosen.winner == "regression on columns, 4 components"
    assert clustering_accuracy(side, result.assignments) > 0.85
    table = result.chosen.table
    assert table.loc[table["chosen"], "elbo"].isna().all()


@pytest.mark.long
def test_clusters_own_components_beside_labels_and_links():
    """Two rings of many components each; one who sorts, one who links and one who names."""
    features, ring = two_rings()
    pages = simulate_placements(ring, [0.95], pages_per_worker=8, page_size=15, seed=0)
    rng = np.random.default_rng(0)
    left = rng.integers(240, size=40)
    right = (left + rng.integers(1, 240, size=40)) % 240
    links = {
        "cannot_link": [(i, j) for i, j in zip(left, right, strict=True) if ring[i] != ring[j]]
    }
    known = {place: f"ring {ring[place]}" for place in range(0, 240, 21)}
    data = CrowdData(features, placements=pages, known=known, **links)
    result = small(data, 13, forms=1).fit(num_starts=1, progress=False)
    assert clustering_accuracy(ring, result.assignments) > 0.97
    assert int((result.clusters["assigned_items"] > 0).sum()) == 2
    assert int((result.component_probabilities.sum(0) > 1).sum()) > 4
    assert (known_or_likeliest(result) == ring).mean() > 0.97
    assert not result.chosen.table["held_out"].isna().any()


def test_without_answers_the_elbo_chooses():
    features = np.repeat([[0.0, 0.0], [7.0, 0.0], [0.0, 7.0]], 30, axis=0)
    features += np.random.default_rng(0).normal(size=(90, 2))
    result = small(CrowdData(features), 5, 4, 3, 2).fit(num_starts=1, progress=False)
    chosen, table = result.chosen, result.chosen.table
    assert table["held_out"].isna().all()
    assert (table["splits"] == 0).all()
    assert chosen.chance is None
    assert table["elbo"].idxmax() == table.index[table["chosen"]][0]
    assert result.model.num_clusters == 3


def test_elbos_are_in_the_units_of_the_features():
    """A hundred times larger units cost the logarithm of a hundred for every column and item."""
    features, _ = two_rings(60)
    elbos = []
    for unit in (1.0, 100.0):
        choice = small(CrowdData(unit * features), 3, forms=4)
        result = choice.fit(num_starts=1, progress=False)
        elbos.append(result.chosen.table["elbo"].to_numpy())
    np.testing.assert_allclose(elbos[0] - elbos[1], 2 * np.log(100.0), atol=1e-3)


@pytest.mark.parametrize(
    ("options", "is_choice"),
    [
        ({}, True),
        ({"num_clusters": 4}, True),
        ({"components": PoissonComponents}, False),
    ],
)
def test_what_the_user_says_is_fixed(options, is_choice):
    data = CrowdData(np.arange(20.0).reshape(10, 2))
    assert isinstance(recipe_for(data, **options), Choice) == is_choice


def assert_comes_back(result, features, folder) -> None:
    """A saved result says the same of its items, of new ones, and of how it was chosen."""
    result.save(folder / "fit.safetensors")
    again = load(folder / "fit.safetensors")
    np.testing.assert_allclose(again.probabilities, result.probabilities, atol=1e-9)
    np.testing.assert_allclose(
        again.predict_proba(features), result.predict_proba(features), atol=1e-9
    )
    pd.testing.assert_frame_equal(again.components, result.components)
    assert again.chosen.winner == result.chosen.winner


def test_candidates_and_starts_warn_once(monkeypatch):
    kinds = np.arange(30) % 2
    features = np.random.default_rng(0).normal(size=(30, 2)) + 4.0 * kinds[:, None]
    choice = small(CrowdData(features, known={0: "a", 1: "b", 2: "a"}), 2, 3, forms=1)
    monkeypatch.setattr(ClassTable, "check", lambda self, data: warnings.warn("few", stacklevel=1))
    with pytest.warns(UserWarning, match="few") as shown:
        choice.fit(epochs=2, num_starts=2, progress=False)
    assert len(shown) == 1


@pytest.mark.long
@pytest.mark.parametrize("said", [known_part, linked_part, sorted_part])
def test_labels_links_and_pages_are_heard_by_a_choice(said, tmp_path):
    """And the least number of clusters is that of known classes."""
    features, kinds = wide_clusters()
    data = CrowdData(features, **said(kinds))
    choice = choice_for(data, num_clusters=3)
    assert choice.max_clusters == 3
    assert (choice.sizes[0] == 3) == (said is known_part)
    choice = dataclasses.replace(choice, forms=choice.forms[:1], sizes=[3], first_size=3)
    result = choice.fit(num_starts=1, progress=False)
    assert clustering_accuracy(kinds, result.assignments) > 0.95
    # Two pages are too few for every candidate, but not for that of the features alone.
    held_out = result.chosen.table["held_out"]
    assert not held_out.isna().all()
    if said is not sorted_part:
        assert held_out.max() > result.chosen.chance
    assert_comes_back(result, features, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("what", ["gaps", "mixed"])
@pytest.mark.parametrize("is_answered", [True, False], ids=["answers", "none"])
def test_tables_as_they_are_have_a_choice(what, is_answered, tmp_path):
    features, kinds = wide_clusters()
    table = pd.DataFrame(features)
    if what == "gaps":
        table = table.mask(np.random.default_rng(1).random(features.shape) < 0.02)
    else:
        table["hair"] = np.array(["red", "brown", "fair"])[
            np.random.default_rng(1).integers(0, 3, len(kinds))
        ]
    pairs = answered(features, kinds).pairs if is_answered else None
    choice = small(CrowdData(table, pairs), 3)
    assert [form.features for form in choice.forms] == ["columns", "columns"]
    result = choice.fit(num_starts=1, progress=False)
    assert clustering_accuracy(kinds, result.assignments) > 0.95
    assert_comes_back(result, table, tmp_path)


def test_components_of_a_table_of_all_kinds_are_in_its_units():
    """Under powers, with columns left out, and a category that has three columns of its own."""
    rng = np.random.default_rng(0)
    kinds = np.arange(120) % 2
    table = pd.DataFrame({
        "same": np.full(120, 7.0),
        "skewed": np.exp(rng.normal(size=120) + 6 * kinds),
        "town": np.array(["Bari", "Pisa", "Rome"])[kinds + kinds * (rng.random(120) < 0.8)],
        "visits": rng.poisson(2 + 8 * kinds),
        "age": 40 + rng.normal(size=120),
    })  # fmt: skip
    choice = small(CrowdData(table), 2, forms=4)
    powers = [form for form in choice.forms if form.features == "powers"]
    result = dataclasses.replace(choice, forms=powers[:1]).fit(num_starts=1, progress=False)
    assert clustering_accuracy(kinds, result.assignments) == 1
    towns = [f"town={name}" for name in ("Bari", "Pisa", "Rome")]
    components = result.components
    assert {*components.columns} == {"skewed", "visits", "age", *towns}
    np.testing.assert_allclose(components[towns].sum(axis=1), 1)
    for cluster_number, of_cluster in table.groupby(result.assignments):
        row = components.loc[cluster_number]
        # A mean of powers is near the median, in skewed units.
        np.testing.assert_allclose(row["skewed"], of_cluster["skewed"].median(), rtol=0.5)
        np.testing.assert_allclose(row["age"], of_cluster["age"].mean(), rtol=0.01)
        assert row[f"town={of_cluster['town'].mode()[0]}"] > 0.5


def test_the_bound_on_clusters_is_kept():
    features, _ = two_rings(60)
    choice = choice_for(CrowdData(features), num_clusters=4)
    assert (max(choice.sizes), choice.first_size) == (4, 4)
    result = choice.fit(num_starts=1, progress=False)
    assert result.chosen.table["components"].max() == 4
    with pytest.raises(ValueError, match="num_clusters is 0"):
        choice_for(CrowdData(features), num_clusters=0)


def test_several_starts_keep_the_best():
    features, _ = two_rings(60)
    choice = small(CrowdData(features), 8, forms=1)
    one = choice.fit(num_starts=1, progress=False)
    assert choice.fit(num_starts=3, progress=False).elbo >= one.elbo
    with pytest.raises(ValueError, match="num_starts is 0"):
        choice.fit(num_starts=0, progress=False)


@pytest.mark.long
def test_the_complete_fit_starts_at_the_candidate_too(monkeypatch):
    starts = []

    def note(attempts):
        starts.extend(attempts := list(attempts))
        return best_first(attempts)

    best_first = several_starts.best_first
    monkeypatch.setattr(several_starts, "best_first", note)
    data = CrowdData(two_groups(60))
    small(data, 2, 3, forms=1).fit(num_starts=2, progress=False)
    of_features, of_candidate = starts
    assert of_candidate().elbo >= of_features().elbo - 1e-3


def test_large_data_begin_at_a_fit_to_a_part(monkeypatch):
    from pyro_crowdclust.interface import recipe

    features, ring = two_rings(400)
    data = answered(features, ring, 300)
    choice = small(data, 8, forms=1)
    # Full batches for 100 items, minibatches for 400.
    monkeypatch.setattr(recipe, "FULL_BATCH_NUMBERS", 2000)
    monkeypatch.setattr(complete_fits, "_PART_ITEMS", 100)
    monkeypatch.setattr(trying, "MAX_ITEMS", 200)
    result = choice.fit(progress=False)
    assert len(result.history) <= 3
    assert result.data is data
    assert clustering_accuracy(ring, result.assignments) > 0.8

    # Ctrl-C in the second start of the part: it goes on from the first, and says so.
    press_control_c(monkeypatch, several_starts, "fit", 2)
    stopped = choice.fit(progress=False)
    assert stopped.stop_reason == INTERRUPTED_STARTS
    assert stopped.data is data


def test_the_estimator_chooses_too():
    features = np.repeat([[0.0, 0.0], [9.0, 0.0]], 20, axis=0)
    features += np.random.default_rng(0).normal(size=(40, 2))
    fitted = CrowdClusterer(n_clusters=2, n_init=1, random_state=0).fit(features)
    assert sorted(np.bincount(fitted.labels_).tolist()) == [20, 20]
    assert fitted.result_.chosen is not None


def test_cluster_says_how_it_chose():
    features = np.repeat([[0.0, 0.0], [9.0, 0.0]], 20, axis=0)
    features += np.random.default_rng(0).normal(size=(40, 2))
    result = cluster(features, num_clusters=2, num_starts=1, progress=False)
    assert result.chosen.reason.startswith("largest ELBO")


@pytest.mark.parametrize("again", [False, True])
def test_one_cluster_is_not_kept_where_the_candidate_had_several(again, monkeypatch):
    """The fit starts at the candidate, too, and is kept if this has several clusters."""
    seen = []

    def has_one_cluster(fitted):
        seen.append(fitted)
        return fitted is seen[0] or again

    for module in (complete_fits, corrections):
        monkeypatch.setattr(module, "has_one_cluster", has_one_cluster)
    choice = small(answered(two_groups(), np.arange(40) % 2), 2, forms=1)
    result = choice.fit(num_starts=1, progress=False)
    assert any(fitted is not seen[0] for fitted in seen)
    assert ("a fit is kept that starts at the candidate" in result.chosen.reason) != again
    assert len(np.unique(result.assignments)) == 2
