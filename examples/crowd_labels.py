"""Class labels of real crowds, on every ``crowd_labels_*.npz``, compared with crowd-kit.

The same method for every data set, without using its truth: ``average_annotator_models``, the
average of five models of the annotators, with the temperatures and weights under which each
answer is predicted best from the others about its item. It is compared with crowd-kit's
MajorityVote, DawidSkene, OneCoinDawidSkene, GLAD and MACE, if it is installed (``pip install
'.[peers]'``). Accuracy and log loss are over the items with known truth; probabilities are clipped
at 1e-15.

    python examples/crowd_labels.py --data DIR

DIR has the files; its default is the environment variable PYRO_CROWDCLUST_DATA, or ../shared/data
without it. Prints a line per data set and, last, one JSON object.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import average_annotator_models
from pyro_crowdclust.pooling import AveragedClasses

METHODS = ("MajorityVote", "DawidSkene", "OneCoinDawidSkene", "GLAD", "MACE")


def load(file: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Answers as a frame ``item, worker, label``, and the truth, -1 where unknown."""
    arrays = np.load(file)
    truth = arrays["truth"] if "truth" in arrays else arrays["truth_train"]
    return pd.DataFrame(arrays["annotations"], columns=["item", "worker", "label"]), truth


def scores(probabilities: pd.DataFrame, truth: np.ndarray) -> tuple[float, float]:
    """Accuracy and log loss over the items with known truth and at least one answer."""
    known = np.intersect1d(np.flatnonzero(truth >= 0), probabilities.index)
    right = truth[known]
    num_classes = max(truth.max(), *probabilities.columns) + 1
    table = probabilities.reindex(index=known, columns=range(num_classes), fill_value=0).to_numpy()
    named = np.clip(table[np.arange(len(known)), right], 1e-15, 1)
    return float((table.argmax(1) == right).mean()), float(-np.log(named).mean())


def ours(frame: pd.DataFrame, epochs: int | None, num_draws: int) -> AveragedClasses:
    """The average of five models of the annotators."""
    with warnings.catch_warnings():
        # In some of these data sets, workers answered twice; both answers count.
        warnings.filterwarnings("ignore", "labels row .*repeats an earlier answer")
        data = CrowdData(None, labels=frame)
    options = {} if epochs is None else {"epochs": epochs}
    return average_annotator_models(data, num_draws=num_draws, **options)


def peers(
    frame: pd.DataFrame, truth: np.ndarray, methods: list[str]
) -> Iterator[tuple[str, float, float]]:
    """Name, accuracy and log loss of crowd-kit's methods."""
    from crowdkit import aggregation

    renamed = frame.rename(columns={"item": "task"})
    for name in methods:
        options = {"random_state": 0} if name == "MACE" else {}
        method = getattr(aggregation, name)(**options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numerical warnings of crowd-kit
            method.fit(renamed)
        # Methods break ties in different ways, so accuracy is computed from their labels.
        labels = method.labels_
        known = np.intersect1d(np.flatnonzero(truth >= 0), labels.index)
        accuracy = float((labels.loc[known].to_numpy() == truth[known]).mean())
        yield name, accuracy, scores(method.probas_.fillna(0), truth)[1]


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float | str | None]]:
    """Run the example; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--sets", nargs="*", help="names; default: all")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), help="of crowd-kit")
    parser.add_argument("--epochs", type=int, help="of each fit; default: that of the call")
    parser.add_argument("--draws", type=int, default=75, help="per chain; 0: only fits")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    files = {
        file.stem.removeprefix("crowd_labels_"): file
        for file in sorted(options.data.glob("crowd_labels_*.npz"))
    }
    if not files:
        print(f"skipped: {options.data} has no crowd_labels_*.npz")
    has_peers = importlib.util.find_spec("crowdkit") is not None
    if not has_peers:
        print("crowd-kit is not installed (pip install '.[peers]'): no comparison with it")

    figures: dict[str, dict[str, float | str | None]] = {}
    for name in options.sets or files:
        frame, truth = load(files[name])
        average = ours(frame, options.epochs, options.draws)
        accuracy, log_loss = scores(average.class_probabilities, truth)
        row = {"ours": accuracy, "best_peer": None, "best_peer_name": None, "log_loss": log_loss}
        row["dawid_skene_log_loss"] = None
        found = list(peers(frame, truth, options.methods)) if has_peers else []
        for peer, peer_accuracy, peer_log_loss in found:
            if row["best_peer"] is None or peer_accuracy > row["best_peer"]:
                row["best_peer"], row["best_peer_name"] = peer_accuracy, peer
            if peer == "DawidSkene":
                row["dawid_skene_log_loss"] = peer_log_loss
        figures[name] = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
        others = ", ".join(f"{peer} {a:.3f} ({loss:.2f})" for peer, a, loss in found)
        weights = ", ".join(f"{weight:.2f}" for weight in average.weights)
        print(
            f"{name}: {accuracy:.3f} (log loss {log_loss:.2f}, weights {weights}); {others}",
            flush=True,
        )
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
