from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.starts import (
    KMeansStart,
    LabeledStart,
    PartitionStart,
    within_class_covariance,
)
from pyro_crowdclust.supervision import ClassTable, KnownClusters

CLUSTERS = 5


def iris(labelled: int = 60) -> tuple[np.ndarray, np.ndarray]:
    x, y = load_iris(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(150)[:labelled]
    known = np.full(150, -1)
    known[chosen] = y[chosen]
    return x, known


def started(start, data: CrowdData, clusters: int = CLUSTERS) -> MessagePassingGuide:
    supervision = ClassTable.of(data, clusters) if data.num_known_classes else None
    model = SemiCrowdsourcedMixture(
        DirichletWeights(clusters, 1.0),
        GaussianComponents(clusters, 4),
        Identity(),
        supervision=supervision,
    )
    guide = MessagePassingGuide(model)
    start(model, guide, data, torch.Generator().manual_seed(0))
    return guide


def counts(guide: MessagePassingGuide) -> torch.Tensor:
    return guide.posteriors["weights"].standard().concentration - 1


def labels(guide: MessagePassingGuide) -> torch.Tensor:
    """Expected labels of every class in every cluster."""
    posterior, prior = guide.posteriors["class_table"], guide.model.supervision.prior
    return posterior.natural_parameters.detach() - prior.natural_parameters


def test_covariance_is_that_of_discriminant_analysis():
    x, known = iris()
    labelled = known >= 0
    theirs = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True)
    theirs.fit(x[labelled], known[labelled])
    ours = within_class_covariance(torch.as_tensor(x), torch.as_tensor(known), shrinkage=0.0)
    # scikit-learn divides by the number of items, not by the degrees of freedom.
    np.testing.assert_allclose(ours.numpy() * (60 - 3) / 60, theirs.covariance_)
    shrunk = within_class_covariance(torch.as_tensor(x), torch.as_tensor(known), shrinkage=1.0)
    expected = float(ours.trace()) / 4 * np.eye(4)
    np.testing.assert_allclose(shrunk.numpy(), expected)


@pytest.mark.parametrize("labelled", [9, 60, 150])
def test_shrinkage_falls_with_the_number_of_labels(labelled):
    """The mean of W and a sphere, weighted by their degrees of freedom; four of the sphere."""
    x, known = (torch.as_tensor(part) for part in iris(labelled))
    ours = within_class_covariance(x, known, shrinkage=None)
    alone = within_class_covariance(x, known, shrinkage=0.0)
    sphere = alone.trace() / 4 * torch.eye(4, dtype=torch.float64)
    degrees = labelled - len(known[known >= 0].unique())
    torch.testing.assert_close(ours, (degrees * alone + 4 * sphere) / (degrees + 4))


def test_one_label_a_class_has_a_sphere():
    x, known = (torch.as_tensor(part) for part in iris())
    one_each = torch.full_like(known, -1)
    one_each[[0, 60, 120]] = torch.tensor([0, 1, 2])
    ours = within_class_covariance(x, one_each, shrinkage=None)
    torch.testing.assert_close(ours, ours.trace() / 4 * torch.eye(4, dtype=torch.float64))


@pytest.mark.parametrize("known", [[-1] * 150, [0, 1, 2] + [-1] * 147])
def test_covariance_without_pairs_in_a_class(known):
    x, _ = iris()
    ours = within_class_covariance(torch.as_tensor(x), torch.as_tensor(known), shrinkage=0.0)
    np.testing.assert_allclose(ours.numpy(), np.cov(x.T))


def test_every_class_gets_clusters_of_its_own():
    x, known = iris()
    data = CrowdData(x, known=known)
    guide = started(LabeledStart(unlabeled_weight=0.25), data)
    table = labels(guide)
    assert ((table > 0).sum(1) <= 1).all()
    assert table.sum(0).tolist() == np.bincount(known[known >= 0]).tolist()
    assert float(counts(guide).sum()) == pytest.approx(60 + 0.25 * 90)
    assert (counts(guide) > 0).all()


def test_clusters_that_are_left_over():
    x, known = iris()
    guide = started(LabeledStart(share=0.5), CrowdData(x, known=known), clusters=8)
    assert int((counts(guide) > 0).sum()) == 4


def test_a_class_with_fewer_items_than_clusters():
    x, known = iris(labelled=3)
    guide = started(LabeledStart(), CrowdData(x, known=known), clusters=12)
    assert int((counts(guide) > 0).sum()) <= 3


def test_a_class_whose_labels_are_all_held_out_gets_no_cluster():
    x, known = iris()
    data = CrowdData(x, known=known)
    rest = data.with_parts(known=data.known.masked_fill(data.known == 1, -1))
    guide = started(LabeledStart(), rest, clusters=4)
    assert int((counts(guide) > 0).sum()) == 3
    assert (labels(guide).sum(0) > 0).tolist() == [True, False, True]


def test_a_class_whose_label_is_a_cluster_starts_there_alone():
    """Beside ``KnownClusters`` an item of class c can be in cluster c only; class 1 is held out."""
    x, known = iris()
    data = CrowdData(x, known=known)
    rest = data.with_parts(known=data.known.masked_fill(data.known == 1, -1))
    model = SemiCrowdsourcedMixture(
        DirichletWeights(8, 1.0), GaussianComponents(8, 4), Identity(), supervision=KnownClusters(8)
    )
    guide = MessagePassingGuide(model)
    LabeledStart()(model, guide, rest, torch.Generator().manual_seed(0))
    assert (counts(guide) > 0).tolist() == [True, False, True, *[False] * 5]
    result = fit(model, guide, data, epochs=10, initialize=LabeledStart(), progress=False)
    assert (result.assignments == load_iris().target)[known < 0].mean() > 0.9


def test_items_that_are_all_the_same():
    x, known = np.ones((150, 4)), iris()[1]
    guide = started(LabeledStart(), CrowdData(x, known=known))
    assert labels(guide).sum(0).tolist() == np.bincount(known[known >= 0]).tolist()


def test_responsibilities_fall_with_the_distance():
    """Echraibi et al., section 3: ``phi_nk prop exp(-|x_n - mu_k| / 2)``, nothing is hard."""
    x, known = iris()
    guide = started(KMeansStart(), CrowdData(x, known=known))
    assert float(counts(guide).sum()) == pytest.approx(150)
    assert (counts(guide) > 5).all()
    table = labels(guide)
    np.testing.assert_allclose(table.sum(0).numpy(), np.bincount(known[known >= 0]))
    assert (table > 0).all()


def test_responsibilities_are_those_of_distances_that_are_not_squared():
    """Thirty items at one point, ten at another, five at a third."""
    place, number = np.array([0.0, 3.0, 8.0]), np.array([30, 10, 5])
    x = np.pad(np.repeat(place, number)[:, None], ((0, 0), (0, 3)))
    guide = started(KMeansStart(), CrowdData(x), clusters=3)
    near = softmax(-np.abs(place[:, None] - place) / 2, axis=1)
    np.testing.assert_allclose(np.sort(counts(guide)), np.sort(number @ near))


def test_clusters_go_where_most_labels_fall_on_one():
    """Of ten, one and five labels: three clusters, one and two."""
    known = np.repeat([0, 1, 2], [10, 1, 5])
    x = np.random.default_rng(0).normal(size=(16, 4))
    guide = started(LabeledStart(), CrowdData(x, known=known), clusters=6)
    assert (labels(guide) > 0).sum(0).tolist() == [3, 1, 2]


def test_labelled_items_stay_with_their_class_and_others_join_the_nearest():
    """The fifth item of the first class lies among the second."""
    place = np.array([0.0, 0, 0, 0, 5, 6, 6, 6, 6, 6.5, 6.5, 6.5, 0])
    known = np.repeat([0, 1, -1], [5, 4, 4])
    x = np.column_stack([place, np.zeros((13, 3))])
    guide = started(LabeledStart(unlabeled_weight=0.5), CrowdData(x, known=known), clusters=2)
    np.testing.assert_allclose(labels(guide), [[5, 0], [0, 4]], atol=1e-9)
    np.testing.assert_allclose(counts(guide), [5.5, 5.5])


def test_the_nearest_center_is_that_in_deviations_of_the_classes():
    """A deviation is 10 along, 0.1 across: the last item is one away from the first class."""
    across = 0.1 * np.array([1.0, -1, 1, -1])
    first = np.column_stack([10 * np.array([1.0, 1, -1, -1]), across])
    second = first + [10, 1]
    x = np.pad(np.vstack([first, second, [[10.0, 0.0]]]), ((0, 0), (0, 2)))
    known = np.repeat([0, 1, -1], [4, 4, 1])
    start = LabeledStart(unlabeled_weight=1.0, shrinkage=0.0)
    guide = started(start, CrowdData(x, known=known), clusters=2)
    np.testing.assert_allclose(counts(guide), [5, 4])


def test_a_partition_is_taken_as_it_is():
    x, known = iris()
    data = CrowdData(x, known=known)
    soft = np.random.default_rng(1).dirichlet(np.ones(CLUSTERS), 150)
    guide = started(PartitionStart(soft), data)
    np.testing.assert_allclose(counts(guide).numpy(), soft.sum(0))
    expected = [[soft[known == c, k].sum() for c in range(3)] for k in range(CLUSTERS)]
    np.testing.assert_allclose(labels(guide).numpy(), expected)
    hard = soft.argmax(1)
    guide = started(PartitionStart(hard), data)
    assert counts(guide).tolist() == np.bincount(hard, minlength=CLUSTERS).tolist()
    of_tensor = started(PartitionStart(torch.as_tensor(hard)), data)
    assert all(map(torch.equal, of_tensor.parameters(), guide.parameters()))
    guide = started(PartitionStart(np.eye(CLUSTERS, dtype=int)[hard]), data)
    assert counts(guide).tolist() == np.bincount(hard, minlength=CLUSTERS).tolist()


@pytest.mark.parametrize(
    ("start", "given", "message"),
    [
        (PartitionStart([5] * 150), {}, "clusters 5 to 5, but the model has 0 to 4"),
        (PartitionStart(np.ones((150, 4)) / 4), {}, r"shape \(150, 4\), but .* need \(150, 5\)"),
        (PartitionStart(np.ones((150, 5))), {}, "probabilities that sum to 1"),
        (PartitionStart([-1] + [0] * 149), {}, "clusters -1 to 0, but the model has 0 to 4"),
        (PartitionStart([0] * 149 + [5]), {}, "clusters 0 to 5, but the model has 0 to 4"),
        (PartitionStart(np.zeros(150)), {}, r"shape \(150,\), but .* need \(150, 5\)"),
        (LabeledStart(), {}, "no known labels to start from"),
        (LabeledStart(), {"known": [-1] * 150}, "no known labels to start from"),
        (LabeledStart(), {"known": range(150)}, "150 classes, but there are only 5 clusters"),
    ],
)
def test_data_that_do_not_fit(start, given, message):
    data = CrowdData(iris()[0], **given)
    model = SemiCrowdsourcedMixture(DirichletWeights(5), GaussianComponents(5, 4), Identity())
    with pytest.raises(ValueError, match=message):
        start(model, MessagePassingGuide(model), data, torch.Generator())


@pytest.mark.parametrize("start", [LabeledStart(), KMeansStart()])
def test_models_that_do_not_fit(start):
    model = SemiCrowdsourcedMixture(
        DirichletWeights(5), GaussianComponents(5, 2), NormalEmission(SkipMLP((2, 4, 4)), 4)
    )
    guide = MessagePassingGuide(model, GaussianRecognition(SkipMLP((4, 4, 4)), 2))
    x, known = iris()
    with pytest.raises(ValueError, match="use PrincipalComponentStart"):
        start(model, guide, CrowdData(x, known=known), torch.Generator())
    with pytest.raises(ValueError, match="no features to start from"):
        start(model, guide, CrowdData(None, item_ids=range(4)), torch.Generator())
