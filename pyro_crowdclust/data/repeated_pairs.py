"""Of several answers that a worker gives about a pair, as many are kept as they count.

m answers about a pair count together as m / (1 + (m - 1) rho) (``data.repeat_weights``), from one
if the worker repeats what was said, to m if the answers are independent. So many of them are kept,
which represent all: evenly spaced among those sorted by label, the middle one if it is a single
one. Both are kept where the two in the middle differ.
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


def kept_repeats(answers: Answers) -> Bool[np.ndarray, " pair"] | None:
    """Which answers are kept; None if all are.

    All are kept on pages, which are drawn up whole; where repeats are few, as among pairs that are
    drawn at random; and of the only worker, which may be the name of all. Who cannot tell has not
    answered.

    Examples
    --------
    >>> left, right = torch.tensor([0, 0, 1, 0, 0]), torch.tensor([1, 1, 0, 1, 2])
    >>> worker, label = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0])
    >>> kept_repeats(Answers(left, right, worker, label.double())).tolist()
    [True, False, False, True, True]
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
    order = np.lexsort((label.numpy(), group))
    rank = np.arange(len(order)) - (np.cumsum(size) - size)[group[order]]
    total, label = size[group[order]], label.numpy()[order]
    number = np.rint(total * weight.numpy()[order]).clip(1)
    # Of n among m, number i has the rank (i + 1/2) m / n.
    before, after = (np.ceil(one * number / total - 0.5) for one in (rank, rank + 1))
    kept = after > before
    lower = (number == 1) & (2 * (rank + 1) == total)
    differs = np.flatnonzero(lower)[label[lower] != label[1:][lower[:-1]]]
    kept[differs] = kept[differs + 1] = True
    found = np.ones(answers.num_pairs, dtype=bool)
    found[answered.numpy()[order]] = kept
    return found


def without_repeats(answers: Answers, index: pd.Index) -> dict[str, Any]:
    """The fields of ``CrowdData`` for the answers that are kept, of rows with this index."""
    kept = kept_repeats(answers)
    if kept is None:
        return {"answers": answers, "_pairs_index": index}
    return {"answers": answers.at(torch.from_numpy(kept)), "_pairs_index": index[kept]}
