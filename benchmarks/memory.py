"""Peak memory of a process, and running a function in a new process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

Found = TypeVar("Found")


def peak_of_process() -> float:
    """Peak resident megabytes; getrusage would count the parent's peak before exec, too (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def in_own_process(work: Callable[..., Found], *given: object) -> Found:
    """The return value of a function of a module in a new process, on one thread.

    The process has loaded only the library and this module.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pyro_crowdclust.models", "pyro_crowdclust.guides"])
    with ProcessPoolExecutor(1, context, torch.set_num_threads, (1,)) as pool:
        return pool.submit(work, *given).result()
