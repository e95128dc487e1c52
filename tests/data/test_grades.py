"""Labels of pairs that are grades, probabilities, or missing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin, check_annotators
from pyro_crowdclust.data.extending import extended
from pyro_crowdclust.results.saved_data import data_fields, data_of

PAIRS = {"left": list("aabb"), "right": list("bccd"), "worker": [0, 0, 1, 1]}


def with_labels(labels: list, **options) -> CrowdData:
    return CrowdData(None, pairs=PAIRS | {"label": labels}, **options)


def test_grades_are_fractions_and_come_back_as_they_were():
    data = with_labels(["far", "near", "same", None], grades=["far", "near", "same"])
    assert data.answers.label[:3].tolist() == [0, 0.5, 1]
    assert data.answers.label[3].isnan()
    assert data.pairs["label"].tolist()[:3] == ["far", "near", "same"]
    assert data.pairs["label"].isna().tolist() == [False, False, False, True]


def test_numbers_missing_are_unsure():
    data = with_labels([1, 4, np.nan, np.nan], grades=[1, 2, 3, 4])
    torch.testing.assert_close(data.answers.label.isnan(), torch.tensor([False, False, True, True]))


@pytest.mark.parametrize(
    ("labels", "grades", "message"),
    [
        (["", "far", "Near", " "], ["far", "near"], r"row 2 .* 'near'\] \(such as 'Near'\)"),
        ([1, 0, 0, 7], [1, 2, 3], r"row 1 .*, 3 such rows.*\[1, 2, 3\] \(such as 0, 7\)"),
        (["0.5", None, "same", "1"], 5, r"row 2 .* is not a number \(such as 'same'\)"),
    ],
)
def test_labels_that_are_no_grades_are_told_of(labels, grades, message):
    with pytest.warns(UserWarning, match=rf"pairs {message}, and counts as \"can't tell\""):
        data = with_labels(labels, grades=grades)
    assert 0 < data.answers.label.isnan().sum() < 4


@pytest.mark.parametrize("grades", [["far", "near"], 5])
def test_labels_none_of_which_is_a_grade_are_refused(grades):
    with pytest.raises(ValueError, match=r"row 1 .*, 3 such rows.* 'Far', no.*nor is any other la"):
        with_labels(["", "Far", "Near", "Far"], grades=grades)
    assert bool(with_labels(["", " ", None, "\t"], grades=grades).answers.label.isnan().all())


def test_what_says_that_somebody_cannot_tell_may_be_a_grade():
    data = with_labels(["no", "unsure", "yes", "cannot tell"], grades=["no", "unsure", "yes"])
    assert data.answers.label[:3].tolist() == [0, 0.5, 1]
    assert data.answers.label[3].isnan()
    with pytest.warns(UserWarning, match=r"row 0 .*: label is .* \(such as 'No'\)"):
        with_labels(["No", "unsure", "unsure", "can't tell"], grades=["no", "unsure", "yes"])


def test_probabilities_are_rounded_to_levels():
    data = with_labels([0.0, 0.1, 0.55, 1.0], grades=np.int64(5))
    assert data.answers.label.tolist() == [0, 0, 0.5, 1]
    assert data.grade_ids.tolist() == [0, 0.25, 0.5, 0.75, 1]
    with pytest.raises(
        ValueError, match=r"not a probability from 0 to 1.* pass all of them, such as grades=\[1"
    ):
        with_labels([0.0, 0.1, 1.5, 1.0], grades=5)


def test_data_in_a_file_are_the_same():
    data = with_labels([1, 4, 2, None], grades=[1, 2, 3, 4])
    again = data_of(data_fields(data))
    assert again.pairs.equals(data.pairs)
    assert again.grade_ids.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("grades", [[], [1], [1, 1], [1, None], 1])
def test_bad_grades_are_named(grades):
    with pytest.raises(ValueError, match="must be at least two different ones"):
        with_labels([1, 1, 1, 1], grades=grades)
    with pytest.raises(ValueError, match="grades are 5.0: pass all of them, from different to sam"):
        with_labels([1, 1, 1, 1], grades=5.0)


@pytest.mark.parametrize("grades", ["low", b"low", "4"])
def test_a_text_is_no_list_of_grades(grades):
    with pytest.raises(ValueError, match=f"grades are {grades!r}, which is one text: pass a list"):
        with_labels(["l", "o", "w", "l"], grades=grades)


def test_grades_without_pairs_are_refused():
    with pytest.raises(ValueError, match="grades are given without pairs"):
        CrowdData(np.eye(3), grades=[1, 2])


def test_models_of_yes_and_no_refuse_grades():
    data = with_labels([1, 4, 2, None], grades=[1, 2, 3, 4])
    with pytest.raises(ValueError, match="TwoCoin needs answers yes and no"):
        check_annotators(TwoCoin(2), data)


def test_graded_pages_are_no_groups():
    data = CrowdData(None, PAIRS | {"label": [2, 2, 2, 2], "page": [0, 0, 1, 1]}, grades=[1, 2])
    assert not data.is_sorted
    with pytest.raises(ValueError, match="the answers are grades"):
        data.as_placements()


def test_more_grades_are_read_as_those_before():
    levels = with_labels([0.0, 0.1, 0.55, 1.0], grades=5)
    names = with_labels(["far", "near", "far", None], grades=["far", "near"])
    more = {"left": ["a"], "right": ["d"], "worker": [7]}
    assert extended(levels, pairs=more | {"label": [0.7]}).pairs["label"].iloc[-1] == 0.75
    assert extended(names, pairs=more | {"label": ["near"]}).pairs["label"].iloc[-1] == "near"
    page = {"page": [9, 9], "item": ["a", "b"], "worker": [0, 0], "group": [0, 1]}
    with pytest.raises(ValueError, match="pages say only same or different"):
        extended(names, placements=page)
