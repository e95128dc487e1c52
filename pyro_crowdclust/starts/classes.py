"""A start of models of class labels at given probabilities of the items' classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData


@dataclass(frozen=True, eq=False)
class ClassesStart:
    """``fit(initialize=ClassesStart(probabilities))``: start q(y) there, not at the vote.

    Where several answers about an item have the same error, the majority vote is a poor start, and
    training stays near it. Probabilities of another model are better, such as
    ``earlier.probabilities`` of a ``MomResp``, whose classes are clusters of the features, for a
    ``LogResp`` of the same items.

    Attributes
    ----------
    probabilities
        q(y_i = k), ``[item, class]``, of all items of the data.

    Raises
    ------
    ValueError
        When called, for an array of another shape or with numbers below 0.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust import CrowdData, fit
    >>> from pyro_crowdclust.annotators import ConfusionMatrices
    >>> from pyro_crowdclust.guides import ClassLabelGuide
    >>> from pyro_crowdclust.models import DawidSkene
    >>> data = CrowdData(None, labels={"item": [0, 1], "worker": [0, 0], "label": [0, 1]})
    >>> model = DawidSkene(ConfusionMatrices(1, 2))
    >>> start = ClassesStart(torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    >>> fit(model, ClassLabelGuide(model), data, initialize=start, epochs=1, progress=False).seed
    0
    """

    probabilities: ArrayLike | Tensor

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Pass the probabilities to the guide's own start."""
        guide.start(data, generator, self._checked(data.num_items, model.num_clusters))

    def _checked(self, num_items: int, num_classes: int) -> Float[Tensor, "item class"]:
        classes = torch.asarray(self.probabilities, dtype=torch.float64, copy=True)
        if classes.shape != (num_items, num_classes):
            raise ValueError(
                f"probabilities have the shape {list(classes.shape)}, but must be "
                f"[{num_items}, {num_classes}]: a row for every item, a column for every class"
            )
        if not bool(((classes >= 0).all(-1) & (classes.sum(-1) > 0)).all()):
            raise ValueError("probabilities must be 0 or above, with one above 0 in every row")
        return classes
