"""Checks whether processor cores are free."""

from __future__ import annotations

import os
import time
from pathlib import Path


def busy_cores(seconds: float = 1.0) -> float:
    """Number of busy cores; on systems other than Linux, the load of the last minute."""
    before = _worked()
    if before is None:
        return os.getloadavg()[0]
    started = time.perf_counter()
    time.sleep(seconds)
    return (_worked() - before) / (time.perf_counter() - started)


def two_cores_are_free() -> bool:
    """Whether the machine has two cores that are nearly idle."""
    return (os.cpu_count() or 1) >= 2 and busy_cores() < 0.2


def _worked() -> float | None:
    """Seconds that all cores together have worked since the machine started."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    user, nice, system, _, _, *interrupts = map(int, stat.read_text().split("\n")[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
