"""Two workers who make the same mistakes: who is named, and what the fit makes of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import advice
from pyro_crowdclust.interface.choosing import choice as choice_module
from pyro_crowdclust.interface.choosing import shared_mistakes
from pyro_crowdclust.interface.choosing.rereading import RateWorkers
from pyro_crowdclust.interface.choosing.shared_mistakes import (
    SharedMistakes,
    find_shared_mistakes,
)
from pyro_crowdclust.results import step_of

from ...shared_views import FEW, KINDS, MISREAD, NUM_ITEMS, crowd_of_two_views
from ..small_choices import small

FEATURES = 2.0 * KINDS[:, None] + np.random.default_rng(0).normal(size=(NUM_ITEMS, 2))


@pytest.fixture(autouse=True, scope="module")
def _long_enough(_short_searches):
    """These draws are what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_mistakes, "_MAX_ANSWERS", 10_000)
        yield


@pytest.fixture(scope="module")
def misled():
    return CrowdData(FEATURES, crowd_of_two_views(MISREAD))


@pytest.fixture(scope="module")
def found(misled, _long_enough):
    return find_shared_mistakes(misled)


def names(data, shared):
    return {data.worker_ids[code] for code in shared.workers}


@pytest.mark.long
def test_the_two_are_found_and_so_are_their_mistakes(misled, found):
    assert names(misled, found) == {*FEW}
    answers = misled.answers
    left, right = answers.left.numpy(), answers.right.numpy()
    is_right = (KINDS[left] == KINDS[right]) == (answers.label.numpy() == 1)
    is_of_few = np.isin(answers.worker.numpy(), found.workers)
    assert not found.is_apart[~is_of_few].any()
    assert is_right[found.is_apart].mean() < 0.2
    assert is_right[is_of_few & ~found.is_apart].mean() > 0.9
    assert found.gain > 0
    assert "workers " in found.sentence(misled)
    assert f"and {found.is_apart.sum()} answers of the two" in found.sentence(misled)


@pytest.mark.long
@pytest.mark.parametrize("accuracy", [0.65, 0.8, 0.97])
def test_good_workers_who_agree_as_both_are_right_are_not_named(accuracy):
    data = CrowdData(FEATURES, crowd_of_two_views(KINDS, accuracy=accuracy))
    assert find_shared_mistakes(data) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table[table["worker"].isin(["a", *FEW])],  # nobody knows who of them errs
        lambda table: table.head(15),
        lambda table: table.assign(worker=np.arange(len(table)) % 40),  # nobody answered much
    ],
)
def test_where_nothing_is_tested(misled, change):
    table = change(crowd_of_two_views(MISREAD))
    assert find_shared_mistakes(CrowdData(FEATURES, table)) is None


def test_nothing_is_tested_without_answers_yes_or_no(misled):
    assert find_shared_mistakes(CrowdData(FEATURES)) is None
    known = CrowdData(FEATURES, crowd_of_two_views(MISREAD), known=KINDS)
    assert find_shared_mistakes(known) is None
    graded = crowd_of_two_views(MISREAD).assign(label=lambda table: table["label"] + 1)
    assert find_shared_mistakes(CrowdData(FEATURES, graded, grades=[1, 2, 3])) is None


@pytest.fixture(scope="module")
def fitted(misled, found):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice_module, "find_shared_mistakes", lambda *_: found)
        return small(misled, 3).fit(num_starts=1, progress=False)


@pytest.mark.long
def test_the_mistakes_are_left_out_of_the_fit(misled, found, fitted):
    assert fitted.data.num_pairs == misled.num_pairs - found.is_apart.sum()
    assert fitted.chosen.reason.endswith(f"{found.sentence(misled)}, which are left out")


@pytest.fixture(scope="module")
def repeated():
    """Most answers come three times, some with other labels."""
    table = crowd_of_two_views(MISREAD)
    flip = np.random.default_rng(0).random((2, len(table))) < 0.15
    others = [table.assign(label=table["label"] ^ one).iloc[160:] for one in flip]
    with pytest.warns(UserWarning, match="as many count as are independent"):
        return CrowdData(FEATURES, pd.concat([table, *others], ignore_index=True))


@pytest.mark.parametrize("of_data", ["misled", "repeated"])
def test_all_answers_are_those_left_out_and_the_others(of_data, request):
    data = request.getfixturevalue(of_data)
    ends = data.answers.items.numpy()
    same = [one[ends[:, 0]] == one[ends[:, 1]] for one in (KINDS, MISREAD)]
    few = tuple(data.worker_ids.get_indexer(FEW).tolist())
    is_apart = np.isin(data.answers.worker, few) & (same[0] != same[1])
    shared = SharedMistakes(few, 0.1, 3.0, is_apart)
    kept = shared.left_out_of(data)
    pd.testing.assert_frame_equal(kept.counted_pairs, data.counted_pairs[~is_apart])
    # Answers to the same questions, which do not count yet, are left out, too.
    rows = kept.pairs[kept.pairs["worker"].isin(FEW)]
    left, right = rows["left"].to_numpy(), rows["right"].to_numpy()
    assert ((KINDS[left] == KINDS[right]) == (MISREAD[left] == MISREAD[right])).all()
    every = RateWorkers.of(data, shared.rows_of(data)).all_answers(kept)
    columns = ["left", "right", "worker", "label"]
    for found, expected in (
        (every.pairs, data.pairs),
        (every.counted_pairs, data.counted_pairs),
    ):
        found, expected = (one.sort_values(columns).to_numpy() for one in (found, expected))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.long
def test_the_two_are_rated_by_all_their_answers(misled, found, fitted):
    table = crowd_of_two_views(MISREAD)
    same = fitted.same_cluster_by_position(*table[["left", "right"]].to_numpy().T)
    for name, truth, word in ("sensitivity", same, 1), ("specificity", 1 - same, 0):
        for worker in FEW:
            own = (table["worker"] == worker).to_numpy()
            right = truth[own & (table["label"] == word)].sum() + 2
            share = right / (truth[own].sum() + 3)
            # The pairs move a little as the two count less.
            assert fitted.workers.loc[worker, name] == pytest.approx(share, abs=0.03)


@pytest.mark.long
def test_advice_names_the_two(misled, found, fitted, tmp_path):
    (said,) = [one for one in advice(fitted) if "same mistakes" in one]
    assert said.startswith(f"{found.sentence(misled)}, which are left out of the fit")
    fitted.save(tmp_path / "fit")
    assert load(tmp_path / "fit").chosen.shared_mistakes == found.sentence(misled)


@pytest.mark.long
def test_an_update_rates_the_two_by_all_their_answers_too(misled, fitted, tmp_path):
    fitted.save(tmp_path / "fit")
    more = {"left": [0], "right": [3], "worker": ["new"], "label": [1]}
    updated = load(tmp_path / "fit", data=fitted.data).update(more)
    names = ["sensitivity", "specificity"]
    before, after = (one.workers.loc[[*FEW], names].to_numpy() for one in (fitted, updated))
    np.testing.assert_allclose(after, before, atol=0.03)
    assert step_of(updated, RateWorkers)
