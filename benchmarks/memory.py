"""How much memory a process has held, and work in a process of its own."""

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
    """What a function of a module returns in a new process, on one thread.

    The process has loaded the library, and nothing else of ours.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pyro_crowdclust.models", "pyro_crowdclust.guides"])
    with ProcessPoolExecutor(1, context, torch.set_num_threads, (1,)) as pool:
        return pool.submit(work, *given).result()
