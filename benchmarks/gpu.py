"""Time of a step on a GPU, with and without compiled networks, compared with a CPU.

BayesSCDC and SCDC on MNIST shapes, as in ``step.py``. A step is one of ``fit``: it moves its
minibatch to the device and waits for the ELBO. The floor is that of ``step.py``: the bare networks
of BayesSCDC on the same device, also waiting for the loss. Networks are compiled by
``nn.Module.compile``, as a user would do before ``fit``; the first steps, which compile, are not
counted.

    python benchmarks/gpu.py --device cuda

Last line: one JSON object. By case, ``cpu``, ``device`` and ``compiled`` are milliseconds of a step
(medians), ``speedup`` and ``compiled_speedup`` ratios to the CPU, which runs on
``--threads``. ``floor`` is milliseconds of the bare networks on the device, ``over_floor``
the ratio of BayesSCDC to it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from step import build, make_data, make_floor, take_turns, trainer_of

from pyro_crowdclust import CrowdData
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.training import Trainer

# Number of minibatches, which steps use in turn.
BATCHES = 10


def prepared(data: CrowdData, device: str, compiled: bool, **sizes: Any) -> Trainer:
    """A run on the device."""
    torch.manual_seed(0)
    model, guide = build(**sizes)
    trainer = trainer_of(model, guide, data, device=device, sample_size=1000)
    if compiled:
        for part in [*guide.recognition.children(), *model.emission.children()]:
            part.compile(dynamic=True)
    return trainer


def milliseconds(
    work: Callable[[Batch], object], device: str, batches: Sequence[Batch], steps: int
) -> float:
    """Median time of steps on the device, each of which waits for its result."""

    def step(batch: Batch) -> None:
        work(batch.to(device, torch.float32))

    (times,) = take_turns(
        [step], batches, steps, warm_up=min(steps, len(batches)), clock=time.perf_counter
    )
    return 1e3 * statistics.median(times)


def measure(
    data: CrowdData, batches: Sequence[Batch], options: argparse.Namespace, amortized: bool
) -> dict[str, float]:
    """Steps of one guide on the processor, on the device, and there compiled."""
    found: dict[str, float] = {}
    fewer = max(1, options.steps // options.cpu_share)
    places = [("cpu", "cpu", False, fewer), ("device", options.device, False, options.steps)]
    if not options.no_compile:
        places.append(("compiled", options.device, True, options.steps))
    for place, device, compiled, steps in places:
        trainer = prepared(data, device, compiled, hidden=options.hidden, amortized=amortized)
        found[place] = milliseconds(trainer.step, device, batches, steps)
    found["speedup"] = found["cpu"] / found["device"]
    if "compiled" in found:
        found["compiled_speedup"] = found["cpu"] / found["compiled"]
    return found


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the benchmark; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--cpu-share", type=int, default=10, help="fewer steps on the CPU, by this")
    parser.add_argument("--items", type=int, default=8000)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)

    data = make_data(options.items)
    batches = list(prepared(data, "cpu", False, hidden=options.hidden).sampler)[:BATCHES]
    figures: dict[str, Any] = {}
    for name, amortized in (("bayes", False), ("scdc", True)):
        found = measure(data, batches, options, amortized)
        figures[name] = {key: round(value, 3) for key, value in found.items()}
        print(f"{name}: {figures[name]}", flush=True)
    bare = make_floor(options.hidden, options.device)
    floor = milliseconds(bare, options.device, batches, options.steps)
    figures["floor"] = round(floor, 3)
    figures["over_floor"] = round(figures["bayes"]["device"] / floor, 3)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
