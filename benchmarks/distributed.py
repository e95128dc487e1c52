"""Two processes compared with one on the same minibatches: equal parameters, and the speed-up.

BayesSCDC on MNIST shapes, 784-500-500 networks, K = 50. First both train five steps in float64,
and their parameters are compared. Then both train in float32 with ``--batch-size`` items and
``--answers`` answers per step, where networks dominate: the speed-up is the time of an epoch of one
process over that of two, each on one thread. The overhead of two processes is a sum of all
gradients over the loopback device, and in each of them the draw of the batch and Adam on all
parameters.

    python benchmarks/distributed.py

Last line: one JSON object with ``max_parameter_difference``, ``speedup_2`` (null unless two cores
are free), and the seconds of a step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch
from cores import two_cores_are_free
from step import build, make_data

from pyro_crowdclust import fit
from pyro_crowdclust.minibatches import AnswerSampling, joined_ranks
from pyro_crowdclust.training import Stopping, Trainer


def train(options: argparse.Namespace) -> None:
    """Train in this process, or in those of ``torchrun``, and write the results to a file."""
    torch.set_num_threads(1)
    data = make_data(options.items)
    with joined_ranks() as ranks:
        torch.set_default_dtype(torch.float64)
        sizes = {"stopping": Stopping(steps=5), "dtype": torch.float64, "progress": False}
        sizes["trainer"] = partial(Trainer, ranks=ranks)
        exact = fit(*build(hidden=options.hidden), data, **sizes)
        torch.set_default_dtype(torch.float32)
        sizes |= {"stopping": Stopping(), "dtype": torch.float32, "epochs": options.epochs}
        sizes |= {
            "batch_size": options.batch_size,
            "answer_sampling": AnswerSampling(options.answers),
        }
        rows = fit(*build(hidden=options.hidden), data, **sizes).history
    seconds = rows["seconds"] / rows["step"].diff()  # of the first epoch, which is checked, none
    if ranks.is_first:
        found = {"state": exact.guide.state_dict(), "seconds": float(seconds.min())}
        torch.save(found, options.train)


def run(processes: int, options: argparse.Namespace) -> dict:
    """The results of ``train`` in this process, or in several started by ``torchrun``."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.pt"
        if processes == 1:
            train(argparse.Namespace(**vars(options) | {"train": file}))
            return torch.load(file)
        command = [*launch, f"--nproc-per-node={processes}", __file__, "--train", str(file)]
        for name in ("items", "hidden", "batch_size", "answers", "epochs"):
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        return torch.load(file)


def main(arguments: list[str] | None = None) -> dict[str, float | None]:
    """Run the benchmark; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=8000)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=1500)
    parser.add_argument("--answers", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--train", type=Path, help="only train, and write the results to this file")
    options = parser.parse_args(arguments)
    if options.train is not None:
        train(options)
        return {}

    free = two_cores_are_free()
    one, two = run(1, options), run(2, options)
    states = one["state"], two["state"]
    figures = {
        "max_parameter_difference": max(
            float((states[0][name] - states[1][name]).abs().max()) for name in states[0]
        ),
        "speedup_2": one["seconds"] / two["seconds"] if free else None,
        "seconds_1": one["seconds"],
        "seconds_2": two["seconds"],
    }
    if not free:
        print("speed-up not measured: two free cores are needed")
    print(json.dumps({key: one and float(f"{one:.3g}") for key, one in figures.items()}))
    return figures


if __name__ == "__main__":
    main()
