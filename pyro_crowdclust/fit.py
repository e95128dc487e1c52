"""``fit(model, guide, data)``: the training loop. It knows nothing of any particular model."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

import pandas as pd
import torch
from pyro.infer.elbo import ELBO
from torch import nn
from tqdm.auto import tqdm

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.minibatches.batch import Batch, full_batch
from pyro_crowdclust.minibatches.blocks import BlockMaker
from pyro_crowdclust.minibatches.processes import Ranks
from pyro_crowdclust.minibatches.sampler import MinibatchSampler
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.starts.principal_components import cast_networks, default_start
from pyro_crowdclust.training.checkpoint import Checkpoint
from pyro_crowdclust.training.checks import check_callable, check_same_model, check_sites
from pyro_crowdclust.training.copies import copied
from pyro_crowdclust.training.elbo import default_elbo
from pyro_crowdclust.training.fingerprint import fingerprint_of
from pyro_crowdclust.training.isolation import isolated
from pyro_crowdclust.training.natural_gradient import StepSize
from pyro_crowdclust.training.trainer import NotFinite, Optimizer, Trainer

adam: Optimizer = partial(torch.optim.Adam, lr=1e-3, fused=True)
DEFAULT_EPOCHS = 20
FIVE_MINUTES = timedelta(minutes=5)


def fit(
    model: Callable[[Batch], Any],
    guide: Callable[[Batch], Any],
    data: CrowdData,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    max_time: timedelta | None = None,
    batch_size: int | None = 128,
    answers_per_step: int = 2500,
    blocks: BlockMaker | None = None,
    optim: Optimizer = adam,
    step_size: float | StepSize = 0.01,
    elbo: ELBO | None = None,
    initialize: Callable[..., None] | None = default_start,
    tolerance: float | None = None,
    patience: int = 5,
    seed: int = 0,
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    validate: bool = False,
    compile: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callable[[Trainer], None]] = (),
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int | timedelta | None = FIVE_MINUTES,
    resume: bool = False,
    ranks: Ranks | None = None,
) -> Fitted:
    """Train a guide (and the model's own parameters) on data by stochastic variational inference.

    Every step takes a minibatch, evaluates Pyro's ELBO, steps the natural parameters of all
    ``ConjugatePosterior`` modules by natural gradients and everything else by ``optim``. The
    arguments ``model`` and ``guide`` are copied and left untouched; nothing is shared with other
    fits in the process.

    Parameters
    ----------
    model, guide
        Pyro callables of a ``Batch``: the library's, your own, or an autoguide. One that has a
        method ``check(data)`` is asked first whether the data fit it.
    data
        What to learn from.
    epochs, steps
        Budget; whichever is reached first ends training. Default: 20 epochs.
    max_time
        Begin no epoch that would end later than this, if it took as long as the last one. Where
        this ends training, the answer depends on the speed of the machine.
    batch_size
        Items without answers per step; None puts all data into every step.
    answers_per_step
        About how many answers a step holds, in whole blocks.
    blocks
        How answers are sampled together: ``PageBlocks``, ``ConnectedBlocks`` or ``SinglePairs``.
        Default: pages where the data have them, else connected blocks.
    optim
        Makes the optimizer of all parameters that are not natural parameters.
    step_size
        rho of the natural steps, in (0, 1]: a number, or a function of the step such as
        ``robbins_monro``.
    elbo
        The bound; default ``TraceEnum_ELBO(max_plate_nesting=1)``, or ``PlainELBO``, which is the
        same bound in less time, where no site is enumerated.
    initialize
        A start ``(model, guide, data, generator) -> None``; None trains on from where they are.
        Default: the guide's own ``start``, if it has one, else ``PrincipalComponentStart()``.
    tolerance, patience
        Stop as converged once the best ELBO per item of ``patience`` epochs is less than
        ``tolerance`` above the best before them. Default: train to the budget.
    seed
        The same seed on the same machine gives the same answer, bit for bit.
    device, dtype
        Where to train, and the precision of the features and of the library's own networks; one of
        yours must have it.
    validate
        Keep Pyro's checks on after the first step.
    compile
        Compile the step with ``torch.compile``, for batches of any size. That takes half a minute
        before the first step, and a C++ compiler, and makes steps of small networks faster; "A
        compiled step" in ``docs/scaling.md`` says when it pays and what it asks of your own parts.
    progress
        Show a progress bar.
    callbacks
        Called with the ``Trainer`` after every epoch; it may add keys to ``trainer.history[-1]``.
        One with state of its own has ``state_dict()`` and ``load_state_dict(state)``.
    checkpoint
        A file to write all of the training run to, after every epoch, and at Ctrl-C and SIGTERM.
    checkpoint_every
        Write it in the middle of epochs, too: after so many steps, or so much time.
    resume
        Go on from the file ``checkpoint`` if it is there, with the same answer, bit for bit, as if
        the run had never been stopped; start anew if it is not. Data and settings must be those
        of the stopped run, but for the budget and the number of processes.
    ranks
        The processes that share the work, from ``joined_ranks()``; every one calls ``fit`` with
        the same arguments, and gets the same result. Default: this process alone.

    Returns
    -------
    Fitted
        The fitted model, guide and everything to read from them. Ctrl-C ends training early and
        returns what has been learned so far.

    Raises
    ------
    ValueError
        If the arguments, the features or the sites of model and guide do not fit together, if the
        step cannot be compiled, or if the checkpoint cannot be written, or read, or is of another
        fit.

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
    check_callable(model, guide)
    check_same_model(model, guide)
    _check_arguments(
        data, step_size, epochs=epochs, steps=steps, batch_size=batch_size, patience=patience
    )
    ranks = ranks or Ranks()
    if ranks.count > 1 and (data.known is not None or data.links is not None):
        raise ValueError(
            "known labels and links tie items together that may be in different processes: fit "
            "these data in one process"
        )
    if compile and (validate or ranks.count > 1):
        raise ValueError(
            "a compiled step runs in one process and without Pyro's checks: leave out "
            "compile=True, or validate=True and ranks"
        )
    if epochs is None and steps is None:
        epochs = DEFAULT_EPOCHS
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=, the file to go on from")
    started = time.perf_counter()
    keeper = None
    if checkpoint is not None:
        settings = {
            **{"seed": seed, "batch_size": batch_size, "answers_per_step": answers_per_step},
            **{"blocks": blocks, "optim": optim, "step_size": step_size, "elbo": elbo},
            **{"initialize": initialize, "device": str(device), "dtype": dtype},
            **{"model": model, "guide": guide, "compile": compile},
        }
        fingerprint = fingerprint_of(data, callbacks, settings)
        keeper = Checkpoint(
            checkpoint,
            fingerprint,
            every=checkpoint_every,
            resume=resume,
            writes=ranks.is_first,
        )
    with isolated(seed) as (generator, store):
        model, guide = copied(model, guide)
        for part in (model, guide):
            if hasattr(part, "check"):
                part.check(data)
        cast_networks(model, guide, dtype)
        if initialize is not None:
            initialize(model, guide, data, generator)
        for part in (model, guide):
            if isinstance(part, nn.Module):
                part.to(device)
        if batch_size is None:
            first = batches = full_batch(data).to(device, dtype)
            if ranks.count > 1:
                batches = full_batch(data, ranks)
        else:
            batches = MinibatchSampler(
                data,
                batch_size=batch_size,
                answers_per_step=answers_per_step,
                blocks=blocks,
                generator=generator,
            )
            # The same in every process, which all see the same random numbers.
            first = next(iter(batches)).to(device, dtype)
        # Autoguides create their parameters at the first call.
        enumerates = check_sites(model, guide, first)
        trainer = Trainer(
            model,
            guide,
            data,
            batches,
            optim=optim,
            step_size=step_size,
            elbo=elbo or default_elbo(enumerates),
            device=device,
            dtype=dtype,
            validate=validate,
            ranks=ranks,
        )
        if keeper is not None:
            keeper.begin(trainer, callbacks)
            started = keeper.started
        trainer.meet()
        if compile:
            trainer.compile(first)
        stop_reason = _run(
            trainer,
            epochs,
            steps,
            tolerance,
            patience,
            deadline=math.inf if max_time is None else started + max_time.total_seconds(),
            progress=progress and ranks.is_first,
            callbacks=callbacks,
            keeper=keeper,
        )
        return Fitted(
            model=model,
            guide=guide,
            data=data,
            history=pd.DataFrame(trainer.history),
            stop_reason=stop_reason,
            seconds=time.perf_counter() - started,
            seed=seed,
            elbo_objective=trainer.elbo,
            parameter_store=store,
            dtype=dtype,
            device=device,
        )


def _check_arguments(data: CrowdData, step_size: float | StepSize, **counts: int | None) -> None:
    if not isinstance(data, CrowdData):
        raise ValueError(
            f"data is a {type(data).__name__}, but must be a CrowdData: wrap your features and "
            "answers as CrowdData(features, pairs=frame)"
        )
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}, but must be at least 1")
    if not callable(step_size) and not 0 < step_size <= 1:
        raise ValueError(f"step_size is {step_size}, but a natural step needs 0 < step_size <= 1")


def _run(
    trainer: Trainer,
    epochs: int | None,
    steps: int | None,
    tolerance: float | None,
    patience: int,
    *,
    deadline: float,
    progress: bool,
    callbacks: Sequence[Callable[[Trainer], None]],
    keeper: Checkpoint | None,
) -> str:
    """Train to the budget; returns why training stopped."""
    per_epoch = trainer.steps_per_epoch
    total = min(
        math.inf if steps is None else steps, math.inf if epochs is None else epochs * per_epoch
    )
    with (
        tqdm(total=total, initial=trainer.steps_done, disable=not progress, unit="step") as bar,
        warnings.catch_warnings(),
        nullcontext() if keeper is None else keeper.listening(),
    ):
        # Pyro's warning of a loss that is not a number names no site; the one below does.
        warnings.filterwarnings("ignore", "Encountered NaN")

        def on_step(elbo_per_item: float) -> None:
            bar.update()
            bar.set_postfix_str(_status(elbo_per_item, trainer.history), refresh=False)
            if keeper is not None:
                keeper.after_step()

        try:
            # A run that was taken up may be at the end of its budget, or in the middle of an epoch.
            while not trainer.has_converged(tolerance, patience):
                if trainer.steps_done >= total and trainer.position is None:
                    return f"budget: {trainer.steps_done} steps in {trainer.epochs_done} epochs"
                last = trainer.history[-1]["seconds"] if trainer.history else -math.inf
                late = float(time.perf_counter() + last > deadline)
                if trainer.ranks.average([], late) > 0:
                    return f"budget: time for {trainer.epochs_done} epochs"
                trainer.epoch(on_step, max_steps=total)
                for callback in callbacks:
                    callback(trainer)
                trainer.meet()  # callbacks may draw random numbers
                if keeper is not None:
                    keeper.after_epoch()
            return f"converged: less than {tolerance:g} nats per item in {patience} epochs"
        except KeyboardInterrupt:
            return f"interrupted by the user after {trainer.steps_done} steps"
        except NotFinite as error:
            reason = f"not finite after {trainer.steps_done} steps: {error}"
            warnings.warn(
                f"{reason}; the parameters of the last whole epoch are kept. Lower the learning "
                "rate or step_size, or look at the features of that site",
                stacklevel=3,
            )
            return reason


def _status(elbo_per_item: float, history: list[dict[str, float]]) -> str:
    status = f"ELBO/item {elbo_per_item:.3f}"
    if history and "clusters_in_use" in history[-1]:
        status += f", {history[-1]['clusters_in_use']} clusters in use"
    return status
