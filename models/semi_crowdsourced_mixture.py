"""The semi-crowdsourced mixture of Luo et al. 2018: a deep mixture and what workers say of pairs.

    pi ~ Dir(alpha_0)                               (mu_k, Sigma_k) ~ NIW(m, kappa, S, nu)
    z_i ~ Cat(pi)                                   x_i | z_i = k ~ N(mu_k, Sigma_k)
    o_i | x_i ~ emission(x_i)                       alpha_m, beta_m ~ Beta
    L_ij^m | z_i = z_j ~ Bern(alpha_m)              L_ij^m | z_i != z_j ~ Bern(1 - beta_m)

(eq. 1, 5, 6, 7.) Global sites carry their sufficient statistics, so the one function below serves
simulation, SCDC (points, z enumerated) and BayesSCDC (conjugate posteriors) alike.
"""

from __future__ import annotations

import pyro
from jaxtyping import Float
from pyro import poutine
from torch import Tensor, nn

from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.batches import Batch
from pyro_crowdclust.distributions import Assignment, ComponentObservation, SameCluster
from pyro_crowdclust.emissions import Emission, as_emission
from pyro_crowdclust.families import Moments
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.priors import ConjugatePrior


class SemiCrowdsourcedMixture(nn.Module):
    """A Pyro model of a batch, built from parts.

    Parameters
    ----------
    weights
        Prior of the cluster weights.
    components
        Prior of the clusters' components.
    emission
        p(o | x): an ``Emission``, or any callable from latents to a Pyro distribution.
    annotators
        Model of the workers; None if there are no answers.

    Raises
    ------
    ValueError
        If weights and components disagree about the number of clusters.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.batches import features_batch
    >>> from pyro_crowdclust.emissions import Identity
    >>> model = SemiCrowdsourcedMixture(DirichletWeights(3), GaussianComponents(3, 2), Identity())
    >>> model(features_batch(torch.zeros(5, 2))).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        weights: DirichletWeights,
        components: GaussianComponents,
        emission: Emission | nn.Module,
        annotators: TwoCoin | None = None,
    ) -> None:
        super().__init__()
        if weights.num_clusters != components.num_clusters:
            raise ValueError(
                f"weights have {weights.num_clusters} clusters, components "
                f"{components.num_clusters}: give both the same number"
            )
        self.weights = weights
        self.components = components
        self.emission = as_emission(emission)
        self.annotators = annotators

    @property
    def num_clusters(self) -> int:
        """K."""
        return self.weights.num_clusters

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        workers = {} if self.annotators is None else self.annotators.priors()
        return {"weights": self.weights.prior, "components": self.components.prior, **workers}

    def forward(self, batch: Batch) -> Float[Tensor, "item cluster"]:
        """Run the model on a batch; returns the assignments z."""
        weights = pyro.sample("weights", self.weights.prior.distribution())
        with pyro.plate("components_plate", self.num_clusters, dim=-1):
            theta = pyro.sample("components", self.components.prior.distribution())

        with (
            pyro.plate("items", len(batch.items), dim=-1),
            poutine.scale(scale=batch.item_weight),
        ):
            z = pyro.sample("z", Assignment(self.weights.log_weights(weights)))
            self._features(theta, z, batch)

        if self.annotators is not None:
            self._answers(z, batch)
        return z

    def _features(self, theta: Tensor, z: Tensor, batch: Batch) -> None:
        family, local = self.components.family, self.components.family.local
        observed = None
        if self.emission.observes_latent and batch.features is not None:
            observed = self.emission.observed_latent(batch.features)
        x = pyro.sample("x", ComponentObservation(family, theta, z, local.size), obs=observed)
        if not self.emission.observes_latent:
            draw = Moments.of(x).draw()
            if batch.features is not None:
                draw = draw.to(batch.features.dtype)
            pyro.sample("o", self.emission(draw), obs=batch.features)

    def _answers(self, z: Tensor, batch: Batch) -> None:
        with pyro.plate("workers", self.annotators.num_workers, dim=-1):
            rates = {
                name: pyro.sample(name, prior.distribution())
                for name, prior in self.annotators.priors().items()
            }
        if not batch.num_pairs:
            return
        with pyro.plate("pairs", batch.num_pairs, dim=-1), poutine.scale(scale=batch.pair_weight):
            ends = batch.left, batch.right, batch.num_paired
            same = pyro.sample("same", SameCluster(z, *ends))
            pyro.sample("label", self.annotators.answer(same, rates, batch.worker), obs=batch.label)


__all__ = ["SemiCrowdsourcedMixture"]
