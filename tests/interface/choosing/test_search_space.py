"""Search spaces: what bounds components, and what clusters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.simulation import simulate_pairs

# Two kinds of four clumps each, in a chess board.
CLUMP = np.arange(160) % 8
PLACE = 9.0 * np.stack([CLUMP // 2, CLUMP % 2], 1)
KIND = (CLUMP // 2 + CLUMP) % 2


def chess_board() -> np.ndarray:
    return PLACE + np.random.default_rng(0).normal(size=PLACE.shape)


def said(seed: int, number: int) -> pd.DataFrame:
    rates = {"sensitivity": [0.95] * 3, "specificity": [0.95] * 3}
    return simulate_pairs(KIND, **rates, pairs_per_worker=number, seed=seed)


def sorted_pages(first: int, number: int) -> pd.DataFrame:
    generator = np.random.default_rng(first)
    pages = {f"page {first + one}": generator.permutation(160)[:16] for one in range(number)}
    rows = [(page, i, "amy", KIND[i]) for page, items in pages.items() for i in items]
    return pd.DataFrame(rows, columns=["page", "item", "worker", "group"])


def bounded(data: CrowdData, number: int = 2):
    """The first form only, with eight components."""
    choice = choice_for(data, num_clusters=number)
    choice = dataclasses.replace(choice, forms=choice.forms[:1], sizes=(8,), first_size=8)
    return choice.fit(num_starts=1, progress=False)


def assert_two_kinds(result):
    """Eight components in two clusters, which are the kinds."""
    assert result.component_probabilities.shape[1] == 8
    assert result.probabilities.shape == (160, 2)
    assert len(result.clusters) == len(result.components) == 2
    np.testing.assert_allclose(result.probabilities.sum(1), 1)
    right = (result.assignments == KIND).mean()
    assert max(right, 1 - right) > 0.97
    assert result.predict_proba(chess_board()[:3]).shape == (3, 2)


def test_without_answers_the_number_bounds_components():
    choice = choice_for(CrowdData(chess_board()), num_clusters=4)
    assert max(choice.sizes) == choice.max_clusters == 4
    assert all(form.max_clusters is None for form in choice.forms)


def test_with_answers_it_bounds_clusters():
    choice = choice_for(CrowdData(chess_board(), said(0, 40)), num_clusters=7)
    assert choice.max_clusters == 7
    assert max(choice.sizes) == 8
    assert {form.max_clusters for form in choice.forms} == {7}
    assert max(choice.by_features.sizes) == 7
    for form in choice.forms:
        sizes = list(choice.sizes_of(form))
        assert 7 in sizes
        assert (max(sizes) > 7) == form.of_features
        assert choice.first_sizes_of(form) == ([7, 8] if form.of_features else [7])


def test_without_a_bound_it_is_the_largest_size():
    choice = choice_for(CrowdData(chess_board(), said(0, 40)))
    assert choice.max_clusters == 8
    assert all(choice.sizes_of(form) == choice.sizes for form in choice.forms)


def test_forms_of_one_name_are_refused():
    choice = choice_for(CrowdData(chess_board()))
    longer = dataclasses.replace(choice.forms[0], epochs=200)
    message = "two forms are called 'full Gaussians on columns', so that .*: give one of them"
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(choice, forms=(*choice.forms, longer))
    own = dataclasses.replace(longer, kind="full Gaussians, 200 epochs")
    assert len(dataclasses.replace(choice, forms=(*choice.forms, own)).forms) == 9


def test_a_single_cluster_has_a_single_component():
    choice = choice_for(CrowdData(chess_board(), said(0, 40)), num_clusters=1)
    assert choice.sizes == [1]


@pytest.mark.long
def test_kinds_of_several_clumps_are_found_at_their_number(tmp_path):
    data = CrowdData(chess_board(), said(0, 100))
    result = bounded(data)
    assert_two_kinds(result)
    assert result.chosen.most_components == 2
    assert_two_kinds(result.update(pairs=said(1, 20)))
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=data)
    np.testing.assert_array_equal(loaded.probabilities, result.probabilities)
    assert_two_kinds(loaded.update(pairs=said(1, 20)))


@pytest.mark.long
def test_the_bound_holds_beside_known_labels():
    known = np.where(np.arange(160) < 20, KIND, -1)
    result = bounded(CrowdData(chess_board(), said(0, 100), known=known))
    assert_two_kinds(result)
    assert_two_kinds(result.update(pairs=said(1, 20)))


@pytest.mark.long
def test_the_bound_holds_for_sorted_pages():
    result = bounded(CrowdData(chess_board(), placements=sorted_pages(0, 12)))
    assert_two_kinds(result)
    assert_two_kinds(result.update(placements=sorted_pages(50, 2)))


@pytest.mark.long
def test_a_bound_below_what_people_see_is_kept():
    """Answers about eight kinds in three clusters: none is lost, some are joined."""
    answers = simulate_pairs(
        CLUMP, sensitivity=[0.95] * 3, specificity=[0.95] * 3, pairs_per_worker=200, seed=0
    )
    result = bounded(CrowdData(chess_board(), answers), 3)
    assert result.probabilities.shape[1] == len(set(result.assignments)) == 3
    table = pd.crosstab(CLUMP, result.assignments)
    assert (table.max(axis=1) / table.sum(axis=1) > 0.9).all()
