"""The training loop behind ``fit``, one epoch at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import pyro
import torch
from pyro.infer.elbo import ELBO
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.new_items import read_new_items
from pyro_crowdclust.distributions.priors import ConjugatePosterior
from pyro_crowdclust.distributions.summaries import num_in_use
from pyro_crowdclust.errors import first_line
from pyro_crowdclust.families import OutsideDomain
from pyro_crowdclust.inference.empty_plates import explained_empty_plates
from pyro_crowdclust.inference.loss_terms import LossTerms
from pyro_crowdclust.inference.shapes import explained_shapes
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import answered_batch, full_batch, item_batches
from pyro_crowdclust.minibatches.processes import Ranks
from pyro_crowdclust.minibatches.sampler import MinibatchSampler
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.protocols import SupportsMixture, modules_of, roots_of, unwrapped
from pyro_crowdclust.training.copies import copied_into, named_tensors, own_parameters
from pyro_crowdclust.training.elbo import check_precision, check_sums, default_elbo
from pyro_crowdclust.training.natural_gradient import NaturalGradient, StepSize
from pyro_crowdclust.training.not_finite import find_not_finite
from pyro_crowdclust.training.optimizers import Optimizer, optimizer_of
from pyro_crowdclust.training.random_states import set_torch_states, torch_states
from pyro_crowdclust.training.site_checks import check_sites

# Items in one pass through the networks when many are predicted.
PREDICTION_ROWS = 4096
# Columns that every row of the history has.
HISTORY_COLUMNS = ("epoch", "step", "seconds", "elbo")


@runtime_checkable
class SupportsBeforeStep(Protocol):
    """A guide with something to do once before every step of training, such as to draw."""

    def before_step(self, batch: Batch) -> None:
        """Prepare for a step on the batch; to run the guide then changes nothing."""


@runtime_checkable
class SupportsEpochs(Protocol):
    """A guide with something that is annealed during training."""

    def set_epoch(self, epoch: float) -> None:
        """Set the number of epochs done so far (a fraction within epochs); called at every step."""


class NotFinite(ArithmeticError):
    """The loss became infinite or not a number; the message names the site."""


@dataclass
class Position:
    """Where training stands within an epoch.

    Attributes
    ----------
    before
        Parameters and buffers at the start of the epoch, restored if the loss is not finite.
    sampler
        State of the minibatches' generator at the start of the epoch, from which the same batches
        are drawn again; None if every step takes all data.
    elbos
        ELBO of every step since the start of the epoch.
    seconds
        Time since the start of the epoch.
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
        The training data.
    sampler
        Draws the batches; None takes all data in every step.
    optim, step_size, elbo, device, dtype
        As in ``fit``.
    validate
        Keep Pyro's checks on after the first step.
    ranks
        The processes that share the work, from ``joined_ranks()``; every one calls ``fit`` with
        the same arguments, and gets the same result. ``trainer.ranks.is_first`` says whether a
        callback should print and write. Default: this process alone.

    Attributes
    ----------
    sampler
        Draws the minibatches; None if every step takes all data.
    history
        A row for every epoch, to which a callback may add keys.
    network_parameters
        The parameters that ``optim`` trains: all but natural parameters.

    Raises
    ------
    ValueError
        If the sites of model and guide do not fit together, or ``optim`` does not make an
        optimizer.
    """

    def __init__(
        self,
        model: Any,
        guide: Any,
        data: CrowdData,
        sampler: MinibatchSampler | None = None,
        *,
        optim: Optimizer,
        step_size: float | StepSize,
        elbo: ELBO | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
        ranks: Ranks | None = None,
    ) -> None:
        self.model, self.guide, self.data, self.sampler = model, guide, data, sampler
        # Handlers around the guide, such as poutine.scale, hide its methods.
        self._inner_guide = unwrapped(guide)
        self.device, self.dtype, self.validate = device, dtype, validate
        self.ranks = ranks or Ranks()
        # The batch is the same in every process, since all have the same random numbers.
        first = full_batch(data) if sampler is None else next(iter(sampler))
        first = first.to(device, dtype)
        self._full = first if sampler is None else None
        if sampler is None and self.ranks.count > 1:
            self._full = full_batch(data, self.ranks).to(device, dtype)
        # Autoguides create their parameters at the first call.
        found = check_sites(model, guide, first, in_minibatches=sampler is not None)
        check_sums(elbo, found.of_model_alone)
        own_parameters()
        # Any, since the base class ELBO declares no loss.
        self.elbo: Any = elbo or default_elbo(found.enumerates, found.max_plate_nesting)
        self.step_size = step_size if callable(step_size) else lambda step: step_size
        self.steps_done = self.epochs_done = 0
        self.history: list[dict[str, float]] = []
        self._elbos_per_item: list[float] = []
        self.position: Position | None = None
        self._before: dict[str, Tensor] = {}
        self.annealed_to: float | None = None
        self._drawn_from: dict[str, Any] = {}
        self._modules = roots_of(model, guide)
        posteriors = [
            one for one in modules_of(model, guide) if isinstance(one, ConjugatePosterior)
        ]
        self.natural = NaturalGradient(posteriors) if posteriors else None
        self._known = {id(parameter) for parameter in self._found_parameters()}
        self.network_parameters = self._parameters()
        self.optim = (
            optimizer_of(self.network_parameters, optim) if self.network_parameters else None
        )
        self._stepped = [*self._natural_parameters(), *self.network_parameters]

    def _parameters(self) -> list[nn.Parameter]:
        """All parameters to be trained, except natural parameters."""
        natural = {id(parameter) for parameter in self._natural_parameters()}
        found = self._found_parameters()
        unique = {id(parameter): parameter for parameter in found if parameter.requires_grad}
        return [parameter for key, parameter in unique.items() if key not in natural]

    def _found_parameters(self) -> list[Any]:
        """All parameters in modules and in Pyro's store."""
        found: list[Any] = []
        for part in self._modules:
            found += part.parameters()
        return found + [one for _, one in pyro.get_param_store().named_parameters()]

    def _check_parameters(self) -> None:
        """Raise a ``ValueError`` for parameters that appeared after the optimizer was made."""
        store = pyro.get_param_store()
        new = [name for name, one in store.named_parameters() if id(one) not in self._known]
        if new:
            raise ValueError(
                f"the parameter {new[0]!r} ({len(new)} such) was made after the first batch, too "
                "late to be trained: let model and guide use all parameters in every batch, or "
                "make them in the constructor of an nn.Module"
            )

    def _natural_parameters(self) -> list[nn.Parameter]:
        posteriors = [] if self.natural is None else self.natural.posteriors
        return [posterior.natural_parameters for posterior in posteriors]

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps in which all data are used about once."""
        return 1 if self.sampler is None else len(self.sampler)

    @property
    def answered(self) -> Batch | None:
        """A batch of all items with answers, labels or links; None if there are none.

        If every step takes all data, the batch is kept, with values that are computed once.
        """
        return self._answered if self.sampler is None else self._new_answered()

    @cached_property
    def _before_step(self) -> Callable[[Batch], None] | None:
        guide = self._inner_guide
        return guide.before_step if isinstance(guide, SupportsBeforeStep) else None

    @cached_property
    def _answered(self) -> Batch | None:
        return self._new_answered()

    def _new_answered(self) -> Batch | None:
        found = answered_batch(self.data)
        return None if found is None else found.to(self.device, self.dtype)

    def step(self, batch: Batch) -> float:
        """One gradient step; returns the ELBO of the batch, an unbiased estimate of the full one.

        Raises
        ------
        NotFinite
            If the loss is not finite. Parameters are then not changed.
        """
        step_size = self.step_size(self.steps_done)
        if self.natural is not None:
            self.natural.set_step_size(step_size)
        for parameter in self._stepped:
            parameter.grad = None
        if self._before_step is not None:
            self._before_step(batch)
        try:
            elbo = self.backward(batch)
        except NotFinite:
            self.ranks.average(self._stepped, math.nan)  # the other processes wait for a number
            raise
        elbo = self.ranks.average(self._stepped, elbo)
        self._check_parameters()
        if not math.isfinite(elbo):
            raise NotFinite("the loss is not finite in another process; its message names the site")
        if self.optim is not None:
            self.optim.step()
        # Last, since the next step begins with the same computations, factorizations in float64.
        if self.natural is not None:
            self.natural.step()
        self.steps_done += 1
        return elbo

    def backward(self, batch: Batch) -> float:
        """Compute the gradients of the loss, and return the ELBO of the batch.

        The loss is the negative ELBO and the terms that model and guide add by ``add_loss_term``.
        To change the gradients of a step, override this and pass the class to ``fit``.

        Raises
        ------
        NotFinite
            If the loss is not finite.
        ValueError
            If there is nothing to train.
        """
        if not self._stepped:
            raise ValueError(
                "there is nothing to train: model and guide have no parameters that require "
                "gradients. If all of them are known, read the clusters without a fit, from "
                "guides.EnumeratedGuide(model, lambda batch: None).infer(batch); otherwise "
                "give the guide parameters by an autoguide, pyro.param or an nn.Module"
            )
        with LossTerms() as terms:
            negative_elbo = self._negative_elbo(batch)
        loss = negative_elbo + terms.total()
        # The only place in a step that waits for a GPU.
        reported, total = torch.stack([-negative_elbo.detach(), loss.detach()]).tolist()
        if not math.isfinite(total):
            raise NotFinite(
                self._find_not_finite(batch)
                or "the loss is not finite although every site is, because of an added loss term "
                "or an overflow in the sum"
            )
        loss.backward()
        return reported

    def _negative_elbo(self, batch: Batch) -> Tensor:
        validate = self.validate or self.steps_done == 0
        self._drawn_from = torch_states(self.device)
        try:
            with pyro.validation_enabled(validate), explained_empty_plates(), explained_shapes():
                return self.elbo.differentiable_loss(self.model, self.guide, batch)
        except (ValueError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            # A distribution may refuse a value that is not finite before there is a loss.
            bad = self._find_not_finite(batch)
            if bad is None and not isinstance(error, OutsideDomain):
                raise
            message = first_line(error)
            raise NotFinite(message if bad is None else f"{bad} ({message})") from error
        except RuntimeError as error:
            check_precision(self.elbo, error)
            raise

    def _find_not_finite(self, batch: Batch) -> str | None:
        """The site that is not finite in a failed step, run again with the same random numbers."""
        set_torch_states(self._drawn_from, self.device)
        return find_not_finite(self.model, self.guide, batch)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training changes in the modules and in Pyro's store, by name."""
        return named_tensors(
            self.model, self.guide, dict(pyro.get_param_store().named_parameters())
        )

    @torch.no_grad()
    def set_tensors(self, values: dict[str, Tensor]) -> None:
        """Set everything that training changes to the values with these names."""
        for name, tensor in self.tensors().items():
            if name in values:
                tensor.copy_(values[name])

    def set_epoch(self, epoch: float) -> None:
        """Pass the number of epochs done so far to the guide, which may anneal something."""
        self.annealed_to = epoch
        if isinstance(self._inner_guide, SupportsEpochs):
            self._inner_guide.set_epoch(epoch)

    def synchronize(self) -> None:
        """Synchronize all processes with the state of the first one.

        Raises
        ------
        ValueError
            If some processes resume from a checkpoint that others do not find.
        """
        if self.ranks.count == 1:
            return
        steps_of_first = torch.tensor(self.steps_done)
        self.ranks.broadcast([steps_of_first, *self.tensors().values()])
        if int(steps_of_first) != self.steps_done:
            raise ValueError(
                f"the first process resumes from a checkpoint at step {int(steps_of_first)}, but "
                f"this one is at step {self.steps_done}: keep the checkpoint in a folder that all "
                "processes can read"
            )

    def _start_of_epoch(self) -> Position:
        # The memory of the last epoch is reused: for guides with many draws, allocating it anew
        # takes longer than a step.
        self._before = {
            name: copied_into(self._before.get(name), tensor)
            for name, tensor in self.tensors().items()
        }
        sampler = None if self.sampler is None else self.sampler.generator.get_state()
        return Position(self._before, sampler)

    def _batches_from(self, position: Position) -> Iterator[Batch]:
        """The remaining batches of an epoch."""
        if self.sampler is None:
            return islice(filter(None, [self._full]), len(position.elbos), None)
        if position.sampler is not None:
            self.sampler.generator.set_state(position.sampler)
        return islice(self.sampler.epoch(self.ranks), len(position.elbos), None)

    def epoch(self, on_step: Callable[[float], None], max_steps: float = math.inf) -> None:
        """One pass over the data, or the rest of one; adds a row to ``history``.

        Raises
        ------
        NotFinite
            If the loss is not finite; the parameters are then reset to the start of the epoch.
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
        self.position = None
        self.epochs_done += 1
        row = {
            "epoch": self.epochs_done,
            "step": self.steps_done,
            "seconds": time.perf_counter() - started,
            "elbo": sum(elbos) / max(len(elbos), 1),
        }
        if isinstance(self._inner_guide, SupportsMixture):
            row["clusters_in_use"] = num_in_use(self._inner_guide.mixture().weights)
        self.history.append(row)

    @property
    def elbos_per_item(self) -> list[float]:
        """The ELBO of every epoch so far, divided by the number of items."""
        # Extended and not made anew, since full batches are thousands of epochs.
        new = self.history[len(self._elbos_per_item) :]
        self._elbos_per_item += [row["elbo"] / self.data.num_items for row in new]
        return self._elbos_per_item

    @torch.no_grad()
    def predict_proba(self, features: Any) -> Tensor:
        """q(z) of items from their features alone, at this point of training.

        Columns are read as those of the training data.
        """
        own = self.data.features
        shape = None if own is None else tuple(own.shape[1:])
        items = read_new_items(features, self.data.columns, shape)
        batches = item_batches(items, PREDICTION_ROWS)
        guide = self._inner_guide
        with evaluating(guide):
            parts = [guide.infer(batch.to(self.device, self.dtype)) for batch in batches]
        return torch.cat([part.assignments for part in parts]).cpu()
