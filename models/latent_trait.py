"""Two classes as the sides of a latent trait, from annotators who err together.

    t_i ~ Cat(rho)            p(y_i = 1 | t_i) = sigma(kappa (t_i - c))
    p(a_ij = 1 | t_i) = sigma(b_j t_i - h_j)

Everything is a part of the annotators (``ItemTrait``), the shares of the classes included. The
site of y is called ``z``, like that of every assignment in the library.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.annotators import (
    ItemTrait,
    check_class_labels,
    describe_annotators,
    sample_classes,
)
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import ConjugatePrior, NamedDraws, SiteDraws
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch


@described
class LatentTrait(nn.Module):
    """The latent trait model of a batch with labels of two classes, as a Pyro model.

    Parameters
    ----------
    annotators
        Model of the workers and of the trait.

    Examples
    --------
    >>> import pyro_crowdclust as pcc
    >>> from pyro_crowdclust.annotators import ItemTrait
    >>> from pyro_crowdclust.guides import ClassLabelGuide
    >>> answers = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> model = LatentTrait(ItemTrait(3))
    >>> result = pcc.fit(model, ClassLabelGuide(model), pcc.CrowdData(None, labels=answers),
    ...                  batch_size=None, step_size=0.5, epochs=20, progress=False)
    >>> result.class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """

    def __init__(self, annotators: ItemTrait) -> None:
        super().__init__()
        self.annotators = annotators

    @property
    def takes_gaps(self) -> bool:
        """True: the model uses no features, so that missing ones do not matter."""
        return True

    @property
    def num_clusters(self) -> int:
        """K, the number of classes, which is 2."""
        return self.annotators.num_classes

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        return self.annotators.priors()

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Draws of the global sites under the names that diagnostics give them."""
        return describe_annotators(self.annotators, draws)

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_class_labels(self.annotators, data)

    def log_joint(self, values: Mapping[str, Tensor], batch: Batch) -> Float[Tensor, "item class"]:
        """The log shares of the classes, the model's terms of a class without those of labels."""
        return self.annotators.log_classes(values).expand(len(batch.items), -1)

    def forward(self, batch: Batch) -> Float[Tensor, "item class"]:
        """Run the model on a batch; returns the classes y."""
        values = self.annotators.sample()
        return sample_classes(self.annotators, values, self.annotators.log_classes(values), batch)
