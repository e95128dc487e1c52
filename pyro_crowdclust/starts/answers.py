"""Starts in which workers count as reliable until clusters have been found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.informative import first_rates, informative_workers
from pyro_crowdclust.annotators.suited import annotators_for, expected_counts
from pyro_crowdclust.annotators.two_coin import TRUSTED
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.inference.owners import join, move_owners
from pyro_crowdclust.minibatches.making import answered_batch
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.protocols import PairAnnotators, SupportsWithTrust, part_of, posteriors_of
from pyro_crowdclust.starts.most_asked import most_asked
from pyro_crowdclust.starts.partitions import LabeledStart
from pyro_crowdclust.starts.principal_components import PrincipalComponentStart


def groups_by_answers(
    answers: Answers, annotators: PairAnnotators, *, rounds: int = 5
) -> tuple[Int[Tensor, " answered"], Int[Tensor, " answered"]]:
    """Group the items that have answers by the answers alone.

    Alternates between a partition with a large ``sum_ij w_ij [same]`` (``join``) and the workers'
    rates given the partition, with ``w = E[log p(L | same) - log p(L | different)]`` under the
    posterior of the rates. Answers of workers who nearly always say the same count nothing.

    Parameters
    ----------
    answers
        The answers. Memory grows with the square of the number of items that have answers.
    annotators
        The model of the workers, with their priors.
    rounds
        Number of times that both are computed.

    Returns
    -------
    items, groups
        Positions of the items that have answers, and the group of each.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> label, worker = torch.tensor([1.0, 0.0, 0.0]), torch.zeros(3).long()
    >>> left, right = torch.tensor([4, 4, 5]), torch.tensor([5, 9, 9])
    >>> groups_by_answers(Answers(left, right, worker, label), TwoCoin(1, (3.0, 1.0), (3.0, 1.0)))
    (tensor([4, 5, 9]), tensor([0, 0, 2]))
    """
    ends = torch.stack([answers.left, answers.right])
    items, (left, right) = ends.unique(return_inverse=True)
    rates = {name: prior.natural_parameters for name, prior in annotators.priors().items()}
    label, worker = answers.label.double(), answers.worker
    groups = torch.arange(len(items))
    is_evidence = informative_workers(worker, label, annotators.num_workers)[worker].double()
    for _ in range(rounds):
        statistics = {
            name: prior.family.expected_statistics(rates[name])
            for name, prior in annotators.priors().items()
        }
        weight = annotators.log_likelihood_ratio(statistics, worker, label) * is_evidence
        gain = torch.zeros(len(items), len(items), dtype=torch.float64)
        gain.index_put_((left, right), weight, accumulate=True)
        groups = join(gain + gain.mT)
        same = (groups[left] == groups[right]).double()
        counts = expected_counts(annotators, same, worker, label)
        rates = {
            name: prior.natural_parameters + counts[name]
            for name, prior in annotators.priors().items()
        }
    return items, groups


def answered_groups(
    data: CrowdData, num_groups: int, *, smallest: int = 3, max_items: int = 1000
) -> Int[Tensor, " item"]:
    """The group of every item in one of the largest groups by the answers; -1 for all others.

    Parameters
    ----------
    data
        Items and answers.
    num_groups
        Maximum number of groups, which are numbered by falling size.
    smallest
        Groups with fewer items are ignored.
    max_items
        At most this many items (``most_asked``) are grouped: the time can be cubic.
    """
    answers = data.answers
    none = torch.full((data.num_items,), -1)
    if answers is None:
        return none
    asked = most_asked(data, max_items)
    kept = asked[answers.left] & asked[answers.right]
    annotators = annotators_for(data, (3.0, 1.0))
    items, groups = groups_by_answers(answers.at(kept), annotators)
    return none.scatter(0, items, largest_first(groups, num_groups, smallest))


def largest_first(
    groups: Int[Tensor, " item"], num_groups: int, smallest: int
) -> Int[Tensor, " item"]:
    """Number the largest groups by falling size, at most ``num_groups``; -1 for all others.

    Examples
    --------
    >>> largest_first(torch.tensor([4, 4, 7, 7, 7, 0]), num_groups=5, smallest=2)
    tensor([ 1,  1,  0,  0,  0, -1])
    """
    sizes = torch.bincount(groups)
    large = (sizes >= smallest).nonzero().squeeze(1)
    large = large[sizes[large].argsort(descending=True, stable=True)][:num_groups]
    code = torch.full((len(sizes),), -1).scatter(0, large, torch.arange(len(large)))
    return code[groups]


@dataclass(frozen=True)
class TrustingStart:
    """A start from the features, with workers that count as reliable.

    If workers start as guessing, and the first partition is finer or coarser than the workers' one,
    the fit infers that they guess, and ignores their answers from then on. Here they start with
    more right answers than wrong ones, and where clusters own components, q(c) is found under these
    rates before the first step. Those who nearly always say the same begin with rates by which
    their answers count nothing (``first_rates``).

    Attributes
    ----------
    start
        The start of weights and components.
    """

    start: Callable[..., None] = field(default_factory=PrincipalComponentStart)

    @torch.no_grad()
    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start the guide's posteriors.

        Raises
        ------
        ValueError
            If the guide has no conjugate posteriors of the workers' rates.
        """
        self.start(model, guide, data, generator)
        if model.annotators is None or not data.has_answers:
            return
        posteriors = posteriors_of(guide)
        if posteriors is None:
            raise ValueError(
                "TrustingStart sets the posteriors of the workers' rates, but "
                f"{type(guide).__name__} has none: use PrincipalComponentStart, or another guide; "
                "the point estimates of an AmortizedGuide start at reliable rates without it"
            )
        if isinstance(model.annotators, SupportsWithTrust):
            for name, rates in self._first_rates(model.annotators, data).items():
                posteriors[name].set_natural_parameters(rates)
        answered = answered_batch(data)
        if "owners" in posteriors and answered is not None:
            # Networks need features in their own precision, which ``fit`` has set.
            recognition = part_of(guide, "recognition", nn.Module)
            networks = () if recognition is None else recognition.parameters()
            dtype = next((parameter.dtype for parameter in networks), torch.float64)
            with evaluating(guide):
                move_owners(guide, answered.to(None, dtype))

    def _first_rates(
        self, annotators: SupportsWithTrust, data: CrowdData
    ) -> Mapping[str, Float[Tensor, "worker size"]]:
        answers = data.answers
        if answers is None:  # of pairs; there are sorted pages
            priors = annotators.with_trust(TRUSTED).priors()
            return {name: prior.natural_parameters for name, prior in priors.items()}
        return first_rates(annotators, answers.worker, answers.label, TRUSTED)


@dataclass(frozen=True, eq=False)
class GroupsStart:
    """A start from groups of items: k-means within each, with workers that count as reliable.

    Items without a group join the nearest center and count little (``LabeledStart``).

    Attributes
    ----------
    groups
        The group of every item, -1 for none; there are at most as many as clusters.
    """

    groups: Int[Tensor, " item"]

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start the guide's posteriors.

        Raises
        ------
        ValueError
            As ``LabeledStart`` and ``TrustingStart`` do.
        """
        ids = self.groups[self.groups >= 0].unique()
        labelled = data.with_parts(known=self.groups, known_ids=ids)
        TrustingStart(LabeledStart())(model, guide, labelled, generator)


@dataclass(frozen=True)
class AnswersStart:
    """A start from the answers: k-means within every group of items that the answers connect.

    Items without an answer join the nearest center and count little (``LabeledStart``). Use it
    where the clusters of the features alone differ from those of the answers, or are not clear.

    Attributes
    ----------
    smallest
        Groups with fewer items start no cluster.
    max_items
        At most this many items (``most_asked``) are grouped: the time can be cubic.
    """

    smallest: int = 3
    max_items: int = 1000

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start the guide's posteriors, those of the workers at reliable rates.

        Raises
        ------
        ValueError
            If the data have no answers, if these connect too few items, or if the data have known
            labels, from which to start instead.
        """
        if data.known is not None:
            raise ValueError("the data have known labels: start from these, with LabeledStart")
        if data.answers is None:
            raise ValueError("the data have no answers to start from: use another start")
        known = answered_groups(
            data, model.num_clusters, smallest=self.smallest, max_items=self.max_items
        )
        if not bool((known >= 0).any()):
            raise ValueError(
                f"the answers connect no group of {self.smallest} or more items: use another start"
            )
        GroupsStart(known)(model, guide, data, generator)
