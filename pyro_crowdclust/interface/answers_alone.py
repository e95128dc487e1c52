"""Clusters from answers alone: which sizes clusters have is chosen by answers held out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import GradedAnswers, TwoCoin
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import ManySmall, PitmanYor
from pyro_crowdclust.results.chosen import Chosen

PRIORS: dict[str, Callable[[], PitmanYor | ManySmall]] = {
    "few large clusters": PitmanYor,
    "many small clusters": ManySmall,
}
# Sweeps of a fit, and of one that is only compared with another.
_EPOCHS, _TRIAL_EPOCHS = 120, 40
# Below this the answers that are held out could not tell the priors apart.
_FEWEST_HELD_OUT = 20


def recipe_of(data: CrowdData, prior: PitmanYor | ManySmall) -> Recipe:
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
        generator = torch.Generator().manual_seed(seed)
        out = torch.rand(self.data.num_pairs, generator=generator) < self.share
        if int(out.sum()) < _FEWEST_HELD_OUT:
            out = torch.zeros_like(out)
        scores, rows = {}, []
        for name, prior in PRIORS.items():
            started = time.perf_counter()
            recipe = recipe_of(_with_answers(self.data, ~out), prior())
            result = recipe.fit(seed=seed, epochs=_TRIAL_EPOCHS, progress=False)
            scores[name] = _log_probability(result, self.data, out)
            rows.append((name, scores[name], len(result.clusters), time.perf_counter() - started))
        table = pd.DataFrame(rows, columns=["prior", "held_out", "clusters", "seconds"])
        best = max(scores, key=lambda name: scores[name])
        table["chosen"] = table["prior"] == best
        reason = f"answers held out are likeliest under {best}"
        return recipe_of(self.data, PRIORS[best]()), Chosen(table, reason, _chance(self.data, out))

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
        return replace(recipe.fit(num_starts=num_starts, seed=seed, **changes), chosen=chosen)


def _with_answers(data: CrowdData, kept: Bool[Tensor, " pair"]) -> CrowdData:
    """The data with some of their answers; items and workers keep their codes."""
    answers = data.answers
    assert answers is not None  # as the model checks
    parts = (answers.left, answers.right, answers.worker, answers.label)
    some = Answers(*(part[kept] for part in parts))
    return data.with_parts(answers=some, _pairs_index=None)


def _log_probability(result: Fitted, data: CrowdData, out: Bool[Tensor, " pair"]) -> float:
    """Mean ``log p(L)`` of answers that a fit has not heard."""
    answers = data.answers
    assert answers is not None
    assert isinstance(result.guide, PartitionGuide)
    if not bool(out.any()):
        return result.elbo / len(answers.label)
    items = torch.stack([answers.left, answers.right], 1)[out]
    held = answers.worker[out], answers.label[out]
    return float(result.guide.log_answer_probabilities(result.data, items, *held).mean())


def _chance(data: CrowdData, out: Bool[Tensor, " pair"]) -> float:
    """The same of who knows the shares of the labels only."""
    assert data.answers is not None
    label = data.answers.label.nan_to_num(nan=-1.0)
    said, place, count = label.unique(return_inverse=True, return_counts=True)
    chance = ((count + 1) / (len(label) + len(said))).double().log()[place]
    return float(chance[out if bool(out.any()) else ~out].mean())
