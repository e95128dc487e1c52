"""Fit and prediction of items that do not fit in memory: peak memory, and speed without arrays.

Items with 64 float32 features around ten centers are in a ``.npy`` file, which is written in parts
and removed at the end. A mixture of K = 10 diagonal Gaussians is fitted in one epoch with
minibatches of 8,192, and the cluster of every item is written to a parquet file. Each size runs in
a separate process, whose peak of resident memory is read from the system. For comparison, one more
process has as many items as the smaller file in an array.

    python benchmarks/out_of_core.py --folder DIR

Last line: one JSON object: ``peak_mb_1e6`` and ``peak_mb_1e7`` for the two sizes,
``throughput_ratio``, the items per second of an epoch from an array over those from the smaller
file, and the seconds of the larger fit and of writing its items.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from memory import in_own_process, peak_of_process

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.data import MemmapFeatures
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DiagonalGaussianComponents, DirichletWeights
from pyro_crowdclust.models import SemiCrowdsourcedMixture

FEATURES, CLUSTERS, ROWS = 64, 10, 65_536


def write_features(path: Path, num_items: int) -> None:
    """Ten round clouds, in a ``.npy`` file."""
    rng = np.random.default_rng(0)
    centers = 3 * rng.standard_normal((CLUSTERS, FEATURES), np.float32)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (num_items, FEATURES)}
        np.lib.format.write_array_header_1_0(file, header)
        for first in range(0, num_items, ROWS):
            count = min(ROWS, num_items - first)
            noise = rng.standard_normal((count, FEATURES), np.float32)
            (centers[rng.integers(CLUSTERS, size=count)] + noise).tofile(file)


def measure(path: Path, in_memory: bool) -> dict[str, float]:
    """Fit and write the items of one file; seconds of an epoch and of writing, and the peak."""
    torch.manual_seed(0)
    features = np.load(path) if in_memory else MemmapFeatures(np.load(path, mmap_mode="r"))
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS), DiagonalGaussianComponents(CLUSTERS, FEATURES), Identity()
    )
    result = fit(
        model,
        MessagePassingGuide(model),
        CrowdData(features),
        epochs=1,
        batch_size=8192,
        step_size=0.5,
        progress=False,
    )
    started = time.perf_counter()
    result.write_items(path.with_suffix(".parquet"))
    return {
        "epoch_seconds": float(result.history["seconds"].iloc[-1]),
        "write_seconds": time.perf_counter() - started,
        "peak_mb": peak_of_process(),
    }


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the benchmark; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, nargs=2, default=[1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, help="folder for files of 3 GB")
    options = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        small, large = (Path(folder) / f"{count}.npy" for count in options.items)
        for path, count in zip((small, large), options.items, strict=True):
            write_features(path, count)
        runs = (small, False), (small, True), (large, False)
        stored, array, many = (in_own_process(measure, *one) for one in runs)
    figures = {
        "peak_mb_1e6": stored["peak_mb"],
        "peak_mb_1e7": many["peak_mb"],
        "throughput_ratio": stored["epoch_seconds"] / array["epoch_seconds"],
        "epoch_seconds_1e7": many["epoch_seconds"],
        "write_seconds_1e7": many["write_seconds"],
        "peak_mb_array_1e6": array["peak_mb"],
    }
    print(json.dumps({key: round(value, 3) for key, value in figures.items()}))
    return figures


if __name__ == "__main__":
    main()
