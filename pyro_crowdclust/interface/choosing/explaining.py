"""Checks whether the clusters of a fit explain the answers, and corrects the fit if they do not.

If people see the clusters of the features, then the partition z* of a fit is like the draws z_1,
..., z_S of a partition from the answers alone, and has any rank among them by ``log p(L | z)``
(``explains``). If it is one of the last, people see something else, or more. Estimated from such
clusters, the rates of workers would be too low because of what the features do not show. So, where
answers count much less in the fit than in the draws, and the draws predict held-out answers (the
workers do not guess), the rates of workers are estimated from the draws. The features are tempered
by the power tau that is likeliest by a bound (``log_evidence_bound``)

    log p(L | X, tau) >= sum_i -KL(q(z_i) || p_tau(z_i | x_i)) + E_q[log p(L | z)],
    p_tau(z | x) propto p(z | x)^tau
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.data import some_items, without_features
from pyro_crowdclust.families import beta_of_moments
from pyro_crowdclust.guides import PartitionGuide, drawn_partitions
from pyro_crowdclust.inference.answer_evidence import explains, log_evidence_bound
from pyro_crowdclust.interface.about_data import is_supervised
from pyro_crowdclust.interface.candidates.weights import ALL_WEIGHTS
from pyro_crowdclust.interface.choosing.answer_predictiveness import answers_predict_each_other
from pyro_crowdclust.interface.choosing.rereading import (
    answered_items,
    tempered_fit,
    updated_at_its_weight,
    with_rates,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import part_of
from pyro_crowdclust.results import UpdateStep, with_step

# The rates of workers are too low if answers count less than this, relative to what they count in
# the draws. Otherwise nothing is corrected, as draws from few answers explain these too well.
_MIN_RATIO = 0.75
# Below this the fit is doubtful, and other clusters of the features may explain the answers better.
_DOUBTFUL_RATIO = 0.9
# Draws of more items take too long.
_MAX_ITEMS = 1000


@dataclass(frozen=True)
class ExplainAnswers(UpdateStep):
    """Corrects the result by ``with_answers_explained``."""

    rates_workers: ClassVar[bool] = True

    def after(self, result: Fitted) -> Fitted:
        """The result, corrected if its clusters do not explain the answers."""
        return with_answers_explained(result)


def with_answers_explained(result: Fitted) -> Fitted:
    """The result, or, if its clusters do not explain the answers, one with other rates of workers.

    Components stay. The rates of workers are estimated from partitions drawn from the answers
    alone, and the weight of features is the one that the bound prefers, at most what it was.

    Parameters
    ----------
    result
        Result of a mixture or a regression. It is returned unchanged if its annotators are not two
        coins, if there is other supervision than answers, if more than 1,000 items have answers, or
        if answers do not predict each other.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, as half of the draws are not enough.
    """
    drawn = drawn_explanation(result)
    if drawn is None or not is_explained_worse(result, drawn):
        return result
    return with_rates_of_draws(result, drawn)


def is_doubtful(result: Fitted, drawn: Fitted) -> bool:
    """Whether answers count less in a result than in the draws, as if workers were blamed.

    Parameters
    ----------
    result, drawn
        As for ``is_explained_worse``.
    """
    return evidence_per_answer(result) < _DOUBTFUL_RATIO * evidence_per_answer(drawn)


def drawn_explanation(
    result: Fitted, draw: Callable[[CrowdData], Fitted] | None = None
) -> Fitted | None:
    """Partitions drawn from the answers alone, with which to compare the clusters of a result.

    Parameters
    ----------
    result
        As for ``with_answers_explained``.
    draw
        Draws the partitions; default ``drawn_partitions`` with the seed of the result.

    Returns
    -------
    The fit of the draws to the items with answers; None for a result that
    ``with_answers_explained`` does not change.
    """
    data = result.data
    is_of_coins = part_of(result.model, "annotators", TwoCoin) is not None
    if data.answers is None or not is_of_coins or is_supervised(data):
        return None
    items = data.answers.items.unique()
    if len(items) > _MAX_ITEMS:
        return None
    draw = draw or partial(drawn_partitions, seed=result.seed)
    return draw(without_features(some_items(data, items)))


def is_explained_worse(result: Fitted, drawn: Fitted) -> bool:
    """Whether the clusters of a result explain the answers clearly worse than the draws do.

    Parameters
    ----------
    result, drawn
        A result, and what ``drawn_explanation`` returned for it, or for another fit of the same
        model to the same data.
    """
    if evidence_per_answer(result) >= _MIN_RATIO * evidence_per_answer(drawn):
        return False
    answers, asked = result.data.needed_answers, drawn.data.needed_answers
    found = torch.as_tensor(result.assignments[answers.items.unique().numpy()])
    return not explains(found, drawn.guide.partition_draws(), result.model.annotators, asked)


def with_rates_of_draws(result: Fitted, drawn: Fitted) -> Fitted:
    """The result with the rates of workers, and a weight of features, as the draws indicate.

    Parameters
    ----------
    result, drawn
        As for ``is_explained_worse``. The result is returned unchanged if the answers do not
        predict each other.
    """
    if not answers_predict_each_other(drawn.data, result.seed):
        return result
    max_weight = result.guide.feature_weight  # held-out answers preferred it to larger ones
    weights = [weight for weight in ALL_WEIGHTS if weight <= max_weight]
    rates = _rates_of(drawn.guide)
    reads = [with_rates(tempered_fit(result, weight), rates) for weight in weights]
    batches = answered_items(result)
    best = max(reads, key=lambda one: log_evidence_bound(one.guide, one.model.annotators, *batches))
    if isinstance(best.model, SemiCrowdsourcedMixture):
        best = updated_at_its_weight(best)
    return with_step(best, ExplainAnswers())


def evidence_per_answer(result: Fitted) -> float:
    """What an answer counts on average, in nats: the mean of ``|E[weight]|`` over the answers."""
    weight, answers = (result.workers[name].to_numpy() for name in ("weight", "answers"))
    return float(np.average(np.abs(weight), weights=answers))


def _rates_of(drawn: PartitionGuide) -> dict[str, Float[Tensor, "worker 2"]]:
    """Natural parameters of Betas with the moments of the workers' rates in the draws."""
    workers, found = drawn.workers(), {}
    assert workers is not None  # of two coins
    for name, rate in workers.rates.items():
        shapes = np.stack(beta_of_moments(rate.mean, rate.sd**2), -1)
        found[name] = torch.from_numpy(shapes) - 1
    return found
