"""Annotator models in plain Pyro, fitted in minibatches and compared by leave-one-out.

Five models of the class labels that workers give, as in the annotation example of Pyro and NumPyro
(Paun et al. 2018). They are written only with Pyro's own distributions and plates; classes are
enumerated, and other sites have an ``AutoNormal``:

- multinomial: all workers share one confusion matrix;
- Dawid-Skene: a confusion matrix for every worker (Dawid and Skene 1979);
- MACE: a worker names the class, or otherwise spams from a distribution of the worker (Hovy et al.
  2013); whether a label is spam is summed out;
- hierarchical Dawid-Skene: confusion matrices around a common one;
- item difficulty: all workers are the same, but every item has scores around those of its class.

The mixture of Pyro's tutorial on Gaussian mixtures is added, to show that items with features work
in the same way. Every model is fitted to every data set, its classes are matched with the majority
vote, the fit is exported to ArviZ, and models are compared by the expected log density of an item
that is left out with all of its labels. The truth is only used for the accuracy that is printed.

    python examples/annotation_models.py --data DIR

DIR has the files ``crowd_labels_*.npz``; its default is the environment variable
PYRO_CROWDCLUST_DATA, or ../shared/data without it. Prints tables and, last, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import arviz
import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoNormal
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.diagnostics import aligned_order
from pyro_crowdclust.minibatches import Batch, ItemPlate

ENUMERATE = {"enumerate": "parallel"}


def items(batch: Batch) -> ItemPlate:
    """The plate of all items, from which a batch is taken; it scales the log density."""
    return ItemPlate("items", batch)


def answers(batch: Batch, log_probabilities: Callable[[Tensor], Tensor]) -> None:
    """Observe all labels of every item, in a plate of labels inside the plate of items."""
    if batch.class_labels is None:
        return
    worker, label, is_given = batch.class_labels.padded()
    with pyro.plate("places", len(label)), poutine.mask(mask=is_given):
        pyro.sample("labels", dist.Categorical(logits=log_probabilities(worker)), obs=label)


def classes(num_classes: int) -> Tensor:
    """Shares of the true classes."""
    return pyro.sample("prevalence", dist.Dirichlet(torch.ones(num_classes)))


def near_identity(num_classes: int) -> Tensor:
    """Pseudo-counts of confusion matrices whose labels are mostly right."""
    return 1.0 + torch.eye(num_classes)


def multinomial(num_workers: int, num_classes: int, batch: Batch) -> None:
    """``a_ij | y_i = k ~ Cat(gamma_k)``."""
    prevalence = classes(num_classes)
    with pyro.plate("class", num_classes):
        confusion = pyro.sample("confusion", dist.Dirichlet(near_identity(num_classes)))
    with items(batch):
        y = pyro.sample("y", dist.Categorical(prevalence), infer=ENUMERATE)
        answers(batch, lambda worker: confusion.log()[y].expand(*_wide(y, worker), -1))


def dawid_skene(num_workers: int, num_classes: int, batch: Batch) -> None:
    """``a_ij | y_i = k ~ Cat(gamma_jk)``."""
    prevalence = classes(num_classes)
    with pyro.plate("worker", num_workers, dim=-2), pyro.plate("class", num_classes, dim=-1):
        confusion = pyro.sample("confusion", dist.Dirichlet(near_identity(num_classes)))
    with items(batch):
        y = pyro.sample("y", dist.Categorical(prevalence), infer=ENUMERATE)
        answers(batch, lambda worker: confusion.log()[worker, y])


def mace(num_workers: int, num_classes: int, batch: Batch) -> None:
    """``a_ij | y_i = k`` is k with probability ``honest_j``, else from ``Cat(spam_j)``."""
    prevalence = classes(num_classes)
    with pyro.plate("worker", num_workers):
        honest = pyro.sample("honest", dist.Beta(2.0, 2.0))
        spam = pyro.sample("spam", dist.Dirichlet(torch.ones(num_classes)))
    right = torch.eye(num_classes)
    confusion = honest[:, None, None] * right + (1 - honest)[:, None, None] * spam[:, None]
    with items(batch):
        y = pyro.sample("y", dist.Categorical(prevalence), infer=ENUMERATE)
        answers(batch, lambda worker: confusion.log()[worker, y])


def hierarchical_dawid_skene(num_workers: int, num_classes: int, batch: Batch) -> None:
    """``a_ij | y_i = k ~ softmax(common_k + spread_k away_jk)``."""
    prevalence = classes(num_classes)
    with pyro.plate("class", num_classes, dim=-1):
        of_class = dist.Normal(torch.zeros(num_classes), 2.0).to_event(1)
        common = pyro.sample("common", of_class)
        spread = pyro.sample("spread", dist.HalfNormal(torch.ones(num_classes)).to_event(1))
        with pyro.plate("worker", num_workers, dim=-2):
            away = pyro.sample("away", dist.Normal(torch.zeros(num_classes), 1.0).to_event(1))
    scores = (common + torch.eye(num_classes) + spread * away).log_softmax(-1)
    with items(batch):
        y = pyro.sample("y", dist.Categorical(prevalence), infer=ENUMERATE)
        answers(batch, lambda worker: scores[worker, y])


def item_difficulty(num_workers: int, num_classes: int, batch: Batch) -> None:
    """``a_ij | y_i = k ~ softmax(common_k + spread_k away_i)``."""
    prevalence = classes(num_classes)
    with pyro.plate("class", num_classes):
        common = pyro.sample("common", dist.Normal(torch.zeros(num_classes), 2.0).to_event(1))
        spread = pyro.sample("spread", dist.HalfNormal(torch.ones(num_classes)).to_event(1))
    common = common + torch.eye(num_classes)
    with items(batch):
        away = pyro.sample("away", dist.Normal(torch.zeros(num_classes), 1.0).to_event(1))
        y = pyro.sample("y", dist.Categorical(prevalence), infer=ENUMERATE)
        scores = (common[y] + spread[y] * away).log_softmax(-1)
        answers(batch, lambda worker: scores.expand(*_wide(y, worker), -1))


def _wide(y: Tensor, worker: Tensor) -> torch.Size:
    """The shape of a label of every worker, at every class."""
    return torch.broadcast_shapes(y.shape, worker.shape)


MODELS = {
    "multinomial": multinomial,
    "Dawid-Skene": dawid_skene,
    "MACE": mace,
    "hierarchical Dawid-Skene": hierarchical_dawid_skene,
    "item difficulty": item_difficulty,
}


def start(site: dict) -> Tensor:
    """Start at rows near the identity, so that class k is label k; others at the prior's median."""
    if site["name"] == "confusion":
        concentration = site["fn"].concentration + 2 * torch.eye(site["fn"].event_shape[0])
        return concentration / concentration.sum(-1, keepdim=True)
    if site["name"] in ("common", "away"):
        return torch.zeros(site["fn"].shape())
    return site["fn"].mean


def fitted(name: str, data: CrowdData, epochs: int, batch_size: int) -> Fitted:
    """One of the models, fitted in minibatches."""
    model = partial(MODELS[name], data.num_workers, data.num_classes)
    guide = AutoNormal(
        poutine.block(model, hide=["y"]), init_loc_fn=start, init_scale=0.1, create_plates=items
    )
    return fit(
        model,
        guide,
        data,
        epochs=epochs,
        batch_size=batch_size,
        optim=partial(torch.optim.Adam, lr=0.02),
        progress=False,
    )


def accuracy(result: Fitted, truth: np.ndarray) -> float:
    """Share of items with a known class that is found; classes are matched by majority vote."""
    votes = result.data.class_labels.of_items(torch.arange(result.data.num_items)).votes()
    found = result.probabilities[:, aligned_order(votes.numpy(), result.probabilities)].argmax(1)
    named = np.asarray(result.data.class_ids)[found]
    right = truth[np.asarray(result.data.item_ids)]
    return float((named == right)[right >= 0].mean())


def load(file: Path) -> tuple[CrowdData, np.ndarray]:
    """All labels, and the truth, -1 where unknown."""
    arrays = np.load(file)
    frame = pd.DataFrame(arrays["annotations"], columns=["item", "worker", "label"])
    return CrowdData(None, labels=frame), arrays["truth"]


def compare(
    data: CrowdData, truth: np.ndarray, names: list[str], options: argparse.Namespace
) -> pd.DataFrame:
    """A row for every model: accuracy, and ArviZ's comparison by leave-one-out."""
    exported, found = {}, {}
    for name in names:
        result = fitted(name, data, options.epochs, options.batch_size)
        found[name] = accuracy(result, truth)
        exported[name] = result.to_arviz(options.draws, latent_draws=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pareto k of single items is in the table
        leave_one_out = partial(arviz.loo, var_name="items", pointwise=True)
        loo = {name: leave_one_out(tree) for name, tree in exported.items()}
        table = arviz.compare(loo)
    elpd = table["elpd_loo" if "elpd_loo" in table else "elpd"]  # as ArviZ 0.x and 1.x call it
    columns = {"rank": table["rank"], "elpd": elpd, "difference": table["elpd_diff"]}
    frame = pd.DataFrame(columns | {"se": table["dse"]})
    frame["high_k"] = [int((loo[name].pareto_k > 0.7).sum()) for name in frame.index]
    return frame.assign(accuracy=pd.Series(found))


def gaussian_mixture(epochs: int) -> dict[str, float]:
    """The mixture of Pyro's tutorial: one common scale, K locations, in minibatches."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=200)
    points = rng.normal(np.array([0.0, 8.0])[truth], 1.5)[:, None]

    def model(batch: Batch) -> None:
        weights = pyro.sample("weights", dist.Dirichlet(0.5 * torch.ones(2)))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 2.0))
        with pyro.plate("cluster", 2):
            location = pyro.sample("location", dist.Normal(0.0, 10.0))
        with items(batch):
            z = pyro.sample("z", dist.Categorical(weights), infer=ENUMERATE)
            pyro.sample("o", dist.Normal(location[z], scale), obs=batch.features[:, 0])

    def start(site: dict) -> Tensor:
        quarters = torch.tensor(np.quantile(points, [0.25, 0.75])).float()
        by_name = {"location": quarters, "scale": torch.tensor(float(points.std()))}
        return by_name.get(site["name"], torch.ones(2) / 2)

    guide = AutoDelta(poutine.block(model, hide=["z"]), init_loc_fn=start, create_plates=items)
    result = fit(
        model,
        guide,
        CrowdData(points),
        epochs=epochs,
        batch_size=50,
        optim=partial(torch.optim.Adam, lr=0.1),
        progress=False,
    )
    new = result.predict(np.array([[-2.0], [11.0]]))
    tree = result.to_arviz(10)
    return {
        "accuracy": float((result.assignments == truth).mean()),
        "new_items_apart": float(new[0] != new[1]),
        "largest_location": float(tree["posterior"]["location"].max()),
    }


def main(arguments: list[str] | None = None) -> dict[str, dict]:
    """Run the example; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--sets", nargs="*", default=["bluebird", "dog"])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=54)
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    figures: dict[str, dict] = {"gaussian_mixture": gaussian_mixture(max(options.epochs // 5, 20))}
    print(f"Gaussian mixture: {figures['gaussian_mixture']}", flush=True)
    for name in options.sets:
        file = options.data / f"crowd_labels_{name}.npz"
        if not file.exists():
            print(f"skipped: {file} does not exist")
            continue
        table = compare(*load(file), options.models, options)
        print(f"\n{name}\n{table.round(3).to_string()}", flush=True)
        figures[name] = {
            model: {"accuracy": round(row["accuracy"], 4), "elpd": round(row["elpd"], 1)}
            for model, row in table.iterrows()
        }
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
