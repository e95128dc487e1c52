"""The loop over the epochs of a run, until there is a reason to stop."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext

from tqdm.auto import tqdm

from pyro_crowdclust.errors import warn
from pyro_crowdclust.protocols import SupportsPartition, unwrapped
from pyro_crowdclust.training.callback import Callback
from pyro_crowdclust.training.checkpoint import CheckpointKeeper
from pyro_crowdclust.training.settling import Settling, still_rises
from pyro_crowdclust.training.stopping import Ending, Stopping
from pyro_crowdclust.training.trainer import NotFinite, Trainer


def train(
    trainer: Trainer,
    budget: float,
    stopping: Stopping,
    *,
    started: float,
    progress: bool,
    callbacks: Sequence[Callback],
    keeper: CheckpointKeeper | None,
    interrupted: bool,
    settling: Settling | None = None,
) -> str:
    """Train for at most ``budget`` steps; returns the reason why training stopped.

    ``settling`` is one of the callbacks, if training ends where the ELBO no longer rises.
    """
    total = budget if stopping.steps is None else min(budget, stopping.steps)
    with (
        tqdm(total=total, initial=trainer.steps_done, disable=not progress, unit="step") as bar,
        warnings.catch_warnings(),
    ):
        # Pyro's warning of a loss that is NaN names no site; the one below does.
        warnings.filterwarnings("ignore", "Encountered NaN")

        def on_step(elbo_per_item: float) -> None:
            bar.update()
            bar.set_postfix_str(_status(elbo_per_item, trainer.history), refresh=False)
            if keeper is not None:
                keeper.after_step()

        try:
            if interrupted:
                raise KeyboardInterrupt
            # Within the outer block, since a signal that is still waiting is delivered at its end.
            with nullcontext() if keeper is None else keeper.listening():
                while (end := _end(trainer, total, stopping, started, settling)) is None:
                    trainer.epoch(on_step, max_steps=total)
                    for callback in callbacks:
                        callback(trainer)
                    trainer.synchronize()  # callbacks may draw random numbers
                    if keeper is not None:
                        keeper.after_epoch()
            return end
        except KeyboardInterrupt:
            return f"{Ending.INTERRUPTED} by the user after {trainer.steps_done} steps"
        except NotFinite as error:
            reason = f"{Ending.NOT_FINITE} after {trainer.steps_done} steps: {error}"
            warn(
                f"{reason}; the parameters of the last complete epoch are kept. Lower the learning "
                "rate or step_size, or check the features at that site"
            )
            return reason


def _end(
    trainer: Trainer,
    total: float,
    stopping: Stopping,
    started: float,
    settling: Settling | None,
) -> str | None:
    """The reason why training stops now; None if there is to be a further epoch."""
    if settling is not None and settling.is_settled:
        return f"{Ending.CONVERGED}: the ELBO no longer rises"
    if stopping.has_converged(trainer.elbos_per_item):
        if stopping.tolerance is None:  # a user-defined class with another criterion
            return f"{Ending.CONVERGED}: by {type(stopping).__name__}"
        return (
            f"{Ending.CONVERGED}: less than {stopping.tolerance:g} nats per item in "
            f"{stopping.patience} epochs"
        )
    # A resumed run may be at the end of its budget, or in the middle of an epoch.
    if trainer.steps_done >= total and trainer.position is None:
        reached = f"{trainer.steps_done} steps in {trainer.epochs_done} epochs"
        if settling is not None and stopping.steps is None:
            reached += " (give epochs= for more)"
        return f"{Ending.BUDGET}: {reached}{_outlook(trainer, settling)}"
    last = trainer.history[-1]["seconds"] if trainer.history else -math.inf
    late = float(time.perf_counter() + last > started + stopping.seconds)
    if trainer.ranks.average([], late) > 0:
        return (
            f"{Ending.BUDGET}: time for {trainer.epochs_done} epochs{_outlook(trainer, settling)}"
        )
    return None


def _outlook(trainer: Trainer, settling: Settling | None) -> str:
    """That the ELBO still rises, if it does; not if it is that of a drawn partition."""
    if isinstance(unwrapped(trainer.guide), SupportsPartition):
        return ""
    rises = still_rises(trainer.elbos_per_item) or (settling is not None and settling.was_rising)
    return ", the ELBO still rising" if rises else ""


def _status(elbo_per_item: float, history: list[dict[str, float]]) -> str:
    status = f"ELBO/item {elbo_per_item:.3f}"
    if history and "clusters_in_use" in history[-1]:
        status += f", {history[-1]['clusters_in_use']} clusters in use"
    return status
