"""The average of the candidates of ``classify``, weighted by held-out labels.

The labels of few items do not tell candidates apart, and one that is certain and wrong costs more
than is gained by the best one. So all are used that predict held-out labels well, as members of a
model of their average (``AveragedPredictions``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.files import rebuilt
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_labels.trials import ClassTrial
from pyro_crowdclust.interface.class_labels.worker_models import best_of_workers, keeping_classes
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.models import AveragedPredictions
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.results import UpdateStep, read_at, with_step
from pyro_crowdclust.starts import ClassesStart
from pyro_crowdclust.training import is_interrupted

# The power of the held-out labels' likelihood: how well a candidate predicts those of one table
# says less about other items than as many independent trials would.
_POWER = 0.5
# Candidates with a smaller weight are left out.
_LEAST_WEIGHT = 0.03


def weighted(trials: Sequence[ClassTrial]) -> list[ClassTrial]:
    """Trials with ``w_c prop. to exp((n + 1/2) s_c / 2)``, without small weights; their sum is 1.

    With the score s_c of ``ClassTrial``, in nats an item, of n items. At a power of 1 in place of a
    half these are the weights of Bayes' rule, in which the likelihood is that of held-out labels
    (pseudo-BMA; Yao et al. 2018, eq. 5).

    Parameters
    ----------
    trials
        Trials with the same held-out items.
    """
    total = np.array([trial.total for trial in trials])
    weights = softmax(_POWER * total)
    weights[weights < _LEAST_WEIGHT] = 0.0
    weights /= weights.sum()
    return [replace(trial, weight=float(one)) for trial, one in zip(trials, weights, strict=True)]


def fitted_to_all(
    trials: Sequence[ClassTrial],
    data: CrowdData,
    options: dict[str, Any],
    workers: Workers,
) -> Fitted:
    """The candidates with weights, fitted to all data, and the workers given their average.

    A single candidate is fitted as it is.

    Parameters
    ----------
    trials
        Of all candidates.
    data
        All items with features and labels.
    options
        Options of ``fit``.
    workers
        Assumptions about the workers.
    """
    members: list[Fitted] = []
    used = [trial for trial in trials if trial.weight]
    for trial in used:
        attempt = partial(trial.candidate.fit, data, options)
        if trial.candidate.uses_features:
            members.append(read_at(_best_prior(attempt, workers), trial.feature_weight))
        else:
            members.append(best_of_workers(data, attempt, workers))
        if is_interrupted(members[-1]):
            break
    if len(members) == 1:
        return members[0]
    kept = [trial.weight for trial in used[: len(members)]]
    result = _average(members, kept, data, options, workers)
    if is_interrupted(members[-1]):
        result = replace(result, stop_reason=members[-1].stop_reason)
    return result


def _average(
    members: Sequence[Fitted],
    weights: Sequence[float],
    data: CrowdData,
    options: dict[str, Any],
    workers: Workers,
) -> Fitted:
    """The model of the members' average, fitted to all data."""
    guides = [member.guide for member in members]
    # The vote would be a worse start: members know already where it is wrong.
    each = [member.probabilities for member in members]
    start = ClassesStart(np.average(each, axis=0, weights=weights))

    def attempt(assumed: Workers) -> Fitted:
        model = AveragedPredictions(guides, weights, assumed.annotators(data))
        guide = ClassLabelGuide(model, moderated=True)
        return fit(model, guide, data, **{"initialize": start} | options)

    of_members = [member.train_on for member in members]
    return TrainMembers(of_members).after(_best_prior(attempt, workers))


def _best_prior(attempt: Callable[[Workers], Fitted], workers: Workers) -> Fitted:
    """The fit with the larger ELBO of those with a learned and with a fixed prior of the workers.

    A fit that loses a class is kept only if both do (``keeping_classes``). If somebody is trusted,
    only the prior is used that is learned: the trusted labels show in what way all others err.
    """
    numbers = (1,) if workers.trusted else (1, 0)
    each = (workers._replace(num_communities=number) for number in numbers)
    return keeping_classes(best_first(partial(attempt, one) for one in each))


@dataclass(frozen=True)
class TrainMembers(UpdateStep):
    """Trains the members of an average before the average itself.

    Attributes
    ----------
    of_members
        The functions that continue the fits of the members.
    """

    of_members: Sequence[Any]

    def before(
        self,
        model: AveragedPredictions,
        guide: ClassLabelGuide,
        data: CrowdData,
        changes: Mapping[str, Any],
    ) -> tuple[AveragedPredictions, ClassLabelGuide]:
        """The average of the members after their training."""
        members = [
            train_on(*_with_workers_of(guide, member), data, **changes)
            for member, train_on in zip(model.members, self.of_members, strict=True)
        ]
        guides = [
            fitted.guide.read_at(member.feature_weight)
            for fitted, member in zip(members, model.members, strict=True)
        ]
        average = rebuilt(model, members=guides)
        other = rebuilt(guide.in_full(), model=average)
        other.posteriors.load_state_dict(guide.posteriors.state_dict())
        return average, other

    def after(self, result: Fitted) -> Fitted:
        """The result, whose updates train the members again."""
        return with_step(result, self)


def _with_workers_of(guide: ClassLabelGuide, member: ClassLabelGuide) -> tuple[Any, Any]:
    """Model and guide of a member, but with the workers of another guide, who may be more."""
    annotators = deepcopy(guide.model.annotators)
    model = rebuilt(member.model, annotators=annotators)
    other = rebuilt(member.in_full(), model=model, feature_weight=1.0)
    for name, posterior in other.posteriors.items():
        source = guide if name in annotators.priors() else member
        posterior.load_state_dict(source.posteriors[name].state_dict())
    return model, other
