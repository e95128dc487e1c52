"""Language models as judges of record pairs, whose errors depend on each other.

A judge is a language model with a prompt that answers whether two records are the same thing.
Judges of one family are wrong about the same pairs, so that the majority vote is better than all
models with independent errors. ``infer_trait`` uses the answers alone, and
``discounted_class_probabilities`` also considers whether some judges copy others.
``match_records`` adds the similarity of the records' texts, and that a record may have at most one
match in the other list, which is learned. How many pairs are the same is not given.
``choose_positives`` calls pairs "same" if their probability is above one half, or more of them if
pairs are hard to distinguish. These are compared with the majority vote, the best single judge, and
crowd-kit's methods (``pip install '.[peers]'``), for all judges and for random panels.

    python examples/judges.py --data DIR

``--soft N`` adds N simulated crowds of six judges who give probabilities. Each judge observes an
item's trait with noise and a bias, and exaggerates to a different degree. ``combine_soft_answers``
is compared with the same model of answers rounded to 0 and 1, with the mean of the probabilities,
and with the product of the odds, as if judges were independent.

``--copies N`` adds N simulated crowds of seven judges, three of whom repeat most answers of a
fourth. Models of dependent and of independent judges are fitted to all answers, to one answer of
these four as a family (``one_answer_per_family``), and with the families of ``find_families``.

DIR has ``judges_*.npz``; its default is the environment variable PYRO_CROWDCLUST_DATA, or
../shared/data without it. Scores are F1 of "same", log loss, and expected calibration error in ten
bins. Last line: one JSON object.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.special import expit, logit
from sklearn.metrics import f1_score, log_loss

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import one_answer_per_family
from pyro_crowdclust.diagnostics import find_families
from pyro_crowdclust.interface import infer_classes, infer_trait
from pyro_crowdclust.metrics import expected_calibration_error
from pyro_crowdclust.pooling import (
    choose_positives,
    combine_soft_answers,
    discounted_class_probabilities,
    match_records,
)

METHODS = ("DawidSkene", "OneCoinDawidSkene", "MACE")


def load(file: Path) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Answers ``item, worker, label``; pairs ``left, right, same``; features of the pairs."""
    arrays = np.load(file)
    answers = pd.DataFrame(arrays["answers"].astype(int), columns=["item", "worker", "label"])
    pairs = pd.DataFrame(arrays["pair"], columns=["left", "right"])
    pairs["same"] = arrays["truth"] == 1
    left, right = arrays["pair"].T
    cosine = (arrays["record_features"][left] * arrays["record_features"][right]).sum(1)
    texts = text_similarities(arrays["record_text"], arrays["pair"])
    return answers, pairs, np.column_stack([cosine, texts])


def text_similarities(texts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Shares of common words, weighted by rarity, and of common words with a digit."""
    words = [set(re.findall(r"[^\W\d_]+|\d+(?:\.\d+)?", text.lower())) for text in texts]
    codes = [{word for word in text.lower().split() if re.search(r"\d", word)} for text in texts]
    used = Counter(word for one in words for word in one)
    weight = {word: np.log(len(texts) / count) for word, count in used.items()}
    rows = []
    for left, right in pairs:
        common, either = words[left] & words[right], words[left] | words[right]
        rarity = sum(weight[word] for word in either)
        alike = sum(weight[word] for word in common) / rarity if rarity else 0.0
        both = len(codes[left] | codes[right])
        rows.append((alike, len(codes[left] & codes[right]) / both if both else 0.0))
    return np.array(rows)


def scores(
    same: np.ndarray, probability: np.ndarray, chosen: np.ndarray | None = None
) -> dict[str, float]:
    """F1 of chosen pairs (default: above one half), log loss and calibration error."""
    return {
        "f1": float(f1_score(same, probability > 0.5 if chosen is None else chosen)),
        "log_loss": float(log_loss(same, np.clip(probability, 1e-15, 1 - 1e-15))),
        "calibration_error": expected_calibration_error(np.clip(probability, 0, 1), same),
    }


def judge(
    answers: pd.DataFrame,
    pairs: pd.DataFrame,
    features: np.ndarray,
    methods: list[str],
    epochs: int,
) -> tuple[dict[str, dict[str, float]], np.ndarray]:
    """Scores of every method on the pairs with an answer, and the effective number of judges."""
    data = CrowdData(None, labels=answers, classes=[0, 1])
    result = infer_trait(data, epochs=epochs)
    ours = discounted_class_probabilities(result)[1]
    asked = pairs.loc[ours.index]
    same = asked["same"].to_numpy()
    matches = match_records(
        ours, asked["left"], asked["right"], features[ours.index], second_match=(None, None)
    )
    votes = answers.groupby("item")["label"].mean().loc[ours.index].to_numpy()
    known = {"ours": ours.to_numpy(), "ours_with_features": matches.probabilities}
    found = {name: scores(same, p, choose_positives(p)) for name, p in known.items()}
    found["majority"] = scores(same, votes)
    for name in methods:
        found[name] = scores(same, peer(name, answers).loc[ours.index].to_numpy())
    annotators = result.model.annotators
    return found, annotators.effective_number(result.guide.posteriors)


def peer(name: str, answers: pd.DataFrame) -> pd.Series:
    """Probabilities of "same" by a method of crowd-kit."""
    from crowdkit import aggregation

    method = getattr(aggregation, name)(**({"random_state": 0} if name == "MACE" else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numerical warnings of crowd-kit
        method.fit(answers.rename(columns={"item": "task"}))
    return method.probas_.reindex(columns=[0, 1]).fillna(0)[1]


# The share of positive items in a crowd of soft judges, as the models expect it.
SHARE = 0.15


def soft_crowd(
    seed: int, num_pairs: int = 500, num_judges: int = 6
) -> tuple[np.ndarray, pd.DataFrame]:
    """Whether items are positive (.15 are), and answers ``item, worker, probability``."""
    rng = np.random.default_rng(seed)
    same = rng.random(num_pairs) < SHARE
    trait = np.where(same, 2.0, -2.3) + 1.3 * rng.normal(size=num_pairs)
    seen = trait[:, None] + 0.7 * rng.normal(size=num_judges)
    seen = seen + 1.5 * rng.normal(size=(num_pairs, num_judges))
    item, judge = np.indices(seen.shape)
    probability = expit(rng.uniform(0.5, 3, num_judges) * seen)
    columns = {"item": item.ravel(), "worker": judge.ravel(), "probability": probability.ravel()}
    return same, pd.DataFrame(columns)


def soft_judges(seeds: int, epochs: int) -> dict[str, dict[str, float]]:
    """Mean scores over simulated crowds of judges who give probabilities."""
    found = []
    for seed in range(seeds):
        same, answers = soft_crowd(seed)
        ours = combine_soft_answers(*(answers[name] for name in answers), share=SHARE)
        rounded_answers = answers.assign(label=(answers["probability"] > 0.5).astype(int))
        data = CrowdData(None, labels=rounded_answers[["item", "worker", "label"]])
        hard = infer_trait(data, share=SHARE, epochs=epochs)
        of_item = answers["probability"].groupby(answers["item"])
        odds = of_item.agg(lambda p: logit(p.clip(1e-12, 1 - 1e-12)).sum())
        methods = {
            "ours": ours.probabilities,
            "ours_rounded": hard.class_probabilities[1],
            "mean": of_item.mean(),
            "independent_odds": expit(odds),
        }
        found.append({name: scores(same, p.to_numpy()) for name, p in methods.items()})
    return means(found)


def means(found: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Means over all crowds, for every score of every method."""
    return {
        name: {kind: float(np.mean([one[name][kind] for one in found])) for kind in found[0][name]}
        for name in found[0]
    }


def copying_crowd(
    seed: int, num_pairs: int = 600, num_judges: int = 7, num_copies: int = 3
) -> tuple[np.ndarray, pd.DataFrame]:
    """Whether items are positive, and answers; some judges repeat the first in .8 of theirs."""
    rng = np.random.default_rng(seed)
    same = rng.random(num_pairs) < 0.3
    right = rng.random((num_pairs, num_judges)) < rng.uniform(0.7, 0.9, num_judges)
    says = np.where(right, same[:, None], ~same[:, None])
    for copy in range(1, num_copies + 1):
        says[:, copy] = np.where(rng.random(num_pairs) < 0.8, says[:, 0], says[:, copy])
    item, judge = np.indices(says.shape)
    columns = {"item": item.ravel(), "worker": judge.ravel(), "label": says.ravel().astype(int)}
    return same, pd.DataFrame(columns)


def copying_judges(seeds: int, epochs: int) -> dict[str, dict[str, float]]:
    """Mean scores over simulated crowds in which four of seven judges give mostly one's answers."""
    found = []
    for seed in range(seeds):
        same, answers = copying_crowd(seed)
        tables = {
            "": answers,
            "_families": one_answer_per_family(answers, dict.fromkeys(range(4), "copies")),
            "_found": one_answer_per_family(answers, find_families(answers)["family"]),
        }
        row = {"majority": scores(same, answers.groupby("item")["label"].mean().to_numpy())}
        for name, table in tables.items():
            data = CrowdData(None, labels=table, item_ids=range(len(same)), classes=[0, 1])
            fits = {
                "ours": infer_trait(data, epochs=epochs),
                "independent": infer_classes(data, [1], epochs=epochs),
            }
            for kind, result in fits.items():
                row[kind + name] = scores(same, result.class_probabilities[1].to_numpy())
        found.append(row)
    return means(found)


def best_judge(answers: pd.DataFrame, pairs: pd.DataFrame) -> float | None:
    """F1 of the best judge among those with nearly all answers; choosing it needs the truth."""
    found = []
    for _, own in answers.groupby("worker"):
        if len(own) >= 0.95 * len(pairs):
            found.append(f1_score(pairs.loc[own["item"], "same"], own["label"] == 1))
    return max(map(float, found), default=None)


def figures(found: list[dict[str, dict[str, float]]], methods: list[str]) -> dict[str, object]:
    """Means over the panels, under the names of the JSON object."""
    mean = means(found)
    row: dict[str, object] = {name: mean[name]["f1"] for name in list(mean)[:3]}
    row["best_peer"] = max((mean[name]["f1"] for name in methods), default=None)
    row["peers"] = {name: mean[name]["f1"] for name in methods}
    for kind in ("log_loss", "calibration_error"):
        row[kind] = {name: mean[name][kind] for name in mean}
    return rounded(row)


def rounded(value: object) -> object:
    """All floats in nested dictionaries, rounded to four digits."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def main(arguments: list[str] | None = None) -> dict[str, dict[str, object]]:
    """Run the example; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--sets", nargs="*", help="names; default: all")
    parser.add_argument("--panels", type=int, default=30, help="panels of each size")
    parser.add_argument("--sizes", type=int, nargs="*", default=[3, 5, 10])
    parser.add_argument("--methods", nargs="*", default=list(METHODS), help="of crowd-kit")
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--soft", type=int, default=0, help="simulated crowds of soft judges")
    parser.add_argument("--copies", type=int, default=0, help="simulated crowds with copies")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    files = {
        file.stem.removeprefix("judges_"): file for file in sorted(options.data.glob("judges_*"))
    }
    if not files:
        print(f"skipped: {options.data} has no judges_*.npz")
    methods = options.methods
    if methods and importlib.util.find_spec("crowdkit") is None:
        print("crowd-kit is not installed (pip install '.[peers]'): no comparison with it")
        methods = []

    table: dict[str, dict[str, object]] = {}
    for name in files if options.sets is None else options.sets:
        answers, pairs, features = load(files[name])
        everybody, effective = judge(answers, pairs, features, methods, options.epochs)
        row = figures([everybody], methods)
        row["best_judge"] = rounded(best_judge(answers, pairs))
        row["effective_judges"] = {
            kind: round(float(one), 1)
            for kind, one in zip(("different", "same"), effective, strict=True)
        }
        rng = np.random.default_rng(0)
        judges = answers["worker"].unique()
        row["panels"] = {}
        for size in options.sizes:
            drawn = [rng.choice(judges, size, replace=False) for _ in range(options.panels)]
            found = [
                judge(
                    answers[answers["worker"].isin(panel)],
                    pairs,
                    features,
                    methods,
                    options.epochs,
                )[0]
                for panel in drawn
            ]
            if found:
                row["panels"][str(size)] = figures(found, methods)
        for size, part in {"all": row, **row["panels"]}.items():
            keys = ("ours", "ours_with_features", "majority", "best_peer")
            print(f"{name}, {size}: " + ", ".join(f"{key} {part[key]}" for key in keys), flush=True)
        table[name] = row
    if options.soft:
        table["soft"] = rounded(soft_judges(options.soft, options.epochs))
        print("soft judges:", table["soft"], flush=True)
    if options.copies:
        table["copies"] = rounded(copying_judges(options.copies, options.epochs))
        print("judges who copy:", table["copies"], flush=True)
    print(json.dumps(table))
    return table


if __name__ == "__main__":
    main()
