"""Fits that several processes share, which ``torchrun`` starts; tests run them in one process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.guides import ClassLabelGuide, MessagePassingGuide
from pyro_crowdclust.minibatches import AnswerSampling, Ranks, joined_ranks
from pyro_crowdclust.models import DawidSkene, SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pages
from pyro_crowdclust.supervision import ClassTable, KnownClusters, Supervision
from pyro_crowdclust.training import Checkpoint, Trainer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.crowds import (
    amortized_pair,
    blobs,
    graded_crowd,
    graded_pair,
    message_passing_pair,
    plain_mixture,
    plain_pair,
    quiet_fit,
)
from tests.problems import location_guide, location_model


def crowd_of_pages() -> CrowdData:
    """Blobs with more pages than a step holds; some pages share items, others do not."""
    features, labels = blobs(90)
    rates = [0.95] * 3
    pairs = simulate_pages(
        labels, rates, rates, pages_per_worker=4, page_size=5, items=np.arange(60), seed=0
    )
    return CrowdData(features, pairs)


def labelled_crowd() -> CrowdData:
    """Class labels of three workers, a third of whom are wrong."""
    rng = np.random.default_rng(0)
    item, worker = np.repeat(np.arange(40), 3), np.tile(np.arange(3), 40)
    label = np.where(rng.random(120) < 0.7, item % 3, rng.integers(3, size=120))
    return CrowdData(None, labels={"item": item, "worker": worker, "label": label})


def dawid_skene_pair() -> tuple[DawidSkene, ClassLabelGuide]:
    model = DawidSkene(ConfusionMatrices(num_workers=3, num_classes=3))
    return model, ClassLabelGuide(model)


def named_crowd() -> CrowdData:
    """The crowd of pages, with known labels of some items, asked about or not."""
    crowd = crowd_of_pages()
    known = [item % 2 if item % 4 == 0 else None for item in range(crowd.num_items)]
    return CrowdData(crowd.features, crowd.pairs, known=known)


def supervised_pair(make: Callable[[], Supervision]) -> tuple:
    """A mixture on features with answers and a supervision."""
    plain = plain_mixture()
    parts = plain.weights, plain.components, plain.emission, plain.annotators
    model = SemiCrowdsourcedMixture(*parts, make())
    return model, MessagePassingGuide(model)


FITS: dict[str, tuple[Callable, Callable, dict[str, Any]]] = {
    "message passing": (message_passing_pair, crowd_of_pages, {"callbacks": [MergeMoves()]}),
    "amortized": (amortized_pair, crowd_of_pages, {}),
    "full batch": (plain_pair, crowd_of_pages, {"batch_size": None}),
    "grades": (graded_pair, partial(graded_crowd, 90), {"callbacks": [MergeMoves()]}),
    "grades, full batch": (graded_pair, partial(graded_crowd, 90), {"batch_size": None}),
    "pyro.param": (lambda: (location_model, location_guide), crowd_of_pages, {}),
    "class table": (
        partial(supervised_pair, lambda: ClassTable(3, 2, unlabeled_weight=0.5)),
        named_crowd,
        {},
    ),
    "known clusters": (
        partial(supervised_pair, lambda: KnownClusters(3)),
        named_crowd,
        {"batch_size": None},
    ),
    "class labels": (dawid_skene_pair, labelled_crowd, {"step_size": 0.5}),
}


def run(kind: str, **more: Any) -> Fitted:
    """Three epochs of a kind of fit."""
    make, make_data, options = FITS[kind]
    sampling = AnswerSampling(answers_per_step=40)
    options = {
        "epochs": 3,
        "batch_size": 10,
        "answer_sampling": sampling,
        "step_size": 0.3,
    } | options
    return quiet_fit(*make(), make_data(), **(options | more))


def values(result: Fitted) -> dict[str, torch.Tensor]:
    """All parameters and buffers, and the ELBO of every epoch."""
    found = {f"store.{name}": one for name, one in result.parameter_store["params"].items()}
    for part in (result.model, result.guide):
        if isinstance(part, torch.nn.Module):
            found |= {f"{type(part).__name__}.{k}": v for k, v in part.state_dict().items()}
    return found | {"elbo": torch.tensor(result.history["elbo"].to_numpy())}


def _die(rank: int, step: int, trainer: Trainer) -> None:
    if trainer.ranks.rank == rank and trainer.steps_done >= step:
        os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, ranks: Ranks) -> None:
    """Run what the tests ask for, and leave what every rank found in the folder."""
    shared = partial(Trainer, ranks=ranks)
    for kind in FITS:
        torch.save(values(run(kind, trainer=shared)), folder / f"{kind} {ranks.rank}.pt")
    # One process was stopped after two epochs; here two go on from its checkpoint.
    stopped = folder / "one process.safetensors"
    resumed = run("message passing", trainer=shared, checkpoint=Checkpoint(stopped, resume=True))
    torch.save(values(resumed), folder / f"resumed {ranks.rank}.pt")
    assert not (folder / "one process.safetensors.partial").exists()
    # And here the second process dies.
    dies = partial(_die, 1, 2 * resumed.history["step"].iloc[0])
    run(
        "message passing",
        trainer=shared,
        checkpoint=folder / "two processes.safetensors",
        callbacks=[MergeMoves(), dies],
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    with joined_ranks() as ranks:
        # Functions and classes are called the same as in the process that goes on.
        from tests import ranks_fit

        ranks_fit.main(Path(sys.argv[1]), ranks)
