"""A compiled step is the step, and is used where it is the step only."""

from __future__ import annotations

import logging
import os
import shutil
from functools import partial

import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.inference import (
    ConsistencyTerm,
    LocalSolver,
    RandomAffine,
    RecognitionTerm,
    exponential_annealing,
)
from pyro_crowdclust.minibatches import MinibatchSampler, Ranks
from pyro_crowdclust.training import NaturalGradient
from pyro_crowdclust.training.compiled_step import DECOMPOSITIONS, CompiledStep
from pyro_crowdclust.training.elbo import default_elbo

from ..crowds import (
    NUM_FEATURES,
    amortized_pair,
    crowd,
    message_passing_pair,
    plain_pair,
    quiet_fit,
)
from ..problems import bernoulli_problem, mixture_problem, without_answers
from ..ranks_fit import crowd_of_pages, dawid_skene_pair, labelled_crowd

ELBO = default_elbo(enumerates=False)
COMPILERS = [os.environ.get("CXX", "g++"), "g++", "clang++"]
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, COMPILERS)), reason="there is no C++ compiler"
)


@pytest.fixture(autouse=True)
def _no_diary_of_torch(monkeypatch):
    """It writes one when anybody listens, as pytest does, and takes ten times as long."""
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)


def as_written(graph):
    """No compiler: the graph, operation by operation."""
    return graph


def trained(make):
    """Model and guide after an epoch, and minibatches of several sizes."""
    data = crowd_of_pages()
    result = quiet_fit(*make(), data, epochs=1)
    generator = torch.Generator().manual_seed(0)
    sampler = MinibatchSampler(data, batch_size=10, answers_per_step=40, generator=generator)
    return result.model, result.guide, [next(iter(sampler)) for _ in range(3)]


def parameters_of(guide):
    return [parameter for parameter in guide.parameters() if parameter.requires_grad]


def compiled(model, guide, compiler=as_written):
    return CompiledStep(model, guide, ELBO, parameters_of(guide), compiler=compiler)


def without_graph(model, guide, batch):
    """Bound, loss and gradients, from autograd."""
    with pyro.validation_enabled(False):
        bound = -ELBO.differentiable_loss(model, guide, batch)
    auxiliary = getattr(guide, "auxiliary_loss", None)
    loss = -bound if auxiliary is None else auxiliary - bound
    return [bound, loss, *torch.autograd.grad(loss, parameters_of(guide), allow_unused=True)]


def assert_same_step(step, model, guide, batch):
    torch.manual_seed(0)
    expected = without_graph(model, guide, batch)
    torch.manual_seed(0)
    found = step(batch)
    for one, other in zip(expected, [found.elbo, found.loss, *found.gradients], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(other, one, rtol=1e-10, atol=1e-10)


class CountedGraphs:
    """A compiler that counts what it is asked for."""

    def __init__(self):
        self.count = 0

    def __call__(self, graph):
        self.count += 1
        return graph


def pair_that_sees_views():
    """BayesSCDC whose recognition network also learns from views."""
    model, guide = message_passing_pair()
    view = RandomAffine((1, 1, NUM_FEATURES))
    schedule = exponential_annealing(5.0, 0.5, 0.1)
    guide.consistency_term = ConsistencyTerm(view, weight=schedule, answered_weight=2.0)
    return model, guide


@pytest.mark.parametrize(
    "make",
    [message_passing_pair, pair_that_sees_views, plain_pair],
    ids=["deep", "views", "plain"],
)
def test_one_graph_serves_batches_of_all_sizes_and_parameters_that_learn(make):
    model, guide, batches = trained(make)
    assert len({(len(batch.items), batch.num_paired) for batch in batches}) > 1
    graphs = CountedGraphs()
    step = compiled(model, guide, graphs)
    for batch in batches:
        assert_same_step(step, model, guide, batch)
        with torch.no_grad():
            for parameter in guide.parameters():
                parameter.mul_(1.01)
    model.components.prior.natural_parameters.mul_(1.02)  # a buffer
    assert_same_step(step, model, guide, batches[0])
    assert graphs.count == 1


def test_sums_of_products_are_left_to_loops():
    def weighted(bias, left, right):
        return torch.addmm(bias, left, right, beta=0.5, alpha=2.0) + torch.addmm(bias, left, right)

    torch.manual_seed(0)
    inputs = torch.randn(3), torch.randn(5, 2), torch.randn(2, 3)
    graph = make_fx(weighted, DECOMPOSITIONS)(*inputs)
    assert not graph.graph.find_nodes(op="call_function", target=torch.ops.aten.addmm.default)
    torch.testing.assert_close(graph(*inputs), weighted(*inputs))


def test_a_batch_without_answers_has_a_graph_of_its_own():
    guide, batch = mixture_problem()
    graphs = CountedGraphs()
    step = compiled(guide.model, guide, graphs)
    for some in (batch, without_answers(batch), batch):
        assert_same_step(step, guide.model, guide, some)
    assert graphs.count == 2


def test_weights_that_depend_on_the_epoch_are_no_part_of_the_graph():
    term = RecognitionTerm(exponential_annealing(5.0, 0.5, 0.1))
    guide, batch = bernoulli_problem(recognition_term=term)
    graphs = CountedGraphs()
    step = compiled(guide.model, guide, graphs)
    losses = []
    for epoch in (0.0, 1.5, 3.0):
        guide.set_epoch(epoch)
        assert_same_step(step, guide.model, guide, batch)
        losses.append(step(batch).loss)
    assert graphs.count == 1
    assert len(set(losses)) == 3
    assert term.weight == exponential_annealing(5.0, 0.5, 0.1)


def test_other_settings_have_a_graph_of_their_own():
    guide, batch = mixture_problem()
    graphs = CountedGraphs()
    step = compiled(guide.model, guide, graphs)
    for exchanges in (3, 1):
        guide.solver = LocalSolver(exchanges=exchanges)
        assert_same_step(step, guide.model, guide, batch)
    assert graphs.count == 2


def test_other_settings_of_torch_have_a_graph_of_their_own():
    model, guide, batches = trained(message_passing_pair)
    graphs, threads = CountedGraphs(), torch.get_num_threads()
    step = compiled(model, guide, graphs)
    assert_same_step(step, model, guide, batches[0])
    try:
        torch.set_num_threads(threads + 1)
        assert_same_step(step, model, guide, batches[0])
    finally:
        torch.set_num_threads(threads)
    assert graphs.count == 2
    assert_same_step(step, model, guide, batches[0])
    assert graphs.count == 2


def test_a_parameter_that_no_longer_learns_has_no_gradient():
    guide, batch = mixture_problem()
    parameters = list(guide.parameters())
    step = CompiledStep(guide.model, guide, ELBO, parameters, compiler=as_written)
    assert all(gradient is not None for gradient in step(batch).gradients)
    parameters[0].requires_grad_(False)
    frozen, *others = step(batch).gradients
    assert frozen is None
    assert all(gradient is not None for gradient in others)


def test_whether_the_natural_step_needs_its_guard():
    guide, batch = mixture_problem()
    natural = NaturalGradient(guide.posteriors.values())
    own = [group["params"][0] for group in natural.param_groups]
    step = CompiledStep(guide.model, guide, ELBO, own, natural, as_written)
    for step_size in (0.5, -3.0, 0.1):
        found = step(batch, step_size)
        with torch.no_grad():
            stays = [
                bool(group["family"].in_domain(eta - step_size * gradient).all())
                for group, eta, gradient in zip(
                    natural.param_groups, own, found.gradients, strict=True
                )
            ]
        assert found.is_legal == all(stays) == (step_size > 0)


class Location(nn.Module):
    """q of the mean of all features, which uses a number that is no tensor."""

    def __init__(self):
        super().__init__()
        self.mean, self.log_scale = (nn.Parameter(torch.tensor(value)) for value in (0.5, 0.0))
        self.sharpness, self.num_calls = 1.0, None

    def forward(self, batch):
        if self.num_calls is not None:
            self.num_calls += 1
        scale = self.log_scale.exp() / self.sharpness
        pyro.sample("location", dist.Normal(self.mean, scale))


def normal_model(batch):
    location = pyro.sample("location", dist.Normal(torch.zeros(()), 10.0))
    with pyro.plate("items", batch.items.shape[0]), pyro.poutine.scale(scale=batch.item_weight):
        pyro.sample("o", dist.Normal(location, 1.0).expand([1]).to_event(1), obs=batch.features)


def normal_batch():
    data = CrowdData(torch.randn(30, 1) + 3)
    generator = torch.Generator().manual_seed(0)
    return next(iter(MinibatchSampler(data, batch_size=10, generator=generator)))


def test_numbers_that_change_in_every_step_end_it():
    guide, batch = Location(), normal_batch()
    step = compiled(normal_model, guide)
    for sharpness in (1.0, 2.0, 3.0, 4.0):
        guide.sharpness = sharpness
        assert_same_step(step, normal_model, guide, batch)
    guide.sharpness = 5.0
    with pytest.warns(UserWarning, match=r"guide\.sharpness changed.*not compiled"):
        assert step(batch) is None
    guide.sharpness = 4.0
    assert_same_step(step, normal_model, guide, batch)


def test_a_matrix_that_cannot_be_factorized_makes_the_loss_no_number():
    guide, batch = bernoulli_problem()
    step = compiled(guide.model, guide)
    step.prepare(batch)
    with torch.no_grad():
        guide.posteriors["components"].natural_parameters.neg_()
    assert step(batch).loss.isnan()


def test_a_fit_says_why_a_compiled_step_has_no_loss():
    def compile_and_spoil(trainer):
        trainer.compile(next(iter(trainer.batches)), as_written)
        with torch.no_grad():
            trainer.model.emission.network.skip.bias.fill_(torch.nan)

    with pytest.warns(UserWarning, match="site 'o' in the model is not finite"):
        quiet_fit(*message_passing_pair(), crowd(), callbacks=[compile_and_spoil])


def refused(make, data, **options):
    with pytest.raises(ValueError, match="leave") as error:
        quiet_fit(*make(), data, compile=True, **options)
    return str(error.value)


def test_what_cannot_be_compiled_is_refused():
    assert "graph of operations" in refused(amortized_pair, crowd())
    assert "class_labels" in refused(dawid_skene_pair, labelled_crowd())
    assert "validate=True" in refused(plain_pair, crowd(), validate=True)


def test_ranks_are_refused():
    ranks = Ranks()
    ranks.count = 2
    assert "one process" in refused(plain_pair, crowd(), ranks=ranks)


def test_a_guide_that_counts_its_calls_is_refused():
    guide, data = Location(), CrowdData(torch.randn(30, 1))
    guide.num_calls = 0
    with pytest.raises(ValueError, match=r"guide\.num_calls changed"):
        fit(normal_model, guide, data, compile=True, dtype=torch.float64, progress=False)


def test_a_missing_compiler_is_named():
    without = partial(torch.compile, options={"cpp.cxx": ("no-such-compiler",)})
    with pytest.raises(ValueError, match="apt install"):
        compiled(normal_model, Location(), without).prepare(normal_batch())


@needs_compiler
def test_a_compiled_fit_is_the_fit():
    data = CrowdData(torch.randn(30, 1) + 3)
    options = {"batch_size": 10, "dtype": torch.float64, "epochs": 2, "progress": False}
    plain = fit(normal_model, Location(), data, **options)
    first, again = (fit(normal_model, Location(), data, compile=True, **options) for _ in range(2))
    plain, first, again = (
        result.history.drop(columns="seconds") for result in (plain, first, again)
    )
    pd.testing.assert_frame_equal(first, plain, rtol=1e-10)
    pd.testing.assert_frame_equal(first, again, check_exact=True)
