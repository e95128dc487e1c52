"""The conjugate message-passing guide of BayesSCDC; Luo et al. 2018, section 3 and appendix A.

Global sites: one conjugate posterior per prior of the model, stepped by natural gradients. Local
sites: the fixed point of eq. 12 and 14 under Gaussian potentials r(o) from a recognition network.
Every site returns its mean, so Pyro's stock ELBO is the bound J of eq. 16 and 19-25.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyro
import torch
from jaxtyping import Int
from pyro import poutine
from torch import Tensor, nn

from pyro_crowdclust.annotators import RateSummary, summarize_beta
from pyro_crowdclust.batches import Batch
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.description import described
from pyro_crowdclust.distributions import AtMean, GaussianAtMean, SameCluster
from pyro_crowdclust.families import Categorical
from pyro_crowdclust.initialization import MixtureStart
from pyro_crowdclust.merge import evidence_change
from pyro_crowdclust.messages import (
    LocalConditionals,
    LocalPosterior,
    LocalSolver,
    PairCoupling,
    SumCoupling,
)
from pyro_crowdclust.mixture import MixtureSummary
from pyro_crowdclust.networks import GaussianRecognition
from pyro_crowdclust.priors import ConjugatePosterior
from pyro_crowdclust.recognition import RecognitionTerm

if TYPE_CHECKING:
    from pyro_crowdclust.models import SemiCrowdsourcedMixture

_OF_MIXTURE = "weights", "components"


@described
class MessagePassingGuide(nn.Module):
    """q(Theta) q(Z) q(X), conjugate and message-passing, for a ``SemiCrowdsourcedMixture``.

    Parameters
    ----------
    model
        The model whose posterior this is.
    recognition
        Network of the Gaussian potentials r(o); None with an ``Identity`` emission.
    solver
        How the local fixed point is found.
    full_gradient
        Also use the second term of eq. 17, the gradient of the global parameters through the
        local fixed point. The optimizer's guard then keeps them in their domain.
    recognition_term
        What the recognition network also learns from the answers; see ``RecognitionTerm``.
    """

    def __init__(
        self,
        model: SemiCrowdsourcedMixture,
        recognition: GaussianRecognition | None = None,
        *,
        solver: LocalSolver = LocalSolver(),  # noqa: B008, frozen
        full_gradient: bool = False,
        recognition_term: RecognitionTerm | None = None,
    ) -> None:
        super().__init__()
        if recognition is None and not model.emission.observes_latent:
            raise ValueError(
                "the model's latents are not observed: give the guide a recognition network, e.g. "
                "GaussianRecognition(SkipMLP((features, 500, 500, 2 * dim)), dim)"
            )
        self.model = model
        self.recognition = recognition
        self.posteriors = nn.ModuleDict(
            {name: ConjugatePosterior(prior) for name, prior in model.priors().items()}
        )
        self.solver = solver
        self.full_gradient = full_gradient
        self.recognition_term = recognition_term
        self.auxiliary_loss: Tensor | None = None

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does."""
        with self.model.weights.prior.plate("weights_plate"):
            weights = pyro.sample("weights", self.posteriors["weights"].distribution())
        with self.model.components.prior.plate("components_plate"):
            theta = pyro.sample("components", self.posteriors["components"].distribution())
        rates = {}
        if self.model.annotators is not None:
            with pyro.plate("workers", self.model.annotators.num_workers, dim=-1):
                for name in self.model.annotators.priors():
                    rates[name] = pyro.sample(name, self.posteriors[name].distribution())
        supervision = self.model.supervision
        labels = {}
        for name, prior in supervision.priors().items():
            with prior.plate(f"{name}_plate"):
                labels[name] = pyro.sample(name, self.posteriors[name].distribution())
        components = self.posteriors["components"]
        supervision.refresh(components.family, components.natural_parameters)
        if self.model.sums_out(batch):
            return

        local = self._local(batch, weights, theta, rates, labels)
        items = pyro.plate("items", len(batch.items), dim=-1)
        with poutine.scale(scale=supervision.item_weight(batch)), items:
            family = Categorical(self.model.num_clusters)
            z = pyro.sample("z", AtMean(family, local.logits))
            if local.latent is not None:
                pyro.sample("x", GaussianAtMean(local.latent))
        if rates and batch.num_pairs:
            pairs = pyro.plate("pairs", batch.num_pairs, dim=-1)
            with poutine.scale(scale=batch.pair_weight), pairs:
                pyro.sample("same", SameCluster(z, batch.left, batch.right, batch.num_paired))

    def _conditionals(
        self, batch: Batch, weights: Tensor, theta: Tensor, labels: dict[str, Tensor]
    ) -> LocalConditionals:
        components, potential, observed = self.model.components, None, None
        if self.recognition is None:
            family = components.family
            observed = components.observe(self.model.emission.latent(batch.features))
        else:
            family, theta = components.latent_family, components.latent_statistics(theta)
            potential = self.recognition(batch.features)
        # Local arithmetic runs in the precision of the networks, global arithmetic in float64.
        dtype = (observed if potential is None else potential).dtype
        log_weights = self.model.weights.log_weights(weights)
        log_weights = self.model.supervision.local_log_weights(log_weights, labels, batch).to(dtype)
        return LocalConditionals(family, log_weights, theta.to(dtype), potential, observed)

    def _local(
        self,
        batch: Batch,
        weights: Tensor,
        theta: Tensor,
        rates: dict[str, Tensor],
        labels: dict[str, Tensor],
    ) -> LocalPosterior:
        if not self.full_gradient:
            weights, theta = weights.detach(), theta.detach()
            rates = {name: statistics.detach() for name, statistics in rates.items()}
            labels = {name: statistics.detach() for name, statistics in labels.items()}
        conditionals = self._conditionals(batch, weights, theta, labels)
        self.auxiliary_loss = None
        if not rates or not batch.num_pairs:
            return self.model.supervision.solve(self.solver, conditionals, batch)
        annotators = self.model.annotators
        ratio = annotators.log_likelihood_ratio(rates, batch.worker, batch.label)
        ratio = ratio.to(conditionals.components.dtype)
        coupling = PairCoupling(batch.left, batch.right, ratio, batch.num_paired)
        field = self.model.supervision.coupling(batch)
        coupling = coupling if field is None else SumCoupling(coupling, field)
        alone, heard = self.solver.solve(conditionals, coupling)
        if self.recognition_term is not None:
            if self.full_gradient:  # The term is for the recognition network alone.
                alone = self.solver.solve(conditionals.with_fixed_globals())[1]
            self.auxiliary_loss = self.recognition_term.loss(alone.assignments, ratio, batch)
        return heard

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) and q(x) of a batch, with the messages of the answers that it holds."""
        means = {name: posterior.mean() for name, posterior in self.posteriors.items()}
        weights, theta = means.pop("weights"), means.pop("components")
        labels = {name: means.pop(name) for name in self.model.supervision.priors()}
        return self._local(batch, weights, theta, means, labels)

    @torch.no_grad()
    def start_at(self, start: MixtureStart) -> None:
        """Move the posteriors of the mixture to where the given statistics put them."""
        for name, counts in start.statistics(self.model).items():
            prior = self.posteriors[name], self.model.priors()[name]
            prior[0].set_natural_parameters(prior[1].natural_parameters + counts)

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the recognition network fits the data and the model."""
        if hasattr(self.recognition, "check"):
            num_features = math.prod(data.features.shape[1:])
            self.recognition.check(num_features, self.model.components.dim)

    def set_epoch(self, epoch: float) -> None:
        """Tell the guide how far training is, for what it anneals."""
        if self.recognition_term is not None:
            self.recognition_term.epoch = epoch
        self.model.supervision.set_epoch(epoch)

    @torch.no_grad()
    def worker_rates(self, interval: float = 0.9) -> dict[str, RateSummary]:
        """Posterior of every worker's sensitivity and specificity."""
        if self.model.annotators is None:
            return {}
        return {
            name: summarize_beta(self.posteriors[name].standard(), interval)
            for name in self.model.annotators.priors()
        }

    @torch.no_grad()
    def mixture(self) -> MixtureSummary:
        """Posterior means of the weights and of what the components look like."""
        weights, theta = (self.posteriors[name].natural_parameters for name in _OF_MIXTURE)
        components = self.model.components.summary(theta)
        return MixtureSummary(self.model.weights.mean(weights), *components)

    @torch.no_grad()
    def rate_statistics(self) -> dict[str, Tensor]:
        """E[t] of the workers' rates."""
        return {name: self.posteriors[name].mean() for name in self.model.annotators.priors()}

    @torch.no_grad()
    def merge_change(self, first: int, second: int, counts: Tensor) -> float:
        """Change of the log evidence of components and weights if two components were one."""
        priors = self.model.priors()
        components = self.posteriors["components"]
        change = evidence_change(
            components.family,
            priors["components"].natural_parameters,
            components.natural_parameters,
            first,
            second,
        )
        weights = self.posteriors["weights"]
        joined = self.model.weights.merged(weights.natural_parameters, first, second)
        return change + self._weights_change(joined)

    def _weights_change(self, natural_parameters: Tensor) -> float:
        """Change of the log evidence of the weights at other natural parameters."""
        weights = self.posteriors["weights"]
        pair = torch.stack([natural_parameters, weights.natural_parameters])
        after, before = weights.family.log_normalizer(pair).reshape(2, -1).sum(-1)
        return float(after - before)

    @torch.no_grad()
    def merge(self, first: int, second: int) -> int:
        """Give the statistics of two components to the larger; returns the other, emptied."""
        weights = self.posteriors["weights"]
        counts = self.model.weights.posterior_counts(weights.natural_parameters)
        if counts[second] > counts[first]:
            first, second = second, first
        eta = self.posteriors["components"].natural_parameters
        prior = self.model.components.prior.natural_parameters
        # Natural parameters add up, less the prior that was counted twice.
        eta[first] += eta[second] - prior[second]
        eta[second] = prior[second]
        joined = self.model.weights.merged(weights.natural_parameters, first, second)
        weights.set_natural_parameters(joined)
        return second

    @torch.no_grad()
    def empty(self, cluster: int) -> None:
        """Return a component to its prior, and take its items from the weights."""
        prior = self.model.components.prior.natural_parameters
        self.posteriors["components"].natural_parameters[cluster] = prior[cluster]
        weights = self.posteriors["weights"]
        left = self.model.weights.emptied(weights.natural_parameters, cluster)
        weights.set_natural_parameters(left)

    @torch.no_grad()
    def preferred_order(self) -> tuple[Tensor, float]:
        """An order of the clusters that suits the weights, and what it adds to their evidence."""
        eta = self.posteriors["weights"].natural_parameters
        order = self.model.weights.preferred_order(self.model.weights.posterior_counts(eta))
        return order, self._weights_change(self.model.weights.reordered(eta, order))

    @torch.no_grad()
    def reorder(self, order: Int[Tensor, " cluster"]) -> None:
        """Put the clusters in another order."""
        weights, components = (self.posteriors[name] for name in _OF_MIXTURE)
        reordered = self.model.weights.reordered(weights.natural_parameters, order)
        weights.set_natural_parameters(reordered)
        components.set_natural_parameters(components.natural_parameters[order])
