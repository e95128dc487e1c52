"""Criteria by which questions are chosen: objects with a method ``scores``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from pyro_crowdclust.asking.information import rate_information


@dataclass(frozen=True)
class Prospects:
    """Expected information and outcomes of questions, one row each.

    Attributes
    ----------
    gain
        Information of the answer about the clusters of its items and of similar ones, as far as
        these are wanted, in nats.
    outcomes
        Probabilities of the possible truths: different and same, the groups of a page, the classes.
    counts
        Pseudo-counts (right, wrong) of the rate of the worker who is asked.
    """

    gain: Float[np.ndarray, " question"]
    outcomes: Float[np.ndarray, "question outcome"]
    counts: tuple[float, float] = (1.0, 1.0)


class Criterion(Protocol):
    """A criterion by which ``suggest`` ranks questions, and workers for a question."""

    def scores(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """A number per question: larger ones are asked first, equal ones in random order."""


@runtime_checkable
class SupportsDrawPairs(Protocol):
    """A criterion that draws the candidate pairs itself."""

    def draw_pairs(
        self, num_items: int, number: int, generator: np.random.Generator
    ) -> Int[np.ndarray, "pair 2"]:
        """About ``number`` pairs of positions to choose from."""


@dataclass(frozen=True)
class InformationGain:
    """Expected information about the clusters of all items, or of the wanted ones, in nats.

    ``I(L; z of the items asked about)``, plus the information about similar items;
    ``docs/asking.md`` derives both.
    """

    def scores(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """``I(L; z)``, plus the information about similar items."""
        return prospects.gain


@dataclass(frozen=True)
class WorkerInformation:
    """Expected information about workers' rates, in nats: prefers questions with known answers."""

    def scores(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """``I(R; a)``, with R whether the answer is the expected one."""
        return rate_information(prospects.outcomes.max(1), *prospects.counts)


@dataclass(frozen=True)
class Margin:
    """One minus the lead of the most probable outcome over the second; the same for all workers."""

    def scores(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """``1 - (p_1 - p_2)``."""
        if prospects.outcomes.shape[1] < 2:
            return np.zeros(len(prospects.outcomes))
        two = np.sort(prospects.outcomes, axis=1)[:, -2:]
        return 1.0 - (two[:, 1] - two[:, 0])


@dataclass(frozen=True)
class Random:
    """Random questions and random workers, as a baseline for other criteria."""

    def scores(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """A random number."""
        return generator.random(len(prospects.gain))

    def draw_pairs(
        self, num_items: int, number: int, generator: np.random.Generator
    ) -> Int[np.ndarray, "pair 2"]:
        """Pairs of any two items."""
        return generator.integers(num_items, size=(number, 2))
