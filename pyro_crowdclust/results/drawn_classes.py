"""Classes from draws: workers and classes together, where mean field takes them apart.

    theta | y ~ Dir(b + n)      gamma | y   from the counts n_jkl of labels l of worker j in class k
    y_i | theta, gamma  ~  Cat(p_i),        p_ik  propto  theta_k prod_j p(a_ij | class k, gamma)

in turn (Gibbs sampling), from a fit on. Reported is the mean of p, which is less noisy than that of
y. With few answers to an item, or of a worker, classes and rates are unsure together, which a mean
field leaves out: it names other classes, too surely. Concentrations that the fit learned go on to
be learned, by a step of their fixed point in every draw.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.label_sites import LabelLikelihood
from pyro_crowdclust.annotators.learned_rows import draw_log_shares
from pyro_crowdclust.data.class_labels import LabelMatrix
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.protocols import SupportsDraws
from pyro_crowdclust.results.fitted import Fitted


@dataclass(frozen=True, eq=False)
class DrawnClasses:
    """What ``draw_classes`` found.

    Attributes
    ----------
    fitted
        The fit that the draws began at.
    probabilities
        Mean of ``p(y_i = k | theta, gamma, labels)``.
    mean_confusion
        Mean of ``p(label | class)``.
    """

    fitted: Fitted
    probabilities: Float[np.ndarray, "item class"]
    mean_confusion: Float[np.ndarray, "worker class label"]

    @property
    def data(self) -> CrowdData:
        """The items and their labels."""
        return self.fitted.data

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """The probabilities by the user's ids of items and classes."""
        frame = self.fitted.class_probabilities
        return pd.DataFrame(self.probabilities, frame.index, frame.columns)

    def answer_probabilities(
        self,
        item: Int[np.ndarray, " answer"],
        worker: Int[np.ndarray, " answer"],
        label: Int[np.ndarray, " answer"],
    ) -> Float[np.ndarray, "answer class"]:
        """``p(label | class)`` of answers that were not drawn from, by positions in ``data``."""
        return self.mean_confusion[worker, :, label]

    @property
    def confusion(self) -> pd.DataFrame:
        """The mean of ``p(label | class)`` by the user's ids of workers and classes."""
        index = self.fitted.confusion.index
        return pd.DataFrame({"mean": self.mean_confusion.ravel()}, index)


@torch.no_grad()
def draw_classes(
    result: Fitted,
    num_draws: int = 300,
    num_chains: int = 2,
    seed: int = 0,
) -> DrawnClasses:
    """Draw the classes and workers of a fit of class labels in turn.

    Parameters
    ----------
    result
        A fit of ``DawidSkene`` whose annotators can be drawn (``protocols.SupportsDraws``), such as
        ``ConfusionMatrices``, ``CommunityConfusion`` and ``AnswerSources``.
    num_draws
        Of every chain; half as many are made before these and not counted.
    num_chains
        Independent chains, all of which begin at the fit.
    seed
        Of the draws.

    Raises
    ------
    ValueError
        For annotators that cannot be drawn, and for numbers of draws or chains below 1.

    Examples
    --------
    >>> from pyro_crowdclust.interface import infer_classes
    >>> said = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> result = infer_classes(CrowdData(None, labels=said), num_communities=[1])
    >>> draw_classes(result, num_draws=50).class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """
    if not isinstance(result.model.annotators, SupportsDraws):
        raise ValueError(
            f"{type(result.model.annotators).__name__} cannot be drawn: it has no verb draw; use "
            "the fit itself"
        )
    if min(num_draws, num_chains) < 1:
        raise ValueError(
            f"num_draws is {num_draws} and num_chains {num_chains}: pass at least 1 of both"
        )
    rng = np.random.default_rng(seed)
    chains = [_Chain(result, rng) for _ in range(num_chains)]
    for chain in chains:
        for _ in range(num_draws // 2):
            chain.step()
    means = [chain.means(num_draws) for chain in chains]
    assignments, confusion = (
        torch.stack(part).mean(0).numpy() for part in zip(*means, strict=True)
    )
    return DrawnClasses(result, assignments, confusion)


class _Chain:
    """Draws of one chain; annotators are a copy, whose concentrations go on to be learned."""

    annotators: SupportsDraws

    def __init__(self, result: Fitted, rng: np.random.Generator) -> None:
        data, posteriors = result.data, result.guide.posteriors
        assert data.class_labels is not None  # which the fit was of
        self.labels: LabelMatrix = data.class_labels.of_items(torch.arange(data.num_items))
        self.annotators = copy.deepcopy(result.model.annotators).cpu()
        prior = result.model.weights.prior
        self.concentration = prior.family.standard(prior.natural_parameters).concentration.cpu()
        self.values: Mapping[str, Tensor] = {
            name: posterior.mean().cpu() for name, posterior in posteriors.items()
        }
        self.q = torch.tensor(result.probabilities)
        self.rng = rng

    def step(self) -> LabelLikelihood:
        """Draw the classes, then the workers; ``q`` is p(y) given these."""
        y = self._classes()
        counts = self._counts(y)
        self.values = self.annotators.draw(self.values, counts, self.rng)
        of_classes = torch.bincount(y, minlength=self.labels.num_classes)
        log_weights = draw_log_shares((self.concentration + of_classes).numpy(), self.rng)
        likelihood = LabelLikelihood(self.annotators, self.values)
        self.q = (log_weights + likelihood.evidence(self.labels)).softmax(-1)
        return likelihood

    def means(self, num_draws: int) -> tuple[Tensor, Tensor]:
        """Of ``q``, and of ``p(label | class)`` of every worker."""
        assignments, confusion = torch.zeros_like(self.q), torch.zeros(())
        for _ in range(num_draws):
            likelihood = self.step()
            assignments += self.q / num_draws
            confusion = confusion + likelihood.log_confusion().exp().mT / num_draws
        return assignments, confusion

    def _classes(self) -> Tensor:
        uniform = torch.from_numpy(self.rng.random((len(self.q), 1)))
        # Probabilities may sum to a little less than one.
        return (self.q.cumsum(-1) < uniform).sum(-1).clamp(max=self.q.shape[-1] - 1)

    def _counts(self, y: Tensor) -> Float[np.ndarray, "worker class label"]:
        """n: how often each worker gave each label to items of each class."""
        workers, classes = self.labels.num_workers, self.labels.num_classes
        place = (self.labels.worker * classes + y[self.labels.item]) * classes + self.labels.label
        counts = torch.bincount(place, minlength=workers * classes**2)
        return counts.double().reshape(workers, classes, classes).numpy()
