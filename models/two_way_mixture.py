"""A mixture whose items differ in two ways at once; the answers are about one of them.

    pi ~ Dir(alpha)    rho ~ Dir(gamma)    (W, Sigma) ~ MNIW(0, V, S, nu), W = (b_1..b_K, a_1..a_S)
    z_i ~ Cat(pi)      u_i ~ Cat(rho)      x_i | z_i = k, u_i = s ~ N(b_k + a_s, Sigma)
    L_ij^m | z_i = z_j ~ Bern(alpha_m)     L_ij^m | z_i != z_j ~ Bern(1 - beta_m)

The answer model of Luo et al. 2018, for features whose largest differences are not what the workers
were asked about: photographs, for example, differ by the person more than by the pose. The styles u
take up differences that have nothing to do with the answers, and the cluster effects b_k are shared
by all styles.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import check_annotators, sample_answers
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    Assignment,
    ComponentObservation,
    ConjugatePrior,
    FullPlate,
    sample_sites,
)
from pyro_crowdclust.families import MatrixNormalInverseWishart
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import DirichletWeights
from pyro_crowdclust.protocols import PairAnnotators
from pyro_crowdclust.supervision import refuse_experts

# V = this times the identity: effects have about five times the variance Sigma.
_EFFECT_PRECISION = 0.2


@described
class TwoWayMixture(nn.Module):
    """The two-way mixture of a batch as a Pyro model: features, and answers about some items.

    Parameters
    ----------
    num_clusters
        K, the number of clusters, which the answers are about.
    num_styles
        S, an upper bound of the number of styles: those that are not needed stay nearly empty.
    num_features
        d; the defaults expect features of mean 0 and variance about 1.
    annotators
        Model of the workers.
    concentration
        Prior concentration of the cluster weights; above 1 clusters share the items evenly.
    scale
        Prior guess of Sigma, times the identity.
    degrees
        The number of items that the guess of Sigma counts as, beyond d.

    Raises
    ------
    ValueError
        If there is no cluster or no style.

    Examples
    --------
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.minibatches import full_batch
    >>> import torch
    >>> model = TwoWayMixture(3, 5, 2)
    >>> model(full_batch(CrowdData(torch.zeros(7, 2)))).shape
    torch.Size([7, 15])
    """

    regressors: Tensor

    def __init__(
        self,
        num_clusters: int,
        num_styles: int,
        num_features: int,
        annotators: PairAnnotators | None = None,
        *,
        concentration: float = 5.0,
        scale: float = 0.3,
        degrees: float = 30.0,
    ) -> None:
        super().__init__()
        self.weights = DirichletWeights(num_clusters, concentration)
        self.styles = DirichletWeights(num_styles, 1.0)
        self.annotators = annotators
        self.num_features = num_features
        self.family = MatrixNormalInverseWishart(num_features, num_clusters + num_styles)
        identity = torch.eye(num_features, dtype=torch.float64)
        precision = _EFFECT_PRECISION * torch.eye(num_clusters + num_styles, dtype=torch.float64)
        location = torch.zeros(num_clusters + num_styles, num_features, dtype=torch.float64)
        total = torch.tensor(degrees + num_features, dtype=torch.float64)
        eta = self.family.natural(location, precision, scale * total * identity, total)
        self.effects = ConjugatePrior(self.family, eta)
        # One row per cell (cluster k, style s): the two effects whose sum is its mean.
        cells = torch.cartesian_prod(torch.arange(num_clusters), torch.arange(num_styles))
        cluster, style = (
            nn.functional.one_hot(of, count).double()
            for of, count in zip(cells.unbind(-1), (num_clusters, num_styles), strict=True)
        )
        self.register_buffer("regressors", torch.cat([cluster, style], -1))

    @property
    def num_clusters(self) -> int:
        """K, the number of clusters."""
        return self.weights.num_clusters

    @property
    def num_styles(self) -> int:
        """S, the number of styles."""
        return self.styles.num_clusters

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        workers = {} if self.annotators is None else self.annotators.priors()
        return {**self._item_priors(), **workers}

    def _item_priors(self) -> dict[str, ConjugatePrior]:
        return {
            "weights": self.weights.prior,
            "styles": self.styles.prior,
            "effects": self.effects,
        }

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model; ``fit`` asks first."""
        if data.features is None:
            raise ValueError("the data have no features, but this model needs them: pass features")
        found = tuple(data.features.shape[1:])
        if found != (self.num_features,):
            raise ValueError(
                f"the model takes {self.num_features} features per item, but those of the data "
                f"have the shape {list(found)}: build it with "
                f"num_features={found[-1] if found else 1}"
            )
        refuse_experts(data, "use SemiCrowdsourcedMixture with one")
        check_annotators(self.annotators, data)

    def log_cells(self, weights: Tensor, styles: Tensor) -> Float[Tensor, " cell"]:
        """``log pi_k + log rho_s`` of every cell, clusters first."""
        of_cluster, of_style = self.weights.log_weights(weights), self.styles.log_weights(styles)
        return (of_cluster.unsqueeze(-1) + of_style).flatten()

    def cell_statistics(self, effects: Float[Tensor, " size"]) -> Float[Tensor, "cell niw"]:
        """Statistics of the Gaussian of every cell."""
        return self.family.component(effects, self.regressors)

    def given(
        self, cell: Float[Tensor, "*value item cell"], effects: Float[Tensor, " size"]
    ) -> ComponentObservation:
        """``p(x | z, u)``."""
        family = self.family.component_family
        statistics = self.cell_statistics(effects)
        return ComponentObservation(family, statistics, cell, family.observation_size)

    def observe(self, batch: Batch) -> Float[Tensor, "item observation"] | None:
        """The value of the site ``x`` for the batch's features; None to draw it without any."""
        return None if batch.features is None else self._observed(batch.features)

    def _observed(self, features: Tensor) -> Tensor:
        return self.family.component_family.observed(features.double())

    def of_clusters(self, cells: Float[Tensor, "*batch cell"]) -> Float[Tensor, "*batch cluster"]:
        """z, or q(z), from cells, or their probabilities: the sum over styles."""
        return cells.unflatten(-1, (self.num_clusters, self.num_styles)).sum(-1)

    def cell_logits(self, sites: Mapping[str, Tensor], batch: Batch) -> Float[Tensor, "item cell"]:
        """``log p(x, cell | Theta)``, up to a constant for each item."""
        family = self.family.component_family
        features = batch.needed_features
        # The full batch keeps its statistics, which are the same in every epoch.
        statistics = batch.once(
            family, lambda: family.observation_statistics(self._observed(features))
        )
        log_cells = self.log_cells(sites["weights"], sites["styles"])
        return torch.addmm(log_cells, statistics, self.cell_statistics(sites["effects"]).mT)

    @torch.no_grad()
    def discrete_values(
        self, z: Int[Tensor, " item"], sites: Mapping[str, Tensor], batch: Batch
    ) -> dict[str, Tensor]:
        """Draw the cells of items with given clusters: ``u ~ p(u | z, x, Theta)``.

        Parameters
        ----------
        z
            The cluster of every item.
        sites
            Values of the sites of Theta, by name.
        batch
            The items, with their features.
        """
        logits = self.cell_logits(sites, batch)
        of_cells = logits.unflatten(-1, (self.num_clusters, self.num_styles))
        of_styles = of_cells[torch.arange(z.shape[0], device=of_cells.device), z]
        style = torch.distributions.Categorical(logits=of_styles).sample()
        cell = nn.functional.one_hot(z * self.num_styles + style, self.regressors.shape[0])
        return {"cell": cell.double()}

    def drawn_features(self, values: Mapping[str, Tensor]) -> Float[Tensor, "item feature"]:
        """Features among the values of a simulation's sites."""
        return self.family.component_family.features(values["x"])

    def forward(self, batch: Batch) -> Float[Tensor, "*value item cell"]:
        """Run the model on a batch; returns the cells (z, u)."""
        values = sample_sites(self._item_priors())
        with FullPlate("items", batch.items.shape[0], batch.item_weight):
            log_cells = self.log_cells(values["weights"], values["styles"])
            cell = pyro.sample("cell", Assignment(log_cells))
            pyro.sample("x", self.given(cell, values["effects"]), obs=self.observe(batch))
        sample_answers(self.annotators, self.of_clusters(cell), batch)
        return cell
