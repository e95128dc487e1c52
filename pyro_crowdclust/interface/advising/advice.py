"""Advice about settings and data in plain sentences, from the diagnostics of a fit."""

from __future__ import annotations

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.interface.advising.answer_advice import about_answers
from pyro_crowdclust.interface.advising.answer_facts import AnswerFacts, answers_are_used
from pyro_crowdclust.interface.advising.cluster_advice import (
    about_classes,
    about_clusters,
    about_new_kinds,
    about_repeated_columns,
)
from pyro_crowdclust.interface.advising.constant_answers import (
    SAME_ANSWER,
    about_constant_answers,
)
from pyro_crowdclust.interface.advising.link_advice import about_single_links
from pyro_crowdclust.interface.advising.worker_advice import (
    about_constant_labels,
    about_lapses,
    about_open_rates,
    about_other_labels,
    about_other_view,
    about_shared_mistakes,
)
from pyro_crowdclust.pooling import AveragedClasses, DrawnClasses
from pyro_crowdclust.protocols import SupportsMixture, SupportsPartition, SupportsWorkers
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.results.fitted import check_fit
from pyro_crowdclust.training import Ending
from pyro_crowdclust.training.settling import still_rises


def advice(result: Fitted | DrawnClasses | AveragedClasses) -> list[str]:
    """What to change about settings or data, a sentence each; empty if nothing stands out.

    Draws are those of a fit. About an average, only what concerns its labels is said.

    - Clusters collapsed: all items are in one, though the crowd often said "different". Without
      features: the labels "same" and "different" may be swapped.
    - One cluster has nearly all items, and the prior of the components expects them to be much
      wider than they are, as that of full Gaussians by default does where columns go together.
    - More clusters are needed: every cluster has items, and a larger number was not allowed.
    - Without answers, a cluster is two large components that overlap, or another number of
      components describes the features about as well and divides one.
    - Same and different are swapped: most answers come from workers who say the opposite.
    - Some workers nearly always give the same answer, though others do not: they say nothing. If
      they gave few of the answers, others must be unlikely to say the same of the same pairs.
    - All answers are "same", or all "different", so that the rates of workers are open.
    - By the clusters of a given model workers are blamed, though their answers predict each other.
    - The crowd guesses, or sees finer or coarser kinds than the clusters: most answers come from
      workers whose answers carry almost no weight.
    - The chosen model does not learn clusters from the answers: they are too few, nearly all have
      the same label, or they are not predicted clearly better than by chance. If most workers seem
      to guess by these clusters, their rates say nothing about how good they are.
    - Known classes have no cluster of their own: the features show other kinds than the labels. Or
      they have one without any other item.
    - A class has a single known label, so that held-out labels say nothing about it.
    - Large clusters have hardly any of the known labels, so that there may be kinds without one.
    - Only single must-links join what the features tell apart.
    - The clusters, which no answers have shaped, are the values of a single column.
    - There are no features, and no prior predicts held-out answers clearly better than chance; or
      many items could not be placed, so that there seem to be far more clusters than there are; or
      most pairs in clusters are neither in ``likeness`` nor were asked about.
    - The clusters do not explain the answers: the features show something else than the crowd sees,
      or show it less clearly than something else.
    - Some workers see other clusters than the rest, and agree with each other about these.
    - The features show little of what the crowd sees: the clusters are those of the answers; or
      they are learned from the answers, too, but answers about other items are predicted hardly
      better than by how often workers say "same".
    - Two workers make the same mistakes, so that they confirm each other.
    - Some workers always give the same class label, though others do not.
    - Workers give two classes to one item, and as how many answers these count.
    - Workers lapsed: pages of pairs look as if they were answered without looking.
    - The ELBO was still rising when the epochs were used up.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust.interface import advice, cluster
    >>> features = np.random.default_rng(0).normal([[0.0], [9.0]], size=(2, 50)).reshape(-1, 1)
    >>> advice(cluster(features, num_clusters=3, progress=False))
    []
    """
    if isinstance(result, AveragedClasses):
        return _about_labels(result.data)
    result = result.fitted if isinstance(result, DrawnClasses) else result
    check_fit(result)
    found = []
    if isinstance(result.guide, SupportsMixture):
        found += about_clusters(result) + about_classes(result)
        found += about_new_kinds(result) + about_single_links(result)
        if not (result.data.has_answers and answers_are_used(result)):
            found += about_repeated_columns(result)
    has_workers = result.data.has_answers and isinstance(result.guide, SupportsWorkers)
    if has_workers:
        answers = AnswerFacts.of(result)
        if not (found and answers.are_used) or answers.are_blamed:
            found += about_answers(answers) or about_lapses(result)
        if not any(sentence.startswith(SAME_ANSWER) for sentence in found):
            found += about_constant_answers(result)
        found += about_open_rates(result) + about_shared_mistakes(result)
        found += about_other_view(result)
    found += _about_labels(result.data)
    if _still_rising(result):
        found.append("the ELBO was still rising at the end: train for more epochs")
    return found


def _about_labels(data: CrowdData) -> list[str]:
    """Advice about class labels, if there are any."""
    return about_constant_labels(data) + about_other_labels(data)


def _still_rising(result: Fitted) -> bool:
    """Whether a budget ended training while the ELBO rose.

    Where partitions are drawn, the ELBO is that of a draw, which rises and falls.
    """
    if isinstance(result.guide, SupportsPartition):
        return False
    return Ending.BUDGET.is_of(result.stop_reason) and still_rises(
        (result.history["elbo"] / result.data.num_items).tolist()
    )
