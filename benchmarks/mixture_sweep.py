"""Time of a coordinate-ascent sweep of a Gaussian mixture, over scikit-learn and a minimum.

Full covariances, K = 50, d = 8. A sweep updates every assignment and every component once. In the
library it is an epoch of ``fit`` on the full data with step size 1. The peer is an iteration of
``BayesianGaussianMixture``. The floor is the minimum for any implementation: two matrix products
(statistics of x, upper triangle only, times parameters; assignments transposed times statistics)
and a softmax between them, a few thousand rows at a time. All three alternate.

    python benchmarks/mixture_sweep.py --threads 1

Last line: one JSON object; ``ratio_*`` are the peer's seconds (always float64) over ours,
``over_floor`` ours over the floor's in float64, ``slope_n`` the exponent of N in our seconds,
``slope_t`` that of the truncation T, ``labels_cost`` the seconds with labels on half of the items
over those without, ``memory_ratio`` our peak memory over the peer's.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from memory import in_own_process, peak_of_process
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.supervision import ClassTable

DIM = 8
# Rows of the floor that are processed at a time.
PART = 4096


def make_features(num_items: int, num_classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes around centers with a spread of 4, and labels on half of the items."""
    rng = np.random.default_rng(0)
    centers = rng.normal(scale=4.0, size=(num_classes, DIM))
    classes = rng.integers(num_classes, size=num_items)
    known = np.where(rng.random(num_items) < 0.5, classes, -1)
    return centers[classes] + rng.normal(size=(num_items, DIM)), known


def our_sweep(
    features: np.ndarray,
    clusters: int,
    sweeps: int,
    dtype: torch.dtype,
    known: np.ndarray | None = None,
) -> float:
    """Median seconds of a sweep, without the first, in which Pyro checks the sites."""
    data = CrowdData(features.astype(torch.empty(0, dtype=dtype).numpy().dtype), known=known)
    supervision = None if known is None else ClassTable.of(data, clusters)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(clusters),
        GaussianComponents(clusters, DIM),
        Identity(),
        supervision=supervision,
        sum_out_assignments=dtype,
    )
    result = fit(
        model,
        MessagePassingGuide(model),
        data,
        batch_size=None,
        step_size=1.0,
        epochs=sweeps + 1,
        dtype=dtype,
        progress=False,
    )
    return statistics.median(result.history["seconds"][1:])


def peer_sweep(features: np.ndarray, clusters: int, sweeps: int) -> float:
    """Seconds of an iteration: a long run minus a short one from the same start."""
    seconds = []
    for iterations in (1, sweeps + 1):
        peer = BayesianGaussianMixture(
            n_components=clusters,
            weight_concentration_prior_type="dirichlet_distribution",
            init_params="random_from_data",
            max_iter=iterations,
            tol=0.0,
            random_state=0,
        )
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            peer.fit(features)
        seconds.append(time.perf_counter() - started)
    return (seconds[1] - seconds[0]) / sweeps


def floor_sweep(num_items: int, clusters: int, sweeps: int, dtype: torch.dtype) -> float:
    """Median seconds of the two products and the softmax, in parts that fit into the cache."""
    statistic_size = DIM + DIM * (DIM + 1) // 2 + 1
    generator = torch.Generator().manual_seed(0)
    observed = torch.randn(num_items, statistic_size, dtype=dtype, generator=generator)
    parameters = torch.randn(clusters, statistic_size, dtype=dtype, generator=generator)
    assignments, seconds = torch.empty(num_items, clusters, dtype=dtype), []
    for _ in range(sweeps + 1):
        started = time.perf_counter()
        total = torch.zeros_like(parameters)
        for part, chosen in zip(observed.split(PART), assignments.split(PART), strict=True):
            torch.softmax(part @ parameters.mT, -1, out=chosen)
            total.addmm_(chosen.mT, part)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def slope(sizes: list[int], seconds: list[float]) -> float:
    """The exponent b of ``seconds = a size^b`` by least squares."""
    logs = np.log(np.array([sizes, seconds]))
    return float(np.polyfit(*logs, 1)[0])


def peak_growth(whose: str, num_items: int, clusters: int) -> float:
    """Megabytes by which the peak memory grows in three sweeps of ``ours`` or of the ``peer``."""
    features, _ = make_features(num_items)
    before = peak_of_process()
    if whose == "ours":
        our_sweep(features, clusters, 3, torch.float64)
    else:
        peer_sweep(features, clusters, 3)
    return peak_of_process() - before


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the benchmark; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--items", type=int, nargs=2, default=[60_000, 200_000])
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each, the best counts")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    clusters, sweeps = options.clusters, options.sweeps
    best: dict[str, float] = {}

    def measure(name: str, work: Callable[..., float], *given: object) -> None:
        best[name] = min(best.get(name, math.inf), work(*given))

    small, large = options.items
    few = max(clusters // 4, 2)
    for _ in range(options.rounds):
        for size in (small, large):
            features, known = make_features(size)
            measure(f"ours_{size}", our_sweep, features, clusters, sweeps, torch.float64)
            measure(f"floor_{size}", floor_sweep, size, clusters, sweeps, torch.float64)
            measure(f"peer_{size}", peer_sweep, features, clusters, sweeps)
        features, known = make_features(small)
        measure("ours_labels", our_sweep, features, clusters, sweeps, torch.float64, known)
        measure("ours_float32", our_sweep, features, clusters, sweeps, torch.float32)
        measure("floor_float32", floor_sweep, small, clusters, sweeps, torch.float32)
        measure("ours_few", our_sweep, features, few, sweeps, torch.float64)
    figures = {
        "ratio_60000": best[f"peer_{small}"] / best[f"ours_{small}"],
        "ratio_200000": best[f"peer_{large}"] / best[f"ours_{large}"],
        "ratio_60000_float32": best[f"peer_{small}"] / best["ours_float32"],
        "over_floor": best[f"ours_{small}"] / best[f"floor_{small}"],
        "over_floor_float32": best["ours_float32"] / best["floor_float32"],
        "slope_n": slope([small, large], [best[f"ours_{small}"], best[f"ours_{large}"]]),
        "labels_cost": best["ours_labels"] / best[f"ours_{small}"],
        "slope_t": slope([few, clusters], [best["ours_few"], best[f"ours_{small}"]]),
    }
    ours = in_own_process(peak_growth, "ours", large, clusters)
    figures["memory_ratio"] = ours / in_own_process(peak_growth, "peer", large, clusters)
    print(f"{options.threads} threads; milliseconds per sweep:")
    for name, seconds in best.items():
        print(f"  {name:15s} {1e3 * seconds:9.1f}")
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
    return figures


if __name__ == "__main__":
    main()
