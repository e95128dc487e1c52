"""Clusters from answers about pairs only, without features.

Three breeds of dog (answers of real people, hardly better than guessing, in 2,310 sessions); scenes
of sports (267 items, 86 clusters, anonymous answers); records of products and publications, where
most clusters have two items; and uses of 46 words: annotators graded how close the meanings of two
uses are, or could not decide, and the clusters for scoring were computed from these same grades. No
set has features here, and the number of clusters is inferred.

This is compared with Dawid and Skene's algorithm on pairs followed by average linkage (in which
pairs without answers are different), and with shares of votes followed by spectral clustering,
which is given the true number of clusters if that is small. The score is NMI for dogs and sports,
the adjusted Rand index for words, and F1 over all pairs for records. A second fit predicts a tenth
of the answers that is held out; its log loss is compared with that of Dawid and Skene's algorithm
on pairs, with a class for every label.

    python examples/pair_votes.py --data DIR

``--sets simulated_60_4_8`` simulates 60 items in 4 clusters with 8 answers per item, by five
workers who answer 85 % of random pairs correctly. Its score is the adjusted Rand index; it shows
how few answers are enough. ``--sets records_60_6_3`` simulates records of 60 things, one or two of
each: three of five workers, who are right in 95 % of pairs, answer about all pairs that are the
same and six times as many others. Its score is the pairwise F1. ``--sets alike_70_3`` is scored in
the same way: 70 things have one to 80 records each, and three of thirty workers answer about each
of the most similar pairs.

``--likeness`` adds similarities of the texts of two records, for the pairs that were asked about:
shares of common characters, of common words, and of common words with a digit. ``--sets
candidates_100_300`` simulates records of 100 things, one to three of each, in eight dimensions.
Candidates are pairs in which one record is among the ten nearest of the other; two of six workers,
who are right in nine of ten pairs, answer about 300 pairs in the nearer half of these. With
``--likeness`` the distances of all candidates are given.

DIR has ``pairs_*.npz``, ``teachers_*.npz`` and ``judgements_dwug_en.npz``; its default is the
environment variable PYRO_CROWDCLUST_DATA, or ../shared/data without it. Last line: one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from sklearn.cluster import SpectralClustering
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import NearestNeighbors

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import AnswersAlone, infer_classes
from pyro_crowdclust.metrics import (
    adjusted_rand_index,
    clustering_accuracy,
    normalized_mutual_information,
)
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.simulation import simulate_pairs

SETS = ("dogs3", "allsports", "product", "teachers_abt_buy", "teachers_dblp_acm", "dwug")
RECORDS = SETS[2:5]
SIMULATED, SIMULATED_RECORDS, SIMULATED_ALIKE = "simulated", "records", "alike"
CANDIDATES = "candidates"
GRADES = (1, 2, 3, 4)
# Largest true number of clusters for which spectral clustering is run.
MAX_SPECTRAL = 100


def load(folder: Path, name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Answers ``left, right, worker, label``, and the true cluster of every item, -1 unknown."""
    if name.startswith(SIMULATED):
        return simulated(*map(int, name.split("_")[1:]))
    if name.startswith(SIMULATED_RECORDS):
        return simulated_records(*map(int, name.split("_")[1:]))
    if name.startswith(SIMULATED_ALIKE):
        return simulated_alike(*map(int, name.split("_")[1:]))
    if name.startswith(CANDIDATES):
        return candidates(*map(int, name.split("_")[1:]))[:2]
    if name == "dwug":
        arrays = np.load(folder / "judgements_dwug_en.npz")
        worker, left, right, label = arrays["judgements"][:, :4].T
        cluster, word = (arrays[f"use_{part}"].astype(int) for part in ("cluster", "word"))
        truth = np.where(cluster < 0, -1, cluster + 1000 * word)
    elif name.startswith("teachers"):
        arrays = np.load(folder / f"{name}.npz")
        pair, worker, label = arrays["answers"].T
        left, right = arrays["pair"][pair].T
        truth = arrays["record_cluster"]
    else:
        arrays = np.load(folder / f"pairs_{name}.npz")
        left, right, *rest = arrays["annotations"].T
        worker, label = (0 * left, rest[0]) if name == "allsports" else rest[:2]
        truth = arrays["entity_from_queried_pairs" if name == "product" else "truth"]
    frame = pd.DataFrame({"left": left, "right": right, "worker": worker, "label": label})
    return frame, pd.Series(truth)


def simulated(
    num_items: int, num_clusters: int, per_item: int, seed: int = 0
) -> tuple[pd.DataFrame, pd.Series]:
    """Clusters of similar sizes, and five workers' answers about random pairs."""
    truth = np.random.default_rng(seed).permutation(np.arange(num_items) % num_clusters)
    rates, each = [0.85] * 5, per_item * num_items // 5
    frame = simulate_pairs(truth, rates, rates, pairs_per_worker=each, seed=seed)
    return frame, pd.Series(truth)


def simulated_records(
    num_things: int, others: int, votes: int, seed: int = 0
) -> tuple[pd.DataFrame, pd.Series]:
    """One or two records of each thing; most pairs have no answers, as after blocking."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(num_things), rng.choice([1, 2], num_things))
    left, right = np.triu_indices(len(truth), 1)
    same = truth[left] == truth[right]
    asked = np.flatnonzero(same | (rng.random(len(same)) < others * same.mean()))
    pair = np.repeat(asked, votes)
    worker = np.concatenate([rng.choice(5, votes, replace=False) for _ in asked])
    label = same[pair] ^ (rng.random(len(pair)) < 0.05)
    frame = pd.DataFrame({"left": left[pair], "right": right[pair], "worker": worker})
    return frame.assign(label=label.astype(int)), pd.Series(truth)


def simulated_alike(num_things: int, votes: int, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Things with many or few records; workers guess the answers of a tenth of similar pairs."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(3 * rng.pareto(1.0, num_things) + 1, 80).astype(int)
    truth = np.repeat(np.arange(num_things), sizes)
    place = rng.normal(size=(num_things, 8))[truth] + 0.35 * rng.normal(size=(len(truth), 8))
    left, right = np.triu_indices(len(truth), 1)
    same = truth[left] == truth[right]
    apart = np.square(place[left] - place[right]).sum(1)
    asked = apart.argsort()[: int(1.1 * same.sum()) + 5 * len(truth)]
    asked = rng.choice(asked, min(len(asked), 15_000), replace=False)
    is_hard = rng.random(len(asked)) < 0.1
    pair = np.repeat(asked, votes)
    worker = np.concatenate([rng.choice(30, votes, replace=False) for _ in asked])
    is_right = np.where(np.repeat(is_hard, votes), 0.5, rng.uniform(0.8, 0.98, 30)[worker])
    label = same[pair] ^ (rng.random(len(pair)) >= is_right)
    frame = pd.DataFrame({"left": left[pair], "right": right[pair], "worker": worker})
    return frame.assign(label=label.astype(int)), pd.Series(truth)


def candidates(
    num_things: int, asked: int, seed: int = 0
) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame]:
    """Records as points, answers about some of the near pairs, and distances of all near pairs."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(num_things), rng.choice([1, 2, 3], num_things, p=[0.4, 0.4, 0.2]))
    place = rng.normal(size=(num_things, 8))[truth] + 0.4 * rng.normal(size=(len(truth), 8))
    near = NearestNeighbors(n_neighbors=11).fit(place).kneighbors(place, return_distance=False)
    ends = np.stack([np.repeat(np.arange(len(truth)), 10), near[:, 1:].ravel()], 1)
    left, right = np.unique(np.sort(ends, axis=1), axis=0).T
    apart = np.linalg.norm(place[left] - place[right], axis=1)
    table = pd.DataFrame({"left": left, "right": right, "nearness": -apart})
    nearer = np.flatnonzero(apart < np.median(apart))
    pair = np.repeat(rng.choice(nearer, min(asked, len(nearer)), replace=False), 2)
    same = truth[left[pair]] == truth[right[pair]]
    label = same ^ (rng.random(len(pair)) < 0.1)
    worker = np.concatenate([rng.choice(6, 2, replace=False) for _ in pair[::2]])
    frame = pd.DataFrame({"left": left[pair], "right": right[pair], "worker": worker})
    return frame.assign(label=label.astype(int)), pd.Series(truth), table


def likeness(folder: Path, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Similarities of the texts of the records that were compared."""
    if name.startswith(CANDIDATES):
        return candidates(*map(int, name.split("_")[1:]))[2]
    arrays = np.load(folder / (f"{name}.npz" if name.startswith("teach") else f"pairs_{name}.npz"))
    if name == "product":
        texts = arrays["records_utf8"].tobytes().decode("utf8").split("\n")
    else:
        texts = arrays["record_text"].tolist()
    texts = [text.lower() for text in texts]
    left, right = np.unique(np.sort(frame[["left", "right"]].to_numpy(), axis=1), axis=0).T
    found = {"left": left, "right": right}
    for kind, options in (
        ("characters", {"analyzer": "char_wb", "ngram_range": (3, 5)}),
        ("words", {"token_pattern": r"\w+"}),
    ):
        rows = TfidfVectorizer(sublinear_tf=True, **options).fit_transform(texts)
        found[kind] = np.asarray(rows[left].multiply(rows[right]).sum(1)).ravel()
    codes = [{*re.findall(r"[a-z-]*\d[a-z0-9-]+", text)} for text in texts]
    found["codes"] = [
        len(codes[i] & codes[j]) / max(min(len(codes[i]), len(codes[j])), 1)
        for i, j in zip(left, right, strict=True)
    ]
    return pd.DataFrame(found)


def pairwise_f1(truth: np.ndarray, found: np.ndarray) -> float:
    """F1 of "same" over all pairs of items."""

    def pairs_within(codes: np.ndarray) -> float:
        sizes = np.unique(codes, return_counts=True)[1].astype(float)
        return float((sizes * (sizes - 1) / 2).sum())

    both = pairs_within(pd.factorize(pd.Series(list(zip(truth, found, strict=True))))[0])
    return 2 * both / max(pairs_within(truth) + pairs_within(found), 1.0)


def scores(truth: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Pairwise F1, accuracy, NMI, adjusted Rand index, and how many clusters were found."""
    return {
        "f1": pairwise_f1(truth, found),
        "accuracy": clustering_accuracy(truth, found),
        "nmi": normalized_mutual_information(truth, found),
        "ari": adjusted_rand_index(truth, found),
        "clusters": len(np.unique(found)),
    }


def pair_names(frame: pd.DataFrame) -> pd.Series:
    """A name for each distinct pair."""
    ends = np.sort(frame[["left", "right"]].to_numpy(), axis=1)
    return pd.Series([*map(tuple, ends)], frame.index)


def crowd(frame: pd.DataFrame, **options: Any) -> CrowdData:
    """The answers without features; labels beyond 1 are grades."""
    grades = GRADES if frame["label"].max() > 1 else None
    return CrowdData(None, pairs=frame, grades=grades, **options)


def dawid_skene(frame: pd.DataFrame, epochs: int) -> Fitted:
    """Dawid and Skene's algorithm with pairs as items."""
    labels = frame[["worker", "label"]].assign(item=pair_names(frame).map("{0[0]}-{0[1]}".format))
    data = CrowdData(None, labels=labels)
    return infer_classes(data, num_communities=[1], epochs=epochs, progress=False)


def linked(frame: pd.DataFrame, same: pd.Series, items: np.ndarray) -> np.ndarray:
    """Average linkage by probabilities of "same", which are 0 for pairs without answers.

    Connected parts of the graph of pairs are linked separately.
    """
    place = pd.Series(np.arange(len(items)), items)
    ends = pair_names(frame).drop_duplicates()
    left, right = (place[[end[side] for end in ends]].to_numpy() for side in (0, 1))
    probability = same[[f"{i}-{j}" for i, j in ends]].to_numpy()
    graph = csr_array((probability + 1e-9, (left, right)), (len(items), len(items)))
    found = np.zeros(len(items), dtype=int)
    for part in range(connected_components(graph)[0]):
        own = np.flatnonzero(connected_components(graph)[1] == part)
        if len(own) > 1:
            alike = graph[own][:, own].toarray()
            tree = linkage(squareform(1 - (alike + alike.T).clip(0, 1), checks=False), "average")
            found[own] = fcluster(tree, 0.5, "distance") + found.max()
        else:
            found[own] = found.max() + 1
    return found


def spectral(frame: pd.DataFrame, items: np.ndarray, num_clusters: int) -> np.ndarray:
    """Spectral clustering of shares of votes, with the true number of clusters."""
    place = pd.Series(np.arange(len(items)), items)
    votes = frame.groupby(pair_names(frame))["label"].mean()
    affinity = np.zeros((len(items), len(items)))
    for (left, right), share in votes.items():
        affinity[place[left], place[right]] = affinity[place[right], place[left]] = share
    method = SpectralClustering(num_clusters, affinity="precomputed", random_state=0)
    return method.fit_predict(affinity + 1e-6)


def held_out_loss(
    frame: pd.DataFrame, table: pd.DataFrame | None, epochs: int | None, seed: int
) -> tuple[float, float]:
    """Log loss of a tenth of the answers: ours, and Dawid and Skene's on pairs."""
    rng = np.random.default_rng(seed)
    out = rng.random(len(frame)) < 0.1
    kept, held = frame[~out], frame[out]
    known = held["worker"].isin(kept["worker"])
    items = pd.unique(frame[["left", "right"]].to_numpy().ravel())
    held = held[known]
    if table is not None:
        items = np.union1d(items, table[["left", "right"]])
    data = crowd(kept, item_ids=items, likeness=table)
    changes = {} if epochs is None else {"epochs": epochs}
    result = AnswersAlone(data).fit(seed=seed, progress=False, **changes)
    asked = torch.stack([data.item_positions(held[end]) for end in ("left", "right")], 1)
    worker = torch.from_numpy(data.worker_ids.get_indexer(held["worker"]))
    label = crowd(held).answers.label
    ours = -float(result.guide.log_answer_probabilities(data, asked, worker, label).mean())

    peer = dawid_skene(kept, 30 if epochs is None else epochs)
    names = pair_names(held).map("{0[0]}-{0[1]}".format)
    probability = peer.class_probabilities
    looks = probability.reindex(names).fillna(probability.mean()).to_numpy()
    rates = peer.confusion["mean"].unstack("class")
    said = rates.loc[zip(held["worker"], held["label"], strict=True)].to_numpy()
    return ours, float(-np.log((looks * said).sum(1)).mean())


def score_of(name: str) -> str:
    """The main score of a set."""
    if name in RECORDS or name.startswith((SIMULATED_RECORDS, SIMULATED_ALIKE, CANDIDATES)):
        return "f1"
    return "ari" if name == "dwug" or name.startswith(SIMULATED) else "nmi"


def set_name(name: str) -> str:
    """The name of a set, if it exists."""
    made_up = (SIMULATED, SIMULATED_RECORDS, SIMULATED_ALIKE, CANDIDATES)
    if name in SETS or name.startswith(tuple(f"{kind}_" for kind in made_up)):
        return name
    raise argparse.ArgumentTypeError(
        f"{name} is not a set: give one of {SETS}, or a name like {SIMULATED}_60_4_8, "
        f"{SIMULATED_RECORDS}_60_6_3, {SIMULATED_ALIKE}_70_3 or {CANDIDATES}_100_300"
    )


def compare(
    name: str,
    frame: pd.DataFrame,
    truth: pd.Series,
    table: pd.DataFrame | None,
    epochs: int | None,
) -> dict[str, float]:
    """Scores of all methods on one set."""
    started = time.perf_counter()
    data = crowd(frame, likeness=table)
    changes = {} if epochs is None else {"epochs": epochs}
    result = AnswersAlone(data).fit(progress=False, **changes)
    seconds = time.perf_counter() - started
    items = data.item_ids.to_numpy()
    known = truth[items].to_numpy()
    yes = frame.assign(label=(frame["label"] > 2).astype(int)) if name == "dwug" else frame
    peer = dawid_skene(yes, 30 if epochs is None else epochs)
    assigned = {
        "ours": result.assignments,
        "Dawid-Skene, average linkage": linked(yes, peer.class_probabilities[1], items),
    }
    number = len(np.unique(known[known >= 0]))
    if number <= MAX_SPECTRAL:
        assigned["shares, spectral, true K"] = spectral(frame, items, number)
    has_truth = known >= 0
    found = {
        method: scores(known[has_truth], labels[has_truth]) for method, labels in assigned.items()
    }
    for method, row in found.items():
        print(f"{name:18}{method:30}" + "".join(f"{k} {v:.3f}  " for k, v in row.items()))
    print(f"{name:18}{result.chosen.winner}, {seconds:.0f} s", flush=True)
    ours, theirs = held_out_loss(frame, table, epochs, seed=0)
    print(f"{name:18}held-out log loss {ours:.4f}, Dawid-Skene on pairs {theirs:.4f}", flush=True)
    score = score_of(name)
    baselines = [row[score] for method, row in found.items() if method != "ours"]
    return {
        "score": score,
        "ours": found["ours"][score],
        "best_baseline": max(baselines),
        "accuracy": found["ours"]["accuracy"],
        "clusters": found["ours"]["clusters"],
        "seconds": seconds,
        "held_out_log_loss": ours,
        "held_out_log_loss_baseline": theirs,
    }


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the sets; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    folder = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--sets", nargs="+", type=set_name, default=SETS)
    parser.add_argument(
        "--likeness", action="store_true", help="also use similarities of the records' texts"
    )
    parser.add_argument("--epochs", type=int, help="sweeps of a fit (default: its own)")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", ".*repeats an earlier answer")  # some workers are anonymous
    results = {}
    for name in options.sets:
        frame, truth = load(options.data, name)
        known = options.likeness and (name in RECORDS or name.startswith(CANDIDATES))
        table = likeness(options.data, name, frame) if known else None
        results[name] = compare(name, frame, truth, table, options.epochs)
    print(json.dumps(results))
    return results


if __name__ == "__main__":
    main()
