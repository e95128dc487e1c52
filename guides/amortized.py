"""The amortized guide of SCDC; Luo et al. 2018, section 2.3.

Global sites have point estimates (maximum likelihood, or maximum a posteriori under the model's
priors). ``q(z, x | o) = q(z | o) q(x | z, o)`` comes from networks; z is summed out, by Pyro's own
enumeration (``Enumerated``) or at its mean (``AtMean``). Whether the two items of a pair are in the
same cluster is a separate site, with value ``<q(z_i | o_i), q(z_j | o_j)>``: the term ``L_rel`` is
linear in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyro
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.annotators import (
    annotators_about,
    expected_counts,
    rate_statistics,
    sample_rates,
    sites_in,
    sites_of,
    summarize_workers,
)
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    FullPlate,
    GaussianAtMean,
    OfItems,
    PointEstimate,
    Rows,
    WorkerSummary,
    detached,
)
from pyro_crowdclust.families import GaussianParameters, softmax_without_denormals
from pyro_crowdclust.files import described
from pyro_crowdclust.guides.assignment_sums import AssignmentSum, AtMean
from pyro_crowdclust.guides.model_checks import check_model
from pyro_crowdclust.inference import (
    ConsistencyTerm,
    LocalPosterior,
    RecognitionTerm,
    add_loss_term,
    set_epoch_of,
)
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import MixtureSummary
from pyro_crowdclust.networks import AmortizedRecognition, AssignmentOutputs
from pyro_crowdclust.protocols import SiteStatistics, SupportsSizeCheck

if TYPE_CHECKING:
    from pyro_crowdclust.models import SemiCrowdsourcedMixture

# The weight of an emptied cluster: a point estimate of weights cannot be zero.
_MIN_WEIGHT = 1e-6
# Sensitivity and specificity of every worker before training.
_INITIAL_RATE = 0.8


@runtime_checkable
class SupportsClustersCheck(Protocol):
    """A recognition network with a q(z | o) that checks its number of clusters."""

    def check_clusters(self, num_clusters: int) -> None:
        """Raise a ``ValueError`` unless it has this number of clusters."""


@described
class AmortizedGuide(nn.Module):
    """Point estimates of global sites, networks for local ones, of a ``SemiCrowdsourcedMixture``.

    Parameters
    ----------
    model
        The model whose posterior this approximates; its emission must have latents.
    recognition
        The networks q(z | o) and q(x | z, o).
    maximum_a_posteriori
        Keep the priors of components and workers in the objective. The weights stay at maximum
        likelihood: their sparse prior has no mode.
    recognition_term
        A further loss by which q(z | o) learns from the answers, beyond their term in the bound;
        see ``RecognitionTerm``.
    consistency_term
        A further loss by which q(z | o) learns from views of the items; see ``ConsistencyTerm``.
    assignments
        How z is summed out: ``Enumerated()`` by Pyro under ``TraceEnum_ELBO``, ``AtMean()`` with
        the same result in less time, ``Sampled(m)`` by an unbiased estimate in still less.

    Raises
    ------
    ValueError
        If the features of the model are its latents, or it has supervision or ownership.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.emissions import NormalEmission
    >>> from pyro_crowdclust.mixture import (
    ...     DirichletWeights,
    ...     GaussianComponents,
    ... )
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> from pyro_crowdclust.networks import SkipMLP
    >>> model = SemiCrowdsourcedMixture(
    ...     DirichletWeights(3), GaussianComponents(3, 2), NormalEmission(SkipMLP((2, 8, 4)), 4)
    ... )
    >>> guide = AmortizedGuide(model, AmortizedRecognition((4, 8, 8), 2, 3))
    >>> sorted(guide.points)
    ['components', 'weights']
    """

    def __init__(
        self,
        model: SemiCrowdsourcedMixture,
        recognition: AmortizedRecognition,
        *,
        maximum_a_posteriori: bool = True,
        recognition_term: RecognitionTerm | None = None,
        consistency_term: ConsistencyTerm | None = None,
        assignments: AssignmentSum = AtMean(),  # noqa: B008, frozen
    ) -> None:
        super().__init__()
        check_model(self, "SemiCrowdsourcedMixture", model, "components", "emission", "supervision")
        if model.emission.observes_latent:
            raise ValueError(
                "the model's features are its latents, so there is nothing to amortize: use "
                "MessagePassingGuide(model)"
            )
        if model.supervision.uses_labels_or_links:
            raise ValueError(
                "an AmortizedGuide cannot use known labels and links: use MessagePassingGuide for "
                "a model with supervision"
            )
        if model.ownership is not None:
            raise ValueError(
                "an AmortizedGuide cannot learn which components are one cluster: use "
                "MessagePassingGuide for a model with ownership"
            )
        self.model = model
        self.recognition = recognition
        self.recognition_term = recognition_term
        self.consistency_term = consistency_term
        self.assignments = assignments
        self.points: Any = nn.ModuleDict(
            {
                name: PointEstimate(prior, maximum_a_posteriori and name != "weights")
                for name, prior in model.priors().items()
            }
        )
        self.outputs = AssignmentOutputs(model.num_clusters)
        if model.annotators is not None:
            for name, value in sites_of(model.annotators).first_points(_INITIAL_RATE).items():
                point: Any = self.points[name]
                point.set_value(value)

    def _log_probabilities(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """log q(z | o), with merged outputs of the network added up, and the trunk's features."""
        logits, trunk = self.recognition.assignment_logits(features)
        return self.outputs(logits.double().log_softmax(-1)), trunk

    def _latent(self, features: Tensor, trunk: Tensor, z: Tensor) -> GaussianAtMean | OfItems:
        """q(x | z, o)."""
        if not z.is_sparse:
            return GaussianAtMean(self.recognition.latent(features, trunk, z))
        rows = Rows.of(z)
        latent = self.recognition.latent_of_rows(features, trunk, rows)
        return OfItems(GaussianAtMean(latent), rows)

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does."""
        with self.model.weights.prior.plate("weights_plate"):
            pyro.sample("weights", self.points["weights"].distribution())
        with self.model.components.prior.plate("components_plate"):
            pyro.sample("components", self.points["components"].distribution())
        rates = sample_rates(self.model.annotators, self.points)

        features = batch.needed_features
        log_probabilities, trunk = self._log_probabilities(features)
        with FullPlate("items", batch.items.shape[0], batch.item_weight):
            z = self.assignments.sample(log_probabilities, batch)
            pyro.sample("x", self._latent(features, trunk, z))
        if sites := sites_in(self.model.annotators, batch):
            probabilities = softmax_without_denormals(log_probabilities)
            sites.sample_guide(probabilities, rates, batch)
            if self.recognition_term is not None:
                answers = sites.coupling(detached(rates), batch, probabilities.dtype, weighted=True)
                add_loss_term("recognition", self.recognition_term.loss(probabilities, answers))
        if self.consistency_term is not None:
            of_views, _ = self._log_probabilities(self.consistency_term.views(batch))
            found = softmax_without_denormals(log_probabilities)
            consistency = self.consistency_term.loss(
                found, of_views, batch.item_weight, batch.answered
            )
            add_loss_term("consistency", consistency)

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z | o) and the moments of x at the most probable z; answers do not change them."""
        features = batch.needed_features
        logits, trunk = self._log_probabilities(features)
        best = nn.functional.one_hot(logits.argmax(-1), self.model.num_clusters).to(trunk.dtype)
        latent = self.recognition.latent(features, trunk, best)
        return LocalPosterior(logits, latent)

    @torch.no_grad()
    def start_at(self, start: SiteStatistics) -> None:
        """Move the points of the mixture to the posterior means given a partition."""
        counts, priors = start.statistics(self.model), self.model.priors()
        weights, theta = (
            priors[name].natural_parameters + counts[name] for name in ("weights", "components")
        )
        self._set_weights(self.model.weights.mean(weights))
        self.points["components"].set_value(self.model.components.point(theta))

    def start_at_partition(
        self,
        features: Float[Tensor, "item feature"],
        responsibilities: Float[Tensor, "item cluster"],
        generator: torch.Generator,
        steps: int = 300,
    ) -> None:
        """Train the recognition network to find a given partition."""
        self.recognition.start_at_partition(features, responsibilities, generator, steps)

    def _weights(self) -> Tensor:
        """The weights pi of the clusters."""
        return self.model.weights.probabilities(self.points["weights"].value())

    def _set_weights(self, weights: Tensor) -> None:
        self.points["weights"].set_value(self.model.weights.from_probabilities(weights))

    def _gaussians(self) -> GaussianParameters:
        """Means and covariances of all components."""
        return self.model.components.gaussian(self.points["components"].value())

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the recognition network fits the data and the model."""
        if isinstance(self.recognition, SupportsSizeCheck):
            self.recognition.check_sizes(data.num_features, self.model.components.dim)
        if isinstance(self.recognition, SupportsClustersCheck):
            self.recognition.check_clusters(self.model.num_clusters)

    def set_epoch(self, epoch: float) -> None:
        """Set the number of epochs done so far, on which annealed terms depend."""
        set_epoch_of(epoch, self.recognition_term, self.consistency_term)

    @torch.no_grad()
    def workers(self, interval: float = 0.9) -> WorkerSummary | None:
        """Point estimates of every worker's rates, such as sensitivity and specificity."""
        return summarize_workers(self.model.annotators, self.points, interval)

    @torch.no_grad()
    def set_rates(self, same: Float[Tensor, " pair"], batch: Batch) -> None:
        """Set the workers' rates to their posterior means, given which pairs are the same.

        Parameters
        ----------
        same
            For every answer of the batch, the probability that both items share a cluster.
        batch
            All answers.
        """
        annotators = annotators_about(self.model.annotators, batch)
        counts = expected_counts(annotators, same, batch.worker, batch.needed_label)
        for name, prior in annotators.priors().items():
            eta = prior.natural_parameters + counts[name]
            mean = torch.from_numpy(prior.family.summary(eta, interval=0.9).mean).to(eta)
            self.points[name].set_value(mean)

    @torch.no_grad()
    def mixture(self) -> MixtureSummary:
        """Point estimates of weights, locations and covariances."""
        # Copies, since a mean is a view of its parameter.
        location, covariance = (part.clone() for part in self._gaussians())
        return MixtureSummary(self._weights(), location, covariance)

    def rate_statistics(self) -> dict[str, Tensor]:
        """Sufficient statistics t of the workers' rates."""
        return rate_statistics(self.model.annotators, self.points)

    def _pooled(self, first: int, second: int) -> GaussianParameters:
        """Mean and covariance of the mixture of two components, weighted by pi."""
        pair = [first, second]
        mean, covariance = (part[pair] for part in self._gaussians())
        share = self._weights()[pair]
        share = (share / share.sum())[:, None]
        center = (share * mean).sum(0)
        away = mean - center
        spread = covariance + away.unsqueeze(-1) * away.unsqueeze(-2)
        pooled = GaussianParameters(center, (share.unsqueeze(-1) * spread).sum(0))
        components = self.model.components
        return components.gaussian(components.from_gaussian(pooled))

    @torch.no_grad()
    def merge(self, first: int, second: int) -> int:
        """Merge two components and their outputs into the larger one; returns the other."""
        weights = self._weights().clone()
        if weights[second] > weights[first]:
            first, second = second, first
        center, spread = self._pooled(first, second)
        mean, covariance = (part.clone() for part in self._gaussians())
        mean[first], covariance[first] = center, spread
        pooled = self.model.components.from_gaussian(GaussianParameters(mean, covariance))
        self.points["components"].set_value(pooled)
        weights[first] += weights[second] - _MIN_WEIGHT
        weights[second] = _MIN_WEIGHT
        self._set_weights(weights)
        self.outputs.merge(first, second)
        return second

    @torch.no_grad()
    def empty(self, cluster: int) -> None:
        """Take the weight and outputs of q(z | o) away from a cluster; its Gaussian stays."""
        weights = self._weights().clone()
        weights[cluster] = _MIN_WEIGHT
        self._set_weights(weights / weights.sum())
        self.outputs.empty(cluster)
