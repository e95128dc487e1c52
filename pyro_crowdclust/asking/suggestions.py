"""The next questions, as ``suggest`` returns them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from pyro_crowdclust.errors import count as counted


@dataclass(frozen=True, repr=False)
class Suggestions:
    """The next questions.

    Attributes
    ----------
    frame
        One row per pair (``left, right, worker, gain``), per item of a page (``page, item, worker,
        gain``) or per item to label (``item, worker, gain``), with the user's ids; ``worker`` is
        the one to ask, missing if there are no workers; ``gain`` is in nats. The most informative
        questions come first, except for random ones (``exploration``). Pages are numbered after
        those that were answered, so that ``Fitted.update`` takes them.
    price
        Price of all questions.
    expected_moved
        Expected number of wanted items that the answers move to another cluster.
    workers
        One row per worker who could be asked: the number of questions to ask them (``asked``), the
        number of ``answers`` they gave before, the probability that their answer is not by chance
        (``reliability``, with its ``deviation``; of who says the opposite about pairs, as the
        answers are read), and the ``price`` of a question.
    """

    frame: pd.DataFrame
    price: float
    expected_moved: float
    workers: pd.DataFrame

    def __len__(self) -> int:
        """Number of questions: of pages, pairs or items to label."""
        return self.frame["page"].nunique() if "page" in self.frame else len(self.frame)

    @property
    def expected_gain(self) -> float:
        """Expected information about the wanted items, in nats."""
        return float(self.frame["gain"].sum())

    def __repr__(self) -> str:
        kind = "page" if "page" in self.frame else "pair" if "left" in self.frame else "item"
        lines = [
            f"Suggestions({counted(len(self), kind)} to ask about, price {self.price:g})",
            f"expected gain {self.expected_gain:.1f} nats",
        ]
        asked = self.workers[self.workers["asked"] > 0]
        if len(asked):
            shown = ", ".join(
                f"{row.Index!r} {row.asked} (reliability {row.reliability:.2f}"
                f"{'' if row.answers else ', new'})"
                for row in asked.head(5).itertuples()
            )
            lines.append(f"workers: {shown}{', ...' if len(asked) > 5 else ''}")
        idle = self.workers.index[self.workers["asked"] == 0]
        if len(idle):
            shown = ", ".join(map(repr, idle[:5]))
            lines.append(f"no questions for: {shown}{', ...' if len(idle) > 5 else ''}")
        return "\n".join(lines)
