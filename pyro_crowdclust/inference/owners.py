"""Which components are one cluster, given what is said of it by answers, labels and links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.pair_owners import best_owners
from pyro_crowdclust.annotators.sites import sites_of
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import OwnersEvidence

# Rounds of owners and what they hear in turn, at most, and what is no longer a change.
_ROUNDS, _SETTLED = 20, 1e-4


class JointEvidence(NamedTuple):
    """What several say of c, one beside the other.

    Attributes
    ----------
    parts
        What each of them says; at least one.
    """

    parts: Sequence[OwnersEvidence]

    @property
    def gain(self) -> Float[Tensor, "component component"]:
        """What the bound gains if two components are one cluster, or about so much."""
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
        """What all add to the bound."""
        return sum(part.bound(owners) for part in self.parts)


def owners_bound(
    evidence: OwnersEvidence,
    logits: Float[Tensor, "component cluster"],
    prior: Float[Tensor, "component cluster"],
) -> float:
    """What is said of ``c = softmax(logits)``, with ``<c, eta0> + H(c)``."""
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
        What is said of c.
    prior
        eta0.
    start
        q(c) to begin with.
    """
    between, owners = evidence.between, start
    for _ in range(_ROUNDS):
        logits = best_owners(between, prior + evidence.slope(owners), owners)
        before, owners = owners, logits.softmax(-1)
        if float((owners - before).abs().max()) < _SETTLED:
            break
    return logits


def join(gain: Float[Tensor, "component component"]) -> Int[Tensor, " component"]:
    """A partition with a large ``sum_{k<l} [c_k = c_l] G_kl``: correlation clustering.

    Groups are joined, the two that gain most first, while they gain; then each component moves
    to where it gains most, until none moves. Neither can lower the sum. Bansal, Blum and Chawla
    2004 show that the largest sum is hard to find.

    Parameters
    ----------
    gain
        G, symmetric; its diagonal is not read.

    Returns
    -------
    Tensor
        For every component the number of one of its group, the same for all of the group.

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
    # The best partner of every group, so that a join looks at the rows that it changes alone.
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
    of_group = gains @ np.eye(len(gains))[group]
    moved = True
    while moved:
        moved = False
        for one in range(len(gains)):
            best, here = of_group[one].argmax(), group[one]
            if of_group[one, best] > of_group[one, here] + 1e-9:
                of_group[:, here] -= gains[:, one]
                of_group[:, best] += gains[:, one]
                group[one], moved = best, True
    # A group that its first component has left keeps a name that is one of its own.
    _, named, place = np.unique(group, return_index=True, return_inverse=True)
    return torch.from_numpy(named[place]).to(gain.device)


@torch.no_grad()
def move_owners(guide: Any, batch: Batch) -> None:
    """Bring q(c) to the best of two maxima of the bound, all else but what clusters are held fixed.

    One is that next to where q(c) is, the other next to the partition that ``join`` finds of the
    components, so that clusters can part again that were joined too early. What the supervision
    knows of clusters follows their new components.

    Parameters
    ----------
    guide
        With a posterior ``owners``, ``infer`` and ``rate_statistics``.
    batch
        All answers, known labels and links.
    """
    assignments = guide.infer(batch).assignments.double()
    said = _said_of_owners(guide, assignments, batch)
    if not said:
        return
    evidence = JointEvidence(said)
    posterior = guide.posteriors["owners"]
    prior = guide.model.ownership.prior.natural_parameters
    here, joined = posterior.mean(), join(evidence.gain)
    starts = [here]
    if not _is_partition(here, joined):
        starts.append(nn.functional.one_hot(joined, len(prior)).to(prior))
    found = [best_near(evidence, prior, start) for start in starts]
    best = max(found, key=lambda logits: owners_bound(evidence, logits, prior))
    posterior.set_natural_parameters(best)
    supervision = guide.model.supervision
    counts = supervision.expected_counts(assignments @ best.softmax(-1), batch.known)
    for name, of_site in supervision.priors().items():
        guide.posteriors[name].set_natural_parameters(of_site.natural_parameters + counts[name])


def _is_partition(
    owners: Float[Tensor, "component cluster"], group: Int[Tensor, " component"]
) -> bool:
    """Whether the likeliest clusters of the components are these groups, however numbered."""
    cluster = owners.argmax(1)
    return bool(((cluster == cluster[:, None]) == (group == group[:, None])).all())


def _said_of_owners(
    guide: Any, assignments: Float[Tensor, "item component"], batch: Batch
) -> list[OwnersEvidence]:
    """What answers, labels and links say, if there are any."""
    said = guide.model.supervision.owners_evidence(assignments, batch)
    if guide.model.annotators is not None:
        sites = sites_of(guide.model.annotators)
        if sites.in_batch(batch):
            said = [sites.owners_evidence(guide.rate_statistics(), assignments, batch), *said]
    return said
