"""Inference of q(c), which components form one cluster, from answers, labels and links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.pair_owners import best_owners
from pyro_crowdclust.annotators.sites import sites_in
from pyro_crowdclust.distributions.priors import set_to_counts
from pyro_crowdclust.inference.bounded_owners import within_bound
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import OwnersEvidence

# Maximum number of rounds of tangent and update, and the change below which they end.
_MAX_ROUNDS, _MIN_CHANGE = 20, 1e-4


class JointEvidence(NamedTuple):
    """The evidence of several sources about c, such as answers and labels, added up.

    Attributes
    ----------
    parts
        The evidence of each source; at least one.
    """

    parts: Sequence[OwnersEvidence]

    @property
    def gain(self) -> Float[Tensor, "component component"]:
        """Approximate gain of the bound if two components form one cluster."""
        return torch.stack([part.gain for part in self.parts]).sum(0)

    @property
    def between(self) -> Float[Tensor, "component component"]:
        """The sum of all B."""
        return torch.stack([part.between for part in self.parts]).sum(0)

    def slope(
        self, owners: Float[Tensor, "component cluster"]
    ) -> Float[Tensor, "component cluster"]:
        """The gradient of the sum of all f."""
        return torch.stack([part.slope(owners) for part in self.parts]).sum(0)

    def bound(self, owners: Float[Tensor, "component cluster"]) -> float:
        """The sum of all terms of the bound."""
        return sum(part.bound(owners) for part in self.parts)


def owners_bound(
    evidence: OwnersEvidence,
    logits: Float[Tensor, "component cluster"],
    prior: Float[Tensor, "component cluster"],
) -> float:
    """The bound at ``c = softmax(logits)``: the evidence plus ``<c, eta0> + H(c)``."""
    owners = logits.softmax(-1)
    own = (owners * prior - torch.special.xlogy(owners, owners)).sum()
    return evidence.bound(owners) + float(own)


def best_near(
    evidence: OwnersEvidence,
    prior: Float[Tensor, "component cluster"],
    start: Float[Tensor, "component cluster"],
) -> Float[Tensor, "component cluster"]:
    """log q(c), unnormalized, of a maximum of ``owners_bound`` near the start.

    Minorization: with f replaced by its tangent at q(c) the bound is that of ``best_owners``, whose
    maximum is no lower under f itself.

    Parameters
    ----------
    evidence
        The evidence about c.
    prior
        eta0.
    start
        Initial q(c).
    """
    between, owners = evidence.between, start
    for _ in range(_MAX_ROUNDS):
        logits = best_owners(between, prior + evidence.slope(owners), owners)
        before, owners = owners, logits.softmax(-1)
        if float((owners - before).abs().max()) < _MIN_CHANGE:
            break
    return logits


def join(gain: Float[Tensor, "component component"]) -> Int[Tensor, " component"]:
    """A partition with a large ``sum_{k<l} [c_k = c_l] G_kl``: correlation clustering.

    Groups are joined while the sum grows, the best pair first; then each component moves to the
    best group until none moves. Neither lowers the sum. Finding the maximum is NP-hard (Bansal,
    Blum and Chawla 2004).

    Parameters
    ----------
    gain
        G, symmetric; its diagonal is not read.

    Returns
    -------
    Tensor
        For every component the number of one member of its group, the same for the whole group.

    Examples
    --------
    >>> join(torch.tensor([[0.0, 3.0, -1.0], [3.0, 0.0, -1.0], [-1.0, -1.0, 0.0]]))
    tensor([0, 0, 2])
    """
    gains = gain.double().numpy(force=True).copy()
    np.fill_diagonal(gains, 0)
    group = np.arange(len(gains))
    between = gains.copy()
    np.fill_diagonal(between, -np.inf)
    # The best partner of every group, so that a join only updates the rows that change.
    partner, most = between.argmax(1), between.max(1)
    while True:
        first = most.argmax()
        second = partner[first]
        if not most[first] > 0:
            break
        between[first] += between[second]
        between[:, first] = between[first]
        between[first, first] = -np.inf
        between[second] = between[:, second] = -np.inf
        group[group == second] = first
        nearer = between[:, first] > most
        most[nearer], partner[nearer] = between[nearer, first], first
        stale = ((partner == first) | (partner == second)) & ~nearer
        stale[[first, second]] = True
        partner[stale], most[stale] = between[stale].argmax(1), between[stale].max(1)
    of_group = np.zeros_like(gains)
    np.add.at(of_group.T, group, gains)  # as G is symmetric; a group without members has 0
    moved = True
    while moved:
        moved = False
        for one in range(len(gains)):
            best, here = of_group[one].argmax(), group[one]
            if of_group[one, best] > of_group[one, here] + 1e-9:
                of_group[:, here] -= gains[:, one]
                of_group[:, best] += gains[:, one]
                group[one], moved = best, True
    # If the component that a group is named after has left it, it is renamed after a member.
    _, named, place = np.unique(group, return_index=True, return_inverse=True)
    return torch.from_numpy(named[place]).to(gain.device)


@torch.no_grad()
def move_owners(
    guide: Any, batch: Batch, assignments: Float[Tensor, "item component"] | None = None
) -> None:
    """Set q(c) to the better of two local maxima of the bound, with components and workers fixed.

    One is near the current q(c), the other near the partition of the components by ``join``, so
    that clusters that were joined too early can separate again. If the model's ``Ownership`` has
    ``max_clusters``, only so many names have a positive probability (``within_bound``). The
    posteriors of the supervision's sites are updated to the new clusters.

    Parameters
    ----------
    guide
        A guide with a posterior ``owners``, ``infer`` and ``rate_statistics``.
    batch
        All answers, known labels and links.
    assignments
        E[z] of the items of the batch; inferred if it is None.
    """
    if assignments is None:
        assignments = guide.infer(batch).assignments
    assignments = assignments.double()
    parts = _evidence_of_batch(guide, assignments, batch)
    if not parts:
        return
    evidence = JointEvidence(parts)
    posterior = guide.posteriors["owners"]
    ownership = guide.model.ownership
    prior = ownership.prior.natural_parameters
    here, joined = posterior.mean(), join(evidence.gain)
    starts = [here]
    if not _is_partition(here, joined):
        starts.append(nn.functional.one_hot(joined, len(prior)).to(prior))
    problems = [(prior, start) for start in starts]
    if ownership.max_clusters is not None and ownership.max_clusters < len(prior):
        gain, most = evidence.gain, ownership.max_clusters
        problems = [within_bound(gain, prior, start, most) for start in starts]
    found = [best_near(evidence, *problem) for problem in problems]
    best = max(found, key=lambda logits: owners_bound(evidence, logits, prior))
    posterior.set_natural_parameters(best)
    supervision = guide.model.supervision
    counts = supervision.expected_counts(assignments @ best.softmax(-1), batch.known)
    set_to_counts(guide.posteriors, supervision.priors(), counts)


def _is_partition(
    owners: Float[Tensor, "component cluster"], group: Int[Tensor, " component"]
) -> bool:
    """Whether the most probable clusters of the components form these groups, in any numbering."""
    cluster = owners.argmax(1)
    return bool(((cluster == cluster[:, None]) == (group == group[:, None])).all())


def _evidence_of_batch(
    guide: Any, assignments: Float[Tensor, "item component"], batch: Batch
) -> list[OwnersEvidence]:
    """Evidence of labels, links and answers about c, if there are any."""
    parts = guide.model.supervision.owners_evidence(assignments, batch)
    if sites := sites_in(guide.model.annotators, batch):
        parts = [sites.owners_evidence(guide.rate_statistics(), assignments, batch), *parts]
    return parts
