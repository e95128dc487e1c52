from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.stats
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP
from pyro_crowdclust.results import cluster_classes, known_class_probabilities, known_or_likeliest
from pyro_crowdclust.starts import LabeledStart
from pyro_crowdclust.supervision import ClassTable, Supervision
from pyro_crowdclust.supervision.class_table import KnownClass

from ..crowds import quiet_fit
from ..looped_twin import DirichletTwin, NormalInverseWishartTwin, kl_divergence
from ..problems import randomize

CLUSTERS, DIM, CLASSES = 3, 2, 2
KNOWN = [0, None, 1, 1, None]


def problem(**options) -> tuple[MessagePassingGuide, CrowdData]:
    """Five items, three with labels; every posterior somewhere of its own."""
    data = CrowdData(2 * torch.randn(5, DIM), known=KNOWN)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS, 0.8),
        GaussianComponents(CLUSTERS, DIM, degrees=3.2),
        Identity(),
        supervision=ClassTable(CLUSTERS, CLASSES, concentration=0.7, **options),
    )
    guide = MessagePassingGuide(model)
    randomize(guide)
    return guide, data


def twins(guide: MessagePassingGuide, which: str) -> dict[str, list]:
    """Prior or posterior of every global site, from standard parameters."""
    sites = guide.model.priors() if which == "prior" else guide.posteriors
    standard = {
        name: site.family.standard(site.natural_parameters.detach()) for name, site in sites.items()
    }
    components = zip(*(part.numpy() for part in standard["components"]), strict=True)
    return {
        "weights": [DirichletTwin(standard["weights"].concentration.numpy())],
        "components": [NormalInverseWishartTwin(*row) for row in components],
        "class_table": [
            DirichletTwin(row) for row in standard["class_table"].concentration.numpy()
        ],
    }


def log_joint(guide: MessagePassingGuide, data: CrowdData) -> np.ndarray:
    """``E[log p(z_n = k, x_n, y_n)]``, item by item and cluster by cluster."""
    q, x = twins(guide, "posterior"), data.features.numpy()
    rows = []
    for n in range(5):
        row = []
        for k in range(CLUSTERS):
            statistics = np.concatenate([x[n], np.outer(x[n], x[n]).ravel(), [1, 1]])
            value = q["weights"][0].mean()[k] + q["components"][k].mean() @ statistics
            value -= DIM / 2 * np.log(2 * np.pi)
            if KNOWN[n] is not None:
                value += q["class_table"][k].mean()[KNOWN[n]]
            row.append(value)
        rows.append(row)
    return np.array(rows)


def global_divergence(guide: MessagePassingGuide) -> float:
    q, p = twins(guide, "posterior"), twins(guide, "prior")
    return sum(
        kl_divergence(one, other) for name in q for one, other in zip(q[name], p[name], strict=True)
    )


def elbo(guide, batch) -> float:
    return -Trace_ELBO(max_plate_nesting=1).loss(guide.model, guide, batch)


def test_elbo_is_the_looped_one():
    guide, data = problem(unlabeled_weight=0.3)
    batch = dataclasses.replace(full_batch(data), item_weight=0.5 + torch.rand(5))
    joint = log_joint(guide, data)
    q = np.exp(joint - np.logaddexp.reduce(joint, 1, keepdims=True))
    np.testing.assert_allclose(guide.infer(batch).assignments.numpy(), q, rtol=1e-9)
    expected = -global_divergence(guide)
    for n, weight in enumerate(batch.item_weight.tolist()):
        weight *= 1.0 if KNOWN[n] is not None else 0.3
        for k in range(CLUSTERS):
            expected += weight * q[n, k] * (joint[n, k] - np.log(q[n, k]))
    assert elbo(guide, batch) == pytest.approx(expected, rel=1e-10)


def test_elbo_is_the_sum_over_all_assignments():
    """Items are independent given the globals, so at the best q(z) the local bound is exact."""
    guide, data = problem()
    joint = log_joint(guide, data)
    every = [
        sum(joint[n, k] for n, k in enumerate(z))
        for z in itertools.product(range(CLUSTERS), repeat=5)
    ]
    expected = np.logaddexp.reduce(every) - global_divergence(guide)
    assert elbo(guide, full_batch(data)) == pytest.approx(expected, rel=1e-10)


def test_natural_gradient_is_the_conjugate_update():
    guide, data = problem()
    q = guide.infer(full_batch(data)).assignments
    objective = Trace_ELBO(max_plate_nesting=1)
    objective.differentiable_loss(guide.model, guide, full_batch(data)).backward()
    table = guide.posteriors["class_table"].natural_parameters
    stepped = table.detach() - table.grad
    expected = guide.model.supervision.prior.natural_parameters.clone()
    for n, label in enumerate(KNOWN):
        if label is not None:
            expected[:, label] += q[n]
    torch.testing.assert_close(stepped, expected)


def test_behind_networks_and_beside_answers_the_update_is_the_same():
    """What the table does to q(z) has no part in it, unless the whole gradient is asked for."""
    emission = NormalEmission(SkipMLP((DIM, 4, DIM)), DIM)
    parts = DirichletWeights(CLUSTERS), GaussianComponents(CLUSTERS, DIM), emission, TwoCoin(1)
    model = SemiCrowdsourcedMixture(*parts, supervision=ClassTable(CLUSTERS, CLASSES))
    guide = MessagePassingGuide(model, GaussianRecognition(SkipMLP((DIM, 4, 2 * DIM)), DIM))
    randomize(guide)
    pairs = {"left": [0, 1, 2], "right": [1, 2, 4], "worker": [0, 0, 0], "label": [1, 0, 1]}
    batch = full_batch(CrowdData(torch.randn(5, DIM), pairs, known=KNOWN))
    Trace_ELBO(max_plate_nesting=1).differentiable_loss(model, guide, batch).backward()
    table = guide.posteriors["class_table"].natural_parameters
    expected = model.supervision.prior.natural_parameters.clone()
    for q, label in zip(guide.infer(batch).assignments, batch.known.tolist(), strict=True):
        if label >= 0:
            expected[:, label] += q
    torch.testing.assert_close(table.detach() - table.grad, expected)


def test_the_table_is_the_mean_of_its_posterior():
    guide, _ = problem()
    alpha = guide.posteriors["class_table"].standard().concentration.detach().numpy()
    expected = np.stack([scipy.stats.dirichlet.mean(row) for row in alpha])
    np.testing.assert_allclose(guide.class_table().detach(), expected)


def test_minibatches_average_to_the_whole():
    guide, _ = problem()
    data = CrowdData(torch.randn(6, DIM), known=[*KNOWN, 0])
    sampler = MinibatchSampler(data, batch_size=2, generator=torch.Generator().manual_seed(0))
    parts = [elbo(guide, batch) for batch in sampler]
    assert len(parts) == 3
    assert np.mean(parts) == pytest.approx(elbo(guide, full_batch(data)))


def blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Four blobs in a row, of classes a, b, b, a."""
    rng = np.random.default_rng(seed)
    x = np.repeat([-9.0, -3.0, 3.0, 9.0], 40)[:, None] + rng.normal(size=(160, 1))
    return x, np.repeat(["a", "b", "b", "a"], 40)


def fit_blobs(known, **options):
    model = SemiCrowdsourcedMixture(
        DirichletWeights(6),
        GaussianComponents(6, 1),
        Identity(),
        supervision=ClassTable(6, 2, **options),
    )
    data = CrowdData(blobs()[0], known=known)
    return quiet_fit(
        model,
        MessagePassingGuide(model),
        data,
        batch_size=None,
        step_size=1.0,
        epochs=15,
        initialize=LabeledStart(),
    )


def test_a_class_may_own_several_clusters():
    x, classes = blobs()
    known = np.where(np.arange(160) % 10 == 0, classes, None)
    result = fit_blobs(known)
    elbos = result.history["elbo"].to_numpy()
    assert (np.diff(elbos) > -1e-9 * abs(elbos[0])).all()
    assert (np.array(["a", "b"])[known_or_likeliest(result)] == classes).all()
    table = cluster_classes(result)
    assert list(table.columns) == ["a", "b"]
    used = result.clusters.index[result.clusters["assigned_items"] > 10]
    assert (table.loc[used].max(axis=1) > 0.9).all()
    np.testing.assert_allclose(table.sum(axis=1), 1)
    probabilities = known_class_probabilities(result)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    labelled = known == "a"
    assert (probabilities[labelled] == [1, 0]).all()
    # New items are classed by their features alone.
    new = result.predict_proba(np.array([[-9.0], [3.0]])) @ table.to_numpy()
    assert new[0, 0] > 0.9
    assert new[1, 1] > 0.9


def test_weight_of_unlabeled_items():
    """Items that weigh little move the components little."""
    known = np.where(np.arange(160) % 10 == 0, blobs()[1], None)
    shares = [
        fit_blobs(known, unlabeled_weight=weight).guide.posteriors["weights"].standard()
        for weight in (0.01, 1.0)
    ]
    totals = [float(share.concentration.sum()) for share in shares]
    assert totals == pytest.approx([1 + 16 + 1.44, 161])


def test_labels_in_a_simulation():
    guide, _ = problem()
    batch = full_batch(CrowdData(torch.zeros(400, DIM)))
    trace = poutine.trace(guide.model).get_trace(dataclasses.replace(batch, features=None))
    z, y = trace.nodes["z"]["value"], trace.nodes["known"]["value"]
    table = trace.nodes["class_table"]["value"].exp()
    expected = (z @ table)[:, 0].mean()
    assert float((y == 0).double().mean()) == pytest.approx(float(expected), abs=0.1)


def test_known_class():
    log_table = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()
    z = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.3, 0.7]])
    site = KnownClass(z, log_table)
    value = torch.tensor([1, 0, -1])
    expected = torch.tensor([np.log(0.1), (np.log(0.9) + np.log(0.2)) / 2, 0.0])
    torch.testing.assert_close(site.log_prob(value), expected)
    assert site.support.check(value).all()
    assert not site.support.check(torch.tensor(2))
    both = site.expand((2, 3)).log_prob(value.expand(2, 3))
    torch.testing.assert_close(both, expected.expand(2, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 4}, "there are 4 classes but only 3 clusters"),
        ({"num_classes": 0}, "must be at least 1"),
        ({"concentration": 0.0}, "concentration is 0.0, but must be positive"),
        ({"unlabeled_weight": 0.0}, "unlabeled_weight is 0.0, but must be in"),
    ],
)
def test_bad_tables(arguments, message):
    with pytest.raises(ValueError, match=message):
        ClassTable(**{"num_clusters": 3, "num_classes": 2, **arguments})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no known labels"),
        ({"known": [0, 1, 2, 3, None]}, "have 4 classes, but the class table has 2"),
        (
            {"known": KNOWN, "must_link": {"left": [0], "right": [1]}},
            "does not use must-links and cannot-links",
        ),
    ],
)
def test_data_that_do_not_fit(given, message):
    guide, _ = problem()
    with pytest.raises(ValueError, match=message):
        quiet_fit(guide.model, guide, CrowdData(torch.randn(5, DIM), **given))


def test_tables_of_data():
    with pytest.raises(ValueError, match="no known labels"):
        ClassTable.of(CrowdData(torch.zeros(2, 1)), 3)
    with pytest.raises(ValueError, match="no known labels"):
        ClassTable.of(CrowdData(torch.zeros(2, 1), known=[None, None]), 3)
    data = CrowdData(torch.zeros(6, 1), known=[*"aaab", None, None])
    table = ClassTable.of(data, 3, concentration=6.0)
    # Shares of the labels, of which every class has one more.
    alpha = table.prior.natural_parameters + 1
    torch.testing.assert_close(alpha, torch.tensor([4.0, 2.0]).expand(3, 2))
    model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 1), Identity())
    result = quiet_fit(model, MessagePassingGuide(model), CrowdData(torch.randn(9, 1)), epochs=1)
    with pytest.raises(ValueError, match="had no known labels, so its clusters have no classes"):
        cluster_classes(result)


def test_supervision_of_other_clusters():
    with pytest.raises(ValueError, match="weights have 3 clusters, the supervision 4"):
        SemiCrowdsourcedMixture(
            DirichletWeights(3), GaussianComponents(3, 2), Identity(), supervision=ClassTable(4, 2)
        )


def test_amortized_guides_do_not_use_labels():
    model = SemiCrowdsourcedMixture(
        DirichletWeights(3),
        GaussianComponents(3, 2),
        NormalEmission(SkipMLP((2, 4, 4)), 4),
        supervision=ClassTable(3, 2),
    )
    with pytest.raises(ValueError, match="use MessagePassingGuide for a model with supervision"):
        AmortizedGuide(model, AmortizedRecognition((4, 8, 8), 2, 3))


def test_no_supervision_changes_nothing():
    batch = full_batch(CrowdData(torch.zeros(3, 1)))
    assert Supervision(0.5).item_weight(batch) is batch.item_weight
    assert Supervision().priors() == {}
