"""Whether the clusters of a fit explain the answers, and how it is read where they do not.

If the clusters of the features are what people see, then the partition z* of a fit is one like the
draws z_1, ..., z_S of a partition by the answers alone, and its rank among them by

    log p(L | z) = sum_m A(eta_m + n_m(z)) - A(eta_m)

is any (n_m(z): what the answers of worker m add to the natural parameters of the rates, which are
summed out). Where it is one of the last, people see something else, or more. Workers who are judged
by such clusters are blamed for what the features do not show: where their answers count for much
less by the fit than by the draws, and draws predict answers that are held out, so that they are no
guesses, workers are judged by the draws, and features count by the power tau of what they say of z
that is likeliest, by the bound

    log p(L | X, tau) >= sum_i -KL(q(z_i) || p_tau(z_i | x_i)) + E_q[log p(L | z)],
    p_tau(z | x) propto p(z | x)^tau.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.annotators.suited import expected_counts
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.some_items import some_items, without_features
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.families.summaries import beta_concentration
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.guides import PairRegressionGuide, PartitionGuide, drawn_partitions
from pyro_crowdclust.interface.choosing.rereading import (
    owned_together,
    read_at,
    reweighted,
    same_cluster,
)
from pyro_crowdclust.interface.choosing.told_by_answers import answers_tell
from pyro_crowdclust.interface.choosing.trials import WEIGHTS
from pyro_crowdclust.interface.recipe import is_supervised
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import answered_batch, item_batches
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import PairAnnotators, part_of

# Clusters explain the answers unless so small a share of the draws is as bad.
_LEVEL = 0.05
# By the fit answers count less than so much of what they do by the draws. Where they do not, nobody
# is blamed, and draws from few answers explain these too well.
_BLAMED = 0.75
# Of more items draws take long.
_MOST_ITEMS = 1000
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
    if len(items) > _MOST_ITEMS:
        return result
    asked = some_items(data, items)
    drawn = drawn_partitions(without_features(asked), seed=result.seed)
    assert asked.answers is not None  # all of them
    found = torch.as_tensor(result.assignments[items.numpy()])
    are_blamed = worth_of_answers(result) < _BLAMED * worth_of_answers(drawn)
    if not are_blamed or explains(found, drawn.guide, annotators, asked.answers):
        return result
    if not answers_tell(asked, result.seed):
        return result
    most = _weight_of(result)  # which answers held out have preferred to more
    weights = [weight for weight in _WEIGHTS if weight <= most]
    rates = _rates_of(drawn.guide)
    reads = [_judged_by(rates, read_at(result, weight)) for weight in weights]
    heard = answered_batch(data)
    assert heard is not None
    best = max(reads, key=partial(log_evidence, heard=heard.to(result.device, torch.float64)))
    if isinstance(best.train_on, TrainingOptions):
        best = replace(best, train_on=ExplainingTraining(**best.train_on.of_fit))
    return best


def worth_of_answers(result: Fitted) -> float:
    """What an answer counts on average, in nats: the mean of ``|E[weight]|`` over the answers."""
    worth, answers = (result.workers[name].to_numpy() for name in ("weight", "answers"))
    return float(np.average(np.abs(worth), weights=answers))


def explains(
    labels: Int[Tensor, " item"],
    drawn: PartitionGuide,
    annotators: PairAnnotators,
    answers: Answers,
) -> bool:
    """Whether a partition is likelier than the worst of those that the answers alone have drawn.

    Parameters
    ----------
    labels
        Clusters of the items.
    drawn
        What has drawn.
    annotators
        The prior of the workers.
    answers
        About these items.
    """
    draws = drawn.partition_draws()
    by_draws = torch.stack([log_likelihood(draw, annotators, answers) for draw in draws])
    as_bad = int((by_draws <= log_likelihood(labels, annotators, answers)).sum())
    return as_bad > _LEVEL * len(draws)


def log_likelihood(
    labels: Int[Tensor, " item"], annotators: PairAnnotators, answers: Answers
) -> Float[Tensor, ""]:
    """``log p(L | z)``, the rates of the workers summed out.

    Examples
    --------
    >>> answers = Answers(*torch.tensor([[0, 0], [1, 2], [0, 0]]), torch.tensor([1.0, 0.0]))
    >>> even = TwoCoin(1, (1.0, 1.0), (1.0, 1.0))
    >>> [log_likelihood(torch.tensor(z), even, answers).exp() for z in ([0, 0, 1], [0, 0, 0])]
    [tensor(0.2500, dtype=torch.float64), tensor(0.1667, dtype=torch.float64)]
    """
    same = (labels[answers.left] == labels[answers.right]).double()
    counts = expected_counts(annotators, same, answers.worker, answers.label.double())
    total = torch.zeros((), dtype=torch.float64)
    for name, prior in annotators.priors().items():
        family, eta = prior.family, prior.natural_parameters
        total = (
            total + (family.log_normalizer(eta + counts[name]) - family.log_normalizer(eta)).sum()
        )
    return total


def _weight_of(result: Fitted) -> float:
    """How much features count in what is read of a mixture or a regression."""
    guide = result.guide
    if isinstance(guide, PairRegressionGuide):
        return guide.sharpness
    return result.model.feature_weight


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


@torch.no_grad()
def log_evidence(result: Fitted, heard: Batch) -> float:
    """A bound on ``log p(L | X)`` of what is known of components and workers.

    Parameters
    ----------
    result
        Of a mixture or a regression.
    heard
        All answers, with their items, in double precision.
    """
    guide, annotators, label = result.guide, result.model.annotators, heard.label
    assert label is not None  # there are answers
    (alone,) = item_batches(result.data, len(heard.items), heard.items.cpu())
    by_features = guide.infer(alone.to(result.device, torch.float64)).assignments
    q = guide.infer(heard).assignments
    log_features, log_q = (p.clamp_min(SMALLEST_PROBABILITY).log() for p in (by_features, q))
    odds = log_features - log_q
    statistics = {name: guide.posteriors[name].mean() for name in annotators.priors()}
    same = same_cluster(q, owned_together(result), heard)
    said = annotators.answer(same, statistics, heard.worker)
    return float((q * odds).sum() + said.log_prob(label.double()).sum())
