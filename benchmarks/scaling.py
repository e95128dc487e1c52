"""Growth of the time of a step with numbers of clusters, dimensions, workers, answers and items.

BayesSCDC, one thread, processor time, medians. Clusters and dimensions are measured on MNIST shapes
(784-500-500 networks, 128 items and 4 pages per step); workers, answers and items with 8 features
and 64 hidden units, so that their effect is visible. A step always has 128 items and about 2,500
answers, and its time includes the draw of the minibatch. One-time work for all data (reading and
checking the tables, and preparing the pages) is measured separately.

    python benchmarks/scaling.py --figure docs/images/scaling.png

Last line: one JSON object. ``slope_items``, ``slope_answers`` and the other slopes are exponents:
the slope of log seconds of a step against log size, over all sizes, zero if a step does not depend
on the size. ``slope_prepare_...`` are those of the one-time work. ``k200_over_k50`` is the ratio of
alternating steps with 200 and 50 clusters. ``curves`` has sizes and seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from step import WORKERS, build, make_data, median_ratio, take_turns, trainer_of

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import Batch, MinibatchSampler
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.training import Trainer

FEATURES, HIDDEN, DIM, CLUSTERS, PAGE = 8, 64, 4, 20, 36
PAGE_ANSWERS = PAGE * (PAGE - 1) // 2

Curve = dict[str, dict[int, float]]


def make_crowd(num_items: int, num_answers: int, num_workers: int) -> CrowdData:
    """Items of ten clusters, and pages of 36 of them, each sorted without errors by one worker."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(10, size=num_items)
    centers = 3 * rng.standard_normal((10, FEATURES), np.float32)
    features = centers[kinds] + rng.standard_normal((num_items, FEATURES), np.float32)
    pages = max(num_answers // PAGE_ANSWERS, 1)
    first = rng.integers(num_items - 7 * PAGE, size=(pages, 1))
    shown = first + 7 * np.arange(PAGE)
    one, other = np.triu_indices(PAGE, 1)
    left, right = shown[:, one].ravel(), shown[:, other].ravel()
    page = np.repeat(np.arange(pages), PAGE_ANSWERS)
    # If there are more workers than pages, several of them share a page.
    worker = np.arange(len(page)) % num_workers if num_workers > pages else page % num_workers
    label = (kinds[left] == kinds[right]).astype(np.int64)
    pairs = {"left": left, "right": right, "worker": worker, "label": label, "page": page}
    return CrowdData(features, pd.DataFrame(pairs))


def make_trainer(
    data: CrowdData, parts: tuple[SemiCrowdsourcedMixture, MessagePassingGuide]
) -> Trainer:
    """A run of BayesSCDC from a start."""
    return trainer_of(*parts, data, sample_size=2000)


def small_parts(num_workers: int) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    """A model and guide with small networks."""
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS),
        GaussianComponents(CLUSTERS, DIM),
        NormalEmission(SkipMLP((DIM, HIDDEN, FEATURES)), FEATURES),
        TwoCoin(num_workers),
    )
    recognition = GaussianRecognition(SkipMLP((FEATURES, HIDDEN, 2 * DIM)), DIM)
    return model, MessagePassingGuide(model, recognition)


def endless(sampler: MinibatchSampler) -> Iterator[Batch]:
    """Minibatches of an endless sequence of epochs."""
    while True:
        yield from sampler


def time_step(trainer: Trainer, steps: int) -> float:
    """Median seconds of drawing a minibatch and stepping on it."""
    batches, seconds = endless(trainer.sampler), []
    for _ in range(steps + 2):
        started = time.process_time()
        trainer.step(next(batches).to(None, torch.float32))
        seconds.append(time.process_time() - started)
    return statistics.median(seconds[2:])


def crowd_curves(
    sizes: Sequence[int], crowd: Callable[[int], tuple[int, int, int]], steps: int
) -> tuple[dict[int, float], dict[int, float]]:
    """Seconds of a step, and of the one-time work, for data of every size."""
    stepping, preparing = {}, {}
    for size in sizes:
        num_items, num_answers, num_workers = crowd(size)
        started = time.process_time()
        data = make_crowd(num_items, num_answers, num_workers)
        trainer = make_trainer(data, small_parts(data.num_workers))
        preparing[size] = time.process_time() - started
        stepping[size] = time_step(trainer, steps)
        print(
            f"{num_items} items, {data.num_pairs} answers, {data.num_workers} workers: "
            f"{1e3 * stepping[size]:.1f} ms a step, {preparing[size]:.1f} s once",
            flush=True,
        )
    return stepping, preparing


def slope(curve: dict[int, float]) -> float:
    """Exponent of the seconds in the size."""
    return float(np.polyfit(np.log(list(curve)), np.log(list(curve.values())), 1)[0])


def draw(curves: Curve, file: Path) -> None:
    """Seconds against size, a panel for each."""
    from matplotlib import pyplot, ticker

    figure, axes = pyplot.subplots(1, len(curves), figsize=(3 * len(curves), 3), sharey=True)
    for panel, (name, curve) in zip(axes, curves.items(), strict=True):
        panel.loglog(list(curve), [1e3 * seconds for seconds in curve.values()], "o-")
        panel.set_title(f"{name}: exponent {slope(curve):.2f}", fontsize=10)
        panel.set_xlabel(name)
        panel.set_xticks(list(curve), [f"{size:,}" for size in curve], rotation=40, ha="right")
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("milliseconds of a step")
    axes[0].yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter(ticker.ScalarFormatter())
    figure.tight_layout()
    figure.savefig(file, dpi=100)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Run the benchmark; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    whole = {"type": int, "nargs": "+"}
    parser.add_argument("--clusters", **whole, default=[10, 25, 50, 100, 200, 400])
    parser.add_argument("--dims", **whole, default=[2, 4, 8, 16, 32])
    parser.add_argument("--workers", **whole, default=[10, 100, 1000, 10_000, 100_000])
    parser.add_argument("--answers", **whole, default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--items", **whole, default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--figure", type=Path, help="draw the curves into this file")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(0)

    mnist = make_data(4000)
    batches = list(MinibatchSampler(mnist, generator=torch.Generator().manual_seed(0)))[:10]
    two = [make_trainer(mnist, build(num_clusters=count)).step for count in (50, 200)]
    few, many = take_turns(two, batches, options.steps, warm_up=3)
    curves: Curve = {"clusters": {}, "dimensions": {}}
    for count in options.clusters:
        trainer = make_trainer(mnist, build(num_clusters=count, num_workers=WORKERS))
        curves["clusters"][count] = time_step(trainer, options.steps)
    for dim in options.dims:
        trainer = make_trainer(mnist, build(dim=dim))
        curves["dimensions"][dim] = time_step(trainer, options.steps)

    once: Curve = {}
    crowds = {
        "workers": (options.workers, lambda size: (100_000, max(200_000, 2 * size), size)),
        "answers": (options.answers, lambda size: (200_000, size, 100)),
        "items": (options.items, lambda size: (size, 50_000, 100)),
    }
    for name, (sizes, crowd) in crowds.items():
        curves[name], once[name] = crowd_curves(sizes, crowd, options.steps)
    if options.figure is not None:
        draw(curves, options.figure)
    figures = {f"slope_{name}": slope(curve) for name, curve in curves.items()}
    figures |= {f"slope_prepare_{name}": slope(curve) for name, curve in once.items()}
    figures["k200_over_k50"] = median_ratio(many, few)
    rounded = {name: round(value, 3) for name, value in figures.items()}
    seconds = {
        name: {size: float(f"{one:.3g}") for size, one in curve.items()}
        for name, curve in (curves | {f"prepare_{name}": one for name, one in once.items()}).items()
    }
    print(json.dumps(rounded | {"curves": seconds}))
    return figures | {"curves": seconds}


if __name__ == "__main__":
    main()
