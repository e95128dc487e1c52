"""The amortized guide of SCDC; Luo et al. 2018, section 2.3.

Global sites are points (maximum likelihood, or maximum a posteriori under the model's priors).
``q(z, x | o) = q(z | o) q(x | z, o)`` comes from networks; z is enumerated in the guide, so that
Pyro's ``TraceEnum_ELBO`` sums it out exactly. Whether the ends of a pair agree is a site of its
own, with value ``<q(z_i | o_i), q(z_j | o_j)>``: the term ``L_rel`` is linear in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyro
import torch
from pyro import poutine
from torch import Tensor, nn

from pyro_crowdclust.annotators import RateSummary, summarize_point
from pyro_crowdclust.batches import Batch
from pyro_crowdclust.distributions import Assignment, GaussianAtMean, SameCluster
from pyro_crowdclust.families import GaussianParameters, softmax_without_denormals
from pyro_crowdclust.initialization import MixtureStart
from pyro_crowdclust.messages import LocalPosterior
from pyro_crowdclust.mixture import MixtureSummary
from pyro_crowdclust.networks import AmortizedRecognition
from pyro_crowdclust.points import PointEstimate
from pyro_crowdclust.recognition import RecognitionTerm

if TYPE_CHECKING:
    from pyro_crowdclust.models import SemiCrowdsourcedMixture


class AmortizedGuide(nn.Module):
    """Points for the globals, networks for the locals, for a ``SemiCrowdsourcedMixture``.

    Parameters
    ----------
    model
        The model whose posterior this is; its emission must have latents.
    recognition
        The networks q(z | o) and q(x | z, o).
    maximum_a_posteriori
        Keep the priors of components and workers in the objective. The weights stay at maximum
        likelihood: their sparse prior has no mode.
    initial_rate
        Sensitivity and specificity of every worker before training.
    recognition_term
        Extra weight of the answers on q(z | o), beyond the one that they have in the bound; see
        ``RecognitionTerm``.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.emissions import NormalEmission
    >>> from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
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
        initial_rate: float = 0.8,
        recognition_term: RecognitionTerm | None = None,
    ) -> None:
        super().__init__()
        if model.emission.observes_latent:
            raise ValueError(
                "the model's features are its latents, so there is nothing to amortize: use "
                "MessagePassingGuide(model)"
            )
        self.model = model
        self.recognition = recognition
        self.recognition_term = recognition_term
        self.auxiliary_loss: Tensor | None = None
        self.points = nn.ModuleDict(
            {
                name: PointEstimate(prior, maximum_a_posteriori and name != "weights")
                for name, prior in model.priors().items()
            }
        )
        for name in self._rate_names():
            point = self.points[name]
            point.set_value(torch.full_like(point.value(), initial_rate))

    def _rate_names(self) -> list[str]:
        return [] if self.model.annotators is None else list(self.model.annotators.priors())

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does."""
        pyro.sample("weights", self.points["weights"].distribution())
        with pyro.plate("components_plate", self.model.num_clusters, dim=-1):
            pyro.sample("components", self.points["components"].distribution())
        rates = {}
        if self.model.annotators is not None:
            with pyro.plate("workers", self.model.annotators.num_workers, dim=-1):
                for name in self._rate_names():
                    rates[name] = pyro.sample(name, self.points[name].distribution())

        logits, trunk = self.recognition.assignment_logits(batch.features)
        log_probabilities = logits.double().log_softmax(-1)
        with (
            pyro.plate("items", len(batch.items), dim=-1),
            poutine.scale(scale=batch.item_weight),
        ):
            z = pyro.sample("z", Assignment(log_probabilities), infer={"enumerate": "parallel"})
            latent = self.recognition.latent(batch.features, trunk, z)
            pyro.sample("x", GaussianAtMean(latent))
        self.auxiliary_loss = None
        if batch.num_pairs:
            probabilities = softmax_without_denormals(log_probabilities)
            with (
                pyro.plate("pairs", batch.num_pairs, dim=-1),
                poutine.scale(scale=batch.pair_weight),
            ):
                ends = batch.left, batch.right, batch.num_paired
                pyro.sample("same", SameCluster(probabilities, *ends))
            if self.recognition_term is not None:
                self.auxiliary_loss = self.recognition_term.loss(
                    probabilities, self.model.annotators, rates, batch
                )

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z | o) and the moments of x at the most probable z; answers do not change them."""
        logits, trunk = self.recognition.assignment_logits(batch.features)
        best = nn.functional.one_hot(logits.argmax(-1), self.model.num_clusters)
        latent = self.recognition.latent(batch.features, trunk, best)
        return LocalPosterior(logits.double(), latent)

    @torch.no_grad()
    def start_at(self, start: MixtureStart) -> None:
        """Move the points of the mixture to the posterior means given a partition."""
        for name, counts in start.statistics(self.model).items():
            prior = self.model.priors()[name]
            posterior = prior.family.standard(prior.natural_parameters + counts)
            if name == "weights":
                self.points[name].set_value(posterior.concentration / posterior.concentration.sum())
            else:
                dim = posterior.location.shape[-1]
                divisor = (posterior.degrees + dim + 1)[:, None, None]
                covariance = posterior.scale / divisor
                self.points[name].set_value(GaussianParameters(posterior.location, covariance))

    def set_epoch(self, epoch: float) -> None:
        """Tell the guide how far training is, for what it anneals."""
        if self.recognition_term is not None:
            self.recognition_term.epoch = epoch

    @torch.no_grad()
    def worker_rates(self, interval: float = 0.9) -> dict[str, RateSummary]:
        """Point estimates of every worker's sensitivity and specificity."""
        return {name: summarize_point(self.points[name].value()) for name in self._rate_names()}

    @torch.no_grad()
    def mixture(self) -> MixtureSummary:
        """Points of weights, locations and covariances."""
        mean, covariance = self.points["components"].value()
        return MixtureSummary(self.points["weights"].value(), mean, covariance)
