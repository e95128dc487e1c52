"""Loss and gradients of a step as one compiled function of the batch, without Pyro in it.

``make_fx`` runs guide, model and the way back once, on a batch whose sizes are symbols, and writes
down what was done to tensors. ``torch.compile`` makes machine code of that graph, in which hundreds
of small operations are a few loops, and Pyro's handlers do not run any more.

Such a graph holds for good whatever is no tensor: which way Python went, and every number that it
used. It is therefore used again only where all of these are as they were:

- the kind of the batch: its numbers, which parts it has, their types, and what Python asked of
  their sizes, which ``make_fx`` writes down with the graph; and torch's own settings;
- everything that can be reached from model, guide and bound (``PythonState``).

Weights that depend on the epoch (``recognition.current_weights``) are inputs of the graph.
Elsewhere another graph is made. Random numbers are torch's own, in the same order.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyro
import torch
from pyro.infer.elbo import ELBO
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from pyro_crowdclust.errors import first_line
from pyro_crowdclust.inference.loss_terms import Term, add_term, current_weights
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.training.natural_gradient import NaturalGradient
from pyro_crowdclust.training.python_state import PythonState


def _product_and_sum(
    bias: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    return torch.add(bias if beta == 1 else beta * bias, left @ right, alpha=alpha)


# ``addmm`` adds to a copy of its first argument, where a loop that comes after would add anyway.
DECOMPOSITIONS = {torch.ops.aten.addmm.default: _product_and_sum}

# More kinds of batches than that are no kinds: something changes in every step.
_MOST_GRAPHS = 4

Compiler = Callable[[GraphModule], Callable[..., Any]]


def by_inductor(graph: GraphModule) -> Callable[..., Any]:
    """``torch.compile`` for batches of any size."""
    options = {
        # torch's own random numbers, in the order of the step that is not compiled.
        "fallback_random": True,
        # Else what answers need of a worker is computed anew for every answer, digammas and all.
        "realize_opcount_threshold": 4,
        # What runs between the loops is no Python, either.
        "cpp_wrapper": True,
        # Else it makes of a product and a sum what DECOMPOSITIONS has taken apart.
        "pattern_matcher": False,
        "guard_filter_fn": _about_inputs,
    }
    return torch.compile(graph, dynamic=True, options=options)


def _about_inputs(guards: Sequence[Any]) -> list[bool]:
    """Which of Dynamo's guards are about the inputs of a graph and the settings of torch.

    The others are about the graph itself, which nobody else has, and about torch's own functions.
    """
    return [not guard.is_global and not guard.name.startswith("self") for guard in guards]


class Gradients(NamedTuple):
    """What a step needs of a batch: the bound, the training loss, and the gradients of the loss.

    Where a matrix could not be factorized bound and loss are NaN. ``is_legal`` is 1 if the natural
    step needs no guard, else 0.
    """

    elbo: Tensor
    loss: Tensor
    is_legal: Tensor
    gradients: Sequence[Tensor | None]


class CompiledStep:
    """``(elbo, loss, d loss / d parameters)`` of a batch, and whether the natural step is legal.

    Parameters
    ----------
    model, guide, elbo
        As in ``fit``. They may not change what they hold when they are called.
    parameters
        What gradients are wanted of.
    natural
        The optimizer of the first of them, whose guard looks at its step here; or None.
    compiler
        Makes a faster function of a graph; the default is ``torch.compile``.
    """

    def __init__(
        self,
        model: Callable[[Batch], Any],
        guide: Callable[[Batch], Any],
        elbo: ELBO,
        parameters: Sequence[nn.Parameter],
        natural: NaturalGradient | None = None,
        compiler: Compiler = by_inductor,
    ) -> None:
        self._parts = {"model": model, "guide": guide, "elbo": elbo}
        self._parameters = list(parameters)
        self._natural = natural
        self._compiler = compiler
        self._graphs: list[_Graph] = []

    def __call__(self, batch: Batch, step_size: float = 1.0) -> Gradients | None:
        """None if batches or parts change too often for a graph of each.

        Parameters
        ----------
        batch
            The batch.
        step_size
            Of the natural step.

        Raises
        ------
        ValueError
            If a step on such a batch cannot be compiled.
        """
        inputs = _inputs_of(batch, step_size)
        graph = self._graph_of(batch, inputs)
        if graph is None:
            return None
        elbo, loss, is_legal, *gradients = graph(inputs)
        return Gradients(elbo, loss, is_legal, gradients)

    def prepare(self, batch: Batch) -> None:
        """Compile the step on batches like this one now, not when the first one comes.

        Raises
        ------
        ValueError
            If it cannot be compiled.
        """
        self._graph_of(batch, _inputs_of(batch, step_size=1.0))

    def _graph_of(self, batch: Batch, inputs: _Inputs) -> _Graph | None:
        _forget_auxiliary_loss(self._parts["guide"])
        for graph in self._graphs:
            if graph.fits(inputs):
                return graph
        if len(self._graphs) == _MOST_GRAPHS:
            self._give_up()
            return None
        learning = self._parameters, self._natural
        graph = _Graph(batch, inputs, self._parts, *learning, self._compiler)
        self._graphs.append(graph)
        return graph

    def _give_up(self) -> None:
        changed = [f"{graph.state.changed()} changed" for graph in self._graphs]
        reasons = "; ".join(reason for reason in changed if not reason.startswith("None"))
        warnings.warn(
            f"{_MOST_GRAPHS} compiled steps fit no more ({reasons or 'the batches differ'}): steps "
            "like this one are not compiled. Leave out compile=True, or make weights that depend "
            "on the epoch those of a RecognitionTerm, and write x.shape[0] for len(x)",
            stacklevel=2,
        )


class _Inputs(NamedTuple):
    """The tensors of a step, and what a graph depends on beside their numbers and sizes."""

    tensors: tuple[Tensor, ...]
    kind: Hashable


def _inputs_of(batch: Batch, step_size: float) -> _Inputs:
    tensors, numbers = {}, {}
    for part in dataclasses.fields(Batch):
        value = getattr(batch, part.name)
        if isinstance(value, Tensor):
            tensors[part.name] = value
        elif isinstance(value, int):
            numbers[part.name] = value
        elif value is not None and part.init:
            raise ValueError(
                f"compile=True does not know batches with {part.name}, such as those of class "
                "labels, of known labels and links, and of several processes: leave it out"
            )
    # The size of an empty tensor, as which a number can be a symbol.
    tensors["num_paired"] = torch.empty(numbers.pop("num_paired"), device=batch.items.device)
    tensors["step_size"] = torch.tensor(step_size, dtype=torch.float64)
    kinds = tuple((name, value.dtype, value.device) for name, value in tensors.items())
    settings = (
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
    )
    return _Inputs(tuple(tensors.values()), (kinds, tuple(numbers.items()), settings))


class _Graph:
    """The step as ``make_fx`` wrote it down for one batch, compiled; and what it is good for."""

    def __init__(
        self,
        batch: Batch,
        inputs: _Inputs,
        parts: dict[str, Any],
        parameters: Sequence[nn.Parameter],
        natural: NaturalGradient | None,
        compiler: Compiler,
    ) -> None:
        with torch.random.fork_rng(), pyro.validation_enabled(False):
            # What functions keep from their first call on must be real tensors.
            _, loss, *_ = _gradients(batch, parameters, **parts)
        everything = PythonState(parts)
        self._terms = [part for part in everything.objects if isinstance(part, Term)]
        scheduled = {id(term): ("epoch", *current_weights(term)) for term in self._terms}
        self.state = PythonState(parts, but_for=scheduled)
        self._kind = inputs.kind
        self._parameters = parameters
        self._learning = self._who_learns()
        names = [name for name, *_ in inputs.kind[0]]

        def step(tensors: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor | None]:
            given = dict(zip(names, tensors, strict=True))
            given["num_paired"] = given["num_paired"].shape[0]
            step_size = given.pop("step_size")
            with _weighing(self._terms, weights), pyro.validation_enabled(False):
                changed = dataclasses.replace(batch, **given)
                bound, loss, *gradients = _gradients(changed, parameters, **parts)
            is_legal = torch.ones_like(bound)
            if natural is not None:
                own = gradients[: len(natural.param_groups)]
                is_legal = is_legal * natural.is_legal(own, step_size)
            return [bound, loss, is_legal, *gradients]

        with _quiet_torch():
            graph = self._traced(step, inputs.tensors)
            if (changed := everything.changed()) is not None:
                raise ValueError(
                    f"compile=True needs a model and a guide that stay as they are when they are "
                    f"called, but {changed} changed: leave compile out"
                )
            examples = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
            self._sizes = graph.shape_env
            asked = self._sizes.produce_guards_expression(examples, ignore_static=False)
            self._asked_of_sizes = compile(asked or "True", "<sizes>", "eval")
            _tell_by_loss(graph)
            self._run = self._compiled(graph, compiler, inputs, loss)

    def _traced(self, step: Callable, tensors: tuple[Tensor, ...]) -> GraphModule:
        # Parameters are no inputs: they stay attributes of the graph, with sizes that are numbers.
        trace = make_fx(
            step,
            decomposition_table=DECOMPOSITIONS,
            tracing_mode="symbolic",
            _allow_non_fake_inputs=True,
        )
        try:
            return trace(list(tensors), self._weights())
        except Exception as error:
            raise ValueError(
                "compile=True cannot write this step down as a graph of operations on tensors: "
                f"{first_line(error)}. Where model or guide ask for the numbers in a "
                "tensor, leave compile out"
            ) from error

    def _compiled(
        self, graph: GraphModule, compiler: Compiler, inputs: _Inputs, loss: Tensor
    ) -> Callable[..., list[Tensor | None]]:
        try:
            run = compiler(graph)
            with torch.random.fork_rng(), torch.no_grad():
                _, found, *_ = run(list(inputs.tensors), self._weights())
        except Exception as error:
            raise ValueError(
                f"torch.compile failed: {first_line(error)}. compile=True needs a C++ "
                "compiler: install g++ or clang (Debian: apt install g++; macOS: xcode-select "
                "--install), name it in the environment variable CXX, or leave compile out"
            ) from error
        if not torch.allclose(found, loss, rtol=1e-3, equal_nan=True):
            raise ValueError(
                f"the compiled step finds the loss {found.item():g} where it is {loss.item():g}: "
                "leave compile out"
            )
        return run

    def _who_learns(self) -> list[bool]:
        return [parameter.requires_grad for parameter in self._parameters]

    def _weights(self) -> list[Tensor]:
        values = [value for term in self._terms for value in current_weights(term).values()]
        return [torch.tensor(value, dtype=torch.float64) for value in values]

    def fits(self, inputs: _Inputs) -> bool:
        """Whether a step on these inputs would be this very graph."""
        if inputs.kind != self._kind or self._who_learns() != self._learning:
            return False
        given = [*inputs.tensors, *self._weights()]
        if not self._sizes.evaluate_guards_expression(self._asked_of_sizes, given):
            return False
        return self.state.changed() is None

    @torch.no_grad()
    def __call__(self, inputs: _Inputs) -> list[Tensor | None]:
        """Bound, loss and gradients, one after the other."""
        return self._run(list(inputs.tensors), self._weights())


@contextmanager
def _quiet_torch() -> Iterator[None]:
    """Without what torch says about itself while it traces and compiles."""
    logger = logging.getLogger("torch._inductor")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _tell_by_loss(graph: GraphModule) -> None:
    """Make the loss NaN where torch would stop at a matrix that it cannot factorize.

    Torch keeps no machine code of graphs that may stop in its cache, and waits for a GPU to see
    whether they do.
    """
    nodes, aten = graph.graph, torch.ops.aten
    (result,) = nodes.find_nodes(op="output")
    bound, loss, *gradients = result.args[0]
    stops = nodes.find_nodes(op="call_function", target=aten._linalg_check_errors.default)
    with nodes.inserting_before(result):
        for stop in stops:
            failed = nodes.call_function(aten.any.default, stop.args[:1])
            bound, loss = (
                nodes.call_function(aten.masked_fill.Scalar, (value, failed, math.nan))
                for value in (bound, loss)
            )
    result.args = ([bound, loss, *gradients],)
    for stop in stops:
        nodes.erase_node(stop)
    nodes.eliminate_dead_code()
    graph.recompile()


def _gradients(
    batch: Batch, parameters: Sequence[nn.Parameter], *, model: Any, guide: Any, elbo: ELBO
) -> list[Tensor | None]:
    try:
        bound = -elbo.differentiable_loss(model, guide, batch)
        loss = add_term(getattr(guide, "auxiliary_loss", None), -bound)
    finally:
        _forget_auxiliary_loss(guide)
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    gradients = iter(torch.autograd.grad(loss, learning, allow_unused=True))
    of_all = [next(gradients) if parameter.requires_grad else None for parameter in parameters]
    return [bound.detach(), loss.detach(), *of_all]


def _forget_auxiliary_loss(guide: Any) -> None:
    if hasattr(guide, "auxiliary_loss"):
        guide.auxiliary_loss = None


@contextmanager
def _weighing(terms: Sequence[Term], weights: Sequence[Tensor]) -> Iterator[None]:
    """Terms with these tensors as their weights, for the time of the block."""
    names = [(term, name) for term in terms for name in current_weights(term)]
    before = [getattr(term, name) for term, name in names]
    try:
        for (term, name), weight in zip(names, weights, strict=True):
            setattr(term, name, weight)
        yield
    finally:
        for (term, name), schedule in zip(names, before, strict=True):
            setattr(term, name, schedule)


__all__ = ["CompiledStep", "Gradients"]
