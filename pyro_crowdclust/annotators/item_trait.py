"""Workers who err about the same items: answers about two classes depend on a trait of the item.

    t_i ~ Cat(rho) on a grid         p(y_i = 1 | t) = sigma(kappa (t - c))
    (b_j, h_j) ~ N(m_0, S_0)         p(a_ij = 1 | t_i) = sigma(b_j t_i - h_j)

Given only the class, answers are dependent: items near the cut c are hard for everybody, so that
everybody errs about the same ones. Given the trait, they are independent. A worker has a slope b
(how sharply they distinguish items) and a threshold h (where "1" begins). This is the two-parameter
item response model with items and persons exchanged; here the trait is summed out exactly on its
grid, and its distribution rho is free.

If the class were whatever explains the answers best, it would with many dependent annotators become
"hard or not", as every free parameter of a class is used to explain the dependence. Here it is the
side of the cut on which the trait of an item lies. The cut is where the workers together
distinguish items best, which is where most of their own thresholds are; where the share of class 1
is about what is expected; and where items separate, so that few of them lie near it:

    w(c)  propto  N(c | 0, 1) [ I(c) / sum_j b_j^2 ]^(L / 5) [ s(c)^r (1 - s(c))^(1 - r) ]^n R(c)^m
    I(c) = sum_j b_j^2 p_j(c) (1 - p_j(c))          s(c) = sum_t rho_t sigma(kappa (t - c))
    R(c) = 1 - sum_t rho_t H(sigma(kappa (t - c))) / H(s(c))

I is the Fisher information of all answers about t; r, the expected share, counts as n items; R is
the part of the uncertainty about a class that the trait removes, with H the entropy, m = 3 L and
L = min(A, 20) for A labels an item. Few labels hardly move the cut from its prior, since they do
not show where items separate. More than 20 tell no more about its place, as their workers may all
be lenient.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.confusion import check_sizes
from pyro_crowdclust.annotators.cuts import SHARE_ITEMS, log_weight_of_items
from pyro_crowdclust.annotators.trait_grid import (
    ABOVE,
    CUTS,
    MOST_ANNOTATORS,
    PER_ANNOTATOR,
    POINTS,
    side,
)
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior, sample_sites
from pyro_crowdclust.errors import check_share
from pyro_crowdclust.families import SMALLEST_PROBABILITY, Dirichlet, Gaussian, PosteriorSummary
from pyro_crowdclust.families.summaries import summary_of_moments
from pyro_crowdclust.files.parts import described

# Nodes of the quadrature over q of a worker's score; exact for polynomials of degree 29.
_NODES = 15


@described
class ItemTrait(nn.Module):
    """Two classes as the two sides of a trait, seen through each worker's slope and threshold.

    Class 1 is the second of ``CrowdData.class_ids``. These annotators are made for the model
    ``LatentTrait``, in which the shares of the classes follow from the trait.

    Parameters
    ----------
    num_workers
        M.
    share
        r, the share of class 1 that the priors of the trait and of the cut expect.
    strength
        Pseudo-items of the trait's prior; a tenth of the items is a good number.
    slope, threshold
        Mean and deviation of the prior of b; deviation of the prior of h.
    labels_per_item
        How many labels an item has on average; those of all workers by default.
    share_items
        n, the number of items that r counts as where the cut is placed.

    Examples
    --------
    >>> annotators = ItemTrait(3)
    >>> sorted(annotators.priors()), annotators.num_classes
    (['curves', 'trait'], 2)
    """

    num_classes = 2

    points: Tensor
    design: Tensor
    nodes: Tensor
    node_weights: Tensor

    def __init__(
        self,
        num_workers: int,
        share: float = 0.5,
        strength: float = 100.0,
        slope: tuple[float, float] = (1.0, 0.7),
        threshold: float = 1.0,
        labels_per_item: float | None = None,
        share_items: float = SHARE_ITEMS,
    ) -> None:
        super().__init__()
        check_sizes(num_workers, 2)
        self.labels_per_item = num_workers if labels_per_item is None else labels_per_item
        check_share("share", share)
        for name, value in (
            ("strength", strength),
            ("slope's deviation", slope[1]),
            ("threshold", threshold),
            ("labels_per_item", self.labels_per_item),
            ("share_items", share_items),
        ):
            if not value > 0:
                raise ValueError(f"{name} is {value}, but must be above 0")
        self.num_workers, self.share, self.share_items = num_workers, share, share_items
        self.register_buffer("points", POINTS.clone())
        self.register_buffer("design", torch.stack([POINTS, -torch.ones_like(POINTS)], 1))
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        self.register_buffer("nodes", torch.from_numpy(nodes))
        self.register_buffer("node_weights", torch.from_numpy(weights / weights.sum()))
        base = (1 - share) * side(-1) + share * side(1)
        family = Dirichlet(len(POINTS))
        self.trait = ConjugatePrior(family, family.natural(strength * base), dims=("point",))
        self.family = Gaussian(2)
        mean = POINTS.new_tensor([slope[0], 0.0])
        covariance = torch.diag(POINTS.new_tensor([slope[1] ** 2, threshold**2]))
        self.curves = ConjugatePrior(
            self.family,
            self.family.natural(mean, covariance),
            num_workers,
            dims=("worker", "coefficient"),
        )

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites: slope and threshold of every worker, and shares along the trait."""
        return {"curves": self.curves, "trait": self.trait}

    def sample(self) -> dict[str, Tensor]:
        """Run both sites in a model."""
        return sample_sites(self.priors())

    def scores(
        self, curves: Float[Tensor, "worker size"]
    ) -> tuple[Float[Tensor, "worker point"], Float[Tensor, "worker point"]]:
        """Mean and variance of ``b_j t - h_j`` at the points of the grid."""
        mean, second = self.family.unpack(curves)
        covariance = second - mean.unsqueeze(-1) * mean.unsqueeze(-2)
        variance = (self.design @ covariance).mul(self.design).sum(-1)
        # Rounding may leave a point's variance just below zero.
        return mean @ self.design.mT, variance.clamp_min(1e-30)

    def _at_nodes(self, curves: Tensor) -> Float[Tensor, "worker point node"]:
        mean, variance = self.scores(curves)
        return mean.unsqueeze(-1) + variance.sqrt().unsqueeze(-1) * self.nodes

    def log_answers(self, values: Mapping[str, Tensor]) -> Float[Tensor, "worker label point"]:
        """``E[log p(label | t)]`` at every point, by quadrature; exact for statistics of a draw.

        Its gradient in the mean statistics makes a natural step a Newton step averaged over q.
        """
        at_nodes = self._at_nodes(values["curves"])
        one = nn.functional.logsigmoid(at_nodes) @ self.node_weights
        return torch.stack([one - self.scores(values["curves"])[0], one], 1)

    @torch.no_grad()
    def cut(self, values: Mapping[str, Tensor]) -> Float[Tensor, " cut"]:
        """w, the probability of every possible place of the cut."""
        slope, threshold = self.family.unpack(values["curves"])[0].unbind(-1)
        cuts = CUTS.to(slope.device)
        right = torch.sigmoid(slope * cuts.unsqueeze(-1) - threshold)
        information = (slope.square() * right * (1 - right)).sum(-1) / slope.square().sum()
        weight = PER_ANNOTATOR * min(self.labels_per_item, MOST_ANNOTATORS)
        of_workers = weight * information.log() - cuts.square() / 2
        of_items = log_weight_of_items(
            values["trait"].softmax(-1),
            ABOVE.to(slope.device),
            self.share,
            self.share_items,
            self.labels_per_item,
        )
        return (of_workers + of_items).softmax(0)

    @torch.no_grad()
    def sides(self, values: Mapping[str, Tensor]) -> Float[Tensor, "point class"]:
        """``p(y | t)`` at every point, averaged over the places of the cut."""
        cut = self.cut(values)
        upper = ABOVE.to(cut.device) @ cut
        return torch.stack([1 - upper, upper], -1)

    def log_classes(self, values: Mapping[str, Tensor]) -> Float[Tensor, " class"]:
        """``log sum_t rho_t p(y | t)``: the shares of the classes that follow from the trait."""
        return (values["trait"].exp() @ self.sides(values)).log()

    def _log_joint(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row point"]
    ) -> Float[Tensor, "*row class"]:
        """``log sum_t rho_t p(y | t) p(a | t)``."""
        joint = evidence + values["trait"]
        largest = joint.detach().amax(-1, keepdim=True)
        return ((joint - largest).exp() @ self.sides(values)).log() + largest

    def sum_states(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row point"]
    ) -> Float[Tensor, "*row class"]:
        """``log sum_t p(t | y) p(a | t)`` from ``log p(a | t)``."""
        return self._log_joint(values, evidence) - self.log_classes(values)

    def _points_of_classes(self, values: Mapping[str, Tensor]) -> Float[Tensor, "class point"]:
        """``p(t | y)``."""
        joint = values["trait"].exp().unsqueeze(-1) * self.sides(values)
        return (joint / joint.sum(0)).mT

    def draw_states(
        self, values: Mapping[str, Tensor], assignments: Float[Tensor, "item class"]
    ) -> Float[Tensor, "item point"]:
        """One-hot points of items of these classes."""
        probabilities = assignments @ self._points_of_classes(values)
        return torch.distributions.OneHotCategorical(probs=probabilities).sample()

    @torch.no_grad()
    def answer_probabilities(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``sum_t q(t | y, labels) E[p(label | t)]`` for answers that are not in ``labels``."""
        values = {name: posterior.mean() for name, posterior in posteriors.items()}
        evidence = labels.evidence(self.log_answers(values)) + values["trait"]
        of_item = evidence.softmax(-1)[item].unsqueeze(1) * self.sides(values).mT
        of_item = of_item / of_item.sum(-1, keepdim=True).clamp_min(SMALLEST_PROBABILITY)
        one = self._answers(values["curves"])[worker]
        named = torch.where(label.unsqueeze(-1) == 1, one, 1 - one)
        return (of_item * named.unsqueeze(1)).sum(-1)

    def _answers(self, curves: Tensor) -> Float[Tensor, "worker point"]:
        """``E[p(1 | t)]``."""
        return torch.sigmoid(self._at_nodes(curves)) @ self.node_weights

    @torch.no_grad()
    def at_points(
        self, posteriors: Mapping[str, ConjugatePosterior]
    ) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, "worker point label"]]:
        """``E[log rho]`` and ``E[p(label | t)]`` at every point of the grid."""
        values = {name: posterior.mean() for name, posterior in posteriors.items()}
        one = self._answers(values["curves"])
        return values["trait"].numpy(force=True), torch.stack([1 - one, one], -1).numpy(force=True)

    @torch.no_grad()
    def effective_number(
        self, posteriors: Mapping[str, ConjugatePosterior]
    ) -> Float[np.ndarray, " class"]:
        """The effective number of independent workers, for each class.

        The share of the workers who err about an item has some variance over the items of a class.
        With independent errors this would be ``sum_j p_j (1 - p_j) / M^2``; the effective number is
        M times this over the variance under the model. It is 1 for copies.
        """
        values = {name: posterior.mean() for name, posterior in posteriors.items()}
        of_class = self._points_of_classes(values)
        one = self._answers(values["curves"])
        mean = of_class @ one.mT
        independent = (mean * (1 - mean)).sum(-1)
        given_trait = of_class @ (one * (1 - one)).sum(0)
        total = one.sum(0)
        shared = of_class @ total.square() - (of_class @ total).square()
        return (self.num_workers * independent / (given_trait + shared)).numpy(force=True)

    @torch.no_grad()
    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """Means and deviations by quadrature; intervals are those of Betas with these moments."""
        values = {name: posterior.mean() for name, posterior in posteriors.items()}
        of_class = self._points_of_classes(values)
        curves = self.family.moments(posteriors["curves"].natural_parameters)
        grid = torch.cartesian_prod(self.nodes, self.nodes)
        weight = torch.cartesian_prod(self.node_weights, self.node_weights).prod(-1)
        drawn = curves.mean.unsqueeze(1) + grid @ curves.root.mT
        one = torch.sigmoid(drawn @ self.design.mT) @ of_class.mT
        mean = torch.einsum("jnk,n->jk", one, weight)
        variance = torch.einsum("jnk,n->jk", (one - mean.unsqueeze(1)).square(), weight)
        means = torch.stack([1 - mean, mean], -1).numpy(force=True)
        variances = torch.stack([variance, variance], -1).numpy(force=True)
        return summary_of_moments(means, variances, interval)
