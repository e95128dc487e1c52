"""The search of ``classify``: how well candidates predict labels of held-out items."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from tqdm.auto import tqdm

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.class_labels import ClassLabels
from pyro_crowdclust.errors import count
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_labels.candidate_average import weighted
from pyro_crowdclust.interface.class_labels.trials import ClassCandidate, ClassTrial
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.interface.searches import table_of
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.pooling.held_out_items import held_out_parts, log_probabilities_by_item
from pyro_crowdclust.results import Chosen, read_at
from pyro_crowdclust.training import uninterrupted
from pyro_crowdclust.training.interrupts import WaitingInterrupt
from pyro_crowdclust.training.isolation import generator_of
from pyro_crowdclust.training.stopping import interrupted_too_early

# Steps of the start, in which the other parameters are fitted to the vote: a regression needs
# several, all others one.
_STEPS = 10


class ClassSearch:
    """Compares candidates by cross-validation over the labelled items.

    Parameters
    ----------
    data
        Items with features and labels.
    candidates
        The candidates; the first uses no features, and all others are compared with it.
    options
        Options of ``fit``, for all candidates.
    folds
        Number of parts of the labelled items, each held out once.
    workers
        Assumptions about the workers.
    """

    def __init__(
        self,
        data: CrowdData,
        candidates: Sequence[ClassCandidate],
        options: dict[str, Any],
        folds: int,
        workers: Workers,
    ) -> None:
        self._data, self._candidates, self._options = data, candidates, options
        self._workers = workers
        self._parts = parts_of_seen_classes(data, folds, options["seed"])
        self.trials: list[ClassTrial] = []
        self.interrupted = False

    def run(self, progress: bool) -> str:
        """Try all candidates, whose trials get weights in their average; returns the reason."""
        try:
            # The first optimizer imports parts of torch, and later fits fail if that is
            # interrupted.
            with WaitingInterrupt() as interrupt:
                seed = self._options["seed"]
                starts = [WorkersStart(seen, self._workers, seed) for seen, _ in self._parts]
            if interrupt.received:
                raise KeyboardInterrupt
            bar = tqdm(self._candidates, disable=not progress, unit="candidate")
            for candidate in bar:
                bar.set_description(f"{candidate.kind} on {candidate.features}")
                self.trials.append(self.try_out(candidate, starts))
        except KeyboardInterrupt:
            if not self.trials:
                raise interrupted_too_early() from None
            self.interrupted = True
        self.trials = weighted(self.trials)
        return self._reason()

    def try_out(self, candidate: ClassCandidate, starts: Sequence[WorkersStart]) -> ClassTrial:
        """The scores of a candidate, fitted without each part, from the start for that part."""
        begun = time.perf_counter()
        own, of_others = [], []
        for (seen, held), start in zip(self._parts, starts, strict=True):
            options = {"initialize": start} | self._options
            result = uninterrupted(candidate.fit(seen, options, self._workers))
            read = (read_at(result, weight) for weight in candidate.feature_weights)
            found = np.stack([log_probabilities_by_item(one, held) for one in read])
            own.append(np.diagonal(found, axis1=1, axis2=2))
            of_others.append(mean_of_others(found))
        scores = np.concatenate(own, 1), np.concatenate(of_others, 1)
        number = sum(len(held) for _, held in self._parts)
        return ClassTrial(candidate, *scores, number, time.perf_counter() - begun)

    def _reason(self) -> str:
        if len(self.trials) == 1:
            reason = "features were not tried"
        elif self.trials[0].weight == 1:
            reason = (
                "no candidate with features predicts held-out labels better than labels alone do"
            )
        else:
            reason = "candidates are averaged by how well they predict held-out labels (weight)"
        if self.interrupted:
            tried = count(len(self.trials), "candidate")
            reason += f"; {tried} had been tried when this was interrupted"
        return reason

    def chosen(self, reason: str) -> Chosen:
        """The table of trials, with the reason and the score of the labels alone."""
        table = table_of(self.trials, max(self.trials, key=lambda trial: trial.weight))
        table.insert(2, "components", self._data.num_classes)
        return Chosen(table, reason, self.trials[0].held_out)


def parts_of_seen_classes(
    data: CrowdData, folds: int, seed: int
) -> list[tuple[CrowdData, ClassLabels]]:
    """``held_out_parts`` without items one of whose labels names a class that no other part has.

    With few labels, all items of a class may be held out together. The fit cannot know it then,
    which does not matter for the fit to all data, and the more it knows of the others, the surer
    it is wrong. If these are all items, none is left out.

    Parameters
    ----------
    data, folds, seed
        As for ``held_out_parts``.

    Examples
    --------
    >>> said = {"item": range(5), "worker": "a", "label": list("xxyyz")}
    >>> parts = parts_of_seen_classes(CrowdData(None, labels=said), folds=5, seed=0)
    >>> sorted(int(item) for _, held in parts for item in held.item)
    [0, 1, 2, 3]
    """
    parts = held_out_parts(data, folds, seed)
    kept = []
    for seen, held in parts:
        is_unknown = ~torch.isin(held.label, seen.needed_class_labels.label)
        kept.append((seen, held.at(~torch.isin(held.item, held.item[is_unknown]))))
    return kept if any(len(held) for _, held in kept) else parts


def mean_of_others(
    found: Float[np.ndarray, "weight item other"],
) -> Float[np.ndarray, "weight item"]:
    """Means over all other items; for a single item in its part, its own value."""
    number = found.shape[1]
    own = np.diagonal(found, axis1=1, axis2=2)
    return (found.sum(2) - own) / (number - 1) if number > 1 else own


class WorkersStart:
    """A start from priors of workers that are fitted to the vote, the same for all candidates.

    These priors take many steps to converge, and do not depend on features.

    Parameters
    ----------
    data
        The labels.
    workers
        Assumptions about the workers.
    seed
        Seed of the items in the vote, if there are many.
    """

    def __init__(self, data: CrowdData, workers: Workers, seed: int) -> None:
        self._model = DawidSkene(workers.annotators(data))
        generator = generator_of(seed)
        with torch.enable_grad():  # in case gradients are switched off globally
            ClassLabelGuide(self._model).start(data, generator)

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Copy the workers' priors to a model, and fit all other parameters to the vote."""
        workers = model.annotators
        workers.load_state_dict(self._model.annotators.state_dict())
        learned = [one for one in workers.parameters() if one.requires_grad]
        for one in learned:
            one.requires_grad_(False)
        guide.start(data, generator, steps=_STEPS)
        for one in learned:
            one.requires_grad_(True)
