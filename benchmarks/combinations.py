"""Tests of all combinations of supervision, guides, and moves of clusters.

    {answers, no answers} x {nothing, class table, known clusters, field of labels and links}
    x {message passing, message passing behind networks, amortized, structured, two-way}
    x {merge, drop}

There are three clouds of points, two of which belong together, and up to five clusters; training
starts with one cloud split in two. Every cell trains for an epoch, tries to merge or to drop
clusters, continues training, predicts, and is saved and loaded. Moves are evaluated by ``Judge``:
the gain that it reports for a kept move is compared with the change of the bound as training
computes it, and a rejected move must change nothing. A loaded result must have the bound and the
predictions of the saved one. Cells that are refused by model, guide or data are counted, and the
error is printed.

    python benchmarks/combinations.py

Last line: one JSON object: ``cells`` (all), ``refused``, ``failed`` (those in which anything above
does not hold), ``moves`` (evaluated), ``kept``, ``largest_error_of_a_judged_move`` (nats).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pyro.infer import TraceEnum_ELBO
from torch import nn

from pyro_crowdclust import CrowdData, Fitted, fit, load
from pyro_crowdclust.annotators import annotators_for
from pyro_crowdclust.callbacks import Judge
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import (
    AmortizedGuide,
    MessagePassingGuide,
    StructuredGuide,
    TwoWayGuide,
)
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DiagonalGaussianComponents, DirichletWeights, GaussianComponents
from pyro_crowdclust.models import DeepLatentMixture, SemiCrowdsourcedMixture, TwoWayMixture
from pyro_crowdclust.networks import (
    AmortizedRecognition,
    ClusterRecognition,
    CodedMLP,
    GaussianRecognition,
    SkipMLP,
)
from pyro_crowdclust.simulation import simulate_grades, simulate_pages
from pyro_crowdclust.starts import PrincipalComponentStart
from pyro_crowdclust.supervision import CertainLinks, ClassTable, HiddenMarkovField, KnownClusters
from pyro_crowdclust.training import Trainer

CLUSTERS, DIM, WORKERS = 5, 2, 3
CENTERS = torch.tensor([[-2.0, 0.0], [2.0, 0.0], [0.0, 3.0]], dtype=torch.float64)
TOLERANCE = 1e-6

ANSWERS = ("answers", "grades", "no answers")
SUPERVISIONS = ("nothing", "class table", "known clusters", "field", "links")
MOVES = ("merge", "drop")


def clouds(num_items: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and true clusters of items: clouds 0 and 1 are one cluster."""
    rng = np.random.default_rng(0)
    cloud = np.arange(num_items) % 3
    return CENTERS.numpy()[cloud] + 0.7 * rng.standard_normal((num_items, 2)), cloud // 2


def halved(features: torch.Tensor, num_clusters: int, generator: torch.Generator) -> torch.Tensor:
    """The clouds as clusters, with every other item of the first one in a separate cluster."""
    cloud = torch.cdist(features, CENTERS).argmin(1)
    odd = torch.arange(len(features)) % 2 == 1
    cluster = torch.where((cloud == 0) & odd, 3, cloud)
    return nn.functional.one_hot(cluster, num_clusters).double()


def crowd(answers: str, supervision: str, num_items: int) -> CrowdData:
    """Items with the answers and the supervision of a cell."""
    features, kinds = clouds(num_items)
    help_: dict[str, Any] = {}
    if answers == "answers":
        rates, asked = [0.9] * WORKERS, range(num_items // 2)
        help_["pairs"] = simulate_pages(
            kinds, rates, rates, pages_per_worker=2, page_size=8, items=asked, seed=0
        )
    if answers == "grades":
        cuts, asked = [[-1.0, 1.0]] * WORKERS, range(num_items // 2)
        help_["pairs"] = simulate_grades(
            kinds, [4.0] * WORKERS, cuts, doubt=0.2, pairs_per_worker=60, items=asked, seed=0
        )
        help_["grades"] = [1, 2, 3]
    if supervision != "nothing":
        named = np.arange(num_items) % 4 == 0
        help_["known"] = [
            int(kind) if name else None for kind, name in zip(kinds, named, strict=True)
        ]
    if supervision in ("field", "links"):
        help_["must_link"] = {"left": [5], "right": [8]}
        help_["cannot_link"] = {"left": [7], "right": [11]}
    return CrowdData(features, **help_)


def parts_of(supervision: str, data: CrowdData) -> dict[str, Any]:
    """The parts of a model that use the answers and the supervision."""
    annotators = annotators_for(data, (1.0, 1.0)) if data.has_answers else None
    make: dict[str, Callable[[], nn.Module | None]] = {
        "nothing": lambda: None,
        "class table": lambda: ClassTable.of(data, CLUSTERS),
        "known clusters": lambda: KnownClusters(CLUSTERS),
        "links": lambda: CertainLinks.of(data, CLUSTERS),
        "field": lambda: HiddenMarkovField.of(data, CLUSTERS, strength=0.3),
    }
    return {"annotators": annotators, "supervision": make[supervision]()}


def message_passing(**parts: Any) -> tuple[nn.Module, nn.Module]:
    """Gaussians on the features."""
    components = GaussianComponents(CLUSTERS, DIM)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS, 0.5), components, Identity(), **parts
    )
    return model, MessagePassingGuide(model)


def _deep(**parts: Any) -> SemiCrowdsourcedMixture:
    emission = NormalEmission(SkipMLP((DIM, 6, 2)), 2)
    components = GaussianComponents(CLUSTERS, DIM)
    return SemiCrowdsourcedMixture(DirichletWeights(CLUSTERS, 0.5), components, emission, **parts)


def behind_networks(**parts: Any) -> tuple[nn.Module, nn.Module]:
    """BayesSCDC."""
    model = _deep(**parts)
    return model, MessagePassingGuide(model, GaussianRecognition(SkipMLP((2, 6, 2 * DIM)), DIM))


def amortized(**parts: Any) -> tuple[nn.Module, nn.Module]:
    """SCDC."""
    model = _deep(**parts)
    return model, AmortizedGuide(model, AmortizedRecognition((2, 8, 8), DIM, CLUSTERS))


def structured(**parts: Any) -> tuple[nn.Module, nn.Module]:
    """Networks that know the cluster."""
    model = DeepLatentMixture(
        DirichletWeights(CLUSTERS, 0.5),
        DiagonalGaussianComponents(CLUSTERS, DIM),
        NormalEmission(CodedMLP((DIM, 6, 2), CLUSTERS), 2, num_clusters=CLUSTERS),
        **parts,
    )
    head = CodedMLP((5, 6, 2 * DIM), CLUSTERS)
    return model, StructuredGuide(model, ClusterRecognition(SkipMLP((2, 6, 5)), head, [DIM]))


def two_way(annotators: nn.Module | None, supervision: nn.Module | None) -> tuple:
    """Clusters and styles; its check refuses a supervision."""
    model = TwoWayMixture(CLUSTERS, 2, 2, annotators, concentration=0.5)
    return model, TwoWayGuide(model, trusting_epochs=2)


GUIDES = {
    "message passing": message_passing,
    "message passing behind networks": behind_networks,
    "amortized": amortized,
    "structured": structured,
    "two-way": two_way,
}


def bound(trainer: Trainer) -> float:
    """The bound of all data as training computes it, in another way than the judge.

    ``differentiable_loss`` adds closed forms of divergences, but the judge's ``loss`` adds
    log-densities; enumerated sites have only the latter. Latents are drawn as for the judge.
    """
    batch = full_batch(trainer.data).to(trainer.device, trainer.dtype)
    enumerates = isinstance(trainer.elbo, TraceEnum_ELBO)
    loss = trainer.elbo.loss if enumerates else trainer.elbo.differentiable_loss
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        return -float(loss(trainer.model, trainer.guide, batch))


@dataclass
class Probe:
    """A callback that tries a kind of moves after an epoch, and records the results."""

    move: str
    epoch: int
    refits: int
    judged: int = 0
    kept: int = 0
    largest_error: float = 0.0
    lowest_gain: float = math.inf

    def __call__(self, trainer: Trainer) -> None:
        """Try all moves of the kind, one after the other."""
        if trainer.epochs_done != self.epoch:
            return
        judge = Judge(trainer, sample_size=4096)
        proposals = [(0, 3), (0, 1), (2, 1)] if self.move == "merge" else [(3,), (0,), (4,)]
        for clusters in proposals:
            before, tensors = bound(trainer), _copied(trainer)
            verb = trainer.guide.merge if self.move == "merge" else trainer.guide.empty
            gain = judge.attempt(partial(verb, *clusters), self.refits)
            after = bound(trainer)
            self.judged += 1
            if gain is None:
                changed = [n for n, t in _copied(trainer).items() if not _same(t, tensors[n])]
                if changed:
                    raise AssertionError(f"a rejected move changed {changed[0]}")
                continue
            self.kept += 1
            self.lowest_gain = min(self.lowest_gain, after - before)
            self.largest_error = max(self.largest_error, abs(gain - (after - before)))


def _copied(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in trainer.tensors().items()}


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.nan_to_num(1e9), other.nan_to_num(1e9))


def read(result: Fitted) -> dict[str, Any]:
    """The results that a user reads, as arrays."""
    features = clouds(result.data.num_items)[0]
    return {
        "probabilities": result.probabilities,
        "predictions": result.predict_proba(features[:7]),
        "clusters": result.clusters.to_numpy(),
        "elbo": result.elbo_of(full_batch(result.data)),
    }


def run_cell(
    answers: str, supervision: str, guide: str, move: str, *, num_items: int, epochs: int
) -> Probe:
    """Run one cell, from the data to a loaded result; raises ``AssertionError`` if it fails."""
    data = crowd(answers, supervision, num_items)
    model, made = GUIDES[guide](**parts_of(supervision, data))
    # Without refits, dropping a cluster with items hardly ever increases the bound.
    probe = Probe(move, 1, refits=2 if move == "drop" else 0)
    options = {"step_size": 0.5, "dtype": torch.float64, "progress": False}
    if guide != "two-way":  # it has its own start
        options["initialize"] = PrincipalComponentStart(partition=halved, partition_steps=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = fit(
            model, made, data, epochs=epochs, batch_size=None, callbacks=[probe], **options
        )
    if not result.stop_reason.startswith("budget"):
        raise AssertionError(f"training ended: {result.stop_reason}")
    if probe.largest_error > TOLERANCE or probe.lowest_gain <= 0:
        raise AssertionError(f"the gain of a move was wrong: {probe}")
    found = read(result)
    if not np.allclose(found["probabilities"].sum(1), 1) or not math.isfinite(found["elbo"]):
        raise AssertionError("the result does not consist of probabilities")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.safetensors"
        result.save(path)
        loaded = read(load(path, data=data))
    for name, value in found.items():
        if not np.allclose(loaded[name], value, rtol=1e-10, atol=1e-10):
            raise AssertionError(f"{name} of the loaded result differ from those of the saved one")
    return probe


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run all cells."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=48, help="items per cell")
    parser.add_argument("--epochs", type=int, default=4, help="epochs per cell")
    parser.add_argument("--guides", nargs="+", choices=GUIDES, default=list(GUIDES))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    cells = list(itertools.product(ANSWERS, SUPERVISIONS, options.guides, MOVES))
    refused, failed, probes = 0, 0, []
    for cell in cells:
        try:
            probes.append(run_cell(*cell, num_items=options.items, epochs=options.epochs))
            print(f"{', '.join(cell)}: {probes[-1].kept} of {probes[-1].judged} moves kept")
        except AssertionError as error:
            failed += 1
            print(f"{', '.join(cell)}: FAILED, {error}")
        except ValueError as error:
            refused += 1
            print(f"{', '.join(cell)}: refused, {error}")
    figures = {
        "cells": len(cells),
        "refused": refused,
        "failed": failed,
        "moves": sum(probe.judged for probe in probes),
        "kept": sum(probe.kept for probe in probes),
        "largest_error_of_a_judged_move": max(probe.largest_error for probe in probes),
    }
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
