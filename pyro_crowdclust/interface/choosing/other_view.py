"""Finds workers who see other clusters than the chosen ones, and agree with each other about these.

People may sort the same items by two criteria. A fit has the clusters of one group, often of those
whose criterion the features show more clearly, and takes everybody else for guessing. Who guesses
is not predicted by any clusters. So let D be the workers whose answers carry almost no weight by
the clusters of the result. With p_c(L) the probability of a held-out answer of D under candidate c,
and p_0(L) that under the chosen one, or by chance, the mean d of ``p_c(L) / p_0(L) - 1`` over these
answers must satisfy

    d > Phi^-1(1 - .05 / C) se

with both p_0 for one of the C candidates (compare ``Search.that_predict``). Of these, the best for
D is fitted to all answers, and the workers who agree with each other are those whose answers carry
more weight by its clusters than by the chosen ones.

If they gave most of the answers, the search is repeated with these alone. Its clusters are used if,
with all N_m answers of every worker m rated by them, the evidence ``sum_m N_m |E[weight_m]|`` is
larger than by the first ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.errors import listed
from pyro_crowdclust.interface.about_data import is_supervised
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.holding_out.pairs import MIN_ANSWERS, PairSplit
from pyro_crowdclust.pooling.comparison import gain_by_a_part, is_clear
from pyro_crowdclust.protocols import part_of

# Answers of a worker carry almost no weight if each counts less than this, in nats. Whoever says
# the opposite of the clusters sees the same ones.
_LEAST_WEIGHT, _MOST_WEIGHT = -2.0, 1.0
# So many workers are named.
_NAMED = 20


@dataclass(frozen=True)
class OtherView:
    """Workers who agree with each other, but not with the clusters of a result.

    Attributes
    ----------
    workers
        Who they are.
    num_answers, num_all
        Number of their answers, and of all.
    """

    workers: pd.Index
    num_answers: int
    num_all: int

    @property
    def has_most_answers(self) -> bool:
        """Whether they gave more than half of all answers."""
        return 2 * self.num_answers > self.num_all

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        return (
            f"workers {listed(self.workers, _NAMED)}, who gave {self.num_answers} of "
            f"{self.num_all} answers, hardly agree with the clusters, but with each other: other "
            "clusters predict their held-out answers clearly better"
        )

    @property
    def advice(self) -> str:
        """What was found, and what to do, where the clusters are those that the others see."""
        return f"{self.sentence}; {_alone(self.workers)}"

    def advice_of_others(self, data: CrowdData) -> str:
        """The same, where the answers of the others are left out."""
        asked = data.worker_ids[data.needed_answers.worker.unique().numpy()]
        others = asked.difference(self.workers, sort=False)
        return (
            f"the answers of workers {listed(others, _NAMED)} are left out, as most answers come "
            f"from workers who see other clusters; {_alone(others)}"
        )

    def others(self, data: CrowdData) -> Bool[Tensor, " row"]:
        """The rows of ``data.pairs`` with answers of all other workers."""
        answers = data.all_answers
        assert answers is not None  # as these workers gave some
        return ~torch.isin(
            answers.worker, torch.as_tensor(data.worker_ids.get_indexer(self.workers))
        )


def find_other_view(search: Search, best: Trial, result: Fitted) -> OtherView | None:
    """The workers who see something else than the clusters of a result; None if nobody does.

    Parameters
    ----------
    search
        The search, with held-out answers about pairs.
    best
        The candidate that it decided for.
    result
        Its complete fit.
    """
    splits = [one for one in search.candidates.splits if isinstance(one, PairSplit)]
    if not splits or not len(best.log_probabilities) or not _can_be_tested(result):
        return None
    known = result.workers["weight"]
    worker = np.concatenate([one.held_out.worker.numpy() for one in splits])
    is_low = known.between(_LEAST_WEIGHT, _MOST_WEIGHT, inclusive="neither").to_numpy()
    other = _clearly_better(search, best, is_low[worker])
    if other is None:
        return None
    weight = search.candidates.brief_fit_of(other, search.candidates.data).workers["weight"]
    agree = ((weight >= _MOST_WEIGHT) & (weight > known)).to_numpy()
    number = result.workers["answers"]
    own = agree & (number > 0).to_numpy()
    if own.sum() < 2 or own.sum() == (number > 0).sum():
        return None
    return OtherView(known.index[own], int(number[own].sum()), int(number.sum()))


def evidence_by(result: Fitted, data: CrowdData) -> float:
    """What all answers of some data count, in nats: ``sum_m N_m |E[weight_m]|``."""
    number = np.bincount(data.needed_answers.worker.numpy(), minlength=data.num_workers)
    return float(number @ np.abs(result.workers["weight"].to_numpy()))


def _alone(workers: pd.Index) -> str:
    names = listed(workers, _NAMED)
    return (
        "if you look for what these see, pass their answers alone: cluster(features, "
        f"pairs[pairs.worker.isin([{names}])])"
    )


def _can_be_tested(result: Fitted) -> bool:
    data = result.data
    has_coins = part_of(result.model, "annotators", TwoCoin) is not None
    return data.answers is not None and has_coins and not is_supervised(data)


def _clearly_better(
    search: Search, best: Trial, some: Bool[np.ndarray, " held_out"]
) -> Trial | None:
    """The best candidate for some held-out answers, of those clearly better than the chosen one."""
    number, trials = len(best.log_probabilities), search.candidates.trials
    chance, ends = search.by_chance(number)

    def is_better(trial: Trial, known: Float[np.ndarray, " held_out"]) -> bool:
        tried = trial.log_probabilities[:number]
        own = some[: len(tried)]
        if own.sum() < MIN_ANSWERS:
            return False
        gain = gain_by_a_part(tried, known[: len(tried)])[own]
        return is_clear(gain, ends[:, : len(tried)][:, own], len(trials))

    def gain_of(trial: Trial) -> float:
        tried = trial.log_probabilities[:number]
        return float((tried - chance[: len(tried)])[some[: len(tried)]].mean())

    knowns = best.log_probabilities, chance
    better = [trial for trial in trials if all(is_better(trial, known) for known in knowns)]
    return max(better, key=gain_of, default=None)
