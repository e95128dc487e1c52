"""Sorted pages beside features, as placements or as a table of pairs: one and the same call."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import SortedPages, TwoCoin
from pyro_crowdclust.interface import choice_for, mixture_for
from pyro_crowdclust.interface.about_data import as_answered
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.models import PairRegression
from pyro_crowdclust.simulation import simulate_placements

from .small_choices import small

KINDS = np.arange(120) % 3
FEATURES = np.random.default_rng(0).normal(size=(120, 3)) + 4.0 * np.eye(3)[KINDS]


def crowd(kinds: np.ndarray = KINDS, page_size: int = 12, **options: object) -> pd.DataFrame:
    options = {"pages_per_worker": 12, "seed": 0} | options
    return simulate_placements(kinds, [0.95, 0.9], page_size=page_size, **options)


def pairs_of(placements: pd.DataFrame) -> pd.DataFrame:
    return CrowdData(None, placements=placements, item_ids=range(120)).as_pairs().pairs


@pytest.mark.long
def test_a_table_of_pairs_is_heard_as_the_pages_that_it_is(tmp_path):
    said = {"placements": crowd()}, {"pairs": pairs_of(crowd())}
    of_pages, of_pairs = (choice_for(CrowdData(FEATURES, **one)).data.placements for one in said)
    assert torch.equal(of_pages.worker, of_pairs.worker)
    assert torch.equal(of_pages.num_groups, of_pairs.num_groups)
    placed = [
        sorted(zip(of.page.tolist(), of.item.tolist(), strict=True)) for of in (of_pages, of_pairs)
    ]
    assert placed[0] == placed[1]
    result = small(CrowdData(FEATURES, **said[1]), 4, forms=1).fit(num_starts=1, progress=False)
    assert isinstance(result.model.annotators, SortedPages)
    assert clustering_accuracy(KINDS, result.assignments) > 0.95
    # Whoever loads it has the table that it was made of, and no placements.
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=CrowdData(FEATURES, **said[1]))
    np.testing.assert_array_equal(loaded.assignments, result.assignments)
    assert loaded.data.placements.num_pages == 24
    more = pairs_of(crowd(seed=1)).replace({"worker": {0: "new"}})
    updated = result.update(more.assign(page=more["page"] + 100), progress=False)
    assert updated.data.placements.num_pages == 48
    assert len(updated.workers) == 3


def test_questions_about_pairs_are_none():
    """Pages of three items, answers that are not transitive, and answers without pages."""
    small_pages, large = pairs_of(crowd(page_size=3)), pairs_of(crowd())
    broken = large.assign(label=np.where(np.arange(len(large)) % 7 == 0, 1, large["label"]))
    first = large[large["page"] == 0]
    for pairs in (small_pages, broken, first.drop(columns="page")):
        data = CrowdData(FEATURES, pairs)
        assert as_answered(data) is data
        recipe = choice_for(data).forms[0].recipe(data, 3)
        assert not isinstance(recipe.model.annotators, SortedPages)


@pytest.mark.long
@pytest.mark.parametrize(("asked", "known"), [(60, True), (120, False)])
def test_clusters_that_columns_do_not_show_are_regressed_on_them(asked, known):
    """Halves of one cloud; of the items on no page a third may have a label."""
    features = np.random.default_rng(0).normal(size=(120, 6))
    halves = (features @ [1.0, -1.0, 1.0, 0, 0, 0] > 0).astype(int)
    is_known = known & (np.arange(120) >= asked) & (np.arange(120) % 3 == 0)
    labels = [f"half {half}" if one else None for half, one in zip(halves, is_known, strict=True)]
    pages = crowd(halves, items=range(asked))
    data = CrowdData(features, placements=pages, known=labels if known else None)
    choice = choice_for(data)
    forms = [form for form in choice.forms if form.kind == "regression"][:1]
    few = dataclasses.replace(choice, forms=forms, sizes=[4], first_size=4)
    result = few.fit(num_starts=1, progress=False)
    assert isinstance(result.model, PairRegression)
    assert isinstance(result.model.annotators, SortedPages)
    assert clustering_accuracy(halves, result.assignments) > (0.9 if known else 0.8)
    assert not result.chosen.table["held_out"].isna().any()


def test_pages_that_share_no_items_are_pages_all_the_same():
    """By their pairs, one placement in the wrong group would be eleven wrong answers."""
    pages = crowd(pages_per_worker=3)
    once = CrowdData(FEATURES, pairs_of(pages))
    assert once.as_placements().placements.pages_of_an_item < 2
    for data in (once, CrowdData(FEATURES, placements=pages)):
        assert choice_for(data).data.placements is not None


def test_placements_of_two_are_heard_as_the_answer_that_they_are():
    """A page of one item beside them says nothing, and one of three is a page."""
    pages = crowd(page_size=2, pages_per_worker=60)
    single = pages.iloc[:1].assign(page="single")
    others = np.setdiff1d(range(120), pages["item"].iloc[-2:])
    third = pages.iloc[-1:].assign(item=others[0])
    of_two = CrowdData(FEATURES, placements=pd.concat([pages, single]))
    choice = choice_for(of_two)
    assert choice.data.placements is None
    assert choice.data.num_pairs == 120
    assert not choice.by_features.data.has_answers
    made = mixture_for(of_two, num_clusters=3)
    assert isinstance(made.model.annotators, TwoCoin)
    of_three = CrowdData(FEATURES, placements=pd.concat([pages, third]))
    assert choice_for(of_three).data is of_three


def test_pairs_of_pairs_stay_pairs():
    left = np.arange(118)
    label = (KINDS[left] == KINDS[left + 2]).astype(int)
    pairs = pd.DataFrame({"left": left, "right": left + 2, "worker": 0, "label": label})
    data = choice_for(CrowdData(FEATURES, pairs.assign(page=left))).data
    assert data.placements is None
    recipe = choice_for(CrowdData(FEATURES, pairs)).forms[0].recipe(CrowdData(FEATURES, pairs), 3)
    assert isinstance(recipe.model.annotators, TwoCoin)
