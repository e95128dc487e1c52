"""Answers about pairs as class labels: every pair of records is an item, "same" or "different".

24,961 answers of 176 workers about 8,315 pairs of product records (CrowdER); a tenth of the workers
answer "same" to most pairs that differ. ``average_annotator_models`` gives a probability for every
pair, ``infer_classes`` a confusion matrix for every worker, with sensitivity and specificity. Both
ignore that "same" is transitive: that requires clusters of records, as in the semi-crowdsourced
mixture. They are compared with the majority vote and crowd-kit's DawidSkene (``pip install
'.[peers]'``).

    python examples/pairs_as_classes.py --data DIR

DIR has ``pairs_product.npz``; its default is the environment variable PYRO_CROWDCLUST_DATA, or
../shared/data without it. Last line: one JSON object, with F1 of "same".
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import f1_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import average_annotator_models, infer_classes

# Number of pairs from which a worker's empirical rate is accurate enough for a comparison.
ENOUGH_PAIRS = 10


def load(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    """Answers with a pair as the item, and whether each pair is the same."""
    arrays = np.load(folder / "pairs_product.npz")
    frame = pd.DataFrame(arrays["annotations"], columns=arrays["columns"])
    named = {0: "different", 1: "same"}
    answers = pd.DataFrame(
        {
            "item": list(zip(frame["a"], frame["b"], strict=True)),
            "worker": frame["worker"],
            "label": frame["label"].map(named),
        }
    )
    left, right, same = arrays["pair_truth"].T
    pairs = pd.Index(list(zip(left, right, strict=True)), tupleize_cols=False)
    return answers, pd.Series(same == 1, index=pairs)


def true_specificity(answers: pd.DataFrame, truth: pd.Series) -> pd.Series:
    """Share of "different" in a worker's answers about pairs that differ, if there are enough."""
    different = answers[~truth.loc[answers["item"]].to_numpy()]
    rates = (different["label"] == "different").groupby(different["worker"]).agg(["mean", "size"])
    return rates.loc[rates["size"] >= ENOUGH_PAIRS, "mean"]


def main(arguments: list[str] | None = None) -> dict[str, float | None]:
    """Run the example; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--draws", type=int, default=150, help="of the average; 0: only fits")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)

    answers, truth = load(options.data)
    data = CrowdData(None, labels=answers)
    result = infer_classes(data, epochs=options.epochs)
    average = average_annotator_models(data, num_draws=options.draws, epochs=options.epochs)
    probability = average.class_probabilities["same"]
    same = truth.loc[probability.index]
    votes = (answers["label"] == "same").groupby(answers["item"]).mean().loc[probability.index]
    figures: dict[str, float | None] = {
        "f1": f1_score(same, probability > 0.5),
        "majority_vote_f1": f1_score(same, votes > 0.5),
        "dawid_skene_f1": None,
    }
    if importlib.util.find_spec("crowdkit") is None:
        print("crowd-kit is not installed (pip install '.[peers]'): skipping DawidSkene")
    else:
        from crowdkit.aggregation import DawidSkene

        codes, items = pd.factorize(answers["item"])
        renamed = answers.assign(task=codes).drop(columns="item")
        labels = DawidSkene(n_iter=100).fit_predict(renamed)
        figures["dawid_skene_f1"] = f1_score(truth.loc[items[labels.index]], labels == "same")

    table = result.confusion["mean"].unstack(["class", "label"])
    workers = pd.DataFrame(
        {
            "sensitivity": table["same", "same"],
            "specificity": table["different", "different"],
            "answers": answers["worker"].value_counts(),
        }
    )
    print(workers.sort_values("specificity").head(10).round(3).to_string())
    known = true_specificity(answers, truth)
    estimate = workers.loc[known.index, "specificity"]
    figures["specificity_error"] = float((estimate - known).abs().mean())
    figures["specificity_correlation"] = float(np.corrcoef(estimate, known)[0, 1])
    figures = {k: v if v is None else round(float(v), 4) for k, v in figures.items()}
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
