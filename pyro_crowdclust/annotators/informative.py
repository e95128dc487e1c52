"""Finds workers who give nearly always the same answer about pairs, which says nothing of these.

A few slips do not matter here: "same", said of nearly all pairs, puts all items into one cluster.
With class labels only those count who always say the same (``say_nothing``), since the confusion
matrix of anyone else tells how much the answers say of each class.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.suited import expected_counts
from pyro_crowdclust.protocols import PairAnnotators, SupportsLapses, SupportsWithTrust

# A worker with at least _FEWEST answers, a share of at least _NEARLY_ALL of which is one label,
# gives nearly always the same answer.
_FEWEST, _NEARLY_ALL = 10, 0.95
# Such answers are uninformative if the label has no larger share than this among all others, and
# the worker would give it so often at that share with no larger probability than this.
_MOST_OF_OTHERS, _BY_CHANCE = 0.8, 0.001
# The others have at least this share of all answers. The second is for "different": where most
# workers nearly always say so, there may be many small clusters.
_LEAST_OF_OTHERS, _LEAST_OF_OTHERS_DIFFERENT = 0.2, 0.5


def informative_workers(
    worker: Int[Tensor, " answer"], label: Float[Tensor, " answer"], num_workers: int
) -> Bool[Tensor, " worker"]:
    """Whether the answers of every worker say something about the pairs.

    With ``s_mL`` the share of label L among the n_m answers of worker m, and ``p_L`` its share
    among those of all workers j without ``max_L s_jL >= .95``, worker m is uninformative if for
    some L

        n_m >= 10,   s_mL >= .95,   p_L <= .8,   exp(-n_m KL(s_mL || p_L)) < .001

    The last is Chernoff's bound of the probability to give L so often at a share of p_L. Everybody
    counts as informative if these other workers have less than a fifth of the answers,
    or, where L is "different", less than half: then most pairs may truly be different, as they are
    in many small clusters.

    Parameters
    ----------
    worker
        Code of the worker of every answer.
    label
        The answers: 1 for "same", 0 for "different", grades between them, NaN for "can't tell".
    num_workers
        M.

    Examples
    --------
    >>> worker = torch.arange(3).repeat_interleave(20)
    >>> label = torch.cat([torch.tensor([1.0, 0.0]).repeat(20), torch.ones(20)])
    >>> informative_workers(worker, label, num_workers=3).tolist()
    [True, True, False]
    """
    worker, label = worker.cpu(), label.double().cpu()
    values, place = label.nan_to_num(nan=-1.0).unique(return_inverse=True)
    code = worker * len(values) + place
    counts = torch.bincount(code, minlength=num_workers * len(values)).double()
    counts = counts.reshape(num_workers, len(values))
    number = counts.sum(1)
    is_nearly_all = (counts >= _NEARLY_ALL * number[:, None]) & (number[:, None] >= _FEWEST)
    of_others = counts[~is_nearly_all.any(1)].sum(0)
    needed = torch.where(values == 0, _LEAST_OF_OTHERS_DIFFERENT, _LEAST_OF_OTHERS)
    share = (of_others + 1) / (of_others.sum() + 2)
    own = counts / number.clamp_min(1)[:, None]
    divergence = torch.xlogy(own, own / share) + torch.xlogy(1 - own, (1 - own) / (1 - share))
    tail = (-number[:, None] * divergence).exp()
    differs = (share <= _MOST_OF_OTHERS) & (of_others.sum() >= needed * number.sum())
    return ~(is_nearly_all & differs & (tail < _BY_CHANCE)).any(1)


def first_rates(
    annotators: SupportsWithTrust,
    worker: Int[Tensor, " answer"],
    label: Float[Tensor, " answer"],
    trust: tuple[float, float],
) -> Mapping[str, Float[Tensor, "worker size"]]:
    """Natural parameters of the workers' sites at which fits begin, before there are clusters.

    Workers are trusted, except those who are not informative. Each of these begins with the rates
    that follow if every pair is the same with probability 1/2. Then both items of a pair share a
    cluster with the same odds after the answer as before: ``alpha_m = 1 - beta_m``.

    Parameters
    ----------
    annotators
        The model of the workers.
    worker, label
        As for ``informative_workers``.
    trust
        Pseudo-counts of right and wrong answers of trusted workers.

    Examples
    --------
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> worker = torch.arange(3).repeat_interleave(20)
    >>> label = torch.cat([torch.tensor([1.0, 0.0]).repeat(20), torch.ones(20)])
    >>> rates = first_rates(TwoCoin(3), worker, label, trust=(6.0, 2.0))
    >>> {name: one[1:].tolist() for name, one in rates.items()}
    {'sensitivity': [[5.0, 1.0], [10.0, 0.0]], 'specificity': [[5.0, 1.0], [0.0, 10.0]]}
    """
    trusted = annotators.with_trust(trust)
    found = {name: prior.natural_parameters for name, prior in trusted.priors().items()}
    is_informative = informative_workers(worker, label, trusted.num_workers)
    if bool(is_informative.all()):
        return found
    blank: PairAnnotators = annotators.with_trust((1.0, 1.0))
    if isinstance(blank, SupportsLapses):
        blank = blank.attentive
    out = ~is_informative.to(worker.device)
    half = torch.full_like(label, 0.5, dtype=torch.float64)
    counts = expected_counts(blank, half, worker, label.double())
    for name, prior in blank.priors().items():
        by_shares = prior.natural_parameters + counts[name]
        found[name] = torch.where(out[:, None], by_shares, found[name])
    return found
