"""The semi-crowdsourced mixture of Luo et al. 2018: a deep mixture with answers about pairs.

    pi ~ Dir(alpha_0)                               (mu_k, Sigma_k) ~ NIW(m, kappa, S, nu)
    z_i ~ Cat(pi)                                   x_i | z_i = k ~ N(mu_k, Sigma_k)
    o_i | x_i ~ emission(x_i)                       alpha_m, beta_m ~ Beta
    L_ij^m | z_i = z_j ~ Bern(alpha_m)              L_ij^m | z_i != z_j ~ Bern(1 - beta_m)

(eq. 1, 5, 6, 7.) The values of global sites are their sufficient statistics, so that the function
below serves simulation as well as SCDC (point estimates, z enumerated) and BayesSCDC (conjugate
posteriors).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyro
import pyro.distributions as dist
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import check_annotators, sample_answers
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import ConjugatePrior, FullPlate, NamedDraws, SiteDraws
from pyro_crowdclust.emissions import Emission, as_emission, has_gaps
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import (
    Components,
    Ownership,
    Weights,
    check_features,
    check_parts,
    describe_mixture,
    emitted,
    in_feature_units,
    mixture_priors,
    observed_latent,
    sample_mixture,
    sample_summed_out,
    takes_gaps,
)
from pyro_crowdclust.protocols import PairAnnotators
from pyro_crowdclust.supervision import Supervision, Unsupervised


@described
class SemiCrowdsourcedMixture(nn.Module):
    """The semi-crowdsourced mixture of a batch as a Pyro model, built from parts.

    Parameters
    ----------
    weights
        Prior of the cluster weights, e.g. ``DirichletWeights``.
    components
        Prior of the clusters' components, e.g. ``GaussianComponents``. With an ``Identity``
        emission any of ``pyro_crowdclust.mixture`` will do, with others the Gaussian ones.
    emission
        p(o | x): an ``Emission``, or any callable from latents to a Pyro distribution.
    annotators
        Model of the workers; None if there are no answers.
    supervision
        The model of known labels and links, e.g. ``ClassTable`` or ``HiddenMarkovField``; with
        None, data that have known labels or links are refused.
    sum_out_assignments
        With an ``Identity`` emission: the precision, such as ``torch.float64``, in which batches
        without answers are computed with z summed out, several times faster than with a site for
        every z and to the same bound. Single precision is twice as fast again, and good enough for
        standardized features. None: z is a site, for guides that have one.
    ownership
        An ``Ownership``, under which a cluster consists of several components; its number of
        components is that of the model. z is then the component of an item, and the answers are
        evidence about which components are one cluster. None: every component is a cluster.
    feature_weight
        tau in (0, 1]: observed features enter by ``p(x | z)^tau``, a power likelihood (Miller and
        Dunson 2019) that is still linear in ``t(theta)``; the ELBO is then a bound of the evidence
        under it. With tau < 1 features count less, since they rarely follow the components
        exactly. ELBOs of different tau cannot be compared.
    prior_weight
        The power of ``pi_z``, in (0, 1]. If it equals tau, an item with features only keeps its
        most probable cluster, ``q(z) propto (pi_z p(x | z))^tau``, but with less certainty.

    Raises
    ------
    ValueError
        If weights and components disagree about the number of clusters, if components of discrete
        features are used for latents, if z is to be summed out where that is not possible, if
        ``feature_weight`` or ``prior_weight`` is outside (0, 1], or if ``feature_weight`` is not 1
        where the features are emitted by a network.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.minibatches import full_batch
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.mixture import (
    ...     DirichletWeights,
    ...     GaussianComponents,
    ... )
    >>> model = SemiCrowdsourcedMixture(DirichletWeights(3), GaussianComponents(3, 2), Identity())
    >>> model(full_batch(CrowdData(torch.zeros(5, 2)))).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        weights: Weights,
        components: Components,
        emission: Emission | nn.Module,
        annotators: PairAnnotators | None = None,
        supervision: Supervision | None = None,
        sum_out_assignments: torch.dtype | None = None,
        ownership: Ownership | None = None,
        feature_weight: float = 1.0,
        prior_weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.weights = weights
        self.components = components
        self.emission = as_emission(emission)
        self.annotators = annotators
        self.supervision = Unsupervised() if supervision is None else supervision
        self.ownership = ownership
        if ownership is not None and ownership.num_components != weights.num_clusters:
            raise ValueError(
                f"the ownership has {ownership.num_components} components, but the weights have "
                f"{weights.num_clusters}: give both the same number"
            )
        if ownership is not None and self.supervision.names_clusters:
            raise ValueError(
                f"{type(self.supervision).__name__} gives every label a cluster that is a single "
                "component, which an ownership contradicts: leave out ownership, or use ClassTable"
            )
        may_be_less = self.emission.observes_latent
        if not 0 < feature_weight <= 1 or (feature_weight < 1 and not may_be_less):
            raise ValueError(
                f"feature_weight is {feature_weight}, but must be in (0, 1], and 1 if the emission "
                "is a network"
            )
        if not 0 < prior_weight <= 1:
            raise ValueError(f"prior_weight is {prior_weight}, but must be in (0, 1]")
        self.feature_weight = feature_weight
        self.prior_weight = prior_weight
        self.sum_out_assignments = sum_out_assignments
        sums_out = sum_out_assignments is not None
        parts = weights, components, self.supervision, self.emission
        check_parts(*parts, sums_out, annotators)

    @property
    def num_clusters(self) -> int:
        """K, the number of clusters, or of components if there is an ownership."""
        return self.weights.num_clusters

    @property
    def takes_gaps(self) -> bool:
        """Whether missing features are integrated out, or filled in by the emission."""
        return takes_gaps(self.components, self.emission)

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        return mixture_priors(self) | self._ownership_priors()

    def _ownership_priors(self) -> dict[str, ConjugatePrior]:
        return {} if self.ownership is None else self.ownership.priors()

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Draws of the mixture's sites under the names that diagnostics give them."""
        draws = in_feature_units(self.components, self.emission, draws)
        dim = "cluster" if self.ownership is None else "component"
        return describe_mixture(self.weights, draws, dim)

    def drawn_features(self, values: Mapping[str, Tensor]) -> Float[Tensor, "item ..."]:
        """Features among the values of a simulation's sites."""
        if self.emission.observes_latent:
            return self.emission.features(self.components.features(values["x"]))
        return values["o"]

    def features_of(
        self, latent: Float[Tensor, "*batch dim"], clusters: Int[Tensor, "*cluster"]
    ) -> dist.TorchDistribution:
        """p(o | x) of flattened rows, the same for all clusters."""
        return self.emission(latent.flatten(0, -2))

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_annotators(self.annotators, data)
        self.supervision.check(data)
        check_features(self.components, self.emission, data)

    def sums_out(self, batch: Batch) -> bool:
        """Whether z has no site in this batch; see ``sum_out_assignments``."""
        is_free = batch.features is not None and not batch.num_paired
        is_linear = self.components.is_linear and not has_gaps(self.emission, batch)
        return self.sum_out_assignments is not None and is_free and is_linear

    def forward(self, batch: Batch) -> Float[Tensor, "*value item cluster"] | None:
        """Run the model on a batch; returns the assignments z, or None if they are summed out."""
        log_weights, theta, others = sample_mixture(self)
        # A simulation draws from the untempered components.
        weight = 1.0
        if batch.features is not None:
            weight, log_weights = self.feature_weight, self.prior_weight * log_weights
        with FullPlate("items", batch.items.shape[0], self.supervision.item_weight(batch)):
            if self.sums_out(batch):
                sample_summed_out(self, log_weights, theta, others, batch, weight)
                return None
            z = pyro.sample("z", self.supervision.assignment(log_weights, others, batch))
            if self.emission.observes_latent:
                observed = observed_latent(self.components, self.emission, batch)
                # Features that a simulation draws have no gaps.
                partly = observed is not None and has_gaps(self.emission, batch)
                given = self.components.given(theta, z, partly, weight)
                pyro.sample("x", given, obs=observed)
            else:
                x = pyro.sample("x", self.components.latent(theta, z))
                pyro.sample("o", emitted(self.emission, x, z, batch), obs=batch.features)
            self.supervision.item_sites(z, others, batch)
        self.supervision.joint_sites(z, others, batch)
        sample_answers(self.annotators, z, batch, others.get("owners"))
        return z
