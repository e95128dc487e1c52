"""MomResp of Felt et al. 2015: class labels from annotators, and features drawn from the classes.

    theta ~ Dir(alpha)            phi_k ~ its conjugate prior       gamma_jk ~ Dir(b_k)
    y_i ~ Cat(theta)              x_i | y_i = k ~ p(x | phi_k)^w    a_ij | y_i = k ~ Cat(gamma_jk)

The paper's x are word counts, multinomial given the class; here any conjugate components can be
used. Items without labels are clustered by their features, and the components are learned from
them, too. With w = 1, as in the paper, features that depend on each other given the class count
several times; w < 1 is a power likelihood, under which they count less.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyro
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.annotators import (
    check_class_annotators,
    check_class_labels,
    describe_annotators,
    sample_classes,
)
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    ConjugatePrior,
    FullPlate,
    NamedDraws,
    SiteDraws,
    sample_sites,
)
from pyro_crowdclust.emissions import Identity, has_gaps
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import (
    Components,
    DirichletWeights,
    check_number_of_features,
    check_support,
    describe_mixture,
    in_feature_units,
    observed_latent,
    takes_gaps,
)
from pyro_crowdclust.protocols import ClassAnnotators


@described
class MomResp(nn.Module):
    """MomResp for a batch with class labels and features, as a Pyro model.

    Parameters
    ----------
    components
        Prior of the features given the class, e.g. ``MultinomialComponents``.
    annotators
        Model of the workers, e.g. ``ConfusionMatrices``.
    feature_weight
        w, above 0: how much the features of an item count, relative to its labels. ELBOs of
        different weights cannot be compared; log probabilities of the labels of held-out items can
        (``pooling.held_out_log_probability``).
    emission
        The coordinates x of the features, e.g. ``Standardized``; by default the features.

    Raises
    ------
    ValueError
        If the parts disagree about the number of classes, the weight is not above 0, or the
        components have heavy tails.
    """

    def __init__(
        self,
        components: Components,
        annotators: ClassAnnotators,
        feature_weight: float = 1.0,
        emission: Identity | None = None,
    ) -> None:
        super().__init__()
        check_class_annotators("MomResp", annotators)
        if not feature_weight > 0:
            raise ValueError(
                f"feature_weight is {feature_weight}, but must be above 0; without features use "
                "DawidSkene"
            )
        if not components.is_linear:
            raise ValueError(
                f"{type(components).__name__} with heavy tails cannot be the components of "
                "MomResp, whose guide would treat them as Gaussian: leave out tails"
            )
        self.feature_weight = feature_weight
        self.components = components
        self.annotators = annotators
        self.emission = Identity() if emission is None else emission
        if components.num_clusters != annotators.num_classes:
            raise ValueError(
                f"the components have {components.num_clusters} clusters, but the annotators have "
                f"{annotators.num_classes} classes: give both the same number"
            )
        self.weights = DirichletWeights(annotators.num_classes, 1.0)

    @property
    def num_clusters(self) -> int:
        """K, the number of classes."""
        return self.annotators.num_classes

    @property
    def takes_gaps(self) -> bool:
        """Whether missing features are integrated out, or filled in by the emission."""
        return takes_gaps(self.components, self.emission)

    def _item_priors(self) -> dict[str, ConjugatePrior]:
        return {"weights": self.weights.prior, "components": self.components.prior}

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        return {**self._item_priors(), **self.annotators.priors()}

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Draws of the global sites under the names that diagnostics give them."""
        draws = in_feature_units(self.components, self.emission, draws)
        mixture = describe_mixture(self.weights, draws, "class")
        return mixture | describe_annotators(self.annotators, draws)

    def drawn_features(self, values: Mapping[str, Tensor]) -> Float[Tensor, "item feature"]:
        """Features among the values of a simulation's sites."""
        return self.emission.features(self.components.features(values["x"]))

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_class_labels(self.annotators, data)
        check_number_of_features(data, self.components.num_features, self.emission.latent)
        check_support(self.components, data)

    def log_joint(self, values: Mapping[str, Tensor], batch: Batch) -> Float[Tensor, "item class"]:
        """``E[log p(y_i = k) + w log p(x_i | k)]`` up to a constant for each item."""
        observed = observed_latent(self.components, self.emission, batch)
        if observed is None:
            observed = batch.needed_features  # raises the error that there are none
        partly = has_gaps(self.emission, batch)
        of_values = values["components"], partly, self.feature_weight
        family, statistics = self.components.of_rows(*of_values)
        of_features = family.log_likelihoods(statistics, observed)
        return self.weights.log_weights(values["weights"]) + of_features

    def forward(self, batch: Batch) -> Float[Tensor, "*value item class"]:
        """Run the model on a batch; returns the classes y."""
        values = sample_sites(self._item_priors()) | self.annotators.sample()
        log_weights = self.weights.log_weights(values["weights"])
        y = sample_classes(self.annotators, values, log_weights, batch)
        with FullPlate("items", len(batch.items), batch.item_scale):
            observed = observed_latent(self.components, self.emission, batch)
            # Features that a simulation draws have no gaps.
            partly = observed is not None and has_gaps(self.emission, batch)
            of_values = values["components"], y, partly, self.feature_weight
            pyro.sample("x", self.components.given(*of_values), obs=observed)
        return y
