"""How a model was chosen: what stays with the result of the choice."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from pyro_crowdclust.data.tables import count
from pyro_crowdclust.training.stopping import Ending

# Why a fit stopped whose candidates were not all tried.
INTERRUPTED = f"{Ending.INTERRUPTED} by the user while candidates were tried: the best so far"


@dataclass(frozen=True)
class Chosen:
    """The candidates that were tried, and why the one that was fitted is the one.

    Attributes
    ----------
    table
        One row per candidate, in the order in which they were tried:

        - ``features``: the coordinates that its components are on; ``kind`` and ``components``:
          which these are, and how many;
        - ``elbo``: nats an item, in the users' units or, on directions of many columns, beyond one
          Gaussian on them, so that rows can be compared;
        - ``held_out``: mean log-probability, in nats, of what people said and was kept out of the
          fit (answers, placements, known labels or links); NaN where they said nothing;
        - ``feature_weight``: how much features count beside answers, from 0 to 1;
        - ``clusters`` in use, ``seconds``, whether its fit ``hears`` answers (candidates without
          them are tried where these tell nothing about other items), whether it was ``chosen``.

        Without features: ``prior`` (of the sizes of clusters), ``held_out``, ``clusters``,
        ``seconds``, ``chosen``. Of ``classify``: ``features``, ``kind``, ``components`` (one of
        each class), ``held_out`` (an answer), ``feature_weight``, ``seconds``, ``chosen``.
    reason
        A sentence.
    chance
        ``held_out`` of who knows nothing of the clusters: of answers how often each worker says
        what, drawn to what all say; without features what all say alone; of placements how many
        others are in every group of the page; of known labels and links the shares of the classes,
        or of must-links. Of ``classify`` the score of the labels alone. None where nothing was held
        out.
    is_clear
        Whether answers, if nothing else is known, tell more than their shares do.
    """

    table: pd.DataFrame
    reason: str
    chance: float | None = None
    is_clear: bool = True

    @property
    def winner(self) -> str:
        """The chosen candidate, in words."""
        (row,) = self.table[self.table["chosen"]].to_dict("records")
        if "prior" in self.table:
            return str(row["prior"])
        number = count(int(row["components"]), "component")
        return f"{row['kind']} on {row['features']}, {number}"

    @property
    def hears(self) -> bool:
        """Whether answers, if there are any, had a part in the clusters of the chosen one."""
        if "hears" not in self.table:
            return True
        return bool(self.table.loc[self.table["chosen"], "hears"].iloc[0])

    @property
    def held_out(self) -> float:
        """Mean log-probability of a held-out answer under the chosen candidate."""
        return float(self.table.loc[self.table["chosen"], "held_out"].iloc[0])

    def __str__(self) -> str:
        """The table and the sentence."""
        return f"{self.table.to_string(index=False)}\n{self.reason}"
