"""Training by several processes (ranks) with ``torch.distributed``.

Every rank draws the same minibatch and holds a part of it with R times the weights, so that the
mean of the losses over the R ranks is the loss of the minibatch: local terms are summed, and global
terms count once. The mean of the gradients is therefore the gradient of a single process. For
networks this is the usual average; for natural parameters it sums the expected statistics of all
parts before one step, which is the same on every rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from itertools import groupby

import torch
import torch.distributed
from torch import Tensor

from pyro_crowdclust.errors import first_line

ANSWERS_WITHIN = timedelta(minutes=10)


class RankLost(RuntimeError):
    """Another process of the same fit has ended or does not respond."""


class Ranks:
    """The processes of a fit, numbered 0, 1, ...; a single process unless a group is given.

    Parameters
    ----------
    group
        A process group of ``torch.distributed``, e.g. ``torch.distributed.group.WORLD``.

    Attributes
    ----------
    rank
        Number of this process; 0 is the one that prints and writes.
    count
        Number of processes.

    Examples
    --------
    >>> ranks = Ranks()
    >>> ranks.rank, ranks.count, ranks.is_first
    (0, 1, True)
    """

    def __init__(self, group: torch.distributed.ProcessGroup | None = None) -> None:
        self._group = group
        self.rank = 0 if group is None else torch.distributed.get_rank(group)
        self.count = 1 if group is None else torch.distributed.get_world_size(group)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Copy the values of tensors from the first rank to all others.

        Raises
        ------
        RankLost
            If another process has ended.
        """
        if self.count == 1:
            return
        assert self._group is not None  # there are several processes
        with _clear_errors():
            for tensor in tensors:
                first = torch.distributed.get_global_rank(self._group, 0)
                torch.distributed.broadcast(tensor.detach(), first, self._group)

    def average(self, parameters: Sequence[Tensor], value: float) -> float:
        """Replace all gradients by their means over ranks; returns the mean of ``value``.

        A missing gradient on some ranks counts as zero; a parameter without a gradient on any rank
        keeps none. If ``value`` is not finite on some rank, the result is not finite on all, and
        gradients are not changed.

        Raises
        ------
        RankLost
            If another process has ended.
        """
        if self.count == 1:
            return value
        device = parameters[0].device if parameters else None
        has_gradient = [float(parameter.grad is not None) for parameter in parameters]
        header = torch.tensor([value, *has_gradient], dtype=torch.float64, device=device)
        self._sum(header)
        mean, *num_gradients = (header / self.count).tolist()
        if not math.isfinite(mean):
            return mean
        used = [one for one, count in zip(parameters, num_gradients, strict=True) if count > 0]
        for parameter in used:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        kinds = sorted(used, key=lambda parameter: str(parameter.dtype))
        for _, same_kind in groupby(kinds, key=lambda parameter: parameter.dtype):
            gradients = [one.grad for one in same_kind if one.grad is not None]
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            self._sum(flat)
            parts = (flat / self.count).split([gradient.numel() for gradient in gradients])
            for gradient, part in zip(gradients, parts, strict=True):
                gradient.copy_(part.view_as(gradient))
        return mean

    def leave(self) -> None:
        """Drop the reference to the group, so that its threads end.

        A thread that outlives the interpreter would abort the process when it frees a tensor.
        """
        self._group = None

    def _sum(self, tensor: Tensor) -> None:
        with _clear_errors():
            torch.distributed.all_reduce(tensor, group=self._group)


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Turn torch's errors about lost processes into ``RankLost``, with advice."""
    try:
        yield
    except RuntimeError as error:
        raise RankLost(
            "another process of this fit has ended or does not respond; its own message says why. "
            "Start the job again: with checkpoint=Checkpoint(path, resume=True) it continues where "
            f"it was, also with another number of processes ({first_line(error)})"
        ) from error


@contextmanager
def joined_ranks(timeout: timedelta = ANSWERS_WITHIN) -> Iterator[Ranks]:
    """The processes that ``torchrun`` started, for ``partial(Trainer, ranks=ranks)``.

    If the program was not started by ``torchrun``, it is this single process, so that the same
    program runs either way. Processes communicate by gloo, or by nccl for tensors on GPUs.

    Parameters
    ----------
    timeout
        A rank that does not respond for this time counts as lost.

    Examples
    --------
    >>> with joined_ranks() as ranks:
    ...     print(f"rank {ranks.rank} of {ranks.count}")
    rank 0 of 1
    """
    if not torch.distributed.is_torchelastic_launched():
        yield Ranks()
        return
    # Imported before there is a group, since its functions have the group as a default argument.
    import_module("torch.distributed.nn")
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(backend, timeout=timeout)
    ranks = Ranks(torch.distributed.group.WORLD)
    try:
        yield ranks
    finally:
        torch.distributed.destroy_process_group()
        ranks.leave()
