"""A Dirichlet-multinomial mixture of 20 Newsgroups, with labels on 1 % of the posts.

    python examples/text_mixture.py --data ../shared/data

Two sets: 16,242 posts in 4 groups with 100 words (w100), and 11,256 in 20 groups with 1,000 word
stems (w1000, whose 7,489 test posts are new items). A first fit uses only the words. A second one,
with labels, starts from its clusters: few labels are not enough to find clusters among so many
words, but they can name and correct clusters, by a class table with the groups of every cluster.
It is compared with naive Bayes and logistic regression on the labelled posts. The last line is a
JSON object: accuracy on the posts without a label, and on the test posts; ``without_labels`` is
that of the first fit, under the best one-to-one map.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import MultinomialComponents, StickBreakingWeights
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.results import cluster_classes, known_or_likeliest
from pyro_crowdclust.starts import PartitionStart, default_start
from pyro_crowdclust.supervision import ClassTable

CLUSTERS = {"w100": 20, "w1000": 40}


def load(name: str, folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Counts and groups of training and (if any) test posts; posts without words are dropped."""
    with np.load(folder / f"news20_{name}.npz") as file:
        if "x" in file:
            parts = {"train": (file["x"], file["y"])}
        else:
            parts = {}
            for part in ("train", "test"):
                values, columns, starts = (
                    file[f"{key}_{part}"] for key in ("data", "indices", "indptr")
                )
                shape = tuple(file[f"shape_{part}"])
                counts = csr_array((values, columns.astype(np.int32), starts), shape=shape)
                parts[part] = counts.toarray(), file[f"y_{part}"]
    kept = {}
    for part, (counts, groups) in parts.items():
        worded = counts.sum(1) > 0
        kept[part] = (
            counts[worded].astype(np.float32),
            np.unique(groups, return_inverse=True)[1][worded],
        )
    return kept


def fit_posts(counts: np.ndarray, clusters: int, args, known=None, start=default_start) -> Fitted:
    """The mixture, with or without labels."""
    data = CrowdData(counts, known=known)
    model = SemiCrowdsourcedMixture(
        StickBreakingWeights(clusters, 1.0),
        MultinomialComponents(clusters, counts.shape[1], concentration=args.concentration),
        Identity(),
        supervision=None if known is None else ClassTable.of(data, clusters),
    )
    return fit(
        model,
        MessagePassingGuide(model),
        data,
        batch_size=None,
        step_size=1.0,
        epochs=args.sweeps,
        initialize=start,
        progress=False,
        seed=args.seed,
    )


def main(argv: list[str] | None = None) -> dict:
    """Run both sets; print a line each, and last the JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(default), help="folder of news20_*.npz")
    parser.add_argument("--sets", nargs="+", default=list(CLUSTERS), choices=list(CLUSTERS))
    parser.add_argument("--share", type=float, default=0.01, help="share of posts with a label")
    parser.add_argument("--posts", type=int, help="maximal number of posts")
    parser.add_argument("--sweeps", type=int, default=30)
    parser.add_argument("--concentration", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)

    figures = {}
    for name in args.sets:
        parts, rng = load(name, args.data), np.random.default_rng(args.seed)
        counts, groups = parts["train"]
        chosen = rng.permutation(len(counts))[: args.posts]
        counts, groups = counts[chosen], groups[chosen]
        known = np.full(len(counts), -1)
        labelled = rng.permutation(len(counts))[: round(args.share * len(counts))]
        known[labelled] = groups[labelled]
        rest = known < 0

        first = fit_posts(counts, CLUSTERS[name], args)
        start = PartitionStart(first.probabilities)
        result = fit_posts(counts, CLUSTERS[name], args, known, start)
        names = result.data.known_ids.to_numpy()
        found = {
            "labels": len(labelled),
            "ours": np.mean(names[known_or_likeliest(result)][rest] == groups[rest]),
            "without_labels": clustering_accuracy(groups, first.assignments),
        }
        peers = {
            "naive_bayes": MultinomialNB(alpha=args.concentration),
            "logistic_regression": LogisticRegression(max_iter=1000),
        }
        for peer, classifier in peers.items():
            classifier.fit(counts[labelled], groups[labelled])
            found[peer] = classifier.score(counts[rest], groups[rest])
        if "test" in parts:
            new, truth = parts["test"]
            classes = result.predict_proba(new) @ cluster_classes(result).to_numpy()
            found["ours_test"] = np.mean(names[classes.argmax(1)] == truth)
            for peer, classifier in peers.items():
                found[f"{peer}_test"] = classifier.score(new, truth)
        figures[name] = {key: round(float(value), 4) for key, value in found.items()}
        print(name, figures[name], flush=True)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
