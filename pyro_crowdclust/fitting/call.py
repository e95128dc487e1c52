"""``fit(model, guide, data)``: training of any Pyro model and guide on crowdsourced data."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from pyro.infer.elbo import ELBO
from torch import nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.fitting.options import FitOptions
from pyro_crowdclust.minibatches.blocks import AnswerSampling
from pyro_crowdclust.minibatches.sampler import MinibatchSampler
from pyro_crowdclust.networks.drawn_again import cast_networks
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
from pyro_crowdclust.starts.default import default_start
from pyro_crowdclust.supervision.supervision import Supervision
from pyro_crowdclust.training.argument_checks import (
    check_callable,
    check_gaps,
    check_likeness,
    check_needs_processor,
    check_outside_of_handlers,
    check_same_model,
    warn_of_laplace,
)
from pyro_crowdclust.training.callback import Callback
from pyro_crowdclust.training.checkpoint import Checkpoint, CheckpointKeeper
from pyro_crowdclust.training.chosen_options import (
    Auto,
    Trained,
)
from pyro_crowdclust.training.copies import copied
from pyro_crowdclust.training.fingerprint import fingerprint_of
from pyro_crowdclust.training.interrupts import WaitingInterrupt
from pyro_crowdclust.training.isolation import isolated, threads_for
from pyro_crowdclust.training.loop import train
from pyro_crowdclust.training.natural_gradient import StepSize
from pyro_crowdclust.training.optimizers import Optimizer
from pyro_crowdclust.training.option_checks import check_values
from pyro_crowdclust.training.settling import Settling
from pyro_crowdclust.training.stopping import Stopping
from pyro_crowdclust.training.trainer import HISTORY_COLUMNS, Trainer


def fit(
    model: Model,
    guide: Guide,
    data: CrowdData,
    *,
    epochs: int | None = None,
    batch_size: int | Auto | None = "auto",
    optim: Optimizer | Auto = "auto",
    step_size: float | StepSize | Auto = "auto",
    elbo: ELBO | None = None,
    initialize: Start | None = default_start,
    stopping: Stopping | Auto = "auto",
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

    Every step takes a minibatch, evaluates Pyro's ELBO, and updates the natural parameters of all
    ``ConjugatePosterior`` modules by natural gradients and everything else by ``optim``. The
    arguments ``model`` and ``guide`` are copied and not changed. The same holds for callbacks with
    a ``state_dict``, for the process's random numbers and for Pyro's parameter store. All threads
    share the latter two and Pyro's stack of handlers, so that fits, and computations with results,
    in other threads wait for each other; use several processes for fits at the same time. Small
    data (up to 200,000 features, answers and placements) are fitted in one thread; torch's number
    of threads is restored afterwards.

    Parameters
    ----------
    model, guide
        Pyro callables of a ``Batch``: a model of the library with one of its guides, or your own.
        Autoguides work for models with Pyro's own priors, but not for the library's models, whose
        sites have sufficient statistics as values. Modules that a function uses as global variables
        are not copied, and are refused if their parameters require gradients. If model or guide has
        a method ``check(data)``, it is called before training.
    data
        The training data.
    epochs
        The number of passes over the data. Default: until the ELBO no longer rises, at most 6,000
        steps (2,000 with networks), or 20 epochs if these are more. With ``stopping``: 20, or as
        many as ``stopping.steps`` takes.
    batch_size
        The approximate number of items without answers per step; None: every step takes all data.
        Default: None if there are no networks and at most 200,000 features, answers and placements,
        or if partitions are drawn; otherwise 128 for networks, and 1,024 without. With ``epochs``
        or ``stopping``: 128.
    optim
        A function that makes a torch optimizer (not one of Pyro) of all parameters that are not
        natural parameters, such as ``partial(torch.optim.Adam, lr=0.05)``. Default: Adam, at 0.003
        if there are networks and at 0.05 if not, and at lower rates at the end. With ``epochs`` or
        ``stopping``: Adam at 0.001.
    step_size
        rho of the natural steps, in (0, 1]: a number, or a function of the step such as
        ``RobbinsMonro``. Default: 0.5 if every step takes all data, and for minibatches
        ``RobbinsMonro``. With ``epochs`` or ``stopping``: 0.01.
    elbo
        The bound. Default: ``EnumeratedELBO``, which is ``TraceEnum_ELBO`` for any precisions, with
        the number of levels of plates in model and guide; or, if no site is enumerated,
        ``PlainELBO``, the same bound in less time.
    initialize
        A start ``(model, guide, data, generator) -> None``. None: training begins with the present
        parameters of model and guide, but without those that functions made by ``pyro.param`` (use
        ``result.update`` to keep these). The start gets model and guide without Pyro's handlers
        around them, such as ``poutine.scale``. Default: the guide's own ``start`` if it has one,
        otherwise ``PrincipalComponentStart()``.
    stopping
        Criteria to end training earlier: convergence, a number of steps, time. Default: with
        ``epochs``, none; without, see there.
    answer_sampling
        Options by which minibatches draw answers.
    seed
        The same seed on the same machine gives the same result, bit for bit.
    device, dtype
        The device, and the precision of the features and of the library's networks; networks of
        your own must have the same precision.
    progress
        Show a progress bar.
    callbacks
        A list; each callback is called with the ``Trainer`` after every epoch and may add keys to
        ``trainer.history[-1]``. Callbacks with state have ``state_dict()`` and
        ``load_state_dict(state)``; the fit uses a copy of them, which is in ``result.callbacks``.
    checkpoint
        A file, or a ``Checkpoint`` with options when to write it and whether to resume from it.
    trainer
        The class of the training run: ``Trainer``, possibly with options by ``functools.partial``,
        such as ``partial(Trainer, ranks=joined_ranks())``, or a subclass with another ``backward``
        or ``step``.

    Returns
    -------
    Fitted
        The fitted model and guide, with methods to read results from them. Ctrl-C ends training
        early and returns the fit so far; during a start it waits for the end of the start, unless
        it is pressed again.

    Raises
    ------
    ValueError
        If the arguments, the features or the sites of model and guide do not fit together, if the
        checkpoint cannot be written or read, or is of another fit, or if ``fit`` is called inside a
        handler of Pyro (which belongs around the model or the guide).

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
    others = {"initialize": initialize, "seed": seed, "device": device, "checkpoint": checkpoint}
    _check(model, guide, data, options.given | others)
    trained = Trained.of(model, guide)
    options = options.for_training(trained, data)
    _check_minibatches(model, data, options)
    seed = int(seed)  # files cannot hold NumPy's integers
    started = time.perf_counter()
    of_call = {"seed": seed, "initialize": initialize, "model": model, "guide": guide}
    keeper = _keeper(checkpoint, data, options, of_call | {"device": str(device)})
    with isolated(seed) as (generator, store), threads_for(data):
        check_outside_of_handlers()
        with WaitingInterrupt() as interrupt:
            callbacks = _own(callbacks)
            model, guide = _started(model, guide, data, initialize, generator, device, dtype)
            sampler = _sampler(data, generator, options)
            run = trainer(model, guide, data, sampler, device=device, **options.of_steps)
            budget = options.budget(trained, run.steps_per_epoch)
            settling = Settling(budget) if options.is_open else None
            watching = callbacks if settling is None else (*callbacks, settling)
            if keeper is not None:
                keeper.begin(run, callbacks, settling)
                started = keeper.started
            run.synchronize()
        stop_reason = train(
            run,
            budget,
            options.ending,
            started=started,
            progress=progress and run.ranks.is_first,
            callbacks=watching,
            settling=settling,
            keeper=keeper,
            interrupted=interrupt.received,
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
            train_on=options.further(callbacks, bool(run.network_parameters)),
        )


@dataclass(frozen=True)
class TrainingOptions(FitOptions):
    """The options of a call of ``fit``, for ``Fitted.update``; they can be saved with a result."""

    @classmethod
    def option_names(cls) -> frozenset[str]:
        """The options of ``fit``."""
        return frozenset(inspect.signature(fit).parameters) - {"model", "guide", "data"}

    def __call__(self, model: Model, guide: Guide, data: CrowdData, **changes: Any) -> Fitted:
        """Fit with these options, except for changes, and take the steps."""
        options = self.of_fit | {"trainer": self.trainer or Trainer} | changes
        for step in reversed(self.steps):
            model, guide = step.before(model, guide, data, changes)
        result = fit(model, guide, data, **options)
        for step in self.steps:
            result = step.after(result)
        return result


def _check(model: Model, guide: Guide, data: CrowdData, options: Mapping[str, Any]) -> None:
    """Raise the ``ValueError`` of ``fit`` before anything is trained."""
    check_callable(model, guide)
    check_same_model(model, guide)
    check_values(data, options)
    check_gaps(model, data)
    check_likeness(model, data)
    check_needs_processor(guide, options["device"])
    warn_of_laplace(guide)


def _check_minibatches(model: Model, data: CrowdData, options: FitOptions) -> None:
    """Raise a ``ValueError`` if minibatches would have answers and only some of the coupled items.

    Otherwise the error would be raised by a later minibatch, perhaps after long training.
    """
    supervision = part_of(model, "supervision", Supervision)
    if supervision is None or not (supervision.couples_items and data.has_answers):
        return
    sampler = _sampler(data, torch.Generator().manual_seed(0), options)
    if sampler is not None and not sampler.holds(data.supervised_items):
        supervision.check_minibatches(data)


def _own(callbacks: Sequence[Callback]) -> tuple[Callback, ...]:
    """The callbacks; those with state are copied."""
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
    """Checked copies of model and guide, after the start."""
    model, guide = copied(model, guide)
    inner = unwrapped(model), unwrapped(guide)
    for part in inner:
        if isinstance(part, SupportsCheck):
            part.check(data)
    cast_networks(*inner, dtype)
    if initialize is not None:
        for part in inner:
            if isinstance(part, nn.Module):
                # Starts run on the CPU, but parts of an earlier fit may be on another device.
                part.to("cpu")
        initialize(*inner, data, generator)
    for part in inner:
        if isinstance(part, nn.Module):
            part.to(device)
    return model, guide


def _keeper(
    checkpoint: Checkpoint | str | os.PathLike | None,
    data: CrowdData,
    options: FitOptions,
    of_call: Mapping[str, Any],
) -> CheckpointKeeper | None:
    """The writer of the checkpoint, with a fingerprint of data and settings, or None."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    settings = {
        **of_call,
        "batch_size": options.batch_size,
        "answer_sampling": options.answer_sampling,
        **options.of_steps,
    }
    return CheckpointKeeper(checkpoint, fingerprint_of(data, options.callbacks, settings))


def _sampler(
    data: CrowdData, generator: torch.Generator, options: FitOptions
) -> MinibatchSampler | None:
    """The sampler of minibatches; None if every step takes all data."""
    batch_size: Any = options.batch_size  # chosen by now
    if batch_size is None:
        return None
    return MinibatchSampler(
        data,
        batch_size=batch_size,
        answers_per_step=options.answer_sampling.answers_per_step,
        generator=generator,
    )
