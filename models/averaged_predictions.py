"""Class labels from annotators, and classes predicted by several fits at once.

    p(y_i = k | x_i) = sum_c w_c p_c(y_i = k | x_i)
    gamma_jk ~ Dir(b_k)                       a_ij | y_i = k ~ Cat(gamma_jk)

The members p_c are fits of models of class labels to the same items, and do not change. Unlike a
choice of one member, the average is not surer than what tells the members apart, and is often right
where each of them errs (Yao, Vehtari, Simpson and Gelman 2018, on averages of predictive
distributions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.annotators import check_class_labels, describe_annotators, sample_classes
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import ConjugatePrior, NamedDraws, SiteDraws
from pyro_crowdclust.files import described
from pyro_crowdclust.inference import LocalPosterior
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.protocols import ClassAnnotators


class Member(Protocol):
    """What the model needs of a member, such as the ``ClassLabelGuide`` of a fit."""

    model: Any

    def infer(self, batch: Batch) -> LocalPosterior:
        """q(y) of a batch."""


@described
class AveragedPredictions(nn.Module):
    """Class labels and a weighted average of predictions for a batch, as a Pyro model.

    Parameters
    ----------
    members
        Fitted guides of models of class labels, such as ``result.guide`` of a ``LogResp`` and of a
        ``MomResp``. Training does not change them.
    weights
        w, a number of at least 0 for every member; they are divided by their sum.
    annotators
        Model of the workers, e.g. ``ConfusionMatrices``.

    Raises
    ------
    ValueError
        If there are no members, the weights are not such numbers, or members and annotators
        disagree about the number of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust import CrowdData, fit
    >>> from pyro_crowdclust.annotators import ConfusionMatrices
    >>> from pyro_crowdclust.guides import ClassLabelGuide
    >>> from pyro_crowdclust.mixture import GaussianComponents, SoftmaxRegression
    >>> from pyro_crowdclust.models import LogResp, MomResp
    >>> said = {"item": range(20), "worker": ["ann", "ben"] * 10, "label": [0, 1] * 10}
    >>> data = CrowdData(np.arange(20.0)[:, None] % 2, labels=said)
    >>> members = []
    >>> for model in (
    ...     LogResp(SoftmaxRegression(2, 1), ConfusionMatrices(2, 2)),
    ...     MomResp(GaussianComponents(2, 1), ConfusionMatrices(2, 2)),
    ... ):
    ...     members.append(fit(model, ClassLabelGuide(model), data, progress=False).guide)
    >>> model = AveragedPredictions(members, [0.7, 0.3], ConfusionMatrices(2, 2))
    >>> result = fit(model, ClassLabelGuide(model), data, progress=False)
    >>> result.predict_class_probabilities([[0.0], [1.0]]).idxmax(axis=1).tolist()
    [0, 1]
    """

    def __init__(
        self,
        members: Sequence[Member],
        weights: Sequence[float],
        annotators: ClassAnnotators,
    ) -> None:
        super().__init__()
        if not members or len(members) != len(weights):
            raise ValueError(
                f"there are {len(members)} members and {len(weights)} weights: pass one member or "
                "more, and a weight for each"
            )
        given = torch.tensor([*weights], dtype=torch.float64)
        if not (given >= 0).all() or not 0 < given.sum() < torch.inf:
            raise ValueError(
                f"weights are {[*weights]}, but must be finite numbers of at least 0, not all 0"
            )
        for member in members:
            if member.model.annotators.num_classes != annotators.num_classes:
                raise ValueError(
                    f"a member has {member.model.annotators.num_classes} classes, but the "
                    f"annotators have {annotators.num_classes}: give all the same number"
                )
        self.members: Any = nn.ModuleList(cast(Sequence[nn.Module], members))
        self.annotators = annotators
        self.log_weights: Tensor
        self.register_buffer("log_weights", (given / given.sum()).log(), persistent=False)

    @property
    def num_clusters(self) -> int:
        """K, the number of classes."""
        return self.annotators.num_classes

    @property
    def takes_gaps(self) -> bool:
        """Whether all members take items with missing features."""
        return all(member.model.takes_gaps for member in self.members)

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name; a guide must have a site for each."""
        return {**self.annotators.priors()}

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Draws of the global sites under the names that diagnostics give them."""
        return describe_annotators(self.annotators, draws)

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit the model's parts; ``fit`` asks first."""
        check_class_labels(self.annotators, data)

    def log_joint(self, values: Mapping[str, Tensor], batch: Batch) -> Float[Tensor, "item class"]:
        """``log sum_c w_c p_c(y_i = k | x_i)``."""
        unlabelled = replace(batch, class_labels=None)
        each = [member.infer(unlabelled).logits.log_softmax(-1) for member in self.members]
        weighted = torch.stack(each) + self.log_weights[:, None, None]
        return weighted.logsumexp(0)

    def forward(self, batch: Batch) -> Float[Tensor, "*value item class"]:
        """Run the model on a batch; returns the classes y."""
        values = self.annotators.sample()
        return sample_classes(self.annotators, values, self.log_joint(values, batch), batch)
