"""Probabilities of answers of workers who lapse, given other answers on the same pages.

    log odds of u_p = log a_m - log (1 - a_m) + sum_{a in p} log p(L_a | attentive) - log B(1 + n)
                      + log B(1)
    p(L) = q(u_p = 1) p(L | attentive) + q(u_p = 0) (1 + n_L) / (C + n)

The sum and the counts n are over the known answers on page p; a page without known answers has the
worker's attention a_m on average.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from pyro_crowdclust.data import Answers, Outcomes, Sessions
from pyro_crowdclust.distributions.lapses import (
    log_attention,
    log_without_looking,
    page_counts,
    share_without_looking,
)


def page_probabilities(
    known: Answers,
    other: Answers,
    outcomes: Outcomes,
    attentive: tuple[Float[np.ndarray, " known"], Float[np.ndarray, " other"]],
    attention: Float[np.ndarray, " worker"],
) -> Float[np.ndarray, " other"]:
    """``p(L)`` of other answers, given the known ones.

    Parameters
    ----------
    known, other
        Answers with pages.
    outcomes
        The possible labels.
    attentive
        ``p(L | attentive)`` of the known and of the other answers.
    attention
        Mean of the attention a_m of every worker.
    """
    pages = torch.cat([known.needed_page, other.needed_page])
    workers = torch.cat([known.worker, other.worker])
    _, worker, place = Sessions.of(pages, workers)
    of_known, of_other = place.split([known.num_pairs, other.num_pairs])
    said, asked = outcomes.places(known.label), outcomes.places(other.label)
    on_pages = said, of_known, len(worker), outcomes.num_outcomes
    prior = torch.from_numpy(attention).logit()[worker]
    looked, at_random = torch.from_numpy(attentive[0]).log(), log_without_looking(*on_pages)
    looks = log_attention(prior, looked, at_random, of_known).sigmoid()[of_other]
    shares = share_without_looking(page_counts(*on_pages)[of_other], asked)
    return torch.lerp(shares, torch.from_numpy(attentive[1]), looks).numpy()
