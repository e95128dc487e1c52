"""How much memory a process has held."""

from __future__ import annotations

from pathlib import Path


def peak_of_process() -> float:
    """Peak resident megabytes; getrusage would count the parent's peak before exec, too (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
