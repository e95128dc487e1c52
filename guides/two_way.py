"""The mean-field guide of the two-way mixture: q(Theta) prod_i q(z_i, u_i).

    q(z_i = k, u_i = s) prop. to exp(E[log pi_k] + E[log rho_s] + E[log N(x_i | b_k + a_s, Sigma)]
                                     + sum_j w_ij q(z_j = k))

with w_ij as in eq. 14 of Luo et al. 2018. q is joint in cluster and style of an item, since each
explains the other; messages between items depend on clusters only. Every site returns its mean, so
that Pyro's own ELBO is the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyro
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.annotators import sample_rates, sites_in
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import AssignmentAtMean, FullPlate, sample_sites
from pyro_crowdclust.families import Beta, softmax_without_denormals
from pyro_crowdclust.files import described
from pyro_crowdclust.guides.conjugate import ConjugateGuide
from pyro_crowdclust.inference import LocalPosterior, LocalSolver
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.mixture import MixtureSummary
from pyro_crowdclust.protocols import AnswerSites, PairAnnotators, SupportsSites, SupportsWithTrust
from pyro_crowdclust.starts import k_means
from pyro_crowdclust.training import held_steps

if TYPE_CHECKING:
    from pyro_crowdclust.models import TwoWayMixture

# Right and wrong answers of trusted workers: enough that messages have an effect, too few to
# outweigh the features.
_TRUSTED = (6.0, 4.0)


@described
class TwoWayGuide(ConjugateGuide):
    """The posterior of a ``TwoWayMixture``, trained on all items at once (``batch_size=None``).

    Parameters
    ----------
    model
        The model whose posterior this approximates.
    solver
        Computes the messages between items, with damping.
    trusting_epochs
        For this many epochs messages are weighted as if every worker had given six right answers
        and four wrong ones. While q(z) is still uninformative, q(rates) is that of workers who
        guess, and with these rates the messages would stay zero.

    Examples
    --------
    >>> from pyro_crowdclust import CrowdData, fit
    >>> from pyro_crowdclust.models import TwoWayMixture
    >>> model, data = TwoWayMixture(2, 3, 4), CrowdData(torch.randn(20, 4))
    >>> result = fit(model, TwoWayGuide(model), data, batch_size=None, epochs=3, progress=False)
    >>> result.probabilities.shape
    (20, 2)
    """

    model: TwoWayMixture
    trusted: Tensor
    epoch: Tensor

    def __init__(
        self,
        model: TwoWayMixture,
        *,
        solver: LocalSolver = LocalSolver(exchanges=10, damping=0.5),  # noqa: B008, frozen
        trusting_epochs: int = 25,
    ) -> None:
        super().__init__(model)
        self.solver = solver
        self.trusting_epochs = trusting_epochs
        right, wrong = (torch.tensor(count, dtype=torch.float64) for count in _TRUSTED)
        family = Beta()
        trusted = family.expected_statistics(family.natural(right, wrong))
        self.register_buffer("trusted", trusted)
        self.register_buffer("epoch", torch.zeros((), dtype=torch.float64))
        self.held: Tensor | None = None

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does."""
        rates = sample_rates(self.model.annotators, self.posteriors)
        values = sample_sites(
            {name: site for name, site in self.posteriors.items() if name not in rates}
        )
        logits = self.held
        if logits is None:
            logits = self._logits(values | rates, batch)
        with FullPlate("items", batch.items.shape[0], batch.item_weight):
            cell = pyro.sample("cell", AssignmentAtMean(logits))
        if sites := sites_in(self.model.annotators, batch):
            sites.sample_guide(self.model.of_clusters(cell), rates, batch)

    @torch.no_grad()
    def _logits(self, values: dict[str, Tensor], batch: Batch) -> Float[Tensor, "item cell"]:
        model = self.model
        logits = model.cell_logits(values, batch)
        sites = sites_in(model.annotators, batch)
        if sites is None:
            return logits
        cells = logits.unflatten(-1, (model.num_clusters, model.num_styles))
        messages = self._messages(sites, cells.logsumexp(-1), values, batch)
        return (cells + messages.unsqueeze(-1)).flatten(-2)

    def _messages(
        self,
        sites: AnswerSites,
        alone: Float[Tensor, "item cluster"],
        values: dict[str, Tensor],
        batch: Batch,
    ) -> Float[Tensor, "item cluster"]:
        annotators = self.model.annotators
        assert annotators is not None  # there are answers
        rates = {name: values[name] for name in annotators.priors()}
        if self.epoch < self.trusting_epochs:
            rates = self._trusted_rates(annotators, rates)
        paired = batch.num_paired
        coupling = sites.coupling(rates, batch, alone.dtype)
        alone = alone[:paired]
        assignments = softmax_without_denormals(alone)
        _, assignments = self.solver.exchange(alone, alone, assignments, coupling)
        messages = coupling.messages(assignments, last=True)
        return nn.functional.pad(messages, (0, 0, 0, len(batch.items) - paired))

    def _trusted_rates(
        self, annotators: PairAnnotators | SupportsSites, rates: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """E[t] of the workers' rates if all workers are trusted."""
        if isinstance(annotators, SupportsWithTrust):
            priors = annotators.with_trust(_TRUSTED).priors()
            etas = {
                name: prior.natural_parameters.to(rates[name]) for name, prior in priors.items()
            }
            return {
                name: priors[name].family.expected_statistics(eta) for name, eta in etas.items()
            }
        return {
            name: self.trusted.expand_as(rate) if self.posteriors[name].family == Beta() else rate
            for name, rate in rates.items()
        }

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) of a batch, with the messages of the answers that it holds."""
        values = {name: posterior.mean() for name, posterior in self.posteriors.items()}
        cells = self._logits(values, batch)
        cells = cells.unflatten(-1, (self.model.num_clusters, self.model.num_styles))
        return LocalPosterior(cells.logsumexp(-1), None)

    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Styles by k-means, nearly uniform clusters, and one natural step from there.

        Clusters are left to the answers: k-means finds the largest differences, which are those of
        style.
        """
        batch = full_batch(data)
        num_styles = self.model.num_styles
        found = k_means(batch.needed_features, num_styles, generator, num_starts=4)
        style = nn.functional.one_hot(torch.as_tensor(found.labels_).long(), num_styles)
        shape = len(batch.items), self.model.num_clusters
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        # 1e-30 is the probability of all styles other than that of k-means.
        cells = style.double().clamp_min(1e-30).log().unsqueeze(-2) + 0.05 * noise.unsqueeze(-1)
        held_steps(self.model, self, batch, [cells.flatten(-2)], 1.0)

    def set_epoch(self, epoch: float) -> None:
        """Set the number of epochs done so far; see ``trusting_epochs``."""
        self.epoch.fill_(epoch)

    @torch.no_grad()
    def mixture(self) -> MixtureSummary:
        """Mean weights, effects ``b_k`` of the clusters, and the common covariance of the cells."""
        effects = self.posteriors["effects"].standard()
        weights = self.model.weights.mean(self.posteriors["weights"].natural_parameters)
        count, dim = self.model.num_clusters, self.model.num_features
        covariance = effects.scale / (effects.degrees - dim - 1)
        return MixtureSummary(weights, effects.location[:count], covariance.expand(count, dim, dim))

    @torch.no_grad()
    def merge(self, first: int, second: int) -> int:
        """Move the items of two clusters into the larger; returns the other, emptied."""
        weights = self.posteriors["weights"].natural_parameters
        counts = self.model.weights.posterior_counts(weights)
        kept, emptied = (second, first) if counts[second] > counts[first] else (first, second)
        self._redirect(emptied, kept)
        weights.copy_(self.model.weights.merged(weights, kept, emptied))
        return emptied

    @torch.no_grad()
    def empty(self, cluster: int) -> None:
        """Remove the effect of a cluster from its items, and the items from the weights."""
        self._redirect(cluster, None)
        weights = self.posteriors["weights"].natural_parameters
        weights.copy_(self.model.weights.emptied(weights, cluster))

    def _redirect(self, cluster: int, to: int | None) -> None:
        """Set the effects as if the items of a cluster had been in another one, or in none."""
        effects, prior = self.posteriors["effects"], self.model.effects.natural_parameters
        change = torch.eye(effects.family.num_regressors).to(prior)
        change[cluster, cluster] = 0
        if to is not None:
            change[to, cluster] = 1
        statistics = effects.natural_parameters - prior
        changed = effects.family.with_regressors(statistics, change)
        effects.set_natural_parameters(prior + changed)
