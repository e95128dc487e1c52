"""The bound that ``fit`` takes where nothing is enumerated, and plates without a subsample site."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO, TraceEnum_ELBO
from pyro.infer.autoguide import AutoNormal

from pyro_crowdclust.distributions import FullPlate
from pyro_crowdclust.distributions.at_mean import ConjugateAtMean
from pyro_crowdclust.distributions.statistics import Conjugate
from pyro_crowdclust.families import Dirichlet
from pyro_crowdclust.training import EnumeratedELBO, PlainELBO
from pyro_crowdclust.training.elbo import LostELBO, default_elbo, elbo_fields, elbo_of_fields

from ..oracles import random_natural
from ..test_gpu import PAIRS, loss_of, started


def loss_and_gradients(elbo, model, guide, *batch) -> list[torch.Tensor | None]:
    torch.manual_seed(0)
    loss = loss_of(model, guide, *batch, elbo)
    leaves = [part for part in guide.parameters() if part.requires_grad]
    return [loss, *torch.autograd.grad(loss, leaves, allow_unused=True)]


@pytest.mark.parametrize("kind", sorted(PAIRS))
def test_it_is_the_bound_of_pyro(kind):
    model, guide, batch = started(kind, torch.float64)
    kinds = Trace_ELBO(max_plate_nesting=1), PlainELBO(max_plate_nesting=1)
    found = [loss_and_gradients(elbo, model, guide, batch) for elbo in kinds]
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def scaled_and_masked(scale, mask):
    """A model with one site that is scaled and masked, and its guide."""
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(4, generator=generator, dtype=torch.float64)

    def model(batch):
        loc = pyro.sample("loc", pyro.distributions.Normal(torch.tensor(0.0).double(), 1.0))
        scaled, masked = poutine.scale(scale=scale), poutine.mask(mask=mask)
        with scaled, FullPlate("items", 4), masked:
            pyro.sample("x", pyro.distributions.Normal(loc, 1.0), obs=data)

    guide = AutoNormal(model)
    guide(None)
    return model, guide.double()


@pytest.mark.parametrize(
    "scale",
    [
        1.0,
        2.5,
        torch.tensor(2.5, dtype=torch.float64),
        torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64),
    ],
    ids=["one", "number", "scalar", "vector"],
)
@pytest.mark.parametrize(
    "mask", [True, torch.tensor([True, False, True, True])], ids=["all", "some"]
)
def test_scales_and_masks_are_those_of_pyro(scale, mask):
    model, guide = scaled_and_masked(scale, mask)
    found = [loss_and_gradients(elbo, model, guide, None) for elbo in (Trace_ELBO(), PlainELBO())]
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)
    pyro.clear_param_store()


ROWS = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
SOME = torch.tensor([True, False, True, True])


@pytest.mark.parametrize(
    ("batch", "of_model", "of_guide", "mask"),
    [
        ((4,), 1.0, 1.0, None),
        ((4,), 2.5, 1.0, None),
        ((4,), 1.0, 2.5, None),
        ((4,), 2.5, 2.5, None),
        ((4,), ROWS, ROWS, None),
        ((4,), 1.0, 1.0, SOME),
        ((2, 4), ROWS, ROWS, None),
        ((), ROWS[1], ROWS[1], None),
    ],
    ids=["plain", "model", "guide", "both", "rows", "masked", "matrix", "single"],
)
def test_divergences_of_conjugate_sites_are_those_of_pyro(batch, of_model, of_guide, mask):
    """They are taken as a whole where neither side is scaled or masked, and there alone."""
    family = Dirichlet(3)
    eta = random_natural(family, *batch).requires_grad_()
    q = ConjugateAtMean(family, eta, natural_gradient=True)
    p = Conjugate(family, random_natural(family, *batch))

    def site(fn, scale):
        masked = nullcontext() if mask is None else poutine.mask(mask=mask)
        with poutine.scale(scale=scale), masked:
            pyro.sample("theta", fn)

    found = []
    for elbo in (Trace_ELBO(), PlainELBO()):
        with pyro.validation_enabled(False):
            loss = elbo.differentiable_loss(lambda: site(p, of_model), lambda: site(q, of_guide))
        found.append((loss, *torch.autograd.grad(loss, eta, retain_graph=True)))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


def test_many_particles_are_those_of_pyro():
    model, guide = scaled_and_masked(1.0, True)
    kinds = Trace_ELBO(num_particles=3), PlainELBO(num_particles=3), PlainELBO()
    pyros, ours, one = (loss_and_gradients(elbo, model, guide, None) for elbo in kinds)
    torch.testing.assert_close(ours, pyros, rtol=1e-12, atol=1e-12)
    assert not torch.isclose(one[0], ours[0])
    pyro.clear_param_store()


def test_guides_that_draw_discrete_values_are_left_to_pyro():
    probability = torch.tensor(0.3, requires_grad=True)

    def model():
        pyro.sample("b", pyro.distributions.Bernoulli(0.5))

    def guide():
        pyro.sample("b", pyro.distributions.Bernoulli(probability))

    torch.manual_seed(0)
    with pyro.validation_enabled(False):
        loss = PlainELBO().differentiable_loss(model, guide)
    (gradient,) = torch.autograd.grad(loss, probability)
    assert gradient.abs() > 0


def test_with_checks_on_it_is_as_strict_as_pyro():
    def model():
        pyro.sample("a", pyro.distributions.Normal(0.0, 1.0))

    def guide():
        pyro.sample("b", pyro.distributions.Normal(0.0, 1.0))

    with pyro.validation_enabled(True), pytest.warns(UserWarning, match="^Found"):
        PlainELBO().differentiable_loss(model, guide)


def enumerated_pair(dtype, kind):
    """Cluster and place of four weighted items, the cluster summed out in the guide."""
    x = torch.linspace(-1, 2, 4, dtype=dtype)
    logits = torch.stack([x, 0.5 * x], -1).requires_grad_()
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)

    def site(name, fn, **options):
        return pyro.sample(name, fn, infer={"enumerate": kind}, **options)

    def model():
        with pyro.plate("items", 4), poutine.scale(scale=weight):
            z = site("z", pyro.distributions.Categorical(torch.ones(2, dtype=dtype)))
            place = torch.tensor([-1.0, 1.0], dtype=dtype)[z]
            pyro.sample("x", pyro.distributions.Normal(place, 1.0), obs=x)

    def guide():
        with pyro.plate("items", 4), poutine.scale(scale=weight):
            site("z", pyro.distributions.Categorical(logits=logits))

    return model, guide, logits


@pytest.mark.parametrize("kind", ["parallel", None])
def test_enumerated_sites_in_single_precision_may_have_weights_in_double(kind):
    found = []
    for dtype, make in (
        (torch.float64, TraceEnum_ELBO),
        (torch.float64, EnumeratedELBO),
        (torch.float32, EnumeratedELBO),
    ):
        model, guide, logits = enumerated_pair(dtype, kind)
        elbo = make(max_plate_nesting=1, strict_enumeration_warning=False)
        torch.manual_seed(0)
        loss = elbo.differentiable_loss(model, guide)
        assert loss.dtype is torch.float64
        found.append((loss, torch.autograd.grad(loss, logits)[0].double()))
    pyros, ours, mixed = found
    torch.testing.assert_close(ours, pyros, rtol=0, atol=0)
    torch.testing.assert_close(mixed, pyros, rtol=1e-5, atol=1e-6)


def test_which_bound_a_fit_takes():
    assert type(default_elbo(enumerates=False)) is PlainELBO
    assert type(default_elbo(enumerates=True)) is EnumeratedELBO


@pytest.mark.parametrize(
    "elbo",
    [
        PlainELBO(max_plate_nesting=2),
        Trace_ELBO(num_particles=3, vectorize_particles=True, max_plate_nesting=1),
        TraceEnum_ELBO(),
        EnumeratedELBO(max_plate_nesting=2),
    ],
    ids=["plain", "particles", "of Pyro", "enumerated"],
)
def test_a_bound_can_be_kept_in_a_file(elbo):
    again = elbo_of_fields(elbo_fields(elbo))
    assert type(again) is type(elbo)
    assert vars(again) == vars(elbo)


def test_a_bound_of_ones_own_is_not_taken_for_one_of_pyros_with_its_name():
    own = type("Trace_ELBO", (PlainELBO,), {})()
    assert type(elbo_of_fields(elbo_fields(own))) is LostELBO


def test_a_full_plate_is_a_plate_of_pyro():
    def sites(make_plate):
        def model():
            with make_plate("items", 3):
                pyro.sample("x", pyro.distributions.Normal(0.0, 1.0))

        trace = poutine.trace(model).get_trace()
        return trace.nodes["x"], "items" in trace

    (ours, has_subsample), (pyros, of_pyro) = (
        sites(FullPlate),
        sites(partial(pyro.plate, dim=-1)),
    )
    assert (has_subsample, of_pyro) == (False, True)
    assert ours["cond_indep_stack"] == pyros["cond_indep_stack"]
    assert ours["value"].shape == pyros["value"].shape == (3,)
    assert ours["scale"] == pyros["scale"]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("scale", [1.0, 2.5, torch.tensor(1.0), torch.tensor(2.5)])
def test_weights_of_a_plate_and_another_scale_multiply(scale, inside):
    weight = torch.tensor([1.0, 2.0, 3.0])

    def model():
        handlers = [FullPlate("items", 3, weight), poutine.scale(scale=scale)]
        first, second = handlers if inside else reversed(handlers)
        with first, second:
            pyro.sample("x", pyro.distributions.Normal(0.0, 1.0))

    found = poutine.trace(model).get_trace().nodes["x"]["scale"]
    torch.testing.assert_close(found, weight * scale)


def test_a_full_plate_says_which_shape_does_not_fit():
    with FullPlate("items", 3), pytest.raises(ValueError, match="plate\\('items'\\) at site x"):
        pyro.sample("x", pyro.distributions.Normal(torch.zeros(2), 1.0))
