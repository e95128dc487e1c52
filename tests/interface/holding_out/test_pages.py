"""Placements held out: which, and how likely they are by the page and the item."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import SortedPages
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import advice
from pyro_crowdclust.interface.choosing.choice import choice_for
from pyro_crowdclust.interface.choosing.rereading import grouped
from pyro_crowdclust.interface.choosing.trying import Candidates
from pyro_crowdclust.interface.holding_out.pages import placement_parts, placement_split
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_placements

from ..small_choices import small

TRUTH = np.arange(90) % 3


def crowd(asked: int, pages: int = 5, seed: int = 0) -> CrowdData:
    """Three clouds, and pages of the first so many items."""
    rng = np.random.default_rng(seed)
    features = 3.0 * np.eye(3)[TRUTH] + rng.normal(size=(90, 3))
    pages = simulate_placements(
        TRUTH[:asked], [0.9] * 3, pages_per_worker=pages, page_size=12, lumped=0.2, seed=seed
    )
    return CrowdData(features, placements=pages, item_ids=range(90))


def mixture(data: CrowdData, number: int = 3):
    components = GaussianComponents(number, data.features.shape[1])
    annotators = SortedPages(data.num_workers)
    model = SemiCrowdsourcedMixture(DirichletWeights(number), components, Identity(), annotators)
    options = {"batch_size": None, "step_size": 0.5, "epochs": 15, "progress": False}
    return fit(model, MessagePassingGuide(model), data, dtype=torch.float64, **options)


@pytest.mark.parametrize(("asked", "alone"), [(90, 0.0), (60, 1 / 3), (30, 2 / 3)])
def test_what_is_held_out_is_about_items_as_they_are(asked, alone):
    """A quarter of the placements, a share of which are all that an item has."""
    shares = []
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        data = crowd(asked, pages=12)
        one = placement_split(data, 0.25, generator)
        kept = one.data.placements
        assert len(kept) + len(one.held_out) == len(data.placements)
        assert torch.equal(kept.num_groups, data.placements.num_groups)
        is_heard = torch.isin(one.held_out.item, kept.item)
        shares.append([len(one.held_out) / len(data.placements), 1 - is_heard.double().mean()])
    size, unheard = np.mean(shares, 0)
    assert size == pytest.approx(0.25, abs=0.03)
    assert unheard == pytest.approx(alone, abs=0.08)


def test_too_few_placements_are_not_split():
    data = crowd(30)
    few = data.with_parts(placements=data.placements.of_pages(torch.arange(15) < 3))
    assert placement_split(few, 0.25, torch.Generator().manual_seed(0)) is None


def test_probabilities_of_the_groups_of_a_page_add_up():
    """Without the group that stayed empty, as all groups of a page have items."""
    one = placement_split(crowd(60), 0.25, torch.Generator().manual_seed(0))
    result = mixture(one.data)
    total = torch.zeros(len(one.held_out), dtype=torch.float64)
    most = int(one.held_out.num_groups.max())
    num_groups = one.held_out.num_groups[one.held_out.page]
    for group in range(most):
        there = one.held_out.group.clone().fill_(group).minimum(num_groups - 1)
        moved = type(one)(
            one.data,
            type(one.held_out)(
                one.held_out.item,
                one.held_out.page,
                there,
                one.held_out.worker,
                one.held_out.num_groups,
            ),
        )
        found = torch.from_numpy(moved.log_probability(result)).exp()
        total += torch.where(group < num_groups, found, 0.0)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_who_knows_the_clusters_predicts_placements():
    one = placement_split(crowd(60), 0.25, torch.Generator().manual_seed(0))
    found = one.log_probability(mixture(one.data)).mean()
    assert found > one.chance + 0.3
    kept, held = one.data.placements, one.held_out
    by_hand = []
    for page, group in zip(held.page.tolist(), held.group.tolist(), strict=True):
        there = kept.group[kept.page == page]
        number = int(held.num_groups[page])
        by_hand.append(np.log((int((there == group).sum()) + 1) / (len(there) + number)))
    even = -one.held_out.num_groups[one.held_out.page].double().log().mean()
    assert one.chance == pytest.approx(max(np.mean(by_hand), float(even)))


def test_pairs_of_a_page_are_predicted_by_their_clusters_and_the_prior_of_habits():
    """The first held-out placement by hand, with habits of 8, 1.5 and 1.5 pages of 11."""
    one = placement_split(crowd(60), 0.25, torch.Generator().manual_seed(0))
    result, held, kept = mixture(one.data), one.held_out, one.data.placements
    page, item, group = (int(part[0]) for part in (held.page, held.item, held.group))
    accuracy, q = result.workers["accuracy"].iloc[int(held.worker[page])], result.probabilities
    number, by_hand = int(held.num_groups[page]), []
    slip = (1 - accuracy) / (number - 1)
    for part in (held, kept):
        there = (part.page == page) & (part.item != item)
        for other, own in zip(part.item[there], part.group[there], strict=True):
            same = float(q[item] @ q[int(other)])
            if_same = accuracy**2 + (number - 1) * slip**2
            if_different = 2 * accuracy * slip + (number - 2) * slip**2
            if_same = (9.5 * if_same + 1.5 / number) / 11
            if_different = (8 * if_different + 3 / number) / 11
            together = same * if_same + (1 - same) * if_different
            by_hand.append(np.log(together if own == group else 1 - together))
    assert one.of_pairs(result)[0] == pytest.approx(np.mean(by_hand))
    assert one.of_pairs(result, result.guide.workers()) == pytest.approx(one.of_pairs(result))


def test_clusters_torn_apart_are_seen_by_pairs_of_a_page():
    """Two clouds of a kind are two clusters, which are at home in the same group."""
    rng = np.random.default_rng(0)
    clouds = 8.0 * np.eye(6)[TRUTH + 3 * (np.arange(90) // 3 % 2)]
    pages = simulate_placements(TRUTH, [0.9] * 3, pages_per_worker=5, page_size=12, seed=0)
    data = CrowdData(clouds + rng.normal(size=(90, 6)), placements=pages)
    one = placement_split(data, 0.25, torch.Generator().manual_seed(0))
    torn = mixture(one.data, 6)
    assert len(set(torn.assignments)) == 6
    kind = np.array([TRUTH[torn.component_probabilities.argmax(1) == one][0] for one in range(6)])
    whole = grouped(torn, torch.from_numpy(np.unique(kind, return_index=True)[1][kind]))
    assert clustering_accuracy(TRUTH, whole.assignments) == 1
    assert one.of_pairs(whole).mean() > one.of_pairs(torn).mean() + 0.1


def test_every_placement_is_in_one_part_with_all_of_its_item():
    data = crowd(60)
    parts = placement_parts(data, torch.Generator().manual_seed(0))
    items = [set(one.held_out.item.tolist()) for one in parts]
    assert sum(map(len, items)) == len(set().union(*items)) == len(data.placements.item.unique())
    assert sum(len(one.held_out) for one in parts) == len(data.placements)
    assert not any(
        set(one.data.placements.item.tolist()) & own for one, own in zip(parts, items, strict=True)
    )


def test_an_item_of_which_nothing_is_known_is_predicted_by_the_page():
    one = placement_split(crowd(60), 0.25, torch.Generator().manual_seed(0))
    result = mixture(one.data)
    of_any, found = one.of_any_item(result), one.log_probability(result)
    assert found.mean() > of_any.mean() + 0.3
    place = torch.stack([one.held_out.page, one.held_out.group], 1)
    for same in place.unique(dim=0):
        assert np.ptp(of_any[(place == same).all(1).numpy()]) < 1e-12


@pytest.mark.long
@pytest.mark.parametrize(("accuracy", "joins"), [(0.95, True), (1 / 3, False)])
def test_few_pages_say_which_components_are_one_if_that_predicts_them(accuracy, joins):
    """Three pages about three kinds of two clouds each, or of somebody who guesses."""
    rng = np.random.default_rng(0)
    clouds = 8.0 * np.eye(6)[TRUTH + 3 * (np.arange(90) // 3 % 2)]
    data = CrowdData(
        clouds + rng.normal(size=(90, 6)),
        placements=simulate_placements(
            TRUTH, [accuracy] * 3, pages_per_worker=1, page_size=18, seed=0
        ),
    )
    choice = small(data, 6, forms=1)
    result = choice.fit(num_starts=1, progress=False)
    assert result.chosen.uses_answers == joins
    assert len(set(result.assignments)) == (3 if joins else 6)
    if joins:
        assert clustering_accuracy(TRUTH, result.assignments) == 1
        assert result.chosen.held_out > result.chosen.chance + 0.3
        assert "pages say which of these are one" in result.chosen.reason
        assert not advice(result)
    else:
        assert "features alone" in result.chosen.reason
        assert any("have more pages sorted" in one for one in advice(result))


@pytest.mark.long
def test_the_first_call_weighs_features_by_placements():
    """Features that are sure of what nobody sees count less."""
    rng = np.random.default_rng(0)
    halves = rng.integers(2, size=90)
    features = np.column_stack([3.0 * np.eye(3)[TRUTH], 4.0 * halves])
    features = features + rng.normal(size=features.shape)
    data = CrowdData(features, placements=crowd(60).pages, item_ids=range(90))
    result = small(data, 6, forms=4).fit(num_starts=1, progress=False)
    assert result.chosen.held_out > result.chosen.chance + 0.3
    assert "a placement" in result.chosen.reason
    assert result.chosen.table["held_out"].notna().all()
    assert (
        float(result.chosen.table.loc[result.chosen.table["chosen"], "feature_weight"].iloc[0]) < 1
    )


@pytest.mark.long
def test_gaps_pages_files_and_updates_go_together(tmp_path):
    """A tenth of the numbers is missing; a loaded fit hears a new sorter."""
    data = crowd(60, pages=10)
    gaps = np.random.default_rng(1).random(data.features.shape) < 0.1
    features = np.where(gaps, np.nan, data.features)
    with_gaps = CrowdData(features, placements=data.pages, item_ids=range(90))
    result = small(with_gaps, 4).fit(num_starts=1, progress=False)
    assert clustering_accuracy(TRUTH[:60], result.assignments[:60]) > 0.9
    assert result.owners is not None
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=result.data)
    np.testing.assert_array_equal(loaded.probabilities, result.probabilities)
    more = simulate_placements(TRUTH[:60], [0.95], pages_per_worker=2, page_size=12, seed=5)
    more = more.assign(page="new" + more["page"].astype(str), worker=77)
    updated = loaded.update(placements=more[["page", "item", "worker", "group"]])
    assert updated.workers.index.tolist() == [0, 1, 2, 77]
    assert clustering_accuracy(TRUTH[:60], updated.assignments[:60]) > 0.9


def test_clusters_own_components_of_pages():
    """Clouds of one kind that people put into one group are one cluster of the trial, too."""
    rng = np.random.default_rng(0)
    kinds = np.arange(90) % 3
    clouds = 3.0 * np.eye(6)[kinds + 3 * rng.integers(2, size=90)]
    pages = simulate_placements(kinds, [0.95] * 3, pages_per_worker=10, page_size=15, seed=0)
    data = CrowdData(clouds + rng.normal(size=(90, 6)), placements=pages, item_ids=range(90))
    candidates = Candidates(choice_for(data), seed=0, progress=False)
    form = next(form for form in candidates.space.forms if form.kind == "diagonal Gaussians")
    assert candidates.try_out(form, 8).clusters < 8
