"""The record of how a model was chosen, which is kept with the result."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from pyro_crowdclust.errors import count
from pyro_crowdclust.training.stopping import Ending

# Stop reason of a fit that the user interrupted before all candidates were tried.
INTERRUPTED = f"{Ending.INTERRUPTED} by the user while candidates were tried: the best so far"


@dataclass(frozen=True)
class Chosen:
    """The candidates that were tried, their scores, and the reason for the choice.

    Attributes
    ----------
    table
        One row per candidate, in the order in which they were tried:

        - ``features``: the coordinates that its components are on; ``kind`` and ``components``:
          the kind of the components and their number;
        - ``elbo``: nats per item, in the users' units or, on directions of many columns, relative
          to one Gaussian on these columns, so that rows can be compared;
        - ``held_out``: mean log-probability, in nats, of the answers, placements, known labels or
          links that were kept out of the fit; NaN if there were none;
        - ``splits``: how many parts of the answers, each with a fit of its own, ``held_out`` is the
          mean over; only rows with the same number are about the same answers;
        - ``feature_weight``: how much features count relative to answers, from 0 to 1;
        - ``clusters`` in use; ``seconds``; ``uses_answers``, whether its fit uses the answers
          (candidates without them are tried if answers do not help to predict answers about other
          items; sorted pages may still say which components are one cluster); ``chosen``, whether
          it was chosen.

        Without features: ``prior`` (of the sizes of clusters), ``held_out``, ``clusters``,
        ``seconds``, ``chosen``. For ``classify``: ``features``, ``kind``, ``components`` (one per
        class), ``held_out`` (per answer), ``feature_weight``, ``weight`` in the average of the
        candidates, ``seconds``, ``chosen`` (the one with the largest weight).
    reason
        Why the chosen candidate was chosen, in a sentence.
    chance
        ``held_out`` of a prediction that ignores the clusters. For answers: the shares of the
        worker's answers, shrunk to those of all workers; without features the shares of all workers
        only. For placements: the sizes of the groups on the page, or guesses. For known labels and
        links: the shares of the classes, or of must-links. For ``classify``: the score of the
        labels alone. None if nothing was held out.
    is_clear
        Without features: whether the clusters predict held-out answers better than ``chance``.
    most_components
        The largest number of components that was allowed, tried or not, or of clusters, if a bound
        on these was given; None if the number was given, or if there are no components.
    shared_mistakes
        What was found about two workers who make the same mistakes, and so confirm each other, in
        words; empty if nothing was.
    other_view
        Which workers see other clusters, and agree with each other about these, in words; empty if
        nobody does.
    other_number
        Without answers, labels and links: which cluster another number of components divides that
        describes the features about as well, in words; empty if there is none.
    """

    table: pd.DataFrame
    reason: str
    chance: float | None = None
    is_clear: bool = True
    most_components: int | None = None
    shared_mistakes: str = ""
    other_view: str = ""
    other_number: str = ""

    @property
    def winner(self) -> str:
        """The chosen candidate, in words."""
        (row,) = self.table[self.table["chosen"]].to_dict("records")
        if "prior" in self.table:
            return str(row["prior"])
        number = count(int(row["components"]), "component")
        winner = f"{row['kind']} on {row['features']}, {number}"
        averaged = (self.table["weight"] > 0).sum() if "weight" in self.table else 1
        if averaged == 1:
            return winner
        return f"average of {averaged} candidates, above all {winner}"

    @property
    def uses_answers(self) -> bool:
        """Whether the clusters of the chosen candidate depend on the answers, if there are any."""
        if "uses_answers" not in self.table:
            return True
        return bool(self.table.loc[self.table["chosen"], "uses_answers"].iloc[0])

    @property
    def held_out(self) -> float:
        """Mean log-probability of a held-out answer under the chosen candidate."""
        return float(self.table.loc[self.table["chosen"], "held_out"].iloc[0])

    def __str__(self) -> str:
        """The table and the sentence."""
        return f"{self.table.to_string(index=False)}\n{self.reason}"
