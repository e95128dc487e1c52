"""The training loop behind ``fit``, one epoch at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyro
import torch
from jaxtyping import Float, Int
from pyro.infer.elbo import ELBO
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.priors import ConjugatePosterior
from pyro_crowdclust.errors import first_line
from pyro_crowdclust.families import OutsideDomain
from pyro_crowdclust.inference.loss_terms import add_term
from pyro_crowdclust.minibatches.batch import Batch, item_batches
from pyro_crowdclust.minibatches.processes import Ranks
from pyro_crowdclust.minibatches.sampler import MinibatchSampler
from pyro_crowdclust.training.checks import find_not_finite
from pyro_crowdclust.training.compiled_step import CompiledStep, Compiler, Gradients, by_inductor
from pyro_crowdclust.training.copies import named_tensors
from pyro_crowdclust.training.natural_gradient import NaturalGradient, StepSize

# Rows that one pass through the networks holds when many items are predicted.
PREDICTION_ROWS = 4096

Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class NotFinite(ArithmeticError):
    """The loss became infinite or not a number; the message names the site."""


@dataclass
class Position:
    """Where training stands within an epoch.

    Attributes
    ----------
    before
        Parameters and buffers at the start of the epoch, to go back to if training goes bad.
    sampler
        State of the minibatches' generator at the start of the epoch, from which the same ones are
        drawn again; None where every step takes all data.
    elbos
        ELBO of every step since.
    seconds
        Time since.
    """

    before: dict[str, Tensor]
    sampler: Tensor | None
    elbos: list[float] = field(default_factory=list)
    seconds: float = 0.0


class Trainer:
    """State and steps of one training run.

    Parameters
    ----------
    model, guide
        The run's own copies; trained in place.
    data
        What to learn from.
    batches
        A ``MinibatchSampler``, or the batch of every step: ``full_batch(data)``.
    optim, step_size, elbo, device, dtype, validate, ranks
        As in ``fit``. ``trainer.ranks.is_first`` says whether a callback should print and write.
    """

    def __init__(
        self,
        model: Callable[[Batch], Any],
        guide: Callable[[Batch], Any],
        data: CrowdData,
        batches: MinibatchSampler | Batch,
        *,
        optim: Optimizer,
        step_size: float | StepSize,
        elbo: ELBO,
        device: str | torch.device | None,
        dtype: torch.dtype,
        validate: bool,
        ranks: Ranks | None = None,
    ) -> None:
        self.model, self.guide, self.data, self.elbo = model, guide, data, elbo
        sampled = isinstance(batches, MinibatchSampler)
        self.batches = batches if sampled else None
        self._full = None if sampled else batches.to(device, dtype)
        self.device, self.dtype, self.validate = device, dtype, validate
        self.ranks = ranks or Ranks()
        self.step_size = step_size if callable(step_size) else lambda step: step_size
        self.steps_done = self.epochs_done = 0
        self.history: list[dict[str, float]] = []
        self.position: Position | None = None
        self.annealed_to: float | None = None
        self._modules = [part for part in (model, guide) if isinstance(part, nn.Module)]
        posteriors = [
            module
            for part in self._modules
            for module in part.modules()
            if isinstance(module, ConjugatePosterior)
        ]
        self.natural = NaturalGradient(dict.fromkeys(posteriors)) if posteriors else None
        parameters = self._parameters()
        self.optim = optim(parameters) if parameters else None
        natural = [] if self.natural is None else self.natural.param_groups
        self._stepped = [*(group["params"][0] for group in natural), *parameters]
        self._compiled: CompiledStep | None = None

    def compile(self, batch: Batch, compiler: Compiler = by_inductor) -> None:
        """Compile the step on batches like this one, for all steps but the first of the run.

        Parameters
        ----------
        batch
            A batch as they will come.
        compiler
            As of ``CompiledStep``.

        Raises
        ------
        ValueError
            If it cannot be compiled.
        """
        parts = self.model, self.guide, self.elbo
        self._compiled = CompiledStep(*parts, self._stepped, self.natural, compiler)
        self._compiled.prepare(batch)

    def _parameters(self) -> list[nn.Parameter]:
        """Everything to learn that is not a natural parameter, from modules and Pyro's store."""
        found = [parameter for part in self._modules for parameter in part.parameters()]
        found += [parameter for _, parameter in pyro.get_param_store().named_parameters()]
        natural = self._natural_ids()
        unique = {id(parameter): parameter for parameter in found if parameter.requires_grad}
        return [parameter for key, parameter in unique.items() if key not in natural]

    def _natural_ids(self) -> set[int]:
        if self.natural is None:
            return set()
        return {id(group["params"][0]) for group in self.natural.param_groups}

    @property
    def steps_per_epoch(self) -> int:
        """How many steps see all data about once."""
        return 1 if self.batches is None else len(self.batches)

    def step(self, batch: Batch) -> float:
        """One gradient step; returns the ELBO of the batch, an unbiased estimate of the whole.

        Raises
        ------
        NotFinite
            If the loss is not finite. Parameters are then left as they were.
        """
        step_size = self.step_size(self.steps_done)
        if self.natural is not None:
            self.natural.set_step_size(step_size)
        for parameter in self._stepped:
            parameter.grad = None
        try:
            elbo, is_legal = self._backward(batch, step_size)
        except NotFinite:
            self.ranks.average(self._stepped, math.nan)  # the others wait for a number
            raise
        elbo = self.ranks.average(self._stepped, elbo)
        if not math.isfinite(elbo):
            raise NotFinite("the loss is not finite in another process, which names the site")
        if self.optim is not None:
            self.optim.step()
        # The next step begins with what this one ends with, factorizations in float64.
        if self.natural is not None:
            self.natural.step(is_legal=is_legal)
        self.steps_done += 1
        return elbo

    def _backward(self, batch: Batch, step_size: float) -> tuple[float, bool]:
        """The ELBO of the batch; leaves the gradients of the loss.

        Also whether the natural step is known to need no guard.
        """
        compiled = self._compiled_gradients(batch, step_size)
        if compiled is None:
            elbo = -self._loss(batch)
            loss = add_term(getattr(self.guide, "auxiliary_loss", None), -elbo)
            is_legal = torch.zeros_like(elbo)
        else:
            elbo, loss, is_legal, gradients = compiled
        # The one time in a step that a GPU is waited for.
        numbers = torch.stack([elbo.detach(), loss.detach(), is_legal])
        reported, total, legal = numbers.tolist()
        if not math.isfinite(total):
            if compiled is not None:
                self._loss(batch)  # which may know more of why
            raise NotFinite(
                find_not_finite(self.model, self.guide, batch)
                or "the loss is not finite although every site is: an auxiliary term or an overflow"
            )
        if compiled is None:
            loss.backward()
        else:
            for parameter, gradient in zip(self._stepped, gradients, strict=True):
                parameter.grad = gradient
        return reported, bool(legal)

    def _compiled_gradients(self, batch: Batch, step_size: float) -> Gradients | None:
        """None where the step is not compiled; the first is checked by Pyro."""
        if self._compiled is None or self.steps_done == 0:
            return None
        return self._compiled(batch, step_size)

    def _loss(self, batch: Batch) -> Tensor:
        """The negative ELBO of the batch."""
        validate = self.validate or self.steps_done == 0
        try:
            with pyro.validation_enabled(validate):
                return self.elbo.differentiable_loss(self.model, self.guide, batch)
        except (ValueError, torch.linalg.LinAlgError) as error:
            # A value that is not finite may stop a distribution before there is a loss.
            bad = find_not_finite(self.model, self.guide, batch)
            if bad is None and not isinstance(error, OutsideDomain):
                raise
            message = first_line(error)
            raise NotFinite(message if bad is None else f"{bad} ({message})") from error

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training changes in the modules and in Pyro's store, by name."""
        return named_tensors(
            self.model, self.guide, dict(pyro.get_param_store().named_parameters())
        )

    @torch.no_grad()
    def set_tensors(self, values: dict[str, Tensor]) -> None:
        """Give everything that training changes the value under its name, if there is one."""
        for name, tensor in self.tensors().items():
            if name in values:
                tensor.copy_(values[name])

    def set_epoch(self, epoch: float) -> None:
        """Tell the guide how far training is, for what it anneals."""
        self.annealed_to = epoch
        if hasattr(self.guide, "set_epoch"):
            self.guide.set_epoch(epoch)

    def meet(self) -> None:
        """Start from the same place in all processes: where the first one stands.

        Raises
        ------
        ValueError
            If some processes go on from a checkpoint that others do not see.
        """
        steps_of_first = torch.tensor(self.steps_done)
        self.ranks.broadcast([steps_of_first, *self.tensors().values()])
        if int(steps_of_first) != self.steps_done:
            raise ValueError(
                f"the first process goes on from a checkpoint of step {int(steps_of_first)}, this "
                f"one from step {self.steps_done}: keep it in a folder that all processes see"
            )

    def _start_of_epoch(self) -> Position:
        before = {name: tensor.detach().clone() for name, tensor in self.tensors().items()}
        return Position(
            before, None if self.batches is None else self.batches.generator.get_state()
        )

    def _batches_from(self, position: Position) -> Iterator[Batch]:
        """The batches of an epoch that come after those of its first steps."""
        if self.batches is None:
            return islice([self._full], len(position.elbos), None)
        self.batches.generator.set_state(position.sampler)
        return islice(self.batches.epoch(self.ranks), len(position.elbos), None)

    def epoch(self, on_step: Callable[[float], None], max_steps: float = math.inf) -> None:
        """One pass over the data, or the rest of one; adds a row to ``history``.

        Raises
        ------
        NotFinite
            If training went bad; the parameters are then those at the start of the epoch.
        """
        position = self.position = self.position or self._start_of_epoch()
        started = time.perf_counter() - position.seconds
        elbos = position.elbos
        try:
            for batch in self._batches_from(position):
                if self.steps_done >= max_steps:
                    break
                self.set_epoch(self.epochs_done + len(elbos) / self.steps_per_epoch)
                elbos.append(self.step(batch.to(self.device, self.dtype)))
                position.seconds = time.perf_counter() - started
                on_step(elbos[-1] / self.data.num_items)
        except NotFinite:
            self.set_tensors(position.before)
            raise
        finally:
            if hasattr(self.guide, "auxiliary_loss"):
                self.guide.auxiliary_loss = None  # its graph could be neither copied nor saved
        self.position = None
        self.epochs_done += 1
        row = {
            "epoch": self.epochs_done,
            "step": self.steps_done,
            "seconds": time.perf_counter() - started,
            "elbo": sum(elbos) / max(len(elbos), 1),
        }
        if hasattr(self.guide, "mixture"):
            weights = self.guide.mixture().weights
            row["clusters_in_use"] = int((weights >= 0.01).sum())
        self.history.append(row)

    def has_converged(self, tolerance: float | None, patience: int) -> bool:
        """Whether the last ``patience`` epochs brought less than ``tolerance`` nats per item."""
        if tolerance is None or len(self.history) <= patience:
            return False
        elbos = [row["elbo"] / self.data.num_items for row in self.history]
        return max(elbos[-patience:]) - max(elbos[:-patience]) < tolerance

    @torch.no_grad()
    def predict_proba(self, features: Any) -> Tensor:
        """q(z) of items from their features alone, at this point of training."""
        batches = item_batches(CrowdData(features), PREDICTION_ROWS)
        parts = [self.guide.infer(batch.to(self.device, self.dtype)) for batch in batches]
        return torch.cat([part.assignments for part in parts]).cpu()


def assignments_by_features(
    trainer: Trainer, items: Int[Tensor, " item"]
) -> Float[Tensor, "item cluster"]:
    """q(z) of some training items without their answers, in float64."""
    batch = next(item_batches(trainer.data, len(items), items))
    return trainer.guide.infer(batch.to(trainer.device, trainer.dtype)).assignments.double()


def spaced_items(num_items: int, sample_size: int) -> Int[Tensor, " item"]:
    """About ``sample_size`` evenly spaced positions: a fair sample of data sorted by class, too."""
    return torch.arange(0, num_items, max(1, num_items // sample_size))
