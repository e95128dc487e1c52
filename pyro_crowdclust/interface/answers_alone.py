"""Clusters from answers alone: which sizes clusters have is chosen by answers held out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import GradedAnswers, TwoCoin
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import FewClusters, ManySmall, PitmanYor
from pyro_crowdclust.results.chosen import Chosen

# The first is taken where answers are too few to tell.
PRIORS: dict[str, Callable[[], FewClusters | PitmanYor | ManySmall]] = {
    "few clusters": FewClusters,
    "many small clusters": ManySmall,
    "clusters of all sizes": PitmanYor,
}
# Sweeps of a fit, and of one that is only compared with another.
_EPOCHS, _TRIAL_EPOCHS = 120, 40
# With fewer answers held out the priors could not be told apart.
_HELD_OUT = 200
_MOST_PARTS = 5


def recipe_of(data: CrowdData, prior: FewClusters | PitmanYor | ManySmall) -> Recipe:
    """Model, guide and options of clusters from answers alone, under a prior of their sizes."""
    annotators: TwoCoin | GradedAnswers = TwoCoin(data.num_workers, (2.0, 1.0), (2.0, 1.0))
    if len(data.grade_ids):
        annotators = GradedAnswers(data.num_workers, len(data.grade_ids))
    model = AnsweredPartition(annotators, prior)
    options = {"epochs": _EPOCHS, "batch_size": None, "step_size": 0.2, "dtype": torch.float64}
    return Recipe(model, PartitionGuide(model, data.num_items), data, options)


@dataclass(frozen=True)
class AnswersAlone:
    """Priors of the sizes of clusters, ready to be compared by answers held out.

    Attributes
    ----------
    data
        Items and answers about pairs of them; features are not used.
    share
        Share of the answers that are held out.
    """

    data: CrowdData
    share: float = 0.1

    def run(self, *, seed: int = 0) -> tuple[Recipe, Chosen]:
        """Compare the priors; the recipe of the best on all data, and how it was chosen.

        Parameters
        ----------
        seed
            Of the answers that are held out, and of the fits.
        """
        parts = self._parts(torch.Generator().manual_seed(seed))
        heard, rows = {}, []
        for name, prior in PRIORS.items():
            started, log_probabilities, clusters = time.perf_counter(), [], 0
            for out in parts:
                recipe = recipe_of(_with_answers(self.data, ~out), prior())
                result = recipe.fit(seed=seed, epochs=_TRIAL_EPOCHS, progress=False)
                log_probabilities.append(_log_probability(result, self.data, out))
                clusters = len(result.clusters)
            heard[name] = torch.cat(log_probabilities)
            score = float(heard[name].mean())
            rows.append((name, score, clusters, time.perf_counter() - started))
        table = pd.DataFrame(rows, columns=["prior", "held_out", "clusters", "seconds"])
        chosen = max(heard, key=lambda name: float(heard[name].mean()))
        reason = f"answers held out are likeliest under {chosen}"
        chance = _chance(self.data, parts)
        if not _is_worse(chance, heard[chosen]):
            # Then they cannot tell priors apart, either.
            chosen = next(iter(PRIORS))
            reason = (
                "under no prior are answers held out clearly likelier than by the shares of the "
                "labels: there are too few answers to tell which items are the same, more are "
                f"needed, and the clusters, {chosen}, are guesses"
            )
        table["chosen"] = table["prior"] == chosen
        chance_score = float(chance.mean())
        return recipe_of(self.data, PRIORS[chosen]()), Chosen(table, reason, chance_score)

    def _parts(self, generator: torch.Generator) -> list[Bool[Tensor, " pair"]]:
        """Shares of the answers, each held out of a fit of its own; so many that they can tell."""
        number = self.data.num_pairs
        order = torch.rand(number, generator=generator).argsort().argsort()
        most = min(round(1 / self.share), number)
        part = order * most // number
        needed = math.ceil(_HELD_OUT / (self.share * number))
        return [part == place for place in range(min(needed, most, _MOST_PARTS))]

    def fit(self, *, num_starts: int = 1, seed: int = 0, **changes: Any) -> Fitted:
        """Choose, then fit to all answers.

        Parameters
        ----------
        num_starts, seed, changes
            As of ``Recipe.fit``.

        Raises
        ------
        ValueError
            As ``fit`` does, and for a number of starts below 1.
        """
        recipe, chosen = self.run(seed=seed)
        fitted = recipe.fit(num_starts=num_starts, seed=seed, **changes)
        again = partial(self._again, num_starts=num_starts, **changes)
        return replace(fitted, chosen=chosen, train_on=again)

    def _again(self, model: Any, guide: Any, data: CrowdData, **options: Any) -> Fitted:
        """``fit`` to more answers, under which other sizes of clusters may be likelier."""
        return replace(self, data=data).fit(**options)


def _with_answers(data: CrowdData, kept: Bool[Tensor, " pair"]) -> CrowdData:
    """The data with some of their answers; items and workers keep their codes."""
    answers = data.answers
    assert answers is not None  # as the model checks
    parts = (answers.left, answers.right, answers.worker, answers.label)
    some = Answers(*(part[kept] for part in parts))
    return data.with_parts(answers=some, _pairs_index=None)


def _log_probability(
    result: Fitted, data: CrowdData, out: Bool[Tensor, " pair"]
) -> Float[Tensor, " answer"]:
    """``log p(L)`` of answers that a fit has not heard."""
    answers = data.answers
    assert answers is not None
    assert isinstance(result.guide, PartitionGuide)
    items = torch.stack([answers.left, answers.right], 1)[out]
    held = answers.worker[out], answers.label[out]
    return result.guide.log_answer_probabilities(result.data, items, *held)


def _is_worse(one: Float[Tensor, " answer"], other: Float[Tensor, " answer"]) -> bool:
    """Whether the answers are less likely by more than the standard error of the difference."""
    difference = other - one
    return float(difference.mean()) > float(difference.std(correction=0)) / len(one) ** 0.5


def _chance(data: CrowdData, parts: list[Bool[Tensor, " pair"]]) -> Float[Tensor, " answer"]:
    """``log p(L)`` of who knows the shares of the labels only."""
    assert data.answers is not None
    label = data.answers.label.nan_to_num(nan=-1.0)
    said, place, count = label.unique(return_inverse=True, return_counts=True)
    chance = ((count + 1) / (len(label) + len(said))).double().log()[place]
    return torch.cat([chance[out] for out in parts])
