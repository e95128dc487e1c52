"""Chains of draws of items' components and of workers' rates, given answers about pairs (Gibbs).

z_i | rest     propto  p(z_i, x_i) exp(sum_j w_ij [c_zi = c_zj])        (Luo et al. 2018, eq. 14)
theta_m | z    the conjugate posterior: eta_0 + sum_a c_a(s_a) over the answers a of worker m
pi, phi | z    likewise, those of the mixture, where these are drawn, too

with w_ij at the drawn rates, and ``log p(L_a | s, theta_m) = <c_a(s), t(theta_m)>``. Given the
rest, items that share no answer are independent, so that many are drawn at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.graded_pairs import GradedPairs
from pyro_crowdclust.annotators.two_coin import TwoCoin
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.partitions.categorical_draws import draw_categories

# Draws log p(z, x) of all items at weights and components that are drawn given z.
MixtureDraw = Callable[[Int[Tensor, "chain item"]], Float[Tensor, "chain item component"]]


class _Block(NamedTuple):
    """Items that share no answer, and the ends of the answers about them.

    Attributes
    ----------
    rows
        The items.
    place
        Of every end, the position of its item in ``rows``.
    other, answer
        The item at the other end, and the answer.
    """

    rows: Int[Tensor, " row"]
    place: Int[Tensor, " end"]
    other: Int[Tensor, " end"]
    answer: Int[Tensor, " end"]


class PairChains:
    """All chains, drawn at the same time in one batch, with torch's random numbers.

    Parameters
    ----------
    annotators
        The model of the workers. Their rates are shares, given which answers are independent.
    batch
        The items and the answers. All items with answers are needed; if the mixture is drawn, all.
    log_components
        log p(z, x) of every item at the mixture of the fit, without its answers.
    start
        Probabilities with the answers, from which the first components are drawn.
    num_chains
        The number of independent chains.
    owners
        Probabilities of the cluster of every component, drawn once for each chain; by default every
        component is a cluster.
    mixture
        Draws the mixture, given the components of the items; by default it is that of the fit.
    """

    def __init__(
        self,
        annotators: TwoCoin | GradedPairs,
        batch: Batch,
        log_components: Float[Tensor, "item component"],
        start: Float[Tensor, "item component"],
        num_chains: int,
        owners: Float[Tensor, "component cluster"] | None = None,
        mixture: MixtureDraw | None = None,
    ) -> None:
        self._worker, self._mixture = batch.worker, mixture
        self._ends = batch.left, batch.right
        priors = annotators.priors()
        self._families = {name: prior.family for name, prior in priors.items()}
        self._prior = torch.cat([one.natural_parameters for one in priors.values()], 1)
        number = log_components.shape[1]
        owners = torch.eye(number, dtype=torch.float64) if owners is None else owners
        self._num_clusters = owners.shape[1]
        self._owner = draw_categories(owners.log().expand(num_chains, *owners.shape))
        self._log_components = log_components.expand(num_chains, -1, -1)
        self._blocks = _blocks(batch.left, batch.right, len(log_components))
        self._different, same = (
            answer_slopes(annotators, batch.needed_label, one) for one in (0.0, 1.0)
        )
        self._gain = same - self._different
        self.component = draw_categories(start.log().expand(num_chains, -1, -1))
        self._rates = self._draw_rates(self._given_components())

    def step(self) -> dict[str, Float[Tensor, "chain worker size"]]:
        """Draw all sites once.

        Returns the natural parameters of the posteriors from which the rates were drawn, by site.
        """
        weight = (self._rates[:, self._worker] * self._gain).sum(-1)
        for block in self._blocks:
            self._draw(block, weight)
        if self._mixture is not None:
            self._log_components = self._mixture(self.component)
        natural = self._given_components()
        self._rates = self._draw_rates(natural)
        return natural

    def _draw(self, block: _Block, weight: Float[Tensor, "chain answer"]) -> None:
        """Draw the components of the items of a block."""
        shape = len(weight), len(block.rows), self._num_clusters
        cluster = self._owner.gather(1, self.component[:, block.other])
        first = torch.arange(shape[0]).unsqueeze(1) * shape[1]
        cell = (first + block.place) * shape[2] + cluster
        messages = weight.new_zeros(shape).flatten()
        messages.index_add_(0, cell.flatten(), weight[:, block.answer].flatten())
        owner = self._owner.unsqueeze(1).expand(-1, shape[1], -1)
        logits = self._log_components[:, block.rows] + messages.view(shape).gather(2, owner)
        self.component[:, block.rows] = draw_categories(logits)

    def _given_components(self) -> dict[str, Float[Tensor, "chain worker size"]]:
        """Natural parameters of the rates, given the components of the items."""
        left, right = (self._owner.gather(1, self.component[:, end]) for end in self._ends)
        counts = self._different + (left == right).unsqueeze(-1) * self._gain
        total = self._prior.expand(len(counts), -1, -1).index_add(1, self._worker, counts)
        parts = total.split([family.size for family in self._families.values()], -1)
        return dict(zip(self._families, parts, strict=True))

    def _draw_rates(
        self, natural: Mapping[str, Float[Tensor, "chain worker size"]]
    ) -> Float[Tensor, "chain worker size"]:
        """Statistics of drawn rates, all sites side by side."""
        drawn = [
            family.sufficient_statistics(family.sample(natural[name]))
            for name, family in self._families.items()
        ]
        # Drawn shares may be zero, to rounding.
        return torch.cat(drawn, -1).clamp_min(math.log(SMALLEST_PROBABILITY))


def answer_slopes(
    annotators: TwoCoin | GradedPairs, label: Float[Tensor, " answer"], same: float
) -> Float[Tensor, "answer size"]:
    """c of ``log p(L | s, theta) = <c, t(theta)>``, all sites of the workers side by side.

    Examples
    --------
    >>> answer_slopes(TwoCoin(1), torch.tensor([1.0, 0.0]), same=1.0)
    tensor([[1., 0., 0., 0.],
            [0., 1., 0., 0.]], dtype=torch.float64)
    """
    number = len(label)
    with torch.inference_mode(False):  # as slopes are gradients
        # As if each answer had a worker of its own.
        statistics = {
            name: torch.zeros(number, prior.family.size, dtype=torch.float64, requires_grad=True)
            for name, prior in annotators.priors().items()
        }
        relation = torch.full((number,), same, dtype=torch.float64)
        answer = annotators.answer(relation, statistics, torch.arange(number))
        log_likelihood = answer.log_prob(label.double().clone()).sum()
        return torch.cat(torch.autograd.grad(log_likelihood, list(statistics.values())), 1)


def _blocks(
    left: Int[Tensor, " answer"], right: Int[Tensor, " answer"], num_items: int
) -> list[_Block]:
    """Items in blocks without answers inside, each item in the first block that it can join.

    Items with many neighbours come first, which makes few blocks (Welsh and Powell 1967).
    """
    neighbours: list[set[int]] = [set() for _ in range(num_items)]
    for one, other in zip(left.tolist(), right.tolist(), strict=True):
        neighbours[one].add(other)
        neighbours[other].add(one)
    block = [-1] * num_items
    for item in sorted(range(num_items), key=lambda one: -len(neighbours[one])):
        taken = {block[other] for other in neighbours[item]}
        block[item] = next(one for one in range(num_items) if one not in taken)
    of_item, answer = torch.tensor(block), torch.arange(len(left)).repeat(2)
    ends, others = torch.cat([left, right]), torch.cat([right, left])
    found = []
    for one in range(max(block) + 1):
        rows, here = (of_item == one).nonzero().squeeze(1), of_item[ends] == one
        place = torch.searchsorted(rows, ends[here])
        found.append(_Block(rows, place, others[here], answer[here]))
    return found
