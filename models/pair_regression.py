"""Clusters regressed on features, learned from answers about pairs, or from sorted pages.

    phi_k ~ N(0, Sigma)                             z_i | x_i ~ softmax(phi x_i)
    L_ij^m | z_i = z_j ~ Bern(alpha_m)              L_ij^m | z_i != z_j ~ Bern(1 - beta_m)

The discriminative counterpart of ``SemiCrowdsourcedMixture``, as LogResp is that of MomResp (Felt
et al. 2015): the distribution of the features of a cluster is not modelled, so that clusters need
not be Gaussian, and nothing is learned from items without answers. Known labels and links are used
in addition to the answers, as in the mixture.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyro
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pyro_crowdclust.annotators import check_annotators, sample_answers
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    ConjugatePrior,
    FullPlate,
    NamedDraws,
    SiteDraws,
    sample_sites,
)
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import SoftmaxRegression, coordinates_of, describe_regression
from pyro_crowdclust.protocols import PairAnnotators
from pyro_crowdclust.supervision import Supervision, Unsupervised


@described
class PairRegression(nn.Module):
    """A regression of clusters for a batch with features and answers, as a Pyro model.

    The answers are about pairs, or on sorted pages.

    Parameters
    ----------
    regression
        ``p(z | x)``: a ``SoftmaxRegression``.
    annotators
        Model of the workers, e.g. ``TwoCoin`` or ``SortedPages``; None for known labels alone.
    emission
        The coordinates x of the features, e.g. ``Standardized``; by default the features.
    supervision
        The model of known labels and links, e.g. a ``ClassTable`` or ``CertainLinks``.

    Raises
    ------
    ValueError
        If the supervision has another number of clusters, or needs components.

    Examples
    --------
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> from pyro_crowdclust.minibatches import full_batch
    >>> model = PairRegression(SoftmaxRegression(3, 2), TwoCoin(1))
    >>> model(full_batch(CrowdData(torch.zeros(5, 2)))).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        regression: SoftmaxRegression,
        annotators: PairAnnotators | None,
        emission: Identity | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        super().__init__()
        self.regression = regression
        self.annotators = annotators
        self.emission = Identity() if emission is None else emission
        self.supervision = Unsupervised() if supervision is None else supervision
        if self.supervision.num_clusters not in (None, self.num_clusters):
            raise ValueError(
                f"the regression has {self.num_clusters} clusters, but the supervision has "
                f"{self.supervision.num_clusters}: give both the same number"
            )
        if self.supervision.is_between_components:
            raise ValueError(
                f"{type(self.supervision).__name__} needs components, and a regression has none: "
                "use CertainLinks"
            )

    @property
    def num_clusters(self) -> int:
        """K, the number of clusters."""
        return self.regression.num_classes

    @property
    def takes_gaps(self) -> bool:
        """Whether the emission gives complete coordinates where features are missing."""
        return self.emission.fills_gaps

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        of_workers = {} if self.annotators is None else self.annotators.priors()
        others = self.supervision.priors()
        return {"coefficients": self.regression.prior, **of_workers, **others}

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Draws of the coefficients under the names that diagnostics give them."""
        return describe_regression(draws, "cluster", "coordinate")

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_annotators(self.annotators, data)
        self.supervision.check(data)
        if data.features is None:
            raise ValueError("the data have no features to regress clusters on: pass features")
        row = data.rows(torch.zeros(1, dtype=torch.int64))
        found = self.emission.latent(row).shape[1]
        if found != self.regression.num_features:
            raise ValueError(
                f"the regression takes {self.regression.num_features} numbers per item, but every "
                f"item has {found}: build it with SoftmaxRegression(num_clusters, {found})"
            )

    def coordinates(self, batch: Batch) -> Float[Tensor, "item coordinate"]:
        """The coordinates x of all items of the batch."""
        return coordinates_of(self.emission, batch)

    def has_evidence(self, batch: Batch) -> Bool[Tensor, " item"]:
        """Which items have more than features: answers, pages, known labels or links."""
        found = torch.arange(len(batch.items), device=batch.items.device) < batch.num_paired
        if batch.known is not None:
            found = found | (batch.known >= 0)
        return found if batch.neighbors is None else found | batch.neighbors.linked

    def log_classes(
        self, statistics: Float[Tensor, "cluster size"], batch: Batch
    ) -> Float[Tensor, "item cluster"]:
        """A lower bound of ``E[log p(z_i = k | x_i)]``; without evidence the prediction itself.

        An item without evidence is a leaf of the model: where model and guide have the same
        distribution of z_i, it adds nothing to the bound.
        """
        x, rows = self.coordinates(batch), self.has_evidence(batch).nonzero().squeeze(1)
        alone = self.regression.log_prediction(statistics.detach(), x)
        return alone.index_copy(0, rows, self.regression.log_classes(statistics, x[rows]))

    def forward(self, batch: Batch) -> Float[Tensor, "item cluster"]:
        """Run the model on a batch; returns the clusters z."""
        statistics = self.regression.sample()["coefficients"]
        others = sample_sites(self.supervision.priors())
        log_classes = self.log_classes(statistics, batch)
        with FullPlate("items", batch.items.shape[0], self.supervision.item_weight(batch)):
            z = pyro.sample("z", self.supervision.assignment(log_classes, others, batch))
            self.supervision.item_sites(z, others, batch)
        self.supervision.joint_sites(z, others, batch)
        sample_answers(self.annotators, z, batch)
        return z
