"""Of several answers that a worker gives about a pair, as many count as are independent.

m answers about a pair count together as m w, w = 1 / (1 + (m - 1) rho) (``data.repeat_weights``),
from one if the worker repeats what was said, to m if the answers are independent. So many of them
are drawn by systematic sampling (Madow and Madow 1944): in order of their labels, answer r of 0 to
m - 1 counts if

    floor((r + 1) w + u) > floor(r w + u),        u uniform on [0, 1).

Each counts with probability w, whatever it says, so that the log-likelihood of those that count is,
in the mean over u, that of all under their weights. u is a hash of the positions of items and
worker among the ids: with the same ids, it depends neither on the order of the rows nor on other
answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool

from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.repeat_weights import repeat_weights
from pyro_crowdclust.data.repeats import look_copied


def answers_that_count(answers: Answers) -> Bool[np.ndarray, " pair"] | None:
    """Which answers count; None if all do.

    All count on pages, which are drawn up whole; where repeats are few, as among pairs that are
    drawn at random; and of the only worker, which may be the name of all. Who cannot tell has not
    answered.

    Examples
    --------
    >>> left, right = torch.tensor([0, 0, 1, 0, 0]), torch.tensor([1, 1, 0, 1, 2])
    >>> worker, label = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0])
    >>> found = answers_that_count(Answers(left, right, worker, label.double()))
    >>> int(found[:3].sum()), found[3:].tolist()
    (1, [True, True])
    """
    answered = torch.where(~answers.label.isnan())[0]
    if answers.page is not None or not len(answered):
        return None
    ends = answers.items[answered].sort(dim=1).values
    pair = torch.unique(ends[:, 0] * (ends.max() + 1) + ends[:, 1], return_inverse=True)[1]
    worker, num_workers = answers.worker[answered], int(answers.worker.max()) + 1
    key = (pair * num_workers + worker).numpy()
    _, first, group, size = np.unique(key, True, True, True)
    is_repeat = np.ones(answers.num_pairs, dtype=bool)
    is_repeat[answered.numpy()[first]] = False
    is_repeat[answers.label.isnan().numpy()] = False
    if not look_copied(is_repeat):
        return None
    values, label = answers.label[answered].unique(return_inverse=True)
    weight = repeat_weights(pair, worker, label, num_workers, max(len(values), 2))
    if weight is None:
        return None
    asked = pd.DataFrame({"left": ends[first, 0], "right": ends[first, 1], "worker": worker[first]})
    # The upper 53 bits of a hash are a fraction that float64 holds exactly.
    start = (pd.util.hash_pandas_object(asked, index=False).to_numpy() >> 11) / 2.0**53
    order = np.lexsort((label.numpy(), group))
    group = group[order]
    rank, start = np.arange(len(order)) - (np.cumsum(size) - size)[group], start[group]
    share = (size[group] * weight.numpy()[order]).clip(1) / size[group]
    found = np.ones(answers.num_pairs, dtype=bool)
    found[answered.numpy()[order]] = np.floor((rank + 1) * share + start) > np.floor(
        rank * share + start
    )
    return found


def counted(answers: Answers) -> dict[str, Any]:
    """The fields of ``CrowdData`` for answers, some of which may not count."""
    found = answers_that_count(answers)
    if found is None:
        return {"answers": answers, "_all_answers": None, "_counts": None}
    counts = torch.from_numpy(found)
    return {"answers": answers.at(counts), "_all_answers": answers, "_counts": counts}
