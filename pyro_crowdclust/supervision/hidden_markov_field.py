"""Labels and links as a hidden Markov random field over z; Echraibi et al. 2019, section 2.

    p(z | pi) = prod_n pi_{z_n}^[N_n empty] prod_{n ~ m} exp(-lambda V(z_n, z_m)) / Gamma(V)
    V(k, l) = KL(q(theta_k) || q(theta_l)) + KL(q(theta_l) || q(theta_k))             (eq. 3)

n ~ m where both carry the same label, or are must-linked. The potential is made from the posterior
itself, so it is no part of a generative model until it is held fixed: here V is a constant of every
step, refreshed between steps. At fixed V all updates are coordinate ascent on

    L_V(q) = E_q[log p(x, theta, pi, z)] - E_q[log q],

in which log Gamma(V), a constant, is left out: L_V - log Gamma(V) is the bound on the evidence.

The sum over neighbours with the same label is a class sum less the item's own share, so that a
label on n items costs O(n T + T^2), not O(n^2).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pyro
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.tables import count, show
from pyro_crowdclust.distributions.statistics import Assignment
from pyro_crowdclust.distributions.summaries import LocalPosterior
from pyro_crowdclust.families import ExponentialFamily, softmax_without_denormals
from pyro_crowdclust.files.description import described
from pyro_crowdclust.inference.messages import Conditionals, LocalSolver, ObservedConditionals
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.supervision.supervision import Supervision

# Sweeps of the Gibbs sampler that draws z in a simulation.
_GIBBS_SWEEPS = 20

# A cluster that has just been emptied keeps exp(-this) of an item, from where it may come back.
_NEARLY_NOTHING = 50.0


def pairwise_divergence(
    family: ExponentialFamily, natural_parameters: Float[Tensor, "cluster size"]
) -> Float[Tensor, "cluster cluster"]:
    """``V(k, l) = <eta_k - eta_l, E_k[t] - E_l[t]>``, the symmetric KL of all pairs; eq. 3.

    Examples
    --------
    >>> from pyro_crowdclust.families import Beta
    >>> eta = Beta().natural(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    >>> pairwise_divergence(Beta(), eta)
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """
    mean = family.expected_statistics(natural_parameters)
    cross = natural_parameters @ mean.mT
    own = cross.diagonal()
    divergence = own.unsqueeze(0) + own.unsqueeze(1) - cross - cross.mT
    return divergence.clamp_min(0).fill_diagonal_(0)


class FieldCoupling:
    """Messages ``-lambda sum_{m ~ n} V phi_m`` of a batch (eq. 2), and the bound they belong to.

    Parameters
    ----------
    rows
        Rows of the batch that have neighbours, ascending.
    batch
        The batch; its items with a label or a link.
    divergence
        V, shape ``[K, K]``.
    strength
        lambda.
    repulsion
        Potential of two items in one cluster that are cannot-linked or (if ``repel_labels``) carry
        different labels.
    repel_labels
        Whether different labels repel.
    """

    def __init__(
        self,
        rows: Int[Tensor, " row"],
        batch: Batch,
        divergence: Float[Tensor, "cluster cluster"],
        strength: float,
        repulsion: float,
        repel_labels: bool,
    ) -> None:
        self.rows = rows
        self.num_items = len(batch.items)
        assert batch.neighbors is not None  # as the field has asked
        self.neighbors = batch.neighbors
        self._divergence = strength * divergence
        self._repulsion = strength * repulsion
        self._repel_labels = repel_labels
        known = batch.known[rows] if batch.known is not None else torch.full_like(rows, -1)
        self._labelled = (known >= 0).nonzero().squeeze(1)
        self._label = known[self._labelled]
        self._num_labels = len(self.neighbors.label_counts)
        self._links = self.neighbors.links
        if self._links is not None:
            place = torch.full((self.num_items,), -1, device=rows.device)
            place[rows] = torch.arange(len(rows), device=rows.device)
            self._left, self._right = place[self._links.left], place[self._links.right]

    def among(self, assignments: Float[Tensor, "row cluster"]) -> Tensor:
        """Messages to the rows with neighbours from each other, of the pairs in the batch."""
        labelled = assignments[self._labelled]
        sums = labelled.new_zeros(self._num_labels, labelled.shape[-1])
        sums = sums.index_add(0, self._label, labelled)
        heard = (labelled - sums[self._label]) @ self._divergence
        if self._repel_labels:
            heard = heard - self._repulsion * (sums.sum(0) - sums)[self._label]
        messages = torch.zeros_like(assignments).index_add(0, self._labelled, heard)
        if self._links is None:
            return messages
        must = self._links.must.unsqueeze(-1)
        for here, there in ((self._left, self._right), (self._right, self._left)):
            other = assignments[there]
            said = torch.where(must, other @ self._divergence, self._repulsion * other)
            messages = messages.index_add(0, here, -said)
        return messages

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """What every item of the batch hears, an estimate of what it hears in all the data."""
        heard = self.neighbors.message_scale * self.among(assignments[self.rows])
        return torch.zeros_like(assignments).index_copy(0, self.rows, heard)

    def log_factor(self, assignments: Float[Tensor, "item cluster"]) -> Tensor:
        """``-lambda sum_{n ~ m} <phi_n, V phi_m>``, an unbiased estimate of that of all data."""
        assignments = assignments[self.rows]
        inner = (assignments * self.among(assignments)).sum() / 2
        return self.neighbors.pair_weight * inner

    def settle(
        self,
        alone: Float[Tensor, "row cluster"],
        start: Float[Tensor, "row cluster"],
        rounds: int,
        max_halvings: int = 12,
    ) -> Float[Tensor, "row cluster"]:
        """Coordinate ascent over the rows with neighbours: logits at which the bound is no lower.

        All rows move at once towards eq. 2, ``target_n = alone_n + messages_n``, which would let
        them change places for ever. A round is therefore taken only if it does not lower

            sum_n <phi_n, alone_n> + H(phi_n) + <phi_n, messages_n> / 2

        and its length is halved until it does not. The direction ``target - logits`` is the
        natural gradient of that function, so some length will do.

        Parameters
        ----------
        alone
            log phi without messages.
        start
            log phi to begin with, up to a constant in each row.
        rounds
            Most rounds.
        """
        scale = self.neighbors.message_scale

        def bound(logits: Tensor) -> tuple[float, Tensor]:
            log_q = logits.log_softmax(-1)
            q = softmax_without_denormals(logits)
            messages = scale * self.among(q)
            terms = torch.where(q > 0, q * (alone - log_q + messages / 2), 0.0)
            return float(terms.sum()), messages

        logits = start
        value, messages = bound(logits)
        rate = 1.0
        for _ in range(rounds):
            target = alone + messages
            for _ in range(max_halvings):
                candidate = torch.lerp(logits, target, rate)
                new_value, new_messages = bound(candidate)
                if new_value >= value:
                    break
                rate /= 2
            else:
                return logits
            gain, logits, value, messages = new_value - value, candidate, new_value, new_messages
            if gain <= 1e-9 * len(logits):
                break
            rate = min(1.0, 2 * rate)
        return logits


class FieldAssignment(Assignment):
    """z under the field: ``pi`` where an item has no neighbours, nothing where it has some.

    The coupling itself is the model's factor ``field``. A draw takes Gibbs sweeps over the items
    that have neighbours.
    """

    def __init__(
        self, log_weights: Float[Tensor, "*item cluster"], coupling: FieldCoupling | None
    ) -> None:
        super().__init__(log_weights)
        self.coupling = coupling

    def _expanded(self, batch_shape: torch.Size) -> FieldAssignment:
        expanded = self.log_weights.expand(batch_shape + self.event_shape)
        return FieldAssignment(expanded, self.coupling)

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, "item cluster"]:
        z = super().sample(sample_shape)
        if self.coupling is None:
            return z
        for _ in range(_GIBBS_SWEEPS):
            for row in self.coupling.rows.tolist():
                logits = self.log_weights[row] + self.coupling.messages(z)[row]
                chosen = torch.multinomial(logits.softmax(-1), 1)
                z[row] = torch.zeros_like(logits).index_fill(0, chosen, 1.0)
        return z


@described
class HiddenMarkovField(Supervision):
    """Supervision by a hidden Markov random field with potentials from the posterior.

    Parameters
    ----------
    num_clusters
        T.
    num_items
        How many items the data have: the field remembers the q(z) of each between steps.
    strength
        lambda >= 0. V grows with the number of items in a cluster, so that even a small lambda
        makes labels count for much.
    repel_labels
        Also let items with different labels repel each other, which the paper does not: its
        n ~ m joins equal labels alone.
    refresh_epochs
        V follows q(theta) in the first so many epochs and then stays; None: in all, as in the
        paper. Once it stays, the bound never falls.
    rounds
        Most rounds of coordinate ascent over the items with neighbours in a step.
    unlabeled_weight
        Weight of items without neighbours in weights and components; see ``Supervision``.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust import CrowdData
    >>> data = CrowdData(np.eye(4), known=["cat", "cat", None, "dog"])
    >>> HiddenMarkovField.of(data, num_clusters=3, strength=0.5).divergence.shape
    torch.Size([3, 3])

    Raises
    ------
    ValueError
        If ``strength`` is negative, or ``rounds`` below 1.

    Notes
    -----
    The repulsion of a cannot-link is the mean of V over pairs of different clusters, so that it is
    in the units of the attraction; the paper leaves it open.
    """

    couples_items = True

    num_clusters: int
    divergence: Tensor
    settled: Tensor

    def __init__(
        self,
        num_clusters: int,
        num_items: int,
        strength: float = 1.0,
        *,
        repel_labels: bool = False,
        refresh_epochs: int | None = None,
        rounds: int = 10,
        unlabeled_weight: float = 1.0,
    ) -> None:
        super().__init__(unlabeled_weight)
        if strength < 0 or rounds < 1:
            raise ValueError(
                f"need strength >= 0 and at least one round, not {strength} and {rounds}"
            )
        self.num_clusters = num_clusters
        self.strength = strength
        self.repel_labels = repel_labels
        self.refresh_epochs = refresh_epochs
        self.rounds = rounds
        self.epoch = 0.0
        self.register_buffer(
            "divergence", torch.zeros(num_clusters, num_clusters, dtype=torch.float64)
        )
        # log phi after the last step on all data, from which the next goes on; NaN before it.
        nothing = torch.full((num_items, num_clusters), torch.nan, dtype=torch.float64)
        self.register_buffer("settled", nothing)

    @classmethod
    def of(cls, data: CrowdData, num_clusters: int, **options: Any) -> HiddenMarkovField:
        """A field for some data."""
        return cls(num_clusters, data.num_items, **options)

    def check(self, data: CrowdData) -> None:
        if data.known is None and data.links is None:
            raise ValueError(
                "the data have neither known labels nor links: pass CrowdData(..., known=labels) "
                "or must_link=frame, cannot_link=frame"
            )
        if data.num_items != len(self.settled):
            raise ValueError(
                f"the data have {data.num_items} items, but the field is of {len(self.settled)}: "
                f"use HiddenMarkovField.of(data, {self.num_clusters})"
            )
        if data.num_known_classes > self.num_clusters:
            raise ValueError(
                f"the labels are of {data.num_known_classes} classes, but there are "
                f"{self.num_clusters} clusters: use at least {data.num_known_classes}"
            )
        if data.known is None or self.repel_labels:
            return
        counts = torch.bincount(data.known[data.known >= 0], minlength=data.num_known_classes)
        lonely = (counts == 1).nonzero().squeeze(1)
        if len(lonely):
            item = int((data.known == lonely[0]).nonzero()[0])
            warnings.warn(
                f"label {show(data.known_ids[int(lonely[0])])} is carried by one item only (item "
                f"{show(data.item_ids[item])}; {count(len(lonely), 'such label')}): it has no "
                "neighbour, so the label says nothing. Label another item so, or link it to one; a "
                "model of your own may have repel_labels=True, or a ClassTable in place of links",
                UserWarning,
                stacklevel=3,
            )

    def has_neighbors(self, batch: Batch) -> Bool[Tensor, " item"]:
        """Which items of the batch have neighbours anywhere in the data."""
        neighbors = batch.neighbors
        if neighbors is None:
            return torch.zeros(len(batch.items), dtype=torch.bool, device=batch.items.device)
        has = neighbors.linked
        if batch.known is not None and len(neighbors.label_counts):
            enough = neighbors.label_counts >= 2
            if self.repel_labels and len(enough) > 1:
                enough = torch.ones_like(enough)
            has = has | ((batch.known >= 0) & enough[batch.known.clamp_min(0)])
        return has

    def item_weight(self, batch: Batch) -> Float[Tensor, " item"]:
        if self.unlabeled_weight == 1 or batch.neighbors is None:
            return batch.item_weight
        weight = torch.where(self.has_neighbors(batch), 1.0, self.unlabeled_weight)
        return weight * batch.item_weight

    def _free(self, log_weights: Float[Tensor, " cluster"], batch: Batch) -> Tensor:
        """log pi of items without neighbours, zero of others."""
        if batch.neighbors is None:
            return log_weights
        return torch.where(self.has_neighbors(batch).unsqueeze(-1), 0.0, log_weights)

    def assignment(self, log_weights: Float[Tensor, " cluster"], batch: Batch) -> Assignment:
        return FieldAssignment(self._free(log_weights, batch), self.coupling(batch))

    def local_log_weights(
        self, log_weights: Float[Tensor, " cluster"], statistics: Any, batch: Batch
    ) -> Float[Tensor, "*item cluster"]:
        return self._free(log_weights, batch)

    def joint_sites(self, z: Tensor, batch: Batch) -> None:
        coupling = self.coupling(batch)
        if coupling is None:
            return
        if z.dim() > 2:
            raise ValueError(
                "z is enumerated, under which items cannot be coupled: use MessagePassingGuide"
            )
        pyro.factor("field", coupling.log_factor(z))

    def coupling(self, batch: Batch) -> FieldCoupling | None:
        if batch.neighbors is None:
            return None
        if batch.part is not None:
            raise ValueError(
                "a hidden Markov field lets every item hear all others of its label, and remembers "
                "q(z) of all items between steps, which are here in several processes: fit these "
                "data in one process, or use ClassTable or KnownClusters, which tie no items"
            )
        rows = self.has_neighbors(batch).nonzero().squeeze(1)
        if not len(rows):
            return None
        complete = batch.neighbors is not None and batch.neighbors.complete
        if batch.num_paired and not complete:
            raise ValueError(
                "minibatches with workers' answers and a hidden Markov field are not possible, as "
                "the two draw items differently: use fit(..., batch_size=None), or ClassTable"
            )
        off_diagonal = self.num_clusters * (self.num_clusters - 1)
        repulsion = float(self.divergence.sum()) / max(off_diagonal, 1)
        return FieldCoupling(
            rows, batch, self.divergence, self.strength, repulsion, self.repel_labels
        )

    def solve(
        self, solver: LocalSolver, conditionals: Conditionals, batch: Batch
    ) -> LocalPosterior:
        if not isinstance(conditionals, ObservedConditionals):
            return super().solve(solver, conditionals, batch)
        alone = solver.solve(conditionals)[1]
        coupling = self.coupling(batch)
        if coupling is None:
            return alone
        # Training remembers where it is; reading a result must leave it as it was.
        remember = torch.is_grad_enabled()
        with torch.no_grad():
            return replace(alone, logits=self._settle(alone.logits, coupling, batch, remember))

    def _settle(
        self,
        alone: Float[Tensor, "item cluster"],
        coupling: FieldCoupling,
        batch: Batch,
        remember: bool,
    ) -> Tensor:
        """log phi with messages; a step on all data goes on from where the last one ended."""
        rows, start = coupling.rows, alone[coupling.rows]
        whole = len(batch.items) == batch.num_items == len(self.settled)
        if whole:
            before = self.settled[batch.items[rows]].to(alone)
            start = torch.where(before.isnan(), start, before)
        logits = alone.index_copy(0, rows, coupling.settle(alone[rows], start, self.rounds))
        if whole and remember:
            self.settled.index_copy_(0, batch.items, logits.to(self.settled))
        return logits

    def set_epoch(self, epoch: float) -> None:
        self.epoch = epoch

    def refresh(self, family: Any, natural_parameters: Float[Tensor, "cluster size"]) -> None:
        if self.refresh_epochs is None or self.epoch < self.refresh_epochs:
            self.divergence.copy_(pairwise_divergence(family, natural_parameters.detach()))

    def merge(self, kept: int, emptied: int) -> None:
        together = self.settled[:, [kept, emptied]].logsumexp(1)
        self.settled[:, kept] = together
        self.settled[:, emptied] = together - _NEARLY_NOTHING

    def empty(self, cluster: int) -> None:
        self.settled[:, cluster] = self.settled.logsumexp(1) - _NEARLY_NOTHING
