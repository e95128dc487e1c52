"""What makes a question worth asking: criteria with one verb, ``worth``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from pyro_crowdclust.asking.information import rate_information


@dataclass(frozen=True)
class Prospects:
    """What is expected of questions, one row each.

    Attributes
    ----------
    gain
        What the answer tells of the items in it, if they are wanted, and of others that look like
        them, in nats.
    outcomes
        Probabilities of what is true: different and same, the groups of a page, the classes.
    counts
        Pseudo-counts (right, wrong) of the rate of the worker who is asked.
    """

    gain: Float[np.ndarray, " question"]
    outcomes: Float[np.ndarray, "question outcome"]
    counts: tuple[float, float] = (1.0, 1.0)


class Criterion(Protocol):
    """What ``suggest`` ranks questions, and workers for a question, by."""

    def worth(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """The larger, the sooner it is asked; equal ones are asked in random order."""


@runtime_checkable
class SupportsDrawPairs(Protocol):
    """A criterion that says itself which pairs can be asked, promising or not."""

    def draw_pairs(
        self, num_items: int, number: int, generator: np.random.Generator
    ) -> Int[np.ndarray, "pair 2"]:
        """About so many pairs of positions to choose from."""


@dataclass(frozen=True)
class InformationGain:
    """Expected information about the clusters of all items, or of the wanted ones, in nats.

    ``I(L; z of the items asked about)`` and what that teaches about items that look like them;
    ``docs/asking.md`` derives both.
    """

    def worth(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """``I(L; z)`` and what that teaches."""
        return prospects.gain


@dataclass(frozen=True)
class WorkerInformation:
    """Expected information about the workers' rates, in nats: questions whose answer is known."""

    def worth(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """``I(R; a)``, R whether the answer is the expected one."""
        return rate_information(prospects.outcomes.max(1), *prospects.counts)


@dataclass(frozen=True)
class Margin:
    """One minus the lead of the most probable outcome over the second; it knows no workers."""

    def worth(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """``1 - (p_1 - p_2)``."""
        if prospects.outcomes.shape[1] < 2:
            return np.zeros(len(prospects.outcomes))
        two = np.sort(prospects.outcomes, axis=1)[:, -2:]
        return 1.0 - (two[:, 1] - two[:, 0])


@dataclass(frozen=True)
class Random:
    """Chance, of questions and of workers: what the others are compared with."""

    def worth(
        self, prospects: Prospects, generator: np.random.Generator
    ) -> Float[np.ndarray, " question"]:
        """A random number."""
        return generator.random(len(prospects.gain))

    def draw_pairs(
        self, num_items: int, number: int, generator: np.random.Generator
    ) -> Int[np.ndarray, "pair 2"]:
        """Any two: chance knows nothing of which items are promising, nor which are sure."""
        return generator.integers(num_items, size=(number, 2))
