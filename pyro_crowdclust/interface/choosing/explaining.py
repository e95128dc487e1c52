"""Whether the clusters of a fit explain the answers, and how it is read where they do not.

If the clusters of the features are what people see, then the partition z* of a fit is one like the
draws z_1, ..., z_S of a partition by the answers alone, and has any rank among them by
``log p(L | z)`` (``explains``). Where it is one of the last, people see something else, or more.
Workers who are judged by such clusters are blamed for what the features do not show: where their
answers count for much less by the fit than by the draws, and draws predict answers that are held
out, so that they are no guesses, workers are judged by the draws, and features count by the power
tau of what they say of z that is likeliest, by a bound (``log_evidence_bound``)

    log p(L | X, tau) >= sum_i -KL(q(z_i) || p_tau(z_i | x_i)) + E_q[log p(L | z)],
    p_tau(z | x) propto p(z | x)^tau
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.data.some_items import some_items, without_features
from pyro_crowdclust.families.summaries import beta_concentration
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.guides import PartitionGuide, drawn_partitions
from pyro_crowdclust.inference.answer_evidence import explains, log_evidence_bound
from pyro_crowdclust.interface.candidates.weights import WEIGHTS
from pyro_crowdclust.interface.choosing.answer_predictiveness import answers_predict_each_other
from pyro_crowdclust.interface.choosing.rereading import reweighted, tempered
from pyro_crowdclust.interface.recipe import is_supervised
from pyro_crowdclust.minibatches.making import answered_batch, item_batches
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import part_of

# By the fit answers count less than so much of what they do by the draws. Where they do not, nobody
# is blamed, and draws from few answers explain these too well.
_BLAMED = 0.75
# Of more items draws take long.
_MAX_ITEMS = 1000
_WEIGHTS = (*WEIGHTS, 0.02)


@dataclass(frozen=True)
class ExplainingTraining(TrainingOptions):
    """``fit``, and its result read by ``with_answers_explained``."""

    def __call__(self, model: Any, guide: Any, data: CrowdData, **changes: Any) -> Fitted:
        """Fit with these options, but for changes."""
        train_on: Any = TrainingOptions(**self.of_fit)
        if isinstance(model, SemiCrowdsourcedMixture):
            train_on = reweighted(train_on, model.feature_weight)
        return with_answers_explained(train_on(model, guide, data, **changes))


def with_answers_explained(result: Fitted) -> Fitted:
    """The result, or where its clusters do not explain the answers, one with other workers.

    Components stay; workers are judged by partitions drawn by the answers alone, and features count
    as the bound says, and no more than they did.

    Parameters
    ----------
    result
        Of a mixture or a regression. It is as it was if its annotators are not two coins, if
        anything else is said of its items, if more than 1,000 of these have answers, or if answers
        do not tell each other.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C: half of the draws say nothing.
    """
    data, annotators = result.data, part_of(result.model, "annotators", TwoCoin)
    if data.answers is None or annotators is None or is_supervised(data):
        return result
    items = data.answers.items.unique()
    if len(items) > _MAX_ITEMS:
        return result
    asked = some_items(data, items)
    drawn = drawn_partitions(without_features(asked), seed=result.seed)
    assert asked.answers is not None  # all of them
    found = torch.as_tensor(result.assignments[items.numpy()])
    are_blamed = worth_of_answers(result) < _BLAMED * worth_of_answers(drawn)
    draws = drawn.guide.partition_draws()
    if not are_blamed or explains(found, draws, annotators, asked.answers):
        return result
    if not answers_predict_each_other(asked, result.seed):
        return result
    most = result.guide.sharpness  # which answers held out have preferred to more
    weights = [weight for weight in _WEIGHTS if weight <= most]
    rates = _rates_of(drawn.guide)
    reads = [_judged_by(rates, tempered(result, weight)) for weight in weights]
    answered = answered_batch(data)
    assert answered is not None
    (alone,) = item_batches(data, len(answered.items), answered.items)
    batches = [batch.to(result.device, torch.float64) for batch in (alone, answered)]
    best = max(reads, key=lambda one: log_evidence_bound(one.guide, one.model.annotators, *batches))
    if isinstance(best.train_on, TrainingOptions):
        best = replace(best, train_on=ExplainingTraining(**best.train_on.of_fit))
    return best


def worth_of_answers(result: Fitted) -> float:
    """What an answer counts on average, in nats: the mean of ``|E[weight]|`` over the answers."""
    worth, answers = (result.workers[name].to_numpy() for name in ("weight", "answers"))
    return float(np.average(np.abs(worth), weights=answers))


def _rates_of(drawn: PartitionGuide) -> dict[str, Float[Tensor, "worker 2"]]:
    """Natural parameters of Betas with the moments of the rates of the draws."""
    workers, found = drawn.workers(), {}
    assert workers is not None  # of two coins
    for name, rate in workers.rates.items():
        strength = beta_concentration(rate.mean, rate.sd**2)
        shapes = np.stack([strength * rate.mean, strength * (1 - rate.mean)], -1)
        found[name] = torch.from_numpy(shapes) - 1
    return found


def _judged_by(rates: dict[str, Float[Tensor, "worker 2"]], result: Fitted) -> Fitted:
    """The result, whose guide is given these natural parameters of the rates."""
    for name, natural_parameters in rates.items():
        result.guide.posteriors[name].set_natural_parameters(natural_parameters)
    return result
