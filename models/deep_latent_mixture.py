"""The Dirichlet process deep latent Gaussian mixture of Echraibi et al. 2020.

    beta_k ~ Beta(1, eta), pi = sticks of beta          (m_k, Sigma_k) ~ conjugate prior
    z_n ~ Cat(pi)                                       h_n^(L) | z=k ~ N(m_k, Sigma_k)
    h_n^(l) | h_n^(l+1), z=k ~ N(f_k^(l)(h_n^(l+1)), diag (s_k^(l))^2),    l = L-1 .. 1
    o_n | h_n^(1), z=k ~ emission(f_k^(0)(h_n^(1)))

Every cluster has its own top layer, and the networks below it depend on the cluster. Weights,
components, emission and networks are objects that can be replaced; with stick-breaking weights it
is the model of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import check_annotators, sample_answers
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    ConjugatePrior,
    FullPlate,
    NamedDraws,
    RowComponent,
    RowNormal,
    Rows,
    RowSites,
    SiteDraws,
    emitted_rows,
)
from pyro_crowdclust.emissions import BernoulliEmission, NormalEmission
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    GaussianComponents,
    Weights,
    check_emission_of_clusters,
    check_features_of_clusters,
    check_parts,
    describe_mixture,
    mixture_priors,
    sample_mixture,
)
from pyro_crowdclust.protocols import PairAnnotators
from pyro_crowdclust.supervision import Supervision, Unsupervised


@described
class DeepLatentMixture(nn.Module):
    """The deep latent mixture of a batch as a Pyro model, built from parts.

    The latents are sites ``h1`` to ``hL``, with ``hL`` at the top. An item has them once for every
    cluster to which z gives weight (``Rows``): once in a simulation, where z is one-hot.

    Parameters
    ----------
    weights
        Prior of the cluster weights: ``StickBreakingWeights`` in the paper.
    components
        Prior of the top layer's Gaussians: ``DiagonalGaussianComponents`` in the paper, or
        ``GaussianComponents``.
    emission
        p(o | h1, z): ``BernoulliEmission`` or ``NormalEmission`` of a ``CodedMLP`` (one network
        with the cluster as a further input) or a ``ClusterMLP`` (a network for every cluster). One
        of your own has the latents and their ``Rows``, with the cluster of each, as arguments.
    layers
        p(h_l | h_{l+1}, z) for l = L-1 .. 1: each a ``NormalEmission`` of such a network. Empty
        for L = 1.
    annotators
        Model of the workers; None if there are no answers.
    supervision
        The model of known labels: ``KnownClusters`` in the paper; with None, data that have known
        labels are refused.

    Raises
    ------
    ValueError
        If weights, components and networks disagree about the number of clusters, a network or an
        emission does not take the cluster as an input, or ``layers`` is no sequence.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.minibatches import full_batch
    >>> from pyro_crowdclust.networks import CodedMLP
    >>> from pyro_crowdclust.mixture import StickBreakingWeights
    >>> model = DeepLatentMixture(
    ...     StickBreakingWeights(3),
    ...     DiagonalGaussianComponents(3, 2, degrees=4.0),
    ...     BernoulliEmission(CodedMLP((2, 8, 6), 3)),
    ... )
    >>> model(full_batch(CrowdData(torch.zeros(5, 6)))).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        weights: Weights,
        components: GaussianComponents | DiagonalGaussianComponents,
        emission: BernoulliEmission | NormalEmission,
        layers: Sequence[NormalEmission] = (),
        annotators: PairAnnotators | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(layers, Iterable):
            raise ValueError(
                f"layers is a {type(layers).__name__}, but must be a sequence of emissions, the "
                "fourth argument: pass annotators by name, annotators=..."
            )
        self.supervision = Unsupervised() if supervision is None else supervision
        check_parts(weights, components, self.supervision, emission)
        for part in (emission, *layers):
            check_emission_of_clusters(part, weights.num_clusters)
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

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Draws of weights and components under the names that diagnostics give them."""
        return describe_mixture(self.weights, draws)

    def drawn_features(self, values: Mapping[str, Tensor]) -> Float[Tensor, "item feature"]:
        """Features among the values of a simulation's sites."""
        return values["o"]

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_annotators(self.annotators, data)
        self.supervision.check(data)
        check_features_of_clusters(self.emission, data)

    def generate(self, theta: Tensor, rows: Rows, sample: Callable[[str, Any], Tensor]) -> None:
        """Call ``sample`` for the latents of some rows, from the top down, and their features.

        ``sample(name, distribution)`` takes the distribution of the rows at each site and returns
        their value. It is ``RowSites``, or a function of a guide that only needs log-densities.
        """
        family = self.components.latent_family
        assert family is not None  # both kinds of components have one
        statistics = self.components.latent_statistics(theta)
        top, *others = self.latent_names()
        h = sample(top, RowComponent(family, statistics, rows))
        for name, layer in zip(others, self.layers, strict=True):
            h = sample(name, RowNormal.of(emitted_rows(layer, h, rows)))
        sample("o", emitted_rows(self.emission, h, rows))

    def features_of(
        self, top: Float[Tensor, "*batch dim"], clusters: Int[Tensor, "*cluster"]
    ) -> dist.TorchDistribution:
        """p(o | hL, z) of flattened rows, given draws of the layers in between.

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

    def forward(self, batch: Batch) -> Float[Tensor, "*value item cluster"]:
        """Run the model on a batch; returns the assignments z."""
        log_weights, theta, others = sample_mixture(self)
        with FullPlate("items", batch.items.shape[0], self.supervision.item_weight(batch)):
            z = pyro.sample("z", self.supervision.assignment(log_weights, others, batch))
            rows = Rows.of(z)
            self.generate(theta, rows, RowSites(rows, batch.features))
            self.supervision.item_sites(z, others, batch)
        self.supervision.joint_sites(z, others, batch)
        sample_answers(self.annotators, z, batch)
        return z
