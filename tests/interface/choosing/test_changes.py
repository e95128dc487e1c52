"""What users change about a choice is kept by updates that choose again."""

from __future__ import annotations

import dataclasses

import pytest

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import ChooseAgain, choice_for
from pyro_crowdclust.interface.choosing.changes import changes_of, with_changes
from pyro_crowdclust.results import step_of

from ..small_choices import answered, two_rings

FEATURES, RING = two_rings(60)
FEW, MANY = answered(FEATURES, RING, 10), answered(FEATURES, RING, 40)
ALONE = CrowdData(FEATURES)


def changed(data, **changes):
    return dataclasses.replace(choice_for(data), **changes)


def names(choice):
    return [form.name for form in choice.forms]


def test_a_choice_as_it_was_made_has_no_changes():
    for data in (FEW, ALONE):
        assert changes_of(choice_for(data)) == {}
    choice = choice_for(MANY)
    again = with_changes(choice, {})
    assert names(again) == names(choice)
    assert again.by_features == choice.by_features


def test_forms_and_sizes_are_those_of_the_user():
    choice = changed(FEW, forms=choice_for(FEW).forms[2:0:-1], sizes=(2, 5), first_size=5)
    again = with_changes(choice_for(MANY), changes_of(choice))
    assert names(again) == ["full Gaussians on powers", "diagonal Gaussians on columns"]
    assert (again.sizes, again.first_size) == ([2, 5], 5)
    assert again.data is MANY
    assert again.by_features.sizes == choice_for(MANY).by_features.sizes
    assert changes_of(again) == changes_of(choice)


def test_changes_of_the_plan_without_answers_are_kept_too():
    by_features = dataclasses.replace(choice_for(FEW).by_features, sizes=(1, 3), first_size=3)
    again = with_changes(choice_for(MANY), changes_of(changed(FEW, by_features=by_features)))
    assert again.by_features.sizes == [1, 3]
    assert again.by_features.data.answers is None
    assert again.sizes == choice_for(MANY).sizes
    again = with_changes(choice_for(MANY), changes_of(changed(FEW, by_features=None)))
    assert again.by_features is None


def test_changes_from_before_the_first_answers_hold_with_and_without_them():
    changes = {"sizes": (2, 3), "first_size": 3, "keeps_near_copies": True}
    again = with_changes(choice_for(MANY), changes_of(changed(ALONE, **changes)))
    for space in (again, again.by_features):
        assert (space.sizes, space.first_size, space.keeps_near_copies) == ([2, 3], 3, True)


def test_where_no_form_suits_the_new_data_all_of_theirs_are_tried():
    own = dataclasses.replace(choice_for(FEW).forms[0], kind="my own")
    again = with_changes(choice_for(MANY), changes_of(changed(FEW, forms=(own,))))
    assert names(again) == names(choice_for(MANY))


@pytest.mark.long
def test_an_update_tries_what_the_first_fit_tried(tmp_path):
    forms = choice_for(FEW).forms[:1]
    choice = changed(FEW, forms=forms, sizes=(2, 3), first_size=3, by_features=None)
    result = choice.fit(num_starts=1, progress=False)
    result.save(tmp_path / "fit")
    for first in (result, load(tmp_path / "fit", data=FEW)):
        table = first.update(more()).chosen.table
        assert set(table["kind"] + " on " + table["features"]) == {"full Gaussians on columns"}
        assert set(table["components"]) <= {2, 3}
    assert step_of(result, ChooseAgain).changes == changes_of(choice)


def more():
    """Answers of a fourth worker, more than the first three gave together."""
    said = MANY.answers
    return {"left": said.left, "right": said.right, "worker": "d", "label": said.label}
