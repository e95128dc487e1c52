from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture.collapsed import _LogSumExpOfProduct
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.supervision import ClassTable, HiddenMarkovField, Unsupervised
from pyro_crowdclust.training.elbo import default_elbo

from ..crowds import quiet_fit
from ..mixture_parts import (
    CLUSTERS,
    COMPONENTS,
    EMISSIONS,
    ITEMS,
    WEIGHTS,
    guide_of,
    mixture,
    simulated,
)

SUPERVISION = {
    "none": lambda data: Unsupervised(refuses=False),
    "class table": lambda data: ClassTable.of(data, CLUSTERS, unlabeled_weight=0.5),
}
every_part = pytest.mark.parametrize(
    ("weights", "components"),
    [*[("dirichlet", name) for name in COMPONENTS], *[(name, "gaussian") for name in WEIGHTS]],
)


def labelled(weights: str, components: str) -> CrowdData:
    features, clusters = simulated(mixture(weights, components))
    known = clusters.numpy().copy() % 3
    known[::2] = -1
    return CrowdData(features, known=known)


def both(weights: str, components: str, supervision: str, data: CrowdData):
    """The same model with a site for z and with z summed out."""
    for precision in (None, torch.float64):
        yield SemiCrowdsourcedMixture(
            WEIGHTS[weights](),
            COMPONENTS[components](),
            Identity(),
            supervision=SUPERVISION[supervision](data),
            sum_out_assignments=precision,
        )


@pytest.mark.parametrize("supervision", SUPERVISION)
@every_part
def test_same_bound_and_natural_gradients(weights, components, supervision):
    data = labelled(weights, components)
    batch, bounds, gradients = full_batch(data), [], []
    responsibilities = torch.rand(ITEMS, CLUSTERS)
    for model in both(weights, components, supervision, data):
        guide = guide_of(model)
        observed = model.components.observe(batch.features)
        statistics = model.components.family.observation_statistics(observed)
        posterior = guide.posteriors["components"]
        posterior.set_natural_parameters(
            posterior.natural_parameters.detach() + responsibilities.mT @ statistics
        )
        loss = default_elbo(enumerates=False).differentiable_loss(model, guide, batch)
        loss.backward()
        bounds.append(loss.item())
        gradients.append([part.natural_parameters.grad for part in guide.posteriors.values()])
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-12)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("supervision", SUPERVISION)
@pytest.mark.parametrize("batch_size", [None, 16])
def test_same_fit(supervision, batch_size):
    data, results = labelled("dirichlet", "gaussian"), []
    for model in both("dirichlet", "gaussian", supervision, data):
        step_size = 1.0 if batch_size is None else 0.1
        results.append(
            quiet_fit(
                model, guide_of(model), data, batch_size=batch_size, step_size=step_size, epochs=5
            )
        )
    np.testing.assert_allclose(results[1].probabilities, results[0].probabilities, atol=1e-8)
    np.testing.assert_allclose(results[1].history["elbo"], results[0].history["elbo"], rtol=1e-10)
    assert results[1].elbo == pytest.approx(results[0].elbo, rel=1e-10)


def test_answers_are_heard_item_by_item():
    """z of a batch with answers is a site, whatever is asked for: these tie items together."""
    features, bounds = simulated(mixture("dirichlet", "gaussian"))[0], []
    pairs = {"left": [0, 1, 2], "right": [1, 2, 3], "worker": [0, 0, 0], "label": [1, 0, 1]}
    batch = full_batch(CrowdData(features, pairs))
    for precision in (None, torch.float64):
        parts = WEIGHTS["dirichlet"](), COMPONENTS["gaussian"](), Identity(), TwoCoin(1)
        model = SemiCrowdsourcedMixture(*parts, sum_out_assignments=precision)
        objective = default_elbo(enumerates=False)
        bounds.append(objective.differentiable_loss(model, guide_of(model), batch).item())
    assert bounds[0] == bounds[1]


def test_the_bound_is_the_same_whatever_precision_is_torchs_default():
    data = CrowdData(simulated(mixture("dirichlet", "gaussian"))[0])
    batch, bounds = full_batch(data), []
    torch.set_default_dtype(torch.float32)  # that of a user's process
    for model in both("dirichlet", "gaussian", "none", data):
        objective = default_elbo(enumerates=False)
        bounds.append(objective.differentiable_loss(model, guide_of(model), batch).item())
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-12)


def test_features_in_other_units():
    features, _ = simulated(mixture("dirichlet", "gaussian"))
    scaled = CrowdData(100 * features.unflatten(1, (2, 1)) + 7)
    emission = Standardized(torch.full((2,), 7.0), torch.full((2,), 100.0))
    results = []
    for precision in (None, torch.float64):
        parts = WEIGHTS["dirichlet"](), COMPONENTS["gaussian"](), emission
        model = SemiCrowdsourcedMixture(*parts, sum_out_assignments=precision)
        results.append(quiet_fit(model, guide_of(model), scaled, batch_size=None, step_size=1.0))
    np.testing.assert_allclose(results[1].probabilities, results[0].probabilities, atol=1e-8)
    assert results[1].elbo == pytest.approx(results[0].elbo, rel=1e-10)


def test_gradient_by_hand():
    rows = torch.randn(7, 3)
    parameters = torch.randn(2, 4, 3, requires_grad=True)
    parts = [(0, slice(0, 2)), (0, slice(2, 3)), (1, slice(3, 7))]
    assert torch.autograd.gradcheck(lambda p: _LogSumExpOfProduct.apply(rows, p, parts), parameters)


def test_far_items_neither_overflow_nor_underflow():
    rows = torch.tensor([[1e4, 1.0], [-1e4, 1.0]])
    parameters = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]], requires_grad=True)
    result = _LogSumExpOfProduct.apply(rows, parameters, [(0, slice(0, 2))])
    assert result.tolist() == [1e4, 1e4]
    result.sum().backward()
    torch.testing.assert_close(parameters.grad, torch.tensor([[[1e4, 1.0], [-1e4, 1.0]]]))


def test_single_precision_is_close():
    data, elbos = labelled("dirichlet", "gaussian"), []
    for precision in (torch.float64, torch.float32):
        model = SemiCrowdsourcedMixture(
            WEIGHTS["dirichlet"](),
            COMPONENTS["gaussian"](),
            Identity(),
            supervision=Unsupervised(refuses=False),
            sum_out_assignments=precision,
        )
        result = quiet_fit(model, guide_of(model), data, batch_size=None, step_size=1.0, epochs=5)
        elbos.append(result.elbo)
    assert elbos[1] == pytest.approx(elbos[0], rel=1e-5)


def test_full_data_are_prepared_once():
    batch = full_batch(labelled("dirichlet", "gaussian"))
    assert batch.to(torch.device("cpu"), torch.float64) is batch
    made = [batch.once("key", lambda: object()) for _ in range(2)]
    assert made[0] is made[1]
    assert batch.to(dtype=torch.float32).once("key", lambda: object()) is not made[0]


def test_needs_free_items():
    field = HiddenMarkovField(CLUSTERS, ITEMS)
    for parts in ({"supervision": field}, {}):
        emission = Identity() if parts else EMISSIONS["normal"]()
        with pytest.raises(ValueError, match="summed out only of mixtures on observed features"):
            SemiCrowdsourcedMixture(
                WEIGHTS["dirichlet"](),
                COMPONENTS["gaussian"](),
                emission,
                sum_out_assignments=torch.float64,
                **parts,
            )
