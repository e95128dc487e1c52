"""Advice about the number of clusters, and about what they are: known classes, or a column."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.emissions import Emission
from pyro_crowdclust.errors import listed
from pyro_crowdclust.interface.about_data import is_of_features_alone, known_labels_alone
from pyro_crowdclust.interface.advising.answer_facts import is_disputed
from pyro_crowdclust.interface.holding_out.known_classes import MIN_KNOWN
from pyro_crowdclust.mixture import Components, gain_of_learned_prior
from pyro_crowdclust.models import PairRegression
from pyro_crowdclust.protocols import part_of, posteriors_of
from pyro_crowdclust.results import Fitted, known_or_likeliest

# A class that has labels should have other items, too, if it has none by chance with less than this
# probability.
_UNLIKELY = 0.01
# Clusters repeat a column if their normalized mutual information with its values is at least this.
_REPEATED = 0.95
# A component is large if at least this share of all items is in it.
_LARGE = 0.1
# One cluster has nearly all items if at least this share of them is in it.
_NEARLY_ALL = 0.9
# A prior is far from what it should be if the best one gains so many nats per item: .0 to 0.4 for
# one cloud of Gaussian numbers in 2 to 10 columns, 1 of noise in 30, 3 and more where columns go
# together.
_GAIN = 2.0
# So many classes and components are named.
_NAMED = 3
_ASK = "ask about some pairs of these items"


def about_clusters(result: Fitted) -> list[str]:
    """Advice where the clusters collapsed, or where there may be more of them."""
    if isinstance(result.model, PairRegression) and not result.data.has_answers:
        return []  # the clusters are the known classes
    if is_disputed(result):
        return [
            'all items are in one cluster, though the crowd often said "different": the clusters '
            "collapsed; try more starts, or other features"
        ]
    return (
        _about_wide_prior(result)
        or _about_bound(result)
        or _about_joined(result)
        or _about_other_number(result)
    )


def _about_wide_prior(result: Fitted) -> list[str]:
    """Advice where one cluster has nearly all items, as the prior expects such wide components."""
    share = result.clusters["assigned_items"].max() / result.data.num_items
    if share < _NEARLY_ALL or not _expects_other_width(result):
        return []
    return [
        f"one cluster has {share:.0%} of the items, and the prior of the components expects them "
        "to be much wider than they are: pass callbacks=[LearnedPrior()] to fit, which learns it, "
        "use DiagonalGaussianComponents, or let cluster() choose"
    ]


def _expects_other_width(result: Fitted) -> bool:
    """Whether a learned prior of components of features would explain them much better."""
    posteriors, emission = posteriors_of(result.guide), part_of(result.model, "emission", Emission)
    has_components = part_of(result.model, "components", Components) is not None
    if posteriors is None or emission is None or not has_components:
        return False
    gain = gain_of_learned_prior(result.model, posteriors) if emission.observes_latent else 0.0
    return gain > _GAIN * result.data.num_items


def _about_bound(result: Fitted) -> list[str]:
    """Advice where the largest number of clusters that was allowed is needed."""
    assigned = result.clusters["assigned_items"]
    number = len(assigned)
    # Where the number was chosen, larger ones could be tried, unless it is the largest allowed.
    is_bound = result.chosen is None or number == result.chosen.most_components
    if number == 1 or not is_bound or not (assigned > 0).all():
        return []
    if number + 1 >= result.data.num_items:  # one more, and every item is a cluster of its own
        return []
    return [f"all {number} clusters have items, so there may be more: allow a larger number"]


def _about_joined(result: Fitted) -> list[str]:
    """Advice where a cluster has two large components, which no answers have joined."""
    owners = result.owners
    if owners is None or not is_of_features_alone(result.data):
        return []
    sizes = result.component_probabilities.sum(0).numpy()
    large = np.flatnonzero(sizes >= _LARGE * result.data.num_items)
    of_cluster = owners[large].argmax(1)
    numbers = np.bincount(of_cluster)
    if numbers.max(initial=0) < 2:
        return []
    cluster = int(numbers.argmax())
    parts = np.sort(sizes[large[of_cluster == cluster]].round().astype(int))[::-1]
    return [
        f"cluster {cluster} is {len(parts)} components that overlap, of about "
        f"{listed(parts.tolist(), _NAMED)} items, and whether these are one kind the features "
        f"alone do not show; {_ASK}"
    ]


def _about_other_number(result: Fitted) -> list[str]:
    """Advice where another number of components that is as good divides a cluster."""
    said = "" if result.chosen is None else result.chosen.other_number
    return [f"{said}; {_ASK}"] if said and is_of_features_alone(result.data) else []


def about_classes(result: Fitted) -> list[str]:
    """Advice where items of a class are in clusters of other classes, or nowhere."""
    data = result.data
    if data.known is None or data.num_known_classes < 2:
        return []
    known = data.known.numpy()
    labelled = known >= 0
    table = np.zeros((int(result.assignments.max()) + 1, data.num_known_classes), int)
    np.add.at(table, (result.assignments[labelled], known[labelled]), 1)
    homes = {*table[table.any(1)].argmax(1).tolist()}
    homeless = [code for code in np.unique(known[labelled]).tolist() if code not in homes]
    alone = [code for code in _without_others(result) if code not in homeless]
    what_to_do = "label more items, above all of these classes, or use other features"
    found = []
    if homeless:
        names = listed(list(data.known_ids[homeless]), _NAMED)
        found.append(
            "the features show other kinds than the labels: no cluster is mainly of class "
            f"{names}; {what_to_do}"
        )
    if alone:
        names = listed(list(data.known_ids[alone]), _NAMED)
        found.append(
            f"no item without a label is likeliest of class {names}: unless the labelled items are "
            f"all there are, {what_to_do}"
        )
    single = [code for code in _with_one_label(data) if code not in homeless + alone]
    if single:
        names = listed(list(data.known_ids[single]), _NAMED)
        found.append(
            f"only one item is labelled as class {names}, so that no held-out label shows whether "
            "others of the class are found: label more of them"
        )
    return found


def about_new_kinds(result: Fitted) -> list[str]:
    """Advice where large clusters have hardly any known label: there may be kinds without one."""
    if not known_labels_alone(result.data):
        return []
    known, number = result.data.needed_known.numpy(), result.data.num_known_classes
    sizes = np.bincount(result.assignments)
    labels = np.zeros((len(sizes), number), int)
    np.add.at(labels, (result.assignments[known >= 0], known[known >= 0]), 1)
    # Where most labels of some class are.
    is_home = (labels == labels.max(0)).any(1, where=labels.max(0) > 0)
    others = np.flatnonzero(~is_home & (sizes >= _LARGE * len(known)))
    if not len(others):
        return []
    are = "cluster {} has {} items" if len(others) == 1 else "clusters {} have {} items"
    said = are.format(listed(others.tolist(), _NAMED), listed(sizes[others].tolist(), _NAMED))
    return [
        f"{said}, and the labels of every class are mostly in others: there may be kinds that no "
        "label is of; label some of these items"
    ]


def _without_others(result: Fitted) -> list[int]:
    """Codes of classes that no item without a label gets, though some should, by their labels."""
    known = result.data.needed_known
    labelled = known.numpy() >= 0
    classes, counts = np.unique(known.numpy()[labelled], return_counts=True)
    others = known_or_likeliest(result)[~labelled]
    by_chance = (1 - counts / counts.sum()) ** len(others)
    return classes[~np.isin(classes, others) & (by_chance < _UNLIKELY)].tolist()


def _with_one_label(data: CrowdData) -> list[int]:
    """Codes of classes with one label, where those of others are held out."""
    known = data.needed_known
    counts = np.bincount(known[known >= 0].numpy(), minlength=data.num_known_classes)
    is_checked = known_labels_alone(data) and counts[counts > 1].sum() >= MIN_KNOWN
    return np.flatnonzero(counts == 1).tolist() if is_checked else []


def about_repeated_columns(result: Fitted) -> list[str]:
    """Advice where the clusters are the values of a column of categories, or of yes and no."""
    columns, features = result.data.columns, result.data.features_in_memory
    if columns is None or features is None or result.assignments.max() == 0:
        return []
    values = result.data.all_rows().double().numpy()
    found = []
    for place, name in enumerate(columns.labels()):
        own, is_seen = values[:, place], ~np.isnan(values[:, place])
        if columns.levels[place] is None or len(np.unique(own[is_seen])) < 2:
            continue
        common = normalized_mutual_info_score(own[is_seen], result.assignments[is_seen])
        if common >= _REPEATED:
            found.append(
                f"the clusters are the values of column {name!r}, which tell nothing new: leave it "
                "out to find what else there is"
            )
    return found
