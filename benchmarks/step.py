"""Time of a BayesSCDC step over forward, backward and Adam of the bare networks.

MNIST shapes: encoder 784-500-500-16, decoder 8-500-500-784 with skip paths, Bernoulli pixels,
K = 50 full covariances, 128 items without answers and 4 pages of 36 (2,520 answers). The floor runs
the same two networks on the same items: one forward pass with a draw in between, the pixels'
log-likelihood, backward, and the same Adam. Both alternate, so that other processes slow both; on
one thread processor time is measured, which does not include other processes. An epoch of SCDC has
as many steps as one of BayesSCDC, so that the ratio of their steps is that of their epochs.

    python benchmarks/step.py --threads 1

Last line: one JSON object. ``ratio`` (a median over alternating steps), ``milliseconds`` and
``floor_milliseconds`` are for a step as ``fit`` takes it by default, with ``--threads`` threads.
``ratio_1_thread`` and ``ratio_2_threads`` are the ratio with one and two threads; the latter is
null unless two cores are free, since on a busy core two threads are many times slower than one. The
rest is on one thread. ``scdc_over_bayes`` has z summed exactly, after an epoch of training: its
time depends on the number of clusters that are still possible for an item, whose mean is
``scdc_rows_per_item``. ``scdc_at_start_over_bayes`` is the same before training, when all K are
possible. ``scdc_drawn_over_bayes``, with z summed over the four most probable clusters of each item
and over the others by an unbiased draw, does not depend on that number.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from cores import two_cores_are_free
from torch import Tensor, nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import BernoulliEmission
from pyro_crowdclust.fitting import adam
from pyro_crowdclust.guides import AmortizedGuide, AtMean, MessagePassingGuide, Sampled
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.minibatches import Batch, MinibatchSampler
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP
from pyro_crowdclust.simulation import simulate_pages
from pyro_crowdclust.starts import PrincipalComponentStart
from pyro_crowdclust.training import Trainer

PIXELS, DIM, CLUSTERS, HIDDEN, WORKERS = 784, 8, 50, 500, 48
# If SCDC draws, it sums over this many values of z, and over the others by the draw.
SUMMED = 4
# Number of consecutive steps of one work.
TURN = 10


def make_data(num_items: int) -> CrowdData:
    """Blurred prototypes of ten classes with the shapes of MNIST, and pages of 48 workers."""
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=num_items)
    prototypes = rng.random((10, PIXELS)) < 0.2
    noise = rng.random((num_items, PIXELS)) * 0.2
    features = (0.8 * prototypes[labels] + noise).astype(np.float32)
    rates = [0.98] * WORKERS
    answered = rng.choice(num_items, num_items // 4, replace=False)
    pairs: pd.DataFrame = simulate_pages(
        labels, rates, rates, pages_per_worker=2, items=answered, seed=0
    )
    return CrowdData(features, pairs)


def build(
    num_clusters: int = CLUSTERS,
    dim: int = DIM,
    hidden: int = HIDDEN,
    num_workers: int = WORKERS,
    amortized: bool = False,
    assignments: AtMean | Sampled = AtMean(),  # noqa: B008, frozen
) -> tuple[SemiCrowdsourcedMixture, AmortizedGuide | MessagePassingGuide]:
    """BayesSCDC, or SCDC, on MNIST shapes."""
    model = SemiCrowdsourcedMixture(
        DirichletWeights(num_clusters),
        GaussianComponents(num_clusters, dim),
        BernoulliEmission(SkipMLP((dim, hidden, hidden, PIXELS))),
        TwoCoin(num_workers),
    )
    term = RecognitionTerm(10.0)
    if amortized:
        networks = AmortizedRecognition((PIXELS, hidden, hidden), dim, num_clusters)
        guide = AmortizedGuide(model, networks, recognition_term=term, assignments=assignments)
        return model, guide
    networks = GaussianRecognition(SkipMLP((PIXELS, hidden, hidden, 2 * dim)), dim)
    return model, MessagePassingGuide(model, networks, recognition_term=term)


def trainer_of(
    model: Any, guide: Any, data: CrowdData, device: str = "cpu", **of_start: Any
) -> Trainer:
    """A run from a ``PrincipalComponentStart``, as ``fit`` would make it."""
    generator = torch.Generator().manual_seed(0)
    PrincipalComponentStart(**of_start)(model, guide, data, generator)
    for part in (model, guide):
        part.to(device)
    return Trainer(
        model,
        guide,
        data,
        MinibatchSampler(data, generator=generator),
        optim=adam,
        step_size=0.01,
        device=device,
    )


def make_trainer(data: CrowdData, **sizes: Any) -> Trainer:
    """A run of ``build(**sizes)``."""
    return trainer_of(*build(**sizes), data)


def make_floor(hidden: int, device: str = "cpu") -> Callable[[Batch], None]:
    """The same networks and optimizer alone; a step also reads its loss."""
    encoder = SkipMLP((PIXELS, hidden, hidden, 2 * DIM)).to(device)
    decoder = SkipMLP((DIM, hidden, hidden, PIXELS)).to(device)
    optimizer = adam([*encoder.parameters(), *decoder.parameters()])

    def loss(features: Tensor, item_weight: Tensor) -> Tensor:
        mean, raw = encoder(features).chunk(2, -1)
        draw = mean + raw.exp() * torch.randn_like(mean)
        logits = decoder(draw)
        pixels = nn.functional.binary_cross_entropy_with_logits(logits, features, reduction="none")
        return (item_weight.float() * pixels.sum(-1)).sum()

    def step(batch: Batch) -> None:
        optimizer.zero_grad(set_to_none=True)
        found = loss(batch.features, batch.item_weight)
        found.item()
        found.backward()
        optimizer.step()

    return step


def _turns(steps: int) -> Iterator[range]:
    """Steps of every work in turns."""
    for first in range(0, steps, TURN):
        yield range(first, min(first + TURN, steps))


def take_turns(
    works: Sequence[Callable[[Batch], object]],
    batches: Sequence[Batch],
    steps: int,
    warm_up: int,
    clock: Callable[[], float] | None = None,
) -> list[list[float]]:
    """Seconds of every step of every work, without the first ones, which warm up caches.

    The works alternate after ``TURN`` steps: other processes slow all of them, and most steps come
    after a step of the same work, as in training.
    """
    if clock is None:
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times: list[list[float]] = [[] for _ in works]
    for turn in _turns(steps + warm_up):
        for work, seconds in zip(works, times, strict=True):
            for number in turn:
                started = clock()
                work(batches[number % len(batches)])
                seconds.append(clock() - started)
    return [seconds[warm_up:] for seconds in times]


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median of the ratios of alternating steps."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def measure_scdc(
    data: CrowdData, batches: Sequence[Batch], bayes: Trainer, steps: int, hidden: int
) -> dict[str, float]:
    """Steps of SCDC in turns with those of BayesSCDC."""

    def over_bayes(scdc: Trainer, share: int) -> float:
        works = scdc.step, bayes.step
        return median_ratio(*take_turns(works, batches, max(1, steps // share), warm_up=1))

    exact = make_trainer(data, amortized=True, hidden=hidden)
    at_start = over_bayes(exact, share=40)
    for batch in exact.sampler:
        exact.step(batch)
    rows: list[int] = []
    count = exact.model.emission.register_forward_hook(
        lambda _, latents, __: rows.append(latents[0].shape[0])
    )
    for batch in batches:
        exact.step(batch)
    count.remove()
    drawn = make_trainer(data, amortized=True, hidden=hidden, assignments=Sampled(SUMMED))
    return {
        "scdc_over_bayes": over_bayes(exact, share=5),
        "scdc_rows_per_item": sum(rows) / sum(len(batch.items) for batch in batches),
        "scdc_at_start_over_bayes": at_start,
        "scdc_drawn_over_bayes": over_bayes(drawn, share=5),
    }


def main(arguments: list[str] | None = None) -> dict[str, float | None]:
    """Run the benchmark; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--items", type=int, default=8000)
    parser.add_argument("--hidden", type=int, default=HIDDEN)
    options = parser.parse_args(arguments)
    both_threads = two_cores_are_free()
    torch.manual_seed(0)

    data = make_data(options.items)
    trainer, floor = make_trainer(data, hidden=options.hidden), make_floor(options.hidden)
    batches = list(trainer.sampler)[:20]
    found: dict[int, tuple[list[float], list[float]]] = {}
    for threads in sorted({1, options.threads} | ({2} if both_threads else set())):
        torch.set_num_threads(threads)
        ours, bare = take_turns((trainer.step, floor), batches, options.steps, warm_up=5)
        found[threads] = ours, bare
    torch.set_num_threads(1)
    scdc = measure_scdc(data, batches, trainer, options.steps, options.hidden)

    ours, bare = found[options.threads]
    figures = {
        "ratio": median_ratio(ours, bare),
        "milliseconds": 1e3 * statistics.median(ours),
        "floor_milliseconds": 1e3 * statistics.median(bare),
        "ratio_1_thread": median_ratio(*found[1]),
        "ratio_2_threads": median_ratio(*found[2]) if 2 in found else None,
        **scdc,
    }
    first = batches[0]
    size = f"{len(first.items)} items and {first.num_pairs} answers a step"
    print(f"{options.threads} threads, {size}")
    if 2 not in found:
        print("2 threads not measured: two free cores are needed")
    rounded = {name: value if value is None else round(value, 3) for name, value in figures.items()}
    print(json.dumps(rounded))
    return figures


if __name__ == "__main__":
    main()
