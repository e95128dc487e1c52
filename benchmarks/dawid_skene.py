"""Time of Dawid-Skene on a million answers, compared with a minimum and with crowd-kit.

100,000 items, 200 workers, 5 classes, 10 answers per item. The library runs ``fit`` with Pyro's
stock ELBO and natural steps at rate one. The floor is the minimum that any such iteration must do:
two products with the sparse matrix of the answers and a softmax, in SciPy and NumPy. The peer is
crowd-kit's ``DawidSkene``, if it is installed (``pip install '.[peers]'``). ``total`` is from the
data frame to a tolerance of 1e-5: in nats per item here, in crowd-kit's own loss there. Everything
runs on one thread, and processor time is measured, so that other processes matter little. All
figures are medians: iterations alternate with the floor, and whole runs with crowd-kit's, after a
first one that is not counted.

    python benchmarks/dawid_skene.py --memory

Last line: one JSON object: crowd-kit's seconds over ours (``ratio_iteration``, ``ratio_total``;
null without crowd-kit), our iteration over the floor (``over_floor``), and the seconds themselves;
with ``--memory`` what an answer adds to the peak, the table included, from a million answers to two
(``bytes_per_answer``) and from there to four (``bytes_per_answer_beyond``).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from memory import peak_of_process

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.fitting import adam
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.training import Stopping, Trainer

NUM_CLASSES, NUM_WORKERS, ANSWERS_PER_ITEM = 5, 200, 10


def simulate(num_items: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Workers between 40 and 95 % right; no worker is asked twice about an item."""
    rng = np.random.default_rng(0)
    truth = rng.integers(NUM_CLASSES, size=num_items)
    accuracy = rng.uniform(0.4, 0.95, NUM_WORKERS)
    item = np.repeat(np.arange(num_items), ANSWERS_PER_ITEM)
    first = rng.integers(NUM_WORKERS, size=(num_items, 1))
    stride = rng.integers(1, NUM_WORKERS // ANSWERS_PER_ITEM, size=(num_items, 1))
    worker = ((first + stride * np.arange(ANSWERS_PER_ITEM)) % NUM_WORKERS).ravel()
    right = rng.random(len(item)) < accuracy[worker]
    other = (truth[item] + rng.integers(1, NUM_CLASSES, size=len(item))) % NUM_CLASSES
    label = np.where(right, truth[item], other)
    return pd.DataFrame({"item": item, "worker": worker, "label": label}), truth


def make_trainer(data: CrowdData) -> Trainer:
    """A run of coordinate ascent."""
    model = DawidSkene(ConfusionMatrices(data.num_workers, data.num_classes))
    guide = ClassLabelGuide(model)
    guide.start(data, torch.Generator().manual_seed(0))
    return Trainer(model, guide, data, optim=adam, step_size=1.0)


def make_floor(frame: pd.DataFrame) -> Callable[[], None]:
    """Two sparse products and a softmax."""
    cell = frame["worker"].to_numpy() * NUM_CLASSES + frame["label"].to_numpy()
    shape = frame["item"].max() + 1, NUM_WORKERS * NUM_CLASSES
    answers = scipy.sparse.csr_matrix(
        (np.ones(len(frame)), (frame["item"].to_numpy(), cell)), shape
    )
    # Adding to a table that fits into the cache takes half the time of the transpose by rows.
    transposed = answers.T
    log_answers = np.random.default_rng(1).normal(size=(shape[1], NUM_CLASSES))

    def iteration() -> None:
        logits = answers @ log_answers
        logits -= logits.max(1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(1, keepdims=True)
        transposed @ logits

    return iteration


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def crowd_kit_iteration(frame: pd.DataFrame, iterations: int) -> float:
    """Seconds of an iteration of crowd-kit, from the difference of two runs, without setup."""
    from crowdkit.aggregation import DawidSkene as Peer

    short = seconds(lambda: Peer(n_iter=1, tol=0.0).fit(frame))
    long = seconds(lambda: Peer(n_iter=1 + iterations, tol=0.0).fit(frame))
    return (long - short) / iterations


def crowd_kit_labels(frame: pd.DataFrame) -> np.ndarray:
    """Labels by item of crowd-kit's run to tolerance."""
    from crowdkit.aggregation import DawidSkene as Peer

    return Peer(n_iter=1000, tol=1e-5).fit(frame).labels_.sort_index().to_numpy()


def peak_megabytes(num_items: int) -> float:
    """Peak memory of a process that simulates this number of items and fits them."""
    command = [sys.executable, __file__, "--peak", "--items", str(num_items)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def main(arguments: list[str] | None = None) -> dict[str, float | None]:
    """Run the benchmark; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("--runs", type=int, default=5, help="from the data frame to the end")
    parser.add_argument(
        "--memory", action="store_true", help="also measure items, twice and four times as many"
    )
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)

    frame, truth = simulate(options.items)
    model = DawidSkene(ConfusionMatrices(NUM_WORKERS, NUM_CLASSES))
    settings = {"batch_size": None, "step_size": 1.0, "epochs": 200, "progress": False}
    # A small fit first, so that one-time work of Python and torch is not measured.
    fit(
        model,
        ClassLabelGuide(model),
        CrowdData(None, labels=frame[:5000]),
        **settings | {"epochs": 2},
    )

    def ours() -> np.ndarray:
        data = CrowdData(None, labels=frame)
        guide = ClassLabelGuide(model)
        result = fit(model, guide, data, stopping=Stopping(1e-5, patience=1), **settings)
        return result.assignments

    if options.peak:
        ours()
        print(peak_of_process())
        return {}
    data = CrowdData(None, labels=frame)
    batch = full_batch(data)
    trainer, floor = make_trainer(data), make_floor(frame)
    trainer.step(batch)  # the first one is validated
    steps, floors = [], []
    for _ in range(options.iterations):
        steps.append(seconds(lambda: trainer.step(batch)))
        floors.append(seconds(floor))
    renamed = frame.rename(columns={"item": "task"})
    has_peer = importlib.util.find_spec("crowdkit") is not None
    accuracy = float((ours() == truth).mean())
    if has_peer:
        iteration = crowd_kit_iteration(renamed, min(options.iterations, 5))
        peer_accuracy = float((crowd_kit_labels(renamed) == truth).mean())
    totals, peer_totals = [], []
    for _ in range(options.runs):
        totals.append(seconds(ours))
        if has_peer:
            peer_totals.append(seconds(lambda: crowd_kit_labels(renamed)))
    figures: dict[str, float | None] = {
        "ratio_iteration": None,
        "ratio_total": None,
        "over_floor": statistics.median(a / b for a, b in zip(steps, floors, strict=True)),
        "iteration_seconds": statistics.median(steps),
        "floor_seconds": statistics.median(floors),
        "total_seconds": statistics.median(totals),
        "accuracy": accuracy,
    }
    if options.memory:
        peaks = [peak_megabytes(times * options.items) for times in (1, 2, 4)]
        for name, more, extra in (("", 0, 1), ("_beyond", 1, 2)):
            answers = extra * len(frame)
            figures[f"bytes_per_answer{name}"] = 2**20 * (peaks[more + 1] - peaks[more]) / answers
    if has_peer:
        figures["ratio_iteration"] = iteration / figures["iteration_seconds"]
        figures["ratio_total"] = statistics.median(
            theirs / own for theirs, own in zip(peer_totals, totals, strict=True)
        )
        print(
            f"crowd-kit: {iteration:.3f} s an iteration, {statistics.median(peer_totals):.2f} s in "
            f"all, accuracy {peer_accuracy:.4f}"
        )
    else:
        print("crowd-kit is not installed (pip install '.[peers]'): no ratios to it")
    print(json.dumps({k: v if v is None else round(v, 4) for k, v in figures.items()}))
    return figures


if __name__ == "__main__":
    main()
