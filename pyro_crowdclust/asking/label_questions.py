"""Questions about the class of an item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.choices import CandidateQuestions, choose, information_share
from pyro_crowdclust.asking.crowd import allowed_workers
from pyro_crowdclust.asking.situation import TYPICAL_RELIABILITY, Situation, check_among
from pyro_crowdclust.asking.teaching import ItemTeaching
from pyro_crowdclust.asking.worker_teaching import WorkerTeaching
from pyro_crowdclust.data.tables import item_positions, read_table


@dataclass(frozen=True)
class Labels:
    """Questions about the class of an item, by ``I(L; z_i)`` under the worker's confusion matrix.

    A second label of an item also tells about workers, and thus about the other items that they
    label (``WorkerTeaching``). Items whose class is known are left out. A worker gets an item once;
    in a large batch, several workers get the same items.

    Parameters
    ----------
    among
        Only these items may be asked about: a table with the column ``item``, and with ``worker``
        if only some workers may be asked about each. Default: all items.
    """

    among: pd.DataFrame | None = None

    columns: ClassVar = ("item", "worker", "gain")
    answers: ClassVar = "labels"

    def compose(self, situation: Situation, count: int) -> tuple[pd.DataFrame, Beliefs]:
        """``count`` items, one row each: ``item, worker, gain``; and the beliefs."""
        beliefs, crowd, asked = situation.beliefs, situation.crowd, situation.asked
        allowed = None
        if self.among is None:
            items = situation.pool(~asked.has_class)
        else:
            check_among(self.among)
            table = read_table(self.among, "among", ["item"], ["worker"])
            named = item_positions("among", table["item"], situation.item_ids).numpy()
            table, named = table[~asked.has_class[named]], named[~asked.has_class[named]]
            items, group = np.unique(named, return_inverse=True)
            if "worker" in table:
                allowed = allowed_workers(table["worker"], group, len(items), crowd.ids)
        outcomes = beliefs.probabilities[items]
        rates, channels = crowd.rates, crowd.label_channels(outcomes.shape[1])
        perfect, chance = np.eye(outcomes.shape[1]), 1 / outcomes.shape[1]
        stranger = TYPICAL_RELIABILITY * perfect + (1 - TYPICAL_RELIABILITY) * chance
        typical = channels.mean(0) if len(channels) else stranger
        about = items[:, None]
        share = information_share(beliefs, about, outcomes, typical)
        questions = CandidateQuestions(
            about,
            outcomes,
            lambda: rates.label_channels(rates.draw(situation.generator), outcomes.shape[1]),
            share,
            lambda codes, question: asked.to_label(codes, np.full(len(codes), items[question])),
            ItemTeaching(beliefs, about, share),
            allowed,
            WorkerTeaching.of(situation, items, allowed),
        )
        chosen = choose(situation, questions, count)
        frame = pd.DataFrame(
            {
                "item": situation.item_ids[items[[one.question for one in chosen]]],
                "worker": crowd.names([one.worker for one in chosen]),
                "gain": [one.gain for one in chosen],
            }
        )
        return frame, beliefs
