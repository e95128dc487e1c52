"""Time of a BayesSCDC step over the bare networks' forward, backward and Adam, in one run.

MNIST shapes: encoder 784-500-500-16, decoder 8-500-500-784 with skip paths, Bernoulli pixels,
K = 50 full covariances, 128 items without answers and 4 pages of 36 (2,520 answers). The floor runs
the same two networks on the same items: one forward pass with a draw in between, the pixels'
log-likelihood, backward, and the same Adam. Both take turns, so that a neighbour on the machine
slows both.

    python benchmarks/step.py --threads 1

Last line: one JSON object with ``ratio``, ``milliseconds`` and ``floor_milliseconds`` (medians).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.batches import Batch, MinibatchSampler
from pyro_crowdclust.emissions import BernoulliEmission, SoftBernoulli
from pyro_crowdclust.fit import adam, default_elbo
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.initialization import PrincipalComponentStart
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.recognition import RecognitionTerm
from pyro_crowdclust.simulation import simulate_pages
from pyro_crowdclust.training import Trainer

PIXELS, DIM, CLUSTERS, HIDDEN, WORKERS = 784, 8, 50, 500, 48


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


def make_trainer(data: CrowdData) -> Trainer:
    """A run of BayesSCDC, past its first (validated) step."""
    generator = torch.Generator().manual_seed(0)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS),
        GaussianComponents(CLUSTERS, DIM),
        BernoulliEmission(SkipMLP((DIM, HIDDEN, HIDDEN, PIXELS))),
        TwoCoin(WORKERS),
    )
    recognition = GaussianRecognition(SkipMLP((PIXELS, HIDDEN, HIDDEN, 2 * DIM)), DIM)
    guide = MessagePassingGuide(model, recognition, recognition_term=RecognitionTerm(10.0))
    PrincipalComponentStart()(model, guide, data, generator)
    return Trainer(
        model,
        guide,
        data,
        MinibatchSampler(data, generator=generator),
        optim=adam,
        step_size=0.01,
        elbo=default_elbo(enumerates=False),
        device=None,
        dtype=torch.float32,
        validate=False,
    )


def make_floor() -> Callable[[Batch], None]:
    """The same networks and optimizer with nothing around them."""
    encoder = SkipMLP((PIXELS, HIDDEN, HIDDEN, 2 * DIM))
    decoder = SkipMLP((DIM, HIDDEN, HIDDEN, PIXELS))
    optimizer = adam([*encoder.parameters(), *decoder.parameters()])

    def step(batch: Batch) -> None:
        optimizer.zero_grad(set_to_none=True)
        mean, raw = encoder(batch.features).chunk(2, -1)
        draw = mean + raw.exp() * torch.randn_like(mean)
        log_likelihood = SoftBernoulli(decoder(draw)).log_prob(batch.features).sum(-1)
        (-(batch.item_weight.float() * log_likelihood).sum()).backward()
        optimizer.step()

    return step


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the benchmark; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--items", type=int, default=8000)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)

    data = make_data(options.items)
    trainer, floor = make_trainer(data), make_floor()
    batches = list(trainer.batches)[:20]
    ours, bare = [], []
    for number in range(options.steps + 5):
        batch = batches[number % len(batches)]
        for work, times in ((trainer.step, ours), (floor, bare)):
            started = time.perf_counter()
            work(batch)
            times.append(time.perf_counter() - started)
    # The first steps warm up caches and Pyro's checks.
    ours, bare = ours[5:], bare[5:]
    figures = {
        "ratio": statistics.median(a / b for a, b in zip(ours, bare, strict=True)),
        "milliseconds": 1e3 * statistics.median(ours),
        "floor_milliseconds": 1e3 * statistics.median(bare),
    }
    first = batches[0]
    size = f"{len(first.items)} items and {first.num_pairs} answers a step"
    print(f"{options.threads} threads, {size}")
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
    return figures


if __name__ == "__main__":
    main()
