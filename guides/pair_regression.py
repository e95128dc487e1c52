"""The mean-field guide of ``PairRegression``.

    q = q(phi) prod_m q(alpha_m) q(beta_m) prod_i q(z_i)
    log q(z_i = k) = E[log p(z_i = k | x_i)] + sum_j w_ij q(z_j = k) + const

with w as in eq. 14 of Luo et al. 2018, and further terms of known labels and links. Items without
any of these have the prediction of the regression.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import sample_rates, sites_in
from pyro_crowdclust.data import Answers, CrowdData
from pyro_crowdclust.distributions import (
    ConjugateAtMean,
    FullPlate,
    WorkerSummary,
    sample_sites,
)
from pyro_crowdclust.families import Categorical
from pyro_crowdclust.files import described, rebuilt
from pyro_crowdclust.guides.answer_draws import drawn_groups
from pyro_crowdclust.guides.conjugate import ConjugateGuide
from pyro_crowdclust.guides.model_checks import check_model
from pyro_crowdclust.inference import (
    LocalPosterior,
    LocalSolver,
    SumCoupling,
    widened_by_draws,
)
from pyro_crowdclust.minibatches import Batch, answered_batch
from pyro_crowdclust.mixture import MixtureSummary
from pyro_crowdclust.models import PairRegression
from pyro_crowdclust.starts import answer_directions, answered_groups, partition_along
from pyro_crowdclust.training import held_steps

# In the start q(z) is held at each partition for so many steps, and is then free. After the first
# free steps the partitions with the highest bounds go on.
_HELD_STEPS, _FIRST_STEPS, _LAST_STEPS = 5, 3, 7
_FINALISTS = 3


@dataclass(frozen=True)
class DrawnStart:
    """The start of a ``PairRegressionGuide`` from groups that have already been drawn.

    Several fits to the same answers can share the draws.

    Attributes
    ----------
    groups
        Groups as ``drawn_groups`` returns them.
    """

    groups: Int[Tensor, "partition item"]

    def __call__(
        self,
        model: PairRegression,
        guide: PairRegressionGuide,
        data: CrowdData,
        generator: torch.Generator,
    ) -> None:
        """Start the guide."""
        guide.start(data, generator, drawn=self.groups)


class _Stepped(NamedTuple):
    """The bound before the last of some steps, and the state after them."""

    elbo: float
    state: dict[str, Tensor]


def _links_as_answers(data: CrowdData) -> CrowdData:
    """The same items, with the answers of one worker in the place of the links."""
    links = data.links
    assert links is not None  # else there is no evidence at all
    answers = Answers(links.left, links.right, torch.zeros_like(links.left), links.must.double())
    one_worker = data.with_parts(links=None, worker_ids=pd.Index(["expert"]))
    return one_worker.with_answers(answers)


@described
class PairRegressionGuide(ConjugateGuide):
    """q(phi) q(rates) q(Z) of a ``PairRegression``, with conjugate q of the global sites.

    Parameters
    ----------
    model
        The model whose posterior this approximates.
    solver
        Computes the messages between items.
    num_items
        For this many items, the first of the data, the messages of a step begin at q(z) of the step
        before; for all others at the prediction from their coordinates, which is enough if the
        coordinates are informative. All N items for a regression without coordinates, under which
        the predictions of all items are the same.
    feature_weight
        tau above 0: after training, q(z) is computed with ``p(z | x)^tau``, normalized (temperature
        scaling; Guo et al. 2017). It can be chosen by held-out answers. Training has tau = 1.

    Raises
    ------
    ValueError
        If ``feature_weight`` is not above 0.

    Examples
    --------
    >>> from pyro_crowdclust import fit
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> from pyro_crowdclust.mixture import SoftmaxRegression
    >>> from pyro_crowdclust.models import PairRegression
    >>> x = torch.linspace(-1, 1, 20).unsqueeze(1)
    >>> answers = {"left": [0, 1, 2], "right": [3, 18, 19], "worker": [0] * 3, "label": [1, 0, 0]}
    >>> model = PairRegression(SoftmaxRegression(2, 1), TwoCoin(1))
    >>> guide = PairRegressionGuide(model)
    >>> result = fit(model, guide, CrowdData(x, answers), batch_size=None, epochs=9, progress=False)
    >>> result.same_cluster_probability(0, 3) > result.same_cluster_probability(0, 19)
    True
    """

    model: PairRegression
    shares: Tensor
    locations: Tensor
    item_logits: Tensor

    def __init__(
        self,
        model: PairRegression,
        *,
        solver: LocalSolver = LocalSolver(),  # noqa: B008, frozen
        num_items: int = 0,
        feature_weight: float = 1.0,
    ) -> None:
        if feature_weight <= 0:
            raise ValueError(f"feature_weight is {feature_weight}, but must be above 0")
        check_model(self, "PairRegression", model, "regression")
        super().__init__(model)
        self.solver, self.feature_weight = solver, feature_weight
        size = model.num_clusters, model.regression.num_features
        # Shares and locations of clusters for tables, since they are no sites of this model: those
        # of the last step of training.
        self.register_buffer("shares", torch.full(size[:1], 1 / size[0], dtype=torch.float64))
        self.register_buffer("locations", torch.zeros(size, dtype=torch.float64))
        # log q(z) of the last step; NaN for items without answers.
        self.register_buffer("item_logits", self.shares.new_full((num_items, size[0]), torch.nan))
        self.held: Tensor | None = None

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does."""
        values = sample_sites({"coefficients": self.posteriors["coefficients"]})
        rates = sample_rates(self.model.annotators, self.posteriors)
        supervised = self.model.supervision.priors()
        others = sample_sites({name: self.posteriors[name] for name in supervised})
        is_training = torch.is_grad_enabled()
        with torch.no_grad():
            logits = self.held
            if logits is None:
                prior = self.model.log_classes(values["coefficients"], batch)
                logits = self._with_messages(prior, rates, others, batch)
            # Not before a step: the messages would be computed twice, and from another q(z).
            if is_training:
                self._note(logits, batch)
        with FullPlate("items", batch.items.shape[0], self.model.supervision.item_weight(batch)):
            z = pyro.sample("z", ConjugateAtMean(Categorical(self.model.num_clusters), logits))
        if sites := sites_in(self.model.annotators, batch):
            sites.sample_guide(z, rates, batch)

    def _with_messages(
        self,
        prior: Float[Tensor, "item cluster"],
        rates: dict[str, Tensor],
        others: dict[str, Tensor],
        batch: Batch,
    ) -> Float[Tensor, "item cluster"]:
        """log q(z) from the prediction, known labels, and messages of answers and links."""
        sites, supervision = sites_in(self.model.annotators, batch), self.model.supervision
        alone = supervision.local_log_weights(prior, others, batch)
        answers = None if sites is None else sites.coupling(rates, batch, prior.dtype)
        coupling = SumCoupling.of(supervision.coupling(others, batch), answers)
        if coupling is None:
            return alone
        before = self._before(batch.items, alone)[: coupling.num_items]
        return self.solver.exchanged(alone, coupling, before)

    def _before(
        self, items: Int[Tensor, " item"], alone: Float[Tensor, "item cluster"]
    ) -> Float[Tensor, "item cluster"]:
        """log q(z) of the step before, or ``alone`` for items that have none."""
        before = alone.clone()
        is_known = items < len(self.item_logits)
        before[is_known] = self.item_logits[items[is_known]].to(alone)
        return torch.where(before.isnan(), alone, before)

    def make_room(self, num_items: int) -> None:
        """Extend the stored q(z) to ``num_items`` items, with the new ones last."""
        more = num_items - len(self.item_logits)
        if len(self.item_logits):
            self.item_logits = nn.functional.pad(self.item_logits, (0, 0, 0, more), value=torch.nan)

    def _note(self, logits: Float[Tensor, "item cluster"], batch: Batch) -> None:
        if len(self.item_logits):
            rows = self.model.has_evidence(batch)
            self.item_logits[batch.items[rows]] = logits[rows]
        counts = batch.item_weight.unsqueeze(1) * logits.softmax(-1)
        total = counts.sum(0)
        self.shares.copy_(total / total.sum())
        middle = counts.mT @ self.model.coordinates(batch) / total.clamp_min(1e-12).unsqueeze(1)
        self.locations.copy_(middle)

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) of a batch, with the messages of the answers that it holds.

        Predictions of items without evidence average over the posterior of the coefficients.
        """
        statistics = self.posteriors["coefficients"].mean()
        prior = self.model.log_classes(statistics, batch)
        rest = (~self.model.has_evidence(batch)).nonzero().squeeze(1)
        moderated = self.model.regression.log_moderated(
            statistics, self.model.coordinates(batch)[rest]
        )
        prior = prior.index_copy(0, rest, moderated)
        if self.feature_weight != 1:
            prior = (self.feature_weight * prior).log_softmax(-1)
        others = {name: self.posteriors[name].mean() for name in self.model.supervision.priors()}
        logits = self._with_messages(prior, self.rate_statistics(), others, batch)
        return LocalPosterior(logits, None)

    def workers_given(self, data: CrowdData, interval: float = 0.9) -> WorkerSummary | None:
        """``workers``, with deviations that count how uncertain the clusters are.

        They are at the coefficients of the fit.

        Parameters
        ----------
        data
            The features and answers of training. Without the features, which a file does not hold,
            the deviations are those of ``workers``.
        interval
            Mass of the intervals.
        """
        summary = self.workers(interval)
        return None if summary is None else widened_by_draws(self, data, summary, interval)

    def read_at(self, feature_weight: float) -> PairRegressionGuide:
        """The same posterior, read with another weight of the features."""
        return self.tempered(feature_weight, self.solver)

    def tempered(self, feature_weight: float, solver: LocalSolver) -> PairRegressionGuide:
        """The same posterior, read with another weight of the features and another solver."""
        other = rebuilt(self, feature_weight=feature_weight, solver=solver)
        other.load_state_dict(self.state_dict())
        return other

    def start(
        self,
        data: CrowdData,
        generator: torch.Generator,
        *,
        drawn: Int[Tensor, "partition item"] | None = None,
    ) -> None:
        """Fit all posteriors to the best of several partitions of the items.

        The partitions are: groups of items that answers keep together; the known labels; groups in
        posterior draws that use the answers alone; and partitions along the directions of the
        features in which items with the answer "different" differ most, by all such directions and
        by the clearest one. The partition with the highest bound after some steps is chosen: groups
        are best if few items have many answers each, directions if many items have few. A
        regression without coordinates has only the draws and the known labels. Without answers
        there are the known labels, or, if there are none, partitions by links as answers.

        Parameters
        ----------
        data, generator
            As of ``fit(initialize=...)``.
        drawn
            The groups in the draws (``drawn_groups``), if they have been drawn already.
        """
        batch = answered_batch(data)
        if batch is None:
            return
        batch = batch.to(None, torch.float64)
        number = self.model.num_clusters
        if not data.has_answers and batch.known is None:
            data = _links_as_answers(data)
        if drawn is None and data.has_answers:
            seed = int(torch.randint(2**31, (), generator=generator))
            drawn = drawn_groups(data, number, seed=seed)
        partitions = []
        if drawn is not None:
            partitions += [*torch.where(drawn < number, drawn, -1)[:, batch.items]]
        if batch.known is not None:
            partitions.append(torch.where(batch.known < number, batch.known, -1))
        if self.model.regression.num_features and data.has_answers:
            partitions += self._feature_partitions(data, batch, generator)
        prior = copy.deepcopy(self.state_dict())
        begun = [self._stepped(prior, self._steps_from(one), batch) for one in partitions]
        begun = sorted(begun, key=lambda one: one.elbo, reverse=True)[:_FINALISTS]
        last = [None] * _LAST_STEPS
        found = [self._stepped(one.state, last, batch) for one in begun]
        self.load_state_dict(max(found, key=lambda one: one.elbo).state)

    def _feature_partitions(
        self, data: CrowdData, batch: Batch, generator: torch.Generator
    ) -> list[Int[Tensor, " item"]]:
        """Partitions of the items of a batch with all answers that need coordinates or groups."""
        number = self.model.num_clusters
        if data.placements is not None:
            data = data.as_pairs()
        found, answers = [answered_groups(data, number)[batch.items]], data.answers
        assert answers is not None  # there are some
        decided = ~answers.label.isnan()  # NaN is the answer "cannot tell"
        if not bool(decided.any()):
            return found
        rows = torch.isin(batch.items, data.annotated_items).nonzero().squeeze(1)
        asked = self.model.coordinates(batch)[rows].double()
        row = torch.full((data.num_items,), -1)
        row[batch.items[rows]] = torch.arange(len(rows))
        left, right = row[answers.left[decided]], row[answers.right[decided]]
        along = answer_directions(asked, left, right, answers.label[decided].double())
        each = [along] if along.shape[1] == 1 else [along, along[:, -1:]]
        along_each = (
            partition_along(some, max_groups=number, generator=generator) for some in each
        )
        return found + [
            torch.full_like(batch.items, -1).scatter(0, rows, one) for one in along_each
        ]

    def _steps_from(self, group: Int[Tensor, " item"]) -> list[Tensor | None]:
        """Logits of q(z) in the first steps from a partition; items without a group have -1."""
        number = self.model.num_clusters
        one_hot = nn.functional.one_hot(group.clamp_min(0), number).double()
        uniform = torch.full_like(one_hot, 1 / number)
        logits = torch.where((group >= 0).unsqueeze(1), one_hot, uniform).clamp_min(1e-30).log()
        return [logits] * _HELD_STEPS + [None] * _FIRST_STEPS

    def _stepped(
        self, state: dict[str, Tensor], held: Sequence[Tensor | None], batch: Batch
    ) -> _Stepped:
        """The bound and the state after steps from a state."""
        self.load_state_dict(state)
        loss = held_steps(self.model, self, batch, held, 0.5)
        elbo = -loss if math.isfinite(loss) else -math.inf
        return _Stepped(elbo, copy.deepcopy(self.state_dict()))

    @torch.no_grad()
    def mixture(self) -> MixtureSummary:
        """Shares and mean coordinates of the clusters in the last batch of training."""
        return MixtureSummary(self.shares, self.locations, None)
