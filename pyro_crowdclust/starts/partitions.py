"""Starts at a partition: k-means within every known class, soft k-means, or any given one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.imputation import median_imputed
from pyro_crowdclust.emissions import has_gaps
from pyro_crowdclust.starts.k_means import k_means
from pyro_crowdclust.starts.mixture_start import MixtureStart


def within_class_covariance(
    features: Float[Tensor, "item dim"],
    known: Int[Tensor, " item"],
    shrinkage: float | None = 0.1,
) -> Float[Tensor, "dim dim"]:
    """Pooled covariance of labelled items around the means of their classes, with shrinkage.

    ``(1 - s) W + s tr(W) / d I`` with
    ``W = sum_c sum_{n in c} (x_n - m_c)(x_n - m_c)^T / sum_c (N_c - 1)``. Used as the prior scale
    of ``GaussianComponents`` (times its degrees), it gives weight to directions in which classes do
    not vary. If every class has a single labelled item, W is the covariance of all items.

    Parameters
    ----------
    features
        Of all items.
    known
        Their labels, -1 where unknown.
    shrinkage
        s in [0, 1]; None: ``d / (d + sum_c (N_c - 1))``, as if there were d more labelled items,
        which vary alike in all directions. It is near 1 where labels are far fewer than features:
        W alone is small in directions in which these few happen to be alike.

    Examples
    --------
    >>> x = torch.tensor([[0.0, 0.0], [2.0, 0.0], [9.0, 9.0]], dtype=torch.float64)
    >>> within_class_covariance(x, torch.tensor([0, 0, -1]), shrinkage=0.0)
    tensor([[2., 0.],
            [0., 0.]], dtype=torch.float64)
    """
    features = features.double()
    dim = features.shape[1]
    scatter, degrees = features.new_zeros(dim, dim), 0
    for label in known[known >= 0].unique():
        own = features[known == label]
        centered = own - own.mean(0)
        scatter += centered.mT @ centered
        degrees += len(own) - 1
    if shrinkage is None:
        shrinkage = dim / (dim + degrees)
    if not degrees:
        centered = features - features.mean(0)
        scatter, degrees = centered.mT @ centered, max(len(features) - 1, 1)
    covariance = scatter / degrees
    spherical = covariance.trace() / dim * torch.eye(dim, dtype=covariance.dtype)
    return (1 - shrinkage) * covariance + shrinkage * spherical


@dataclass(frozen=True)
class LabeledStart:
    """k-means within every known class; items without a label join the nearest center.

    Every class that has labels gets clusters in proportion to them, at least one, and no more than
    it has labelled items; the remaining clusters start empty, for items of new classes. Where
    labels are the numbers of clusters (``KnownClusters``), every class has that one. Distances are
    those of the metric ``W^-1``, with W the covariance within the known classes.

    Attributes
    ----------
    unlabeled_weight
        Weight of items without a label in the start; small, since the labels should determine it.
    shrinkage
        Of W; see ``within_class_covariance``.
    share
        Share of the clusters that the classes get, in (0, 1].

    Raises
    ------
    ValueError
        When called on data without features or labels, on a model with latents, or with more
        classes than clusters.
    """

    unlabeled_weight: float = 0.01
    shrinkage: float | None = 0.1
    share: float = 1.0

    @torch.no_grad()
    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start the guide's posterior at the partition."""
        features, points = _points(model, data)
        if data.known is None or not data.num_known_classes:
            raise ValueError("the data have no known labels to start from: use another start")
        known = data.known
        covariance = within_class_covariance(points, known, self.shrinkage)
        # W is singular if features are linearly dependent or items of a class are identical; a
        # little noise makes it invertible.
        noise = (1e-9 * covariance.trace()).clamp_min(1e-12)
        ridge = noise * torch.eye(len(covariance), dtype=covariance.dtype)
        root = torch.linalg.cholesky(covariance + ridge)
        white = torch.linalg.solve_triangular(root, points.mT, upper=False).mT
        centers, classes = self._centers(white, known, model, generator)
        has_names = model.supervision.names_clusters
        clusters = classes if has_names else torch.arange(len(classes))
        distance = torch.cdist(white, centers)
        foreign = (known >= 0).unsqueeze(1) & (known.unsqueeze(1) != classes)
        nearest = distance.masked_fill(foreign, torch.inf).argmin(1)
        partition = nn.functional.one_hot(clusters[nearest], model.num_clusters).double()
        weight = torch.where(known >= 0, 1.0, self.unlabeled_weight).double()
        observed = model.components.observe(features, has_gaps(model.emission, data))
        guide.start_at(MixtureStart(observed, weight.unsqueeze(1) * partition, 1.0, known))

    def _centers(
        self, points: Tensor, known: Tensor, model: Any, generator: torch.Generator
    ) -> tuple[Float[Tensor, "center dim"], Int[Tensor, " center"]]:
        """Centers of k-means within every class, and their classes."""
        from sklearn.cluster import KMeans  # late: loading it takes a while

        counts, num_clusters = torch.bincount(known[known >= 0]), model.num_clusters
        if len(counts) > num_clusters:
            raise ValueError(
                f"the labels have {len(counts)} classes, but there are only {num_clusters} "
                "clusters: use at least one cluster per class, or another start"
            )
        share = 0.0 if model.supervision.names_clusters else self.share
        seed = int(torch.randint(2**31, (), generator=generator))
        centers, classes = [], []
        for label, number in enumerate(_shares(counts, max(len(counts), share * num_clusters))):
            own = points[known == label].numpy()
            number = min(number, len(np.unique(own, axis=0)))
            if not number:  # all labels of the class are held out
                continue
            found = KMeans(number, n_init=1, random_state=seed).fit(own).cluster_centers_
            centers.append(torch.as_tensor(found, dtype=points.dtype))
            classes += [label] * number
        return torch.cat(centers), torch.tensor(classes)


def _shares(counts: Int[Tensor, " class"], total: float) -> list[int]:
    """One cluster for every class; each further one to the class with the most labels per cluster.

    Examples
    --------
    >>> _shares(torch.tensor([10, 1, 5]), 6)
    [3, 1, 2]
    """
    shares = torch.ones_like(counts)
    while int(shares.sum()) + 1 <= total:
        shares[(counts / shares).argmax()] += 1
    return shares.tolist()


@dataclass(frozen=True)
class KMeansStart:
    """``phi_nk prop exp(-|x_n - mu_k| / 2)``, mu the k-means centers; Echraibi et al., section 3.

    The distance is not squared, as in the paper. Every item has some probability in all clusters.

    Attributes
    ----------
    num_starts
        Runs of k-means, of which the best is taken.
    """

    num_starts: int = 10

    @torch.no_grad()
    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start the guide's posterior at these assignments."""
        features, points = _points(model, data)
        found = k_means(points, model.num_clusters, generator, num_starts=self.num_starts)
        centers = torch.as_tensor(found.cluster_centers_, dtype=points.dtype)
        near = (-torch.cdist(points, centers) / 2).softmax(-1)
        partition = nn.functional.pad(near, (0, model.num_clusters - len(centers)))
        observed = model.components.observe(features, has_gaps(model.emission, data))
        guide.start_at(MixtureStart(observed, partition, 1.0, data.known))


@dataclass(frozen=True, eq=False)
class PartitionStart:
    """Start at given assignments ``phi``: those of another fit, another library, or a guess.

    After a fit without labels (``PartitionStart(result.probabilities)``) the labels first name the
    clusters of the features and then move them. This is better where there are too few labels to
    place clusters in many dimensions, as for text.

    Attributes
    ----------
    responsibilities
        Soft assignments of all items, rows with sum 1; or hard ones, one cluster number per item.

    Raises
    ------
    ValueError
        When called on data or a model of other sizes, with numbers that are not probabilities, on
        data without features, or on a model with latents.

    Examples
    --------
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.guides import MessagePassingGuide
    >>> from pyro_crowdclust.mixture import (
    ...     DirichletWeights,
    ...     GaussianComponents,
    ... )
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> model = SemiCrowdsourcedMixture(
    ...     DirichletWeights(2, 1.0), GaussianComponents(2, 1), Identity()
    ... )
    >>> guide = MessagePassingGuide(model)
    >>> data = CrowdData(np.array([[-1.0], [-2.0], [1.0]]))
    >>> PartitionStart([0, 0, 1])(model, guide, data, torch.Generator())
    >>> guide.posteriors["weights"].standard().concentration.tolist()
    [3.0, 2.0]
    """

    responsibilities: Any

    @torch.no_grad()
    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start the guide's posterior at these assignments."""
        features, _ = _points(model, data)
        partition = self._partition(data.num_items, model.num_clusters)
        observed = model.components.observe(features, has_gaps(model.emission, data))
        guide.start_at(MixtureStart(observed, partition, 1.0, data.known))

    def _partition(self, num_items: int, num_clusters: int) -> Float[Tensor, "item cluster"]:
        given = self.responsibilities
        if not isinstance(given, Tensor):
            given = torch.as_tensor(np.array(given))
        if given.dim() == 1 and not given.is_floating_point():
            if len(given) and not 0 <= int(given.min()) <= int(given.max()) < num_clusters:
                raise ValueError(
                    f"the start has clusters {int(given.min())} to {int(given.max())}, but the "
                    f"model has 0 to {num_clusters - 1}: give the model more clusters, or the "
                    "start fewer"
                )
            given = nn.functional.one_hot(given.long(), num_clusters)
        given = given.double()
        if given.shape != (num_items, num_clusters):
            raise ValueError(
                f"the start has assignments of shape {tuple(given.shape)}, but the data and the "
                f"model need {(num_items, num_clusters)}: give a row of probabilities or a cluster "
                "number for every item"
            )
        total = given.sum(1)
        if not (given >= 0).all() or not torch.allclose(total, torch.ones_like(total), atol=1e-4):
            raise ValueError(
                "the rows of the start's assignments must be probabilities that sum to 1"
            )
        return given


def _points(model: Any, data: CrowdData) -> tuple[Tensor, Tensor]:
    """Features of all items, and coordinates of them for distances."""
    if data.features is None:
        raise ValueError("the data have no features to start from: use another start")
    if not model.emission.observes_latent:
        raise ValueError(
            "this start is for models whose components are on the features: use "
            "PrincipalComponentStart for a model with networks"
        )
    features = model.emission.latent(data.all_rows())
    return features, model.components.coordinates(median_imputed(features))
