"""Time and memory of a step of the deep latent mixture by number of clusters, over a plain VAE.

MNIST shapes: trunk 784-128-64, head 64-64-16, decoder 8-128-128-784, Bernoulli pixels, 128 items
per step, once with one decoder with the cluster as an input, and once with a decoder for every
cluster. The VAE has one of each network and no clusters: one forward pass with a draw in between,
backward, and the same Adam. All alternate; on one thread processor time is measured, which does not
include other processes.

    python benchmarks/dp_dlgmm_step.py --threads 1

Last line: one JSON object with the medians ``milliseconds`` and ``milliseconds_per_cluster`` by T,
``vae_milliseconds``, their ratios, and ``megabytes`` and ``megabytes_per_cluster`` by T: how far
the peak memory of a separate process grows in three steps, and ``vae_megabytes``.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable

import torch
from memory import in_own_process, peak_of_process
from step import make_data, median_ratio, take_turns, trainer_of
from torch import nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import BernoulliEmission, SoftBernoulli
from pyro_crowdclust.fitting import adam
from pyro_crowdclust.guides import StructuredGuide
from pyro_crowdclust.minibatches import Batch, MinibatchSampler
from pyro_crowdclust.mixture import DiagonalGaussianComponents, StickBreakingWeights
from pyro_crowdclust.models import DeepLatentMixture
from pyro_crowdclust.networks import ClusterMLP, ClusterRecognition, CodedMLP, SkipMLP
from pyro_crowdclust.training import Trainer

PIXELS, HIDDEN, WIDTH, DIM = 784, 128, 64, 8
DECODERS = {"shared": CodedMLP, "per_cluster": ClusterMLP}


def features_of(num_items: int) -> CrowdData:
    """Blurred prototypes of ten classes, without answers."""
    return CrowdData(make_data(num_items).features)


def make_trainer(data: CrowdData, decoder: str, clusters: int) -> Trainer:
    """A run of the mixture from its start."""
    network = DECODERS[decoder]((DIM, HIDDEN, HIDDEN, PIXELS), clusters)
    model = DeepLatentMixture(
        StickBreakingWeights(clusters),
        DiagonalGaussianComponents(clusters, DIM),
        BernoulliEmission(network),
    )
    head = CodedMLP((WIDTH, WIDTH, 2 * DIM), clusters)
    recognition = ClusterRecognition(SkipMLP((PIXELS, HIDDEN, WIDTH)), head, [DIM])
    guide = StructuredGuide(model, recognition, threshold=min(1e-3, 0.5 / clusters))
    return trainer_of(model, guide, data, sample_size=2000)


def make_vae() -> Callable[[Batch], None]:
    """The same networks, once."""
    encoder = nn.Sequential(SkipMLP((PIXELS, HIDDEN, WIDTH)), SkipMLP((WIDTH, WIDTH, 2 * DIM)))
    decoder = SkipMLP((DIM, HIDDEN, HIDDEN, PIXELS))
    optimizer = adam([*encoder.parameters(), *decoder.parameters()])

    def step(batch: Batch) -> None:
        optimizer.zero_grad(set_to_none=True)
        mean, raw = encoder(batch.features).chunk(2, -1)
        draw = mean + raw.exp() * torch.randn_like(mean)
        emitted = SoftBernoulli(decoder(draw), event_dim=1, validate_args=False)
        log_likelihood = emitted.log_prob(batch.features)
        divergence = (mean.square() + (2 * raw).exp() - 2 * raw - 1).sum(-1) / 2
        (-(batch.item_weight.float() * (log_likelihood - divergence)).sum()).backward()
        optimizer.step()

    return step


def peak_growth(whose: str, clusters: int) -> float:
    """Megabytes by which the peak memory grows in three steps of a decoder's kind, or the VAE."""
    data = features_of(2000)
    before = peak_of_process()
    work = make_vae() if whose == "vae" else make_trainer(data, whose, clusters).step
    sampler = MinibatchSampler(data, generator=torch.Generator().manual_seed(0))
    for batch, _ in zip(sampler, range(3), strict=False):
        work(batch)
    return peak_of_process() - before


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Run the benchmark; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--items", type=int, default=4000)
    parser.add_argument("--clusters", type=int, nargs="+", default=[5, 25, 50, 100])
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)

    data = features_of(options.items)
    batches = list(MinibatchSampler(data, generator=torch.Generator().manual_seed(0)))
    figures: dict[str, object] = {"vae_megabytes": in_own_process(peak_growth, "vae", 1)}
    plain: list[float] = []
    names = {"shared": "", "per_cluster": "_per_cluster"}
    for suffix in names.values():
        for kind in ("milliseconds", "ratio", "megabytes"):
            figures[kind + suffix] = {}
    for clusters in options.clusters:
        trainers = [make_trainer(data, decoder, clusters) for decoder in DECODERS]
        works = [make_vae(), *(trainer.step for trainer in trainers)]
        vae, *ours = take_turns(works, batches, options.steps, warm_up=3)
        plain += vae
        for decoder, times in zip(DECODERS, ours, strict=True):
            suffix, key = names[decoder], str(clusters)
            figures[f"milliseconds{suffix}"][key] = round(1e3 * statistics.median(times), 2)
            figures[f"ratio{suffix}"][key] = round(median_ratio(times, vae), 2)
            grown = in_own_process(peak_growth, decoder, clusters)
            figures[f"megabytes{suffix}"][key] = round(grown, 1)
    figures["vae_milliseconds"] = round(1e3 * statistics.median(plain), 2)
    print(f"{options.threads} threads, {len(batches[0].items)} items a step")
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
