"""The choice of a model: what is tried, what decides, and what is left of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import CrowdClusterer, choice_for, cluster, recipe_for
from pyro_crowdclust.interface.choice import Choice
from pyro_crowdclust.interface.forms import weighted
from pyro_crowdclust.interface.held_out import (
    KnownSplit,
    LinkSplit,
    connected_items,
    distinct_items,
    some_items,
    split,
)
from pyro_crowdclust.interface.rounding import unrounded
from pyro_crowdclust.interface.search import WEIGHTS, Search, Trial, worth_another_split
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import PoissonComponents
from pyro_crowdclust.results import class_probabilities
from pyro_crowdclust.simulation import simulate_pairs


def two_rings(num_items: int = 240) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    ring = np.arange(num_items) % 2
    angle = rng.uniform(0, 2 * np.pi, num_items)
    radius = 1 + 2 * ring + 0.15 * rng.normal(size=num_items)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), ring


def answered(features: np.ndarray, kinds: np.ndarray, number: int = 120) -> CrowdData:
    rates = [0.9] * 3
    return CrowdData(features, simulate_pairs(kinds, rates, rates, pairs_per_worker=number, seed=0))


def small(data: CrowdData, *sizes: int, forms: int = 2) -> Choice:
    choice = choice_for(data)
    return dataclasses.replace(
        choice, forms=choice.forms[:forms], sizes=sizes, first_size=sizes[0], num_splits=1
    )


@pytest.fixture(scope="module")
def rings():
    features, ring = two_rings()
    return small(answered(features, ring), 3, 8, 16).fit(progress=False), ring


def test_answers_choose_the_components_that_clusters_own(rings):
    result, ring = rings
    table = result.chosen.table
    assert table["chosen"].sum() == 1
    assert clustering_accuracy(ring, result.assignments) > 0.9
    best = table.loc[table["chosen"], "held_out"].item()
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


def test_a_regression_is_chosen_where_classes_are_regions_of_one_cloud():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(150, 4))
    side = (features[:, 0] + features[:, 1] > 0).astype(int)
    data = answered(features, side, 200)
    choice = choice_for(data)
    of_columns = [form for form in choice.forms if form.features == "columns"]
    choice = dataclasses.replace(choice, forms=of_columns, sizes=(2, 4), first_size=4, num_splits=1)
    result = choice.fit(progress=False)
    assert result.chosen.winner == "regression on columns, 4 components"
    assert clustering_accuracy(side, result.assignments) > 0.85
    assert np.isnan(result.chosen.table["elbo"].iloc[-1])


def test_without_answers_the_elbo_chooses():
    features = np.repeat([[0.0, 0.0], [7.0, 0.0], [0.0, 7.0]], 30, axis=0)
    features += np.random.default_rng(0).normal(size=(90, 2))
    recipe, chosen = small(CrowdData(features), 5, 4, 3, 2).run(progress=False)
    table = chosen.table
    assert table["held_out"].isna().all()
    assert chosen.chance is None
    assert table["elbo"].idxmax() == table.index[table["chosen"]][0]
    assert recipe.model.num_clusters == 3


def test_elbos_are_in_the_units_of_the_features():
    """A hundred times larger units cost the logarithm of a hundred for every column and item."""
    features, _ = two_rings(60)
    elbos = []
    for unit in (1.0, 100.0):
        _, chosen = small(CrowdData(unit * features), 3, forms=4).run(progress=False)
        elbos.append(chosen.table["elbo"].to_numpy())
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


def known_part(kinds: np.ndarray) -> dict:
    return {"known": [kind if place % 4 else None for place, kind in enumerate(kinds)]}


def linked_part(kinds: np.ndarray) -> dict:
    items = np.arange(24)
    links = pd.DataFrame({"left": items[:-1], "right": items[1:]})
    same = kinds[links["left"]] == kinds[links["right"]]
    must = pd.DataFrame({"left": items[:-3], "right": items[3:]})
    return {"must_link": must, "cannot_link": links[~same]}


def sorted_part(kinds: np.ndarray) -> dict:
    items = np.arange(24)
    page = pd.DataFrame({"page": items // 12, "item": items, "group": kinds[:24]})
    return {"placements": page.assign(worker=page["page"])}


@pytest.mark.parametrize("said", [known_part, linked_part, sorted_part])
def test_labels_links_and_pages_are_heard_by_a_choice(said):
    """And the least number of clusters is that of known classes."""
    features, kinds = wide_clusters()
    data = CrowdData(features, **said(kinds))
    choice = choice_for(data, num_clusters=3)
    assert choice.sizes[-1] == 3
    assert (choice.sizes[0] == 3) == (said is known_part)
    choice = dataclasses.replace(choice, forms=choice.forms[:2], sizes=[3], first_size=3)
    result = choice.fit(num_starts=1, progress=False)
    assert clustering_accuracy(kinds, result.assignments) > 0.95
    # Pages are heard as a whole; labels and links are held out where they are enough.
    held_out = result.chosen.table["held_out"]
    assert held_out.isna().all() == (said is sorted_part)
    if said is not sorted_part:
        assert held_out.max() > result.chosen.chance


def test_classes_of_held_out_items_are_predicted_by_the_table():
    features, kinds = wide_clusters()
    data = CrowdData(features, known=[*kinds[:45], *[None] * 45])
    one = split(data, 0.4, torch.Generator().manual_seed(0))
    assert isinstance(one, KnownSplit)
    assert bool((one.data.known[one.block] == -1).all())
    assert one.classes.tolist() == kinds[one.block].tolist()
    kept = one.data.known[one.data.known >= 0]
    shares = (torch.bincount(kept, minlength=3) + 1.0) / (len(kept) + 3)
    assert one.chance == pytest.approx(float(shares[one.classes].log().mean()))
    result = small(one.data, 3, forms=1).forms[0].recipe(one.data, 3).fit(progress=False)
    found = one.log_probability(result)
    np.testing.assert_allclose(
        np.exp(found), class_probabilities(result)[one.block, one.classes], atol=1e-6
    )
    assert found.mean() > one.chance


def test_links_held_out_are_predicted_by_who_is_together():
    features, kinds = wide_clusters()
    data = CrowdData(features, **linked_part(kinds))
    one = split(data, 0.4, torch.Generator().manual_seed(0))
    assert isinstance(one, LinkSplit)
    assert one.held_out.num_links + one.data.links.num_links == data.links.num_links
    result = small(one.data, 3, forms=1).forms[0].recipe(one.data, 3).fit(progress=False)
    ends = one.held_out.left.tolist(), one.held_out.right.tolist()
    same = result.same_cluster_probability(*ends)
    right = np.where(one.held_out.must, same, 1 - same)
    np.testing.assert_allclose(np.exp(one.log_probability(result)), right, atol=1e-5)
    assert one.log_probability(result).mean() > one.chance


def test_too_few_labels_or_links_are_not_held_out():
    features, kinds = wide_clusters()
    few = CrowdData(features, known=[*kinds[:12], *[None] * 78])
    assert split(few, 0.4, torch.Generator()) is None


@pytest.mark.parametrize("said", [known_part, linked_part, sorted_part])
def test_a_part_of_the_items_keeps_what_is_said_of_them(said):
    features, kinds = wide_clusters()
    data = CrowdData(features, **said(kinds))
    items = torch.arange(5, 60)
    part = some_items(data, items)
    whole = CrowdData(features[5:60], item_ids=range(5, 60), **_among(said(kinds), items.tolist()))
    if data.known is not None:
        assert part.known.tolist() == whole.known.tolist()
    if data.links is not None:
        assert torch.equal(part.links.left, whole.links.left)
        assert torch.equal(part.links.must, whole.links.must)
    if data.placements is not None:
        assert torch.equal(part.placements.item, whole.placements.item)
        assert torch.equal(part.placements.group, whole.placements.group)
        assert part.placements.num_groups.tolist() == whole.placements.num_groups.tolist()


def _among(said: dict, items: list[int]) -> dict:
    """The rows of what is said that are about these items alone."""
    if "known" in said:
        return {"known": [said["known"][item] for item in items]}
    ends = ["item"] if "placements" in said else ["left", "right"]
    return {name: table[table[ends].isin(items).all(axis=1)] for name, table in said.items()}


def wide_clusters(num_items: int = 90, dim: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Columns that depend on each other, so many that a prior as wide as the data wins."""
    rng = np.random.default_rng(0)
    kinds = np.arange(num_items) % 3
    noise = rng.normal(size=(num_items, 4)) @ rng.normal(size=(4, dim))
    noise += 0.2 * rng.normal(size=(num_items, dim))
    return 2.5 * rng.normal(size=(3, dim))[kinds] + noise, kinds


@pytest.mark.parametrize("what", ["gaps", "mixed"])
@pytest.mark.parametrize("is_answered", [True, False], ids=["answers", "none"])
def test_tables_as_they_are_have_a_choice(what, is_answered):
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
    assert result.predict(table.iloc[:4]).shape[0] == 4


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


def test_a_table_without_numbers_has_one_form():
    table = pd.DataFrame({"smokes": [True, False] * 10, "hair": ["red", "fair", "dark", "red"] * 5})
    assert [form.kind for form in choice_for(CrowdData(table)).forms] == ["independent columns"]


def test_the_bound_on_clusters_is_kept():
    features, _ = two_rings(60)
    choice = choice_for(CrowdData(features), num_clusters=4)
    assert (max(choice.sizes), choice.first_size) == (4, 4)
    _, chosen = choice.run(progress=False)
    assert chosen.table["components"].max() == 4
    with pytest.raises(ValueError, match="num_clusters is 0"):
        choice_for(CrowdData(features), num_clusters=0)


def test_many_columns_are_projected():
    wide = CrowdData(np.random.default_rng(0).normal(size=(60, 90)))
    names = [form.features for form in choice_for(wide).forms]
    assert all("directions" in name for name in names)
    recipe = choice_for(wide).forms[0].recipe(wide, 3)
    assert recipe.model.components.num_features == 10


def test_copies_of_rows_are_no_clusters():
    rng = np.random.default_rng(0)
    features = np.repeat([[0.0, 0.0], [9.0, 0.0]], 20, axis=0) + rng.normal(size=(40, 2))
    copies = CrowdData(features[rng.integers(0, 40, 300)])
    _, chosen = small(copies, 2, 13, forms=1).run(progress=False)
    assert chosen.winner.endswith("2 components")
    # Whole numbers repeat of themselves.
    counts = CrowdData(rng.poisson(3, size=(300, 2)).astype(float))
    assert distinct_items(counts) is counts


def test_columns_that_never_vary_are_left_out():
    features, _ = two_rings(60)
    data = CrowdData(np.column_stack([features, np.ones(60), np.full(60, 1e6)]))
    for form in choice_for(data).forms:
        emission = form.emission(data)
        points = emission.latent(torch.as_tensor(data.features))
        assert points.shape == (60, 2)
        np.testing.assert_allclose(emission.features(points), data.features, rtol=1e-9)


def trial(form, number: int, elbo: float, answers: np.ndarray) -> Trial:
    return Trial(form, number, elbo, answers[None], number, 0.0)


def test_answers_that_cannot_tell_leave_it_to_the_elbo():
    features, ring = two_rings(60)
    choice = small(answered(features, ring, 60), 3)
    search = Search(choice, 0, False)
    number = len(search.splits[0].held_out.label)
    rng = np.random.default_rng(0)
    held = rng.normal(size=number)
    best = trial(choice.forms[0], 2, 1.0, held)
    alike = trial(choice.forms[0], 3, 2.0, held - 0.01 + rng.normal(size=number))
    worse = trial(choice.forms[0], 4, 3.0, held - 2.0 + 0.1 * rng.normal(size=number))
    assert search.in_order([best, alike, worse]) == [alike, best, worse]
    assert search.rivals([best, alike, worse]) == [best, alike]
    many = [trial(choice.forms[0], 2, elbo, held - 0.001 * elbo) for elbo in range(9)]
    assert [one.elbo for one in worth_another_split(many)] == [0, 8, 7, 6]


def test_data_that_are_too_many_are_tried_in_part():
    features, ring = two_rings(240)
    data = answered(features, ring, 20)
    seen = []

    def note(recipe_data):
        seen.append(recipe_data.num_items)
        return standard(recipe_data)

    choice = small(data, 3, forms=1)
    standard = choice.forms[0].emission
    form = dataclasses.replace(choice.forms[0], emission=note)
    recipe, _ = dataclasses.replace(choice, forms=(form,), max_items=100).run(progress=False)
    assert seen == [100, 240]
    assert recipe.data is data


def test_an_interrupted_search_fits_the_best_so_far(monkeypatch):
    features, _ = two_rings(60)
    tried = Search.try_out

    def press_control_c(self, *arguments):
        if len(self.trials) == 1:
            raise KeyboardInterrupt
        return tried(self, *arguments)

    monkeypatch.setattr(Search, "try_out", press_control_c)
    result = small(CrowdData(features), 3, 4).fit(progress=False)
    assert result.stop_reason.startswith("interrupted by the user")
    assert len(result.chosen.table) == 1


def test_several_starts_keep_the_best():
    features, _ = two_rings(60)
    choice = small(CrowdData(features), 8, forms=1)
    one = choice.fit(num_starts=1, progress=False)
    assert choice.fit(num_starts=3, progress=False).elbo >= one.elbo
    with pytest.raises(ValueError, match="num_starts is 0"):
        choice.fit(num_starts=0, progress=False)


def test_answers_about_held_out_items_are_kept_out():
    features, ring = two_rings(60)
    data = answered(features, ring)
    one = split(data, 0.25, torch.Generator().manual_seed(0))
    assert len(one.held_out.label) + one.data.num_pairs == data.num_pairs
    held = set(one.block.tolist())
    ends = torch.cat([one.data.answers.left, one.data.answers.right]).tolist()
    assert held.isdisjoint(ends)
    assert one.data.num_workers == data.num_workers


def test_too_few_answers_cannot_choose():
    data = CrowdData(np.eye(3), {"left": [0], "right": [1], "worker": [0], "label": [1]})
    assert split(data, 0.5, torch.Generator().manual_seed(0)) is None


def test_a_part_keeps_answers_between_its_items():
    pairs = {"left": [0, 1, 2], "right": [1, 3, 3], "worker": list("aab"), "label": [1, 0, 1]}
    part = some_items(CrowdData(np.arange(8.0).reshape(4, 2), pairs), torch.tensor([1, 2, 3]))
    assert part.answers.left.tolist() == [0, 1]
    assert part.answers.right.tolist() == [2, 2]
    assert part.answers.worker.tolist() == [0, 1]
    assert part.item_ids.tolist() == [1, 2, 3]
    assert part.num_workers == 2


def test_predictions_of_answers_are_the_mixture_of_both_rates(rings):
    result, _ = rings
    one = split(result.data, 0.25, torch.Generator().manual_seed(1))
    ours = one.log_probability(result)
    workers = result.workers
    for pair in (0, 7, 30):
        i, j = int(one.held_out.left[pair]), int(one.held_out.right[pair])
        same = result.same_cluster_probability(i, j)
        rates = workers.iloc[int(one.held_out.worker[pair])]
        yes = same * rates["sensitivity"] + (1 - same) * (1 - rates["specificity"])
        expected = yes if one.held_out.label[pair] == 1 else 1 - yes
        assert ours[pair] == pytest.approx(np.log(expected))


def test_the_error_of_a_difference_is_that_of_its_items():
    """Two answers about every item that say the same are one piece of evidence."""
    form = choice_for(CrowdData(np.eye(3))).forms[0]
    rng = np.random.default_rng(0)
    better, worse = (
        Trial(form, 2, 0.0, np.repeat(rng.normal(size=50), 2)[None], 2, 0.0) for _ in range(2)
    )
    difference = (better.held_out - worse.held_out)[::2]
    expected = difference.std() / np.sqrt(50)
    found = Search.error(better, worse, np.repeat(np.arange(50), 2))
    assert found == pytest.approx(expected)


def test_large_data_begin_at_a_fit_to_a_part(monkeypatch):
    from pyro_crowdclust.interface import recipe

    features, ring = two_rings(400)
    data = answered(features, ring, 100)
    plain = small(data, 8, forms=1)
    # Full batches for 100 items, minibatches for 400.
    monkeypatch.setattr(recipe, "FULL_BATCH_NUMBERS", 2000)
    choice = dataclasses.replace(plain, part_items=100, max_items=100)
    result = choice.fit(progress=False)
    assert len(result.history) <= 3
    assert result.data is data
    assert clustering_accuracy(ring, result.assignments) > 0.8


def test_features_weigh_less_where_the_held_out_answers_say_so(rings):
    result, _ = rings
    table = result.chosen.table
    assert table["feature_weight"].between(0, 1).all()
    one = split(result.data, 0.25, torch.Generator().manual_seed(0))
    form = choice_for(result.data).forms[0]
    found = Search.at_weights(form, one, weighted(result, 0.5))
    assert found.shape == (len(WEIGHTS), len(one.held_out.label))
    # The result itself is read at a weight that the answers have chosen.
    most, least = weighted(result, 0.9), weighted(result, 0.05)
    assert (most.model.feature_weight, least.model.feature_weight) == (0.9, 0.05)
    assert (least.probabilities.max(1) <= most.probabilities.max(1) + 1e-6).mean() > 0.9


def test_parts_of_data_hold_answers_that_are_connected():
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 3000, (2, 3000))
    ends = ends[:, ends[0] != ends[1]]
    pairs = {"left": ends[0], "right": ends[1], "worker": [0] * ends.shape[1]}
    data = CrowdData(rng.normal(size=(4000, 1)), pairs | {"label": [1] * ends.shape[1]})
    items = connected_items(data, 400, torch.Generator().manual_seed(0))
    assert len(items) == 400
    assert (items.diff() > 0).all()
    assert some_items(data, items).num_pairs > 250


def test_rounded_numbers_are_spread_over_their_step():
    rng = np.random.default_rng(0)
    features = np.stack([rng.normal(size=200).round(1), rng.normal(size=200)], 1)
    spread = unrounded(CrowdData(features)).features
    away = spread - features
    assert np.abs(away[:, 0]).max() <= 0.05 + 1e-9
    assert away[:, 0].std() == pytest.approx(0.1 / np.sqrt(12), rel=0.1)
    assert (away[:, 1] == 0).all()
    fine = CrowdData(features[:, 1:])
    assert unrounded(fine) is fine
    features[0] = np.nan
    gaps = unrounded(CrowdData(features)).features - features
    assert np.isnan(gaps[0]).all()
    assert 0.01 < np.abs(gaps[1:, 0]).max() <= 0.05 + 1e-9
    codes = CrowdData((features[1:] > 0) * 1.0)
    assert unrounded(codes) is codes


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
