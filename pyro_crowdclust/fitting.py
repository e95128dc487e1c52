"""``fit(model, guide, data)``: the training loop. It knows nothing of any particular model."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import torch
from pyro.infer.elbo import ELBO
from torch import nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.minibatches.blocks import AnswerSampling
from pyro_crowdclust.minibatches.sampler import MinibatchSampler
from pyro_crowdclust.protocols import (
    Guide,
    Model,
    Start,
    SupportsCheck,
    SupportsState,
    part_of,
    unwrapped,
)
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.results.further_training import FurtherTraining
from pyro_crowdclust.starts.default import default_start
from pyro_crowdclust.starts.networks import cast_networks
from pyro_crowdclust.supervision.supervision import Supervision
from pyro_crowdclust.training.callback import Callback
from pyro_crowdclust.training.checkpoint import Checkpoint, CheckpointKeeper
from pyro_crowdclust.training.copies import copied
from pyro_crowdclust.training.fingerprint import fingerprint_of
from pyro_crowdclust.training.given import (
    check_callable,
    check_gaps,
    check_likeness,
    check_same_model,
)
from pyro_crowdclust.training.interrupts import WaitingInterrupt
from pyro_crowdclust.training.isolation import isolated, threads_for
from pyro_crowdclust.training.loop import train
from pyro_crowdclust.training.natural_gradient import StepSize
from pyro_crowdclust.training.optimizers import Optimizer
from pyro_crowdclust.training.options import check_values
from pyro_crowdclust.training.stopping import Stopping
from pyro_crowdclust.training.trainer import HISTORY_COLUMNS, Trainer

adam: Optimizer = partial(torch.optim.Adam, lr=1e-3, fused=True)
DEFAULT_EPOCHS = 20


def fit(
    model: Model,
    guide: Guide,
    data: CrowdData,
    *,
    epochs: int | None = None,
    batch_size: int | None = 128,
    optim: Optimizer = adam,
    step_size: float | StepSize = 0.01,
    elbo: ELBO | None = None,
    initialize: Start | None = default_start,
    stopping: Stopping = Stopping(),  # noqa: B008, frozen
    answer_sampling: AnswerSampling = AnswerSampling(),  # noqa: B008, frozen
    seed: int = 0,
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | os.PathLike | Checkpoint | None = None,
    trainer: Callable[..., Trainer] = Trainer,
) -> Fitted:
    """Train a guide (and the model's own parameters) on data by stochastic variational inference.

    Every step takes a minibatch, evaluates Pyro's ELBO, steps the natural parameters of all
    ``ConjugatePosterior`` modules by natural gradients and everything else by ``optim``. The
    arguments ``model`` and ``guide`` are copied and left untouched, and so are callbacks that have
    a ``state_dict``, the process's random numbers and Pyro's parameter store. Pyro has one of each,
    and one stack of handlers, for all threads: a fit, and whatever is computed from a result, waits
    until that of another thread is done. Fits at the same time are for several processes. Of small
    data (up to 200,000 features and answers) one thread computes; torch's number of threads is put
    back.

    Parameters
    ----------
    model, guide
        Pyro callables of a ``Batch``: a model of the library's with one of its guides, or your own.
        An autoguide is for models with Pyro's own priors; the library's it refuses, since their
        sites carry statistics. Modules that a function reads from outside are not copied, and
        refused if they would be trained. One that has a method ``check(data)`` is asked first
        whether the data fit it.
    data
        What to learn from.
    epochs
        How many passes over the data. Default: 20, or as many as ``stopping.steps`` takes.
    batch_size
        Items without answers per step; None puts all data into every step.
    optim
        Makes the optimizer of all parameters that are not natural parameters: one of torch's, as
        ``partial(torch.optim.Adam, lr=0.05)``, and not of Pyro's.
    step_size
        rho of the natural steps, in (0, 1]: a number, or a function of the step such as
        ``RobbinsMonro``.
    elbo
        The bound; default ``EnumeratedELBO``, which is ``TraceEnum_ELBO`` in any precisions, with
        the levels of plates that model and guide have, or ``PlainELBO``, which is the same bound
        in less time, where no site is enumerated.
    initialize
        A start ``(model, guide, data, generator) -> None``; None trains on from where they are,
        but for what functions learned by ``pyro.param``, with which ``result.update`` goes on.
        Handlers of Pyro around model and guide, such as ``poutine.scale``, are not passed to it.
        Default: the guide's own ``start``, if it has one, else ``PrincipalComponentStart()``.
    stopping
        What ends training earlier: convergence, a number of steps, time.
    answer_sampling
        How minibatches draw answers.
    seed
        The same seed on the same machine gives the same answer, bit for bit.
    device, dtype
        Where to train, and the precision of the features and of the library's own networks; one of
        yours must have it.
    progress
        Show a progress bar.
    callbacks
        A list; each is called with the ``Trainer`` after every epoch and may add keys to
        ``trainer.history[-1]``. One with state of its own has ``state_dict()`` and
        ``load_state_dict(state)``; the fit works on a copy of it, which ``result.callbacks`` holds.
    checkpoint
        A file, or a ``Checkpoint`` that says when it is written and whether to go on from it.
    trainer
        Makes the training run: ``Trainer``, one of its options set by ``functools.partial``, such
        as ``partial(Trainer, ranks=joined_ranks())``, or a class of your own that derives from it
        and has another ``backward`` or ``step``.

    Returns
    -------
    Fitted
        The fitted model, guide and everything to read from them. Ctrl-C ends training early and
        returns what has been learned so far; in a start it waits for the end of the start, unless
        it is pressed again.

    Raises
    ------
    ValueError
        If the arguments, the features or the sites of model and guide do not fit together, or if
        the checkpoint cannot be written, or read, or is of another fit.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust import CrowdData, fit
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.guides import MessagePassingGuide
    >>> from pyro_crowdclust.mixture import (
    ...     DirichletWeights,
    ...     GaussianComponents,
    ... )
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> x = torch.cat([torch.randn(50, 2) - 4, torch.randn(50, 2) + 4])
    >>> model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 2), Identity())
    >>> result = fit(model, MessagePassingGuide(model), CrowdData(x), batch_size=None,
    ...              step_size=1.0, epochs=5, progress=False)
    >>> sorted(torch.bincount(torch.as_tensor(result.assignments)).tolist())
    [50, 50]
    """
    options = TrainingOptions(
        epochs=epochs,
        batch_size=batch_size,
        optim=optim,
        step_size=step_size,
        elbo=elbo,
        stopping=stopping,
        answer_sampling=answer_sampling,
        dtype=dtype,
        callbacks=callbacks,
        trainer=trainer,
    )
    of_call: dict[str, Any] = {"seed": seed, "initialize": initialize, "device": device}
    _check(model, guide, data, options, checkpoint=checkpoint, **of_call)
    seed = int(seed)  # of NumPy's integers files know nothing
    if epochs is None and stopping.steps is None:
        epochs = DEFAULT_EPOCHS
    started = time.perf_counter()
    of_call |= {"seed": seed, "device": str(device), "model": model, "guide": guide}
    keeper = _keeper(checkpoint, data, options, **of_call)
    with isolated(seed) as (generator, store), threads_for(data):
        with WaitingInterrupt() as interrupt:
            callbacks = _own(callbacks)
            model, guide = _started(model, guide, data, initialize, generator, device, dtype)
            sampler = _sampler(data, generator, **options.of_batches)
            run = trainer(model, guide, data, sampler, device=device, **options.of_steps)
            if keeper is not None:
                keeper.begin(run, callbacks)
                started = keeper.started
            run.meet()
        stop_reason = train(
            run,
            math.inf if epochs is None else epochs * run.steps_per_epoch,
            stopping,
            started=started,
            progress=progress and run.ranks.is_first,
            callbacks=callbacks,
            keeper=keeper,
            interrupted=interrupt.heard,
        )
        return Fitted(
            model=model,
            guide=guide,
            data=data,
            # Training may end before a first epoch does.
            history=pd.DataFrame(run.history, columns=None if run.history else HISTORY_COLUMNS),
            stop_reason=stop_reason,
            seconds=time.perf_counter() - started,
            seed=seed,
            callbacks=callbacks,
            elbo_objective=run.elbo,
            parameter_store=store,
            dtype=dtype,
            device=device,
            train_on=options.further(epochs, callbacks, bool(run.network_parameters)),
        )


@dataclass(frozen=True)
class TrainingOptions(FurtherTraining):
    """``fit`` as it was called, for ``Fitted.update``; a file can hold it (see ``save``)."""

    epochs: int | None
    batch_size: int | None
    optim: Optimizer
    step_size: float | StepSize
    elbo: ELBO | None
    stopping: Stopping
    answer_sampling: AnswerSampling
    dtype: torch.dtype
    callbacks: Sequence[Callback]
    trainer: Callable[..., Trainer] | None

    @classmethod
    def option_names(cls) -> frozenset[str]:
        """The options of ``fit``."""
        return frozenset(inspect.signature(fit).parameters) - {"model", "guide", "data"}

    @property
    def of_batches(self) -> dict[str, Any]:
        """What says which data are in a step."""
        return {"batch_size": self.batch_size, "answer_sampling": self.answer_sampling}

    @property
    def of_steps(self) -> dict[str, Any]:
        """What says how a step is made."""
        names = ("optim", "step_size", "elbo", "dtype")
        return {name: getattr(self, name) for name in names}

    @property
    def of_fit(self) -> dict[str, Any]:
        """These options by name, without what a derived class adds."""
        return {
            field.name: getattr(self, field.name) for field in dataclasses.fields(TrainingOptions)
        }

    def __call__(self, model: Model, guide: Guide, data: CrowdData, **changes: Any) -> Fitted:
        """Fit with these options, but for changes."""
        options = self.of_fit | {"trainer": self.trainer or Trainer}
        return fit(model, guide, data, **options | changes)

    def further(
        self, epochs: int | None, callbacks: Sequence[Callback], has_networks: bool
    ) -> TrainingOptions:
        """The options of an update: networks know their features, and need a tenth of the epochs.

        Callbacks are those of the fit, with their state.
        """
        if has_networks and epochs is not None:
            epochs = math.ceil(epochs / 10)
        trainer = None if self.trainer is Trainer else self.trainer  # as a file can name it
        return dataclasses.replace(self, epochs=epochs, callbacks=callbacks, trainer=trainer)


def _check(
    model: Model,
    guide: Guide,
    data: CrowdData,
    options: TrainingOptions,
    **of_call: Any,
) -> None:
    """Raise the ``ValueError`` of ``fit`` before anything is trained."""
    check_callable(model, guide)
    check_same_model(model, guide)
    check_values(data, **options.of_fit | of_call)
    check_gaps(model, data)
    check_likeness(model, data)
    _check_minibatches(model, data, **options.of_batches)


def _check_minibatches(
    model: Model, data: CrowdData, batch_size: int | None, answer_sampling: AnswerSampling
) -> None:
    """Raise a ``ValueError`` if a minibatch would hold answers, and some of what ties items.

    It may be one of thousands, and training far by then.
    """
    supervision = part_of(model, "supervision", Supervision)
    if supervision is None or not (supervision.couples_items and data.has_answers):
        return
    sampler = _sampler(data, torch.Generator().manual_seed(0), batch_size, answer_sampling)
    if sampler is not None and not sampler.holds(data.supervised_items):
        supervision.check_minibatches(data)


def _own(callbacks: Sequence[Callback]) -> tuple[Callback, ...]:
    """The callbacks, of those with state copies."""
    return tuple(deepcopy(one) if isinstance(one, SupportsState) else one for one in callbacks)


def _started(
    model: Model,
    guide: Guide,
    data: CrowdData,
    initialize: Start | None,
    generator: torch.Generator,
    device: str | torch.device | None,
    dtype: torch.dtype,
) -> tuple[Any, Any]:
    """Copies of model and guide where training begins, of which both have said that data fit."""
    model, guide = copied(model, guide)
    inner = unwrapped(model), unwrapped(guide)
    for part in inner:
        if isinstance(part, SupportsCheck):
            part.check(data)
    cast_networks(*inner, dtype)
    if initialize is not None:
        for part in inner:
            if isinstance(part, nn.Module):
                # Where the data are, if they come from a fit on another device.
                part.to("cpu")
        initialize(*inner, data, generator)
    for part in inner:
        if isinstance(part, nn.Module):
            part.to(device)
    return model, guide


def _keeper(
    checkpoint: Checkpoint | str | os.PathLike | None,
    data: CrowdData,
    options: TrainingOptions,
    **settings: Any,
) -> CheckpointKeeper | None:
    """What writes the checkpoint, which only a fit to these data with these settings takes up."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    settings |= options.of_batches | options.of_steps
    return CheckpointKeeper(checkpoint, fingerprint_of(data, options.callbacks, settings))


def _sampler(
    data: CrowdData,
    generator: torch.Generator,
    batch_size: int | None,
    answer_sampling: AnswerSampling,
) -> MinibatchSampler | None:
    """What draws minibatches; None where all data are in every step."""
    if batch_size is None:
        return None
    return MinibatchSampler(
        data,
        batch_size=batch_size,
        answers_per_step=answer_sampling.answers_per_step,
        blocks=answer_sampling.blocks,
        generator=generator,
    )


__all__ = ["TrainingOptions", "adam", "fit"]
