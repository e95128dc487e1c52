"""The two kinds of answers without features: answers about pairs, and sorted pages.

Each defines which priors of cluster sizes are compared, the fit under a prior, and which parts of
the answers can be held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data import some_items
from pyro_crowdclust.interface.answers_alone.pages_alone import PagesAlone
from pyro_crowdclust.interface.answers_alone.pairs_alone import PairsAlone
from pyro_crowdclust.interface.recipe import Recipe


class KindOfAnswers(Protocol):
    """Answers of one kind about some items, without features.

    Attributes
    ----------
    priors
        The priors of cluster sizes that are compared, by name. The first is used if there are too
        few answers to decide.
    """

    priors: ClassVar[dict[str, Any]]

    @property
    def data(self) -> CrowdData:
        """Items and answers."""

    @property
    def look_alike(self) -> bool:
        """Whether people seem to have been asked about pairs because their items look similar."""

    @property
    def tested(self) -> bool:
        """Whether other answers say something about most of them, so that they can be predicted."""

    @property
    def variant(self) -> str:
        """What is assumed of these answers beyond the usual, as the end of a name."""

    @property
    def assumptions(self) -> dict[str, bool]:
        """The same as arguments of ``kind_of_answers``."""

    def variants(self) -> Sequence[tuple[KindOfAnswers, str]]:
        """The same with one more assumption each, and this assumption in words."""

    def for_trials(self) -> KindOfAnswers:
        """The same, for fits that are only compared with each other."""

    def for_guesses(self) -> KindOfAnswers:
        """The same, for a fit that nothing supports: it shows how different clusters may be."""

    def about(self, data: CrowdData) -> KindOfAnswers:
        """The same for these data."""

    def recipe(self, prior: Any) -> Recipe:
        """Model, guide and options of a fit under a prior of cluster sizes."""

    def parts(
        self, share: float, max_parts: int, generator: torch.Generator, begin: int = 0
    ) -> list[Bool[Tensor, " unit"]]:
        """Parts of the answers to hold out, as many as are needed to distinguish priors.

        The first ``begin`` parts are left out, so that others are drawn by the same generator.
        """

    def without(self, out: Bool[Tensor, " unit"]) -> KindOfAnswers:
        """The answers without a part; items, workers and pages keep their codes."""

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        """``log p`` of the answers in a part that was held out of a fit."""

    def by_chance(self, parts: list[Bool[Tensor, " unit"]]) -> Float[Tensor, " held"]:
        """``log p`` of the answers in all parts, by chance: without knowledge of the items."""

    def gains_of_new(self, result: Fitted) -> tuple[Float[Tensor, " new"], Float[Tensor, " new"]]:
        """``log p - log p_0`` of the answers that a fit has not seen, and what it should be.

        p_0 is their probability by chance. Only of those that the others say something about.
        """


@runtime_checkable
class SupportsHalves(Protocol):
    """Answers that may be grades, of which only the halves of the scale may count."""

    @property
    def halves(self) -> bool:
        """Whether grades say no more than in which half of their scale they are."""

    def with_halves(self) -> KindOfAnswers | None:
        """The same where only the halves of grades count; None if answers are no grades."""

    def log_half(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"] | None:
        """``log p`` of the half in which each held-out grade is; None if answers are no grades."""


def kind_of_answers(data: CrowdData, **assumptions: bool) -> PairsAlone | PagesAlone:
    """The answers of some data: sorted pages if there are placements, otherwise pairs."""
    if data.placements is not None:
        return PagesAlone(data)
    return PairsAlone(data, **assumptions).about(data)


def items_with_answers(data: CrowdData) -> CrowdData:
    """The data with only the items that have answers or likeness.

    About others there is nothing to predict, and they do not change how likely the answers are.
    """
    items = data.annotated_items
    if data.likeness is not None:
        items = torch.cat([items, data.likeness.items.flatten()]).unique()
    return some_items(data, items)
