"""Messages between neighbours in a hidden Markov random field; Echraibi et al. 2019, section 2.

The sum over neighbours with the same label is the sum over the class minus the item's own term, so
a label on n items costs O(n T + T^2), not O(n^2).
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.distributions.pairs import components_together
from pyro_crowdclust.families import ExponentialFamily, softmax_without_denormals
from pyro_crowdclust.minibatches.batch import Batch

# Number of sweeps of the Gibbs sampler that draws z in a simulation.
_GIBBS_SWEEPS = 20
# A step that would lower the bound is halved at most this many times; then the rounds end.
_MAX_HALVINGS = 12


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
    """Messages ``-lambda sum_{m ~ n} V phi_m`` in a batch (eq. 2), and their term in the bound.

    Parameters
    ----------
    rows
        Rows of the batch that have neighbours, ascending.
    batch
        The batch, which has items with a label or a link.
    divergence
        V, shape ``[K, K]``.
    strength
        lambda.
    repulsion
        Potential of two items in one cluster that are cannot-linked or (if ``repel_labels``) carry
        different labels.
    repel_labels
        Whether different labels repel.
    owners
        The cluster of every component or its probabilities, where clusters own components; the
        potential between components of one cluster is zero.
    with_labels
        Whether equal labels attract.
    """

    def __init__(
        self,
        rows: Int[Tensor, " row"],
        batch: Batch,
        divergence: Float[Tensor, "cluster cluster"],
        strength: float,
        repulsion: float,
        repel_labels: bool = False,
        owners: Float[Tensor, "component cluster"] | None = None,
        with_labels: bool = True,
    ) -> None:
        self.rows = rows
        self.num_items = len(batch.items)
        assert batch.neighbors is not None  # the field has checked this
        self.neighbors = batch.neighbors
        together = torch.eye(len(divergence)).to(divergence)
        if owners is not None:
            together = components_together(owners).to(divergence)
        self._potentials = strength * divergence, strength * repulsion
        self._divergence = (1 - together) * self._potentials[0]
        self._repulsion = together * self._potentials[1]
        self._repel_labels = repel_labels
        known = torch.full_like(rows, -1)
        if batch.known is not None and with_labels:
            known = batch.known[rows]
        self._labelled = (known >= 0).nonzero().squeeze(1)
        self._label = known[self._labelled]
        self._num_labels = len(self.neighbors.label_counts)
        self._links = self.neighbors.links
        if self._links is not None:
            place = torch.full((self.num_items,), -1, device=rows.device)
            place[rows] = torch.arange(len(rows), device=rows.device)
            self._left, self._right = place[self._links.left], place[self._links.right]

    @property
    def num_links(self) -> int:
        """Number of links in the batch."""
        return 0 if self._links is None else self._links.num_links

    def _by_label(
        self, assignments: Float[Tensor, "row cluster"]
    ) -> tuple[Float[Tensor, "labelled cluster"], Float[Tensor, "label cluster"]]:
        """Assignments of the rows with a label, and their sum for every label."""
        labelled = assignments[self._labelled]
        sums = labelled.new_zeros(self._num_labels, labelled.shape[-1])
        return labelled, sums.index_add(0, self._label, labelled)

    def among(self, assignments: Float[Tensor, "row cluster"]) -> Tensor:
        """Messages between the rows with neighbours, from the pairs within the batch."""
        # In the precision of the assignments, which is that of the networks.
        divergence, repulsion = self._divergence.to(assignments), self._repulsion.to(assignments)
        labelled, sums = self._by_label(assignments)
        from_labels = (labelled - sums[self._label]) @ divergence
        if self._repel_labels:
            from_labels = from_labels - ((sums.sum(0) - sums) @ repulsion)[self._label]
        messages = torch.zeros_like(assignments).index_add(0, self._labelled, from_labels)
        if self._links is None:
            return messages
        must = self._links.must.unsqueeze(-1)
        for here, there in ((self._left, self._right), (self._right, self._left)):
            other = assignments[there]
            from_links = torch.where(must, other @ divergence, other @ repulsion)
            messages = messages.index_add(0, here, -from_links)
        return messages

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """Messages to every item of the batch: an estimate of those from all data."""
        messages = self.neighbors.message_scale * self.among(assignments[self.rows])
        return torch.zeros_like(assignments).index_copy(0, self.rows, messages)

    def log_factor(self, assignments: Float[Tensor, "item cluster"]) -> Tensor:
        """``-lambda sum_{n ~ m} <phi_n, V phi_m>``, an unbiased estimate of that of all data."""
        assignments = assignments[self.rows]
        inner = (assignments * self.among(assignments)).sum() / 2
        return self.neighbors.pair_weight * inner

    def merge_gain(
        self, assignments: Float[Tensor, "item cluster"]
    ) -> Float[Tensor, "cluster cluster"]:
        """Gain of ``log_factor`` if the potential between two clusters were zero.

        ``lambda (V_kl A_kl - r R_kl)``, where A_kl and R_kl are the expected numbers of pairs of
        neighbours and of pairs that repel each other, with one item in k and the other in l.
        """
        assignments = assignments[self.rows]
        labelled, sums = self._by_label(assignments)
        attract, repel = sums.mT @ sums - labelled.mT @ labelled, torch.zeros_like(self._divergence)
        if self._repel_labels:
            repel = repel + torch.outer(sums.sum(0), sums.sum(0)) - sums.mT @ sums
        if self._links is not None:
            left, right = assignments[self._left], assignments[self._right]
            must = self._links.must.to(left).unsqueeze(-1)
            musts, cannots = (left.mT @ (of_kind * right) for of_kind in (must, 1 - must))
            attract, repel = attract + musts + musts.mT, repel + cannots + cannots.mT
        divergence, repulsion = self._potentials
        return self.neighbors.pair_weight * (divergence * attract - repulsion * repel)

    def settle(
        self,
        alone: Float[Tensor, "row cluster"],
        start: Float[Tensor, "row cluster"],
        rounds: int,
    ) -> Float[Tensor, "row cluster"]:
        """Coordinate ascent over the rows with neighbours; the bound of the logits never falls.

        All rows move at once towards eq. 2, ``target_n = alone_n + messages_n``, so that they could
        oscillate forever. A round is therefore accepted only if it does not lower

            sum_n <phi_n, alone_n> + H(phi_n) + <phi_n, messages_n> / 2

        and its step is halved until it does not. The direction ``target - logits`` is the natural
        gradient of that function, so a small enough step raises it.

        Parameters
        ----------
        alone
            log phi without messages.
        start
            log phi to begin with, up to a constant in each row.
        rounds
            Maximum number of rounds.
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
            for _ in range(_MAX_HALVINGS):
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


def refuse_enumerated(z: Tensor) -> None:
    """Raise a ``ValueError`` for an enumerated z."""
    if z.dim() > 2:
        raise ValueError(
            "z is enumerated, under which items cannot be coupled: use MessagePassingGuide"
        )


def tied_rows(
    what: str, is_tied: Bool[Tensor, " item"], batch: Batch
) -> Int[Tensor, " row"] | None:
    """Rows of the items with messages between them, ascending; None if no item has any.

    Raises
    ------
    ValueError
        If the batch is split over several processes, or is a minibatch with answers.
    """
    if batch.part is not None:
        raise ValueError(
            f"with {what} items are coupled, but here they are split over several processes: "
            "fit these data in one process, or use ClassTable or KnownClusters, which do not "
            "couple items"
        )
    rows = is_tied.nonzero().squeeze(1)
    if not len(rows):
        return None
    assert batch.neighbors is not None  # the coupling comes from neighbours
    if batch.num_paired and not batch.neighbors.complete:
        refuse_minibatches(what)
    return rows


def refuse_minibatches(what: str) -> NoReturn:
    """Raise the ``ValueError`` for minibatches with both answers and couplings of items."""
    raise ValueError(
        f"minibatches with both workers' answers and {what} are not possible, because the two "
        "sample items differently: use fit(..., batch_size=None), or ClassTable"
    )


class FieldAssignment(Assignment):
    """z under the field: ``log pi`` for items without neighbours, zero for all others.

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
