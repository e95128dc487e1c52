"""The Dirichlet process deep latent Gaussian mixture of Echraibi et al. 2020.

    beta_k ~ Beta(1, eta), pi = sticks of beta          (m_k, Sigma_k) ~ conjugate prior
    z_n ~ Cat(pi)                                       h_n^(L) | z=k ~ N(m_k, Sigma_k)
    h_n^(l) | h_n^(l+1), z=k ~ N(f_k^(l)(h_n^(l+1)), diag (s_k^(l))^2),    l = L-1 .. 1
    o_n | h_n^(1), z=k ~ emission(f_k^(0)(h_n^(1)))

Every cluster has its own top layer, and networks that know the cluster. Weights, components,
emission and networks are objects; with sticks it is the model of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust import diagnostics
from pyro_crowdclust.annotators import TwoCoin, check_workers, sample_answers
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    ConjugatePrior,
    FullPlate,
    OfItems,
    RowComponent,
    RowNormal,
    Rows,
    sample_sites,
)
from pyro_crowdclust.emissions import BernoulliEmission, NormalEmission
from pyro_crowdclust.families import IndependentMoments
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    GaussianComponents,
    Weights,
    check_num_clusters,
    describe_mixture,
    mixture_priors,
)
from pyro_crowdclust.supervision import Supervision

# Features are read in parts of so many rows, so that a memory map is never loaded whole.
_CHECKED_ROWS = 4096


@described
class DeepLatentMixture(nn.Module):
    """A Pyro model of a batch, built from parts.

    Latents are sites ``h1`` to ``hL``, of which ``hL`` is the top. An item has them once for every
    cluster that z gives weight to (``Rows``): once in a simulation, where z is one-hot.

    Parameters
    ----------
    weights
        Prior of the cluster weights: ``StickBreakingWeights`` in the paper.
    components
        Prior of the top layer's Gaussians: ``DiagonalGaussianComponents`` in the paper, or
        ``GaussianComponents``.
    emission
        p(o | h1, z): ``BernoulliEmission`` or ``NormalEmission`` of a ``CodedMLP`` (one network
        that is told the cluster) or a ``ClusterMLP`` (a network for every cluster).
    layers
        p(h_l | h_{l+1}, z) for l = L-1 .. 1: a ``NormalEmission`` of such a network each. None
        for L = 1.
    annotators
        Model of the workers; None if there are no answers.
    supervision
        What known labels say: ``KnownClusters`` in the paper; None if there are none.

    Raises
    ------
    ValueError
        If weights and components disagree about the number of clusters.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.minibatches import features_batch
    >>> from pyro_crowdclust.networks import CodedMLP
    >>> from pyro_crowdclust.mixture import StickBreakingWeights
    >>> model = DeepLatentMixture(
    ...     StickBreakingWeights(3),
    ...     DiagonalGaussianComponents(3, 2, degrees=4.0),
    ...     BernoulliEmission(CodedMLP((2, 8, 6), 3)),
    ... )
    >>> model(features_batch(torch.zeros(5, 6))).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        weights: Weights,
        components: GaussianComponents | DiagonalGaussianComponents,
        emission: BernoulliEmission | NormalEmission,
        layers: Sequence[NormalEmission] = (),
        annotators: TwoCoin | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        super().__init__()
        self.supervision = Supervision() if supervision is None else supervision
        check_num_clusters(weights, components, self.supervision)
        self.weights = weights
        self.components = components
        self.emission = emission
        self.layers = nn.ModuleList(layers)
        self.annotators = annotators

    @property
    def num_clusters(self) -> int:
        """Truncation T of the process."""
        return self.weights.num_clusters

    def latent_names(self) -> list[str]:
        """Sites of the latents, the top layer first: hL .. h1."""
        return [f"h{number}" for number in range(len(self.layers) + 1, 0, -1)]

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        return mixture_priors(self)

    def describe(
        self, draws: dict[str, diagnostics.SiteDraws]
    ) -> dict[str, dict[str, diagnostics.NamedDraws]]:
        """Draws of weights and components under the names that diagnostics give them."""
        return describe_mixture(self, draws)

    def drawn_features(self, values: Mapping[str, Tensor]) -> Float[Tensor, "item feature"]:
        """Features among the values of a simulation's sites."""
        return values["o"]

    @torch.no_grad()
    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_workers(self.annotators, data)
        self.supervision.check(data)
        if data.features is None:
            raise ValueError("the data have no features, which this model is of: pass features")
        network = self.emission.network
        made, given = network.num_outputs, math.prod(data.features.shape[1:])
        if made != given:
            raise ValueError(
                f"the emission makes {made} features, but every item has {given}: change the "
                "output size of its network"
            )
        for row, features in data.parts(_CHECKED_ROWS):
            self.emission.check(features, first_row=row)

    def generate(
        self, theta: Tensor, rows: Rows, dtype: torch.dtype, sample: Callable[[str, Any], Tensor]
    ) -> None:
        """Go through latents and features of some rows, from the top down.

        ``sample(name, distribution)`` is told the distribution of rows of each and returns its
        value: a run of the model's sites, or of a guide that only wants their log-densities.
        """
        family = self.components.latent_family
        statistics = self.components.latent_statistics(theta)
        top, *others = self.latent_names()
        value = sample(top, RowComponent(family, statistics, rows))
        for name, layer in zip(others, self.layers, strict=True):
            draw = rows.draw(IndependentMoments.of(value)).to(dtype)
            value = sample(name, RowNormal.of(layer(draw, rows)))
        sample("o", self.emission(rows.draw(IndependentMoments.of(value)).to(dtype), rows))

    @torch.no_grad()
    def features_of(
        self, top: Float[Tensor, "*batch dim"], clusters: Int[Tensor, "*cluster"]
    ) -> dist.TorchDistribution:
        """p(o | hL, z) of flattened rows, with draws of the layers in between.

        Parameters
        ----------
        top
            hL of every row.
        clusters
            z, in a shape that broadcasts with that of the rows.
        """
        flat = clusters.to(top.device).expand(top.shape[:-1]).flatten()
        rows = Rows.of(nn.functional.one_hot(flat, self.num_clusters).to(top.dtype))
        latent = top.flatten(0, -2)
        for layer in self.layers:
            latent = layer(latent, rows).sample()
        return self.emission(latent, rows)

    def forward(self, batch: Batch) -> Float[Tensor, "item cluster"]:
        """Run the model on a batch; returns the assignments z."""
        mixture = {"weights": self.weights.prior, "components": self.components.prior}
        labels = sample_sites(mixture | self.supervision.priors())
        weights, theta = labels.pop("weights"), labels.pop("components")

        with FullPlate("items", batch.items.shape[0], self.supervision.item_weight(batch)):
            log_weights = self.weights.log_weights(weights)
            z = pyro.sample("z", self.supervision.assignment(log_weights, batch))
            rows = Rows.of(z)

            def sample(name: str, distribution: Any) -> Tensor:
                observed = batch.features if name == "o" else None
                site = OfItems(distribution, rows, shared=name == "o")
                return pyro.sample(name, site, obs=observed)

            self.generate(theta, rows, next(self.emission.parameters()).dtype, sample)
            self.supervision.item_sites(z, labels, batch)
        self.supervision.joint_sites(z, batch)
        if self.annotators is not None:
            sample_answers(self.annotators, z, batch)
        return z


__all__ = ["DeepLatentMixture"]
