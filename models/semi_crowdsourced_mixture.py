"""The semi-crowdsourced mixture of Luo et al. 2018: a deep mixture and what workers say of pairs.

    pi ~ Dir(alpha_0)                               (mu_k, Sigma_k) ~ NIW(m, kappa, S, nu)
    z_i ~ Cat(pi)                                   x_i | z_i = k ~ N(mu_k, Sigma_k)
    o_i | x_i ~ emission(x_i)                       alpha_m, beta_m ~ Beta
    L_ij^m | z_i = z_j ~ Bern(alpha_m)              L_ij^m | z_i != z_j ~ Bern(1 - beta_m)

(eq. 1, 5, 6, 7.) Global sites carry their sufficient statistics, so the one function below serves
simulation, SCDC (points, z enumerated) and BayesSCDC (conjugate posteriors) alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pyro
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust import diagnostics
from pyro_crowdclust.annotators import TwoCoin, check_workers, sample_answers
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    ComponentObservation,
    ConjugatePrior,
    FullPlate,
    OfItems,
    Rows,
    sample_sites,
)
from pyro_crowdclust.emissions import Emission, as_emission
from pyro_crowdclust.families import ExponentialFamily, Moments
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import (
    Components,
    Design,
    MixtureObservation,
    Weights,
    check_num_clusters,
    describe_mixture,
    mixture_priors,
)
from pyro_crowdclust.supervision import Supervision

# Features are read in parts of so many rows, so that a memory map is never loaded whole.
_CHECKED_ROWS = 4096


@described
class SemiCrowdsourcedMixture(nn.Module):
    """A Pyro model of a batch, built from parts.

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
        What known labels and links say, e.g. ``ClassTable`` or ``HiddenMarkovField``; None if
        there are none.
    sum_out_assignments
        With an ``Identity`` emission: the precision, such as ``torch.float64``, in which batches
        without answers are computed with z summed out, several times faster than with a site for
        every z and to the same bound. Single precision is twice as fast again, and good enough for
        standardized features. None: z is a site, for guides that have one.

    Raises
    ------
    ValueError
        If weights and components disagree about the number of clusters, if components of discrete
        features are to be on latents, or if z is to be summed out where that is not possible.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.minibatches import features_batch
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.mixture import (
    ...     DirichletWeights,
    ...     GaussianComponents,
    ... )
    >>> model = SemiCrowdsourcedMixture(DirichletWeights(3), GaussianComponents(3, 2), Identity())
    >>> model(features_batch(torch.zeros(5, 2))).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        weights: Weights,
        components: Components,
        emission: Emission | nn.Module,
        annotators: TwoCoin | None = None,
        supervision: Supervision | None = None,
        sum_out_assignments: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.supervision = Supervision() if supervision is None else supervision
        check_num_clusters(weights, components, self.supervision)
        self.weights = weights
        self.components = components
        self.emission = as_emission(emission)
        self.annotators = annotators
        if not self.emission.observes_latent and components.latent_family is None:
            raise ValueError(
                f"{type(components).__name__} are on the features themselves, but with this "
                "emission the components are on latents, which must be continuous, since the "
                "emission's network learns from reparameterized draws of them: use "
                "GaussianComponents or DiagonalGaussianComponents, or the emission Identity()"
            )
        self.sum_out_assignments = sum_out_assignments
        is_free = self.emission.observes_latent and not self.supervision.couples_items
        if sum_out_assignments is not None and not is_free:
            raise ValueError(
                "assignments can be summed out only of mixtures on observed features whose "
                "supervision does not couple items: use the emission Identity() and e.g. "
                "ClassTable, or leave out sum_out_assignments"
            )

    @property
    def num_clusters(self) -> int:
        """K."""
        return self.weights.num_clusters

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        return mixture_priors(self)

    def describe(
        self, draws: dict[str, diagnostics.SiteDraws]
    ) -> dict[str, dict[str, diagnostics.NamedDraws]]:
        """Draws of the mixture's sites under the names that diagnostics give them."""
        labels = {
            name: diagnostics.by_site(name, draws[name], ("known_class",))
            for name in self.supervision.priors()
        }
        return describe_mixture(self, draws) | labels

    def drawn_features(self, values: Mapping[str, Tensor]) -> Float[Tensor, "item ..."]:
        """Features among the values of a simulation's sites."""
        if self.emission.observes_latent:
            return self.emission.features(self.components.features(values["x"]))
        return values["o"]

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_workers(self.annotators, data)
        self.supervision.check(data)
        self._check_features(data)

    @torch.no_grad()
    def _check_features(self, data: CrowdData) -> None:
        if data.features is None:
            raise ValueError("the data have no features, which this model is of: pass features")
        shape, size = tuple(data.features.shape[1:]), self.components.num_features
        if not shape:
            raise ValueError("features have no second axis: pass a column, features[:, None]")
        given = math.prod(shape)
        if self.emission.observes_latent and given != size:
            raise ValueError(
                f"the components have dimension {size}, but every item has {given} features, which "
                f"they are on: build {type(self.components).__name__} for {given} features"
            )
        parameter = next(self.emission.parameters(), None)
        if parameter is not None:
            self._check_emitted_shape(torch.zeros(2, size).to(parameter), shape)
        for row, features in data.parts(_CHECKED_ROWS):
            self.emission.check(features, first_row=row)
            if self.emission.observes_latent:
                self.components.check(self.emission.latent(features), first_row=row)

    def _check_emitted_shape(self, latent: Tensor, shape: tuple[int, ...]) -> None:
        try:
            emitted = tuple(self.emission(latent).event_shape)
        except RuntimeError as error:
            raise ValueError(
                f"the emission does not take latents of dimension {latent.shape[1]}, which the "
                f"components have: {error}"
            ) from error
        if emitted != shape:
            raise ValueError(
                f"the emission makes features of shape {list(emitted)}, but those of the data "
                f"have shape {list(shape)}: change its output size or event_shape (of your own "
                "distribution: to_event)"
            )

    def sums_out(self, batch: Batch) -> bool:
        """Whether z has no site in this batch; see ``sum_out_assignments``."""
        is_free = batch.features is not None and not batch.num_pairs
        return self.sum_out_assignments is not None and is_free

    def _summed_out(
        self, weights: Tensor, theta: Tensor, labels: dict[str, Tensor], batch: Batch
    ) -> None:
        log_weights = self.weights.log_weights(weights)
        offsets = self.supervision.grouped_log_weights(log_weights, labels)
        groups, precision = self.supervision.groups(batch), self.sum_out_assignments
        if groups is None:
            offsets = offsets[:1]

        def design_of_batch() -> Design:
            features = self.emission.latent(batch.features)
            return Design.of(self.components, features, precision, groups, len(offsets))

        # The batch keeps its design, which the full data are prepared for once.
        design = batch.once((self.components.family, precision), design_of_batch)
        with FullPlate("items", batch.items.shape[0], self.supervision.item_weight(batch)):
            observation = MixtureObservation(self.components, theta, offsets, design)
            pyro.sample("x", observation, obs=design.rows)

    def forward(self, batch: Batch) -> Float[Tensor, "item cluster"] | None:
        """Run the model on a batch; returns the assignments z, or None if they are summed out."""
        mixture = {"weights": self.weights.prior, "components": self.components.prior}
        labels = sample_sites(mixture | self.supervision.priors())
        weights, theta = labels.pop("weights"), labels.pop("components")
        if self.sums_out(batch):
            self._summed_out(weights, theta, labels, batch)
            return None

        with FullPlate("items", batch.items.shape[0], self.supervision.item_weight(batch)):
            log_weights = self.weights.log_weights(weights)
            z = pyro.sample("z", self.supervision.assignment(log_weights, batch))
            self._features(theta, z, batch)
            self.supervision.item_sites(z, labels, batch)
        self.supervision.joint_sites(z, batch)

        if self.annotators is not None:
            sample_answers(self.annotators, z, batch)
        return z

    def _features(self, theta: Tensor, z: Tensor, batch: Batch) -> None:
        if self.emission.observes_latent:
            observed = None
            if batch.features is not None:
                observed = self.components.observe(self.emission.latent(batch.features))
            pyro.sample("x", self._component(self.components.family, theta, z), obs=observed)
            return
        statistics = self.components.latent_statistics(theta)
        x = pyro.sample("x", self._component(self.components.latent_family, statistics, z))
        rows, moments = Rows.of_value(z, x), Moments.of(x)
        if rows is None:
            draw = moments.draw(batch.noise(moments.mean))
        else:
            draw = rows.draw(moments, batch.noise)
        # A simulation has no features, but networks of their precision.
        like = next(self.emission.parameters(), batch.features)
        if like is not None:
            draw = draw.to(like.dtype)
        features = self.emission(draw)
        if rows is not None:
            features = OfItems(features, rows, shared=True)
        pyro.sample("o", features, obs=batch.features)

    @staticmethod
    def _component(family: ExponentialFamily, theta: Tensor, z: Tensor) -> ComponentObservation:
        return ComponentObservation(family, theta, z, family.observation_size)


__all__ = ["SemiCrowdsourcedMixture"]
