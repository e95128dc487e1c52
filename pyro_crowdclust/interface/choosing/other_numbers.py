"""Other numbers of components than the chosen one that describe features alone about as well.

The choice takes the fewest components within a standard error of the largest ELBO. Its q(z) is as
sure of their clusters as if no other number were possible.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int

from pyro_crowdclust import Fitted
from pyro_crowdclust.errors import count
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.trials import Trial, is_within_error, of_form
from pyro_crowdclust.mixture.overlap import groups_by_overlap
from pyro_crowdclust.results.cluster_doubt import ClusterDoubt

# A part of a cluster counts if it has at least this share of all items.
_MIN_SHARE = 0.1
# Numbers whose ELBO is so many standard errors below the largest are possible, though not chosen.
_ERRORS = 2.0


def doubt_by_other_numbers(search: Search, best: Trial, result: Fitted) -> ClusterDoubt | None:
    """Whether the clusters are kinds, by the numbers that the ELBO cannot tell from the best.

    Parameters
    ----------
    search, best
        The search, and the candidate that it found, which always counts.
    result
        Its complete fit.

    Returns
    -------
    The doubt, by the numbers whose ELBO is within two standard errors of the largest; None if there
    are answers, labels or links.
    """
    candidates = search.candidates
    if not candidates.are_of_features:
        return None
    trials = of_form(best, candidates.trials)
    largest = max(trials, key=lambda trial: trial.elbo)
    possible = [
        trial
        for trial in trials
        if trial.num_components == best.num_components or is_within_error(largest, trial, _ERRORS)
    ]
    fits = (candidates.known_fit(trial.form, trial.num_components) for trial in possible)
    others = [fit.component_probabilities for fit in fits]
    places = result.data.item_positions(candidates.data.item_ids)
    assignments = result.component_probabilities[places]
    number = assignments.shape[1]
    cluster = np.arange(number) if result.owners is None else result.owners.argmax(1)
    return ClusterDoubt.of(assignments, torch.from_numpy(cluster), others)


def about_other_numbers(search: Search, best: Trial, result: Fitted) -> str:
    """What the likeliest number of components that divides a cluster does to it, if there is one.

    Parameters
    ----------
    search, best
        The search, and the candidate that it found.
    result
        Its complete fit.

    Returns
    -------
    A sentence; empty if there are answers, labels or links, or if no number divides a cluster whose
    ELBO is within 3 nats of the largest of the kind. Empty, too, if the candidate has the largest
    coarsened ELBO only: more components then describe what is not Gaussian about a cluster.
    """
    candidates = search.candidates
    if not candidates.are_of_features:
        return ""
    trials = of_form(best, candidates.trials)
    largest = max(trials, key=lambda trial: trial.elbo)
    if not is_within_error(largest, best):
        return ""
    as_good = [trial for trial in trials if candidates.ranking.is_no_evidence(largest, trial)]
    found = result.assignments[result.data.item_positions(candidates.data.item_ids).numpy()]
    for trial in sorted(as_good, key=lambda trial: -trial.elbo):
        if trial.num_components == best.num_components:
            continue
        other = candidates.known_fit(trial.form, trial.num_components)
        if said := division(found, _clusters_of(other)):
            number = count(trial.num_components, "component")
            return f"{number} describe the features about as well, but {said}"
    return ""


def division(found: Int[np.ndarray, " item"], other: Int[np.ndarray, " item"]) -> str:
    """Which cluster another partition divides most; empty if it divides hardly any.

    Parameters
    ----------
    found
        The clusters of a result.
    other
        Other clusters of the same items.

    Examples
    --------
    >>> division(np.array([0, 0, 0, 0, 1]), np.array([0, 0, 1, 1, 2]))
    'divide cluster 0, with 2 and 2 of its 4 items in the largest parts'
    """
    table = np.zeros((found.max() + 1, other.max() + 2), int)  # at least two columns
    np.add.at(table, (found, other), 1)
    largest, second = -np.sort(-table, axis=1)[:, :2].T
    cluster = int(second.argmax())
    if second[cluster] < _MIN_SHARE * len(found):
        return ""
    return (
        f"divide cluster {cluster}, with {largest[cluster]} and {second[cluster]} of its "
        f"{table[cluster].sum()} items in the largest parts"
    )


def _clusters_of(fitted: Fitted) -> Int[np.ndarray, " item"]:
    """The cluster of every item, with overlapping components in one cluster."""
    group = groups_by_overlap(fitted.component_probabilities)
    return group[fitted.component_probabilities.argmax(1)].numpy()
