"""LogResp of Felt et al. 2015: class labels from annotators, and classes regressed on features.

    phi_k ~ N(0, Sigma)                    gamma_jk ~ Dir(b_k)
    y_i | x_i ~ softmax(phi x_i)           a_ij | y_i = k ~ Cat(gamma_jk)

The discriminative counterpart of MomResp: the distribution of the features is not modelled, so that
dependent features do not mislead, and nothing is learned from items without labels.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.annotators import (
    check_class_annotators,
    check_class_labels,
    describe_annotators,
    sample_classes,
)
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import ConjugatePrior, NamedDraws, SiteDraws
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import (
    SoftmaxRegression,
    check_number_of_features,
    coordinates_of,
    describe_regression,
)
from pyro_crowdclust.protocols import ClassAnnotators


@described
class LogResp(nn.Module):
    """LogResp for a batch with class labels and features, as a Pyro model.

    Parameters
    ----------
    regression
        ``p(y | x)``: a ``SoftmaxRegression``.
    annotators
        Model of the workers, e.g. ``ConfusionMatrices``.
    emission
        The coordinates x of the features, e.g. ``Standardized``; by default the features.

    Raises
    ------
    ValueError
        If the parts disagree about the number of classes.
    """

    def __init__(
        self,
        regression: SoftmaxRegression,
        annotators: ClassAnnotators,
        emission: Identity | None = None,
    ) -> None:
        super().__init__()
        check_class_annotators("LogResp", annotators)
        if regression.num_classes != annotators.num_classes:
            raise ValueError(
                f"the regression has {regression.num_classes} classes, but the annotators have "
                f"{annotators.num_classes}: give both the same number"
            )
        self.regression = regression
        self.annotators = annotators
        self.emission = Identity() if emission is None else emission

    @property
    def num_clusters(self) -> int:
        """K, the number of classes."""
        return self.annotators.num_classes

    @property
    def takes_gaps(self) -> bool:
        """Whether the emission gives complete coordinates where features are missing."""
        return self.emission.fills_gaps

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        return {"coefficients": self.regression.prior, **self.annotators.priors()}

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Draws of the global sites under the names that diagnostics give them."""
        of_regression = describe_regression(draws, "class", "feature")
        return of_regression | describe_annotators(self.annotators, draws)

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_class_labels(self.annotators, data)
        check_number_of_features(data, self.regression.num_features, self.emission.latent)

    def log_joint(self, values: Mapping[str, Tensor], batch: Batch) -> Float[Tensor, "item class"]:
        """A lower bound of ``E[log p(y_i = k | x_i)]``; without labels, the prediction itself."""
        x = coordinates_of(self.emission, batch)
        labels = batch.class_labels
        is_labelled = None if labels is None else labels.counts > 0
        return self.regression.log_joint(values["coefficients"], x, is_labelled)

    def forward(self, batch: Batch) -> Float[Tensor, "*value item class"]:
        """Run the model on a batch; returns the classes y."""
        values = self.regression.sample() | self.annotators.sample()
        return sample_classes(self.annotators, values, self.log_joint(values, batch), batch)
