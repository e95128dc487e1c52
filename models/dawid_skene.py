"""Class labels from annotators, without features: Dawid and Skene 1979 with priors.

    theta ~ Dir(alpha)            gamma_jk ~ Dir(b_k)
    y_i ~ Cat(theta)              a_ij | y_i = k ~ Cat(gamma_jk)

The special case of MomResp and of LogResp (Felt et al. 2015, section 3) where items have no
features. The site of y is called ``z``, like that of every assignment in the library.
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
from pyro_crowdclust.distributions import (
    ConjugatePrior,
    NamedDraws,
    SiteDraws,
    named_draws,
    sample_sites,
)
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import DirichletWeights
from pyro_crowdclust.protocols import ClassAnnotators


@described
class DawidSkene(nn.Module):
    """The model of Dawid and Skene for a batch with class labels, as a Pyro model.

    Parameters
    ----------
    annotators
        Model of the workers, e.g. ``ConfusionMatrices``.
    weights
        Prior of the class proportions; uniform by default.

    Raises
    ------
    ValueError
        If weights and annotators disagree about the number of classes.

    Examples
    --------
    >>> import pyro_crowdclust as pcc
    >>> from pyro_crowdclust.annotators import ConfusionMatrices
    >>> from pyro_crowdclust.guides import ClassLabelGuide
    >>> answers = {"item": [0, 0, 0, 1], "worker": ["a", "b", "c", "a"], "label": list("xxyy")}
    >>> model = DawidSkene(ConfusionMatrices(3, 2))
    >>> result = pcc.fit(model, ClassLabelGuide(model), pcc.CrowdData(None, labels=answers),
    ...                  batch_size=None, step_size=1.0, epochs=20, progress=False)
    >>> result.class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """

    def __init__(
        self, annotators: ClassAnnotators, weights: DirichletWeights | None = None
    ) -> None:
        super().__init__()
        check_class_annotators("DawidSkene", annotators)
        self.annotators = annotators
        self.weights = weights or DirichletWeights(annotators.num_classes, 1.0)
        if self.weights.num_clusters != annotators.num_classes:
            raise ValueError(
                f"the weights have {self.weights.num_clusters} clusters, but the annotators have "
                f"{annotators.num_classes} classes: give both the same number"
            )

    @property
    def takes_gaps(self) -> bool:
        """True: the model uses no features, so that missing ones do not matter."""
        return True

    @property
    def num_clusters(self) -> int:
        """K, the number of classes."""
        return self.annotators.num_classes

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        return {"weights": self.weights.prior, **self.annotators.priors()}

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Draws of the global sites under the names that diagnostics give them."""
        weights = named_draws("weights", draws["weights"], ("class",))
        return {"weights": weights, **describe_annotators(self.annotators, draws)}

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_class_labels(self.annotators, data)

    def log_joint(self, values: Mapping[str, Tensor], batch: Batch) -> Float[Tensor, "item class"]:
        """``E[log p(y_i = k)]``, the model's terms of a class without those of the labels."""
        return self.weights.log_weights(values["weights"]).expand(len(batch.items), -1)

    def forward(self, batch: Batch) -> Float[Tensor, "*value item class"]:
        """Run the model on a batch; returns the classes y."""
        values = sample_sites({"weights": self.weights.prior}) | self.annotators.sample()
        logits = self.weights.log_weights(values["weights"])
        return sample_classes(self.annotators, values, logits, batch)
