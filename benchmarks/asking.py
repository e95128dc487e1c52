"""Choice of questions: `suggest` compared with random choice, margins, and oracle-based choosers.

All choosers start from the same fit, which is updated with every round of answers. With features it
is a mixture whose clusters own components (`Ownership`), in which features count a tenth once the
components are learned. With `--first-call` it is what `cluster` chooses, as for users. The target
of a case is the accuracy of random choice at the end of its budget. The score is the number of
questions that each chooser needs to reach the target permanently: in a round and in the mean of the
two after it.

    python benchmarks/asking.py --cases digits_pages digits_pairs --seeds 1

A peer from the package active-semi-supervised-clustering (`benchmarks/asking_peers.txt`) is run
with its own code, with true answers, and its constraints are given to the same fit; without the
package it is skipped, with a message. Prints a line per campaign and, last, one JSON object with,
per case, `answers_to_target` of every chooser, `random_over_ours`, `best_other_over_ours`,
`stopped_at`, `accuracy_at_stop`, `accuracy_at_end` and `seconds_per_round`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from asking_fits import answered_partition, dawid_skene, first_call, mixture
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import f1_score

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.asking import (
    InformationGain,
    Labels,
    Margin,
    Pages,
    Pairs,
    Random,
    RecordedCrowd,
    SimulatedCrowd,
    Stop,
    simulate_campaign,
)
from pyro_crowdclust.metrics import clustering_accuracy

CHOOSERS = {"ours": InformationGain(), "random": Random(), "margin": Margin()}
PERFECT = {"oracle": 1.0}
MIXED = {"a": 0.98, "b": 0.95, "c": 0.9, "d": 0.85, "guesses": 0.1}
# Who is right about a pair with probability .1 says the opposite, and who guesses with .5.
MIXED_PAIRS = MIXED | {"guesses": 0.5}


def directions(features: np.ndarray, number: int = 20) -> np.ndarray:
    """Principal components, the first with deviation 1."""
    found = PCA(number, random_state=0).fit_transform(features)
    return found / found[:, 0].std()


@dataclass(frozen=True)
class Case:
    """Items, a crowd, a kind of questions, and the budget.

    Attributes
    ----------
    data, truth
        Items, perhaps with first answers, and their classes (-1: unknown).
    fit
        Function of data and a seed.
    crowd
        Function of a seed.
    kind, count, rounds
        Kind of questions, number of questions per round, and number of rounds.
    accuracy
        Function of a fit.
    """

    data: CrowdData
    truth: np.ndarray
    fit: Callable[[CrowdData, int], Fitted]
    crowd: Callable[[int], SimulatedCrowd | RecordedCrowd]
    kind: Pages | Pairs | Labels
    count: int
    rounds: int
    accuracy: Callable[[np.ndarray, Fitted], float] = field(
        default=lambda truth, result: clustering_accuracy(truth, result.assignments)
    )


def simulated(features: np.ndarray, truth: np.ndarray, workers: dict, kind, **budget) -> Case:
    """A simulated crowd."""
    return Case(
        CrowdData(directions(features)),
        truth,
        mixture,
        lambda seed: SimulatedCrowd(truth, workers, seed=seed),
        kind,
        **budget,
    )


def digits(workers: dict, kind, **budget) -> Case:
    """1,797 images of 8 x 8 pixels."""
    features, truth = load_digits(return_X_y=True)
    return simulated(features, truth, workers, kind, **budget)


def handwritten(folder: Path, workers: dict, kind, **budget) -> Case:
    """2,000 digits, their Fourier coefficients."""
    with np.load(folder / "active_handwritten.npz") as file:
        return simulated(file["features"], file["truth"].astype(int), workers, kind, **budget)


def mnist(folder: Path, workers: dict, kind, **budget) -> Case:
    """The first 4,000 test images."""
    with np.load(folder / "mnist.npz") as file:
        images = file["x_test"][:4000].reshape(-1, 784) / 255.0
        truth = file["y_test"][:4000].astype(int)
    return simulated(images, truth, workers, kind, **budget)


def labelme(folder: Path, rounds: int, count: int) -> Case:
    """1,000 scenes of 8 classes, 2,547 labels of 59 workers; starts with 300 random labels."""
    with np.load(folder / "crowd_labels_labelme.npz") as file:
        said = pd.DataFrame(file["annotations"], columns=["item", "worker", "label"])
        truth = file["truth_train"].astype(int)
    order = np.random.default_rng(0).permutation(len(said))
    first, rest = said.iloc[order[:300]], said.iloc[order[300:]]
    ids = np.arange(len(truth))
    return Case(
        CrowdData(None, labels=first, classes=range(8), item_ids=ids),
        truth,
        dawid_skene,
        lambda seed: RecordedCrowd(labels=rest),
        Labels(),
        count,
        rounds,
        lambda truth, result: float((result.assignments == truth).mean()),
    )


def product(folder: Path, rounds: int, count: int) -> Case:
    """8,315 pairs of products, three answers each, by 176 workers; starts with 2,000 random ones.

    Every pair is an item with the classes same and different; the score is F1 of "same".
    """
    with np.load(folder / "pairs_product.npz") as file:
        said = pd.DataFrame(file["annotations"][:, :4], columns=["a", "b", "worker", "label"])
        pairs = pd.DataFrame(file["pair_truth"], columns=["a", "b", "same"])
    truth = pairs["same"].to_numpy()
    pairs["item"] = np.arange(len(pairs))
    said = said.merge(pairs, on=["a", "b"])[["item", "worker", "label"]]
    said = said.drop_duplicates(["item", "worker"])
    order = np.random.default_rng(0).permutation(len(said))
    first, rest = said.iloc[order[:2000]], said.iloc[order[2000:]]
    return Case(
        CrowdData(None, labels=first, classes=[0, 1], item_ids=np.arange(len(truth))),
        truth,
        dawid_skene,
        lambda seed: RecordedCrowd(labels=rest),
        Labels(),
        count,
        rounds,
        lambda truth, result: float(f1_score(truth, result.assignments)),
    )


def dogs(folder: Path, rounds: int, count: int) -> Case:
    """473 dogs of three breeds, 57,167 answers about pairs; starts with 5,000 random answers.

    An algorithm chose the pairs, in 2,310 sessions, which are used as workers.
    """
    with np.load(folder / "pairs_dogs3.npz") as file:
        columns = ["left", "right", "worker", "label"]
        said = pd.DataFrame(file["annotations"][:, :4], columns=columns)
        truth = file["truth"].astype(int)
    said = said.drop_duplicates(["left", "right", "worker"])
    order = np.random.default_rng(0).permutation(len(said))
    first, rest = said.iloc[order[:5000]], said.iloc[order[5000:]]
    return Case(
        CrowdData(None, first, item_ids=np.arange(len(truth))),
        truth,
        answered_partition,
        lambda seed: RecordedCrowd(pairs=rest),
        Pairs(),
        count,
        rounds,
    )


def cases(folder: Path) -> dict[str, Callable[[], Case]]:
    """The cases by name, as functions that make them."""
    page = {"kind": Pages(12), "count": 1}
    pair = {"kind": Pairs(), "count": 20}
    return {
        "digits_pages": lambda: digits(MIXED, rounds=45, **page),
        "digits_pages_perfect": lambda: digits(PERFECT, rounds=45, **page),
        "digits_pairs": lambda: digits(PERFECT, rounds=40, **pair),
        "digits_pairs_mixed": lambda: digits(MIXED_PAIRS, rounds=40, **pair),
        "handwritten_pages": lambda: handwritten(folder, MIXED, rounds=40, **page),
        "handwritten_pairs": lambda: handwritten(folder, PERFECT, rounds=40, **pair),
        "mnist_pages": lambda: mnist(folder, MIXED, rounds=45, **page),
        "product": lambda: product(folder, rounds=24, count=500),
        "labelme": lambda: labelme(folder, rounds=24, count=50),
        "dogs3": lambda: dogs(folder, rounds=12, count=1000),
    }


def run(case: Case, chooser: str, seed: int) -> pd.DataFrame:
    """The rounds of a campaign, with the accuracy after each."""
    campaign = simulate_campaign(
        partial(case.fit, seed=seed),
        case.data,
        case.crowd(seed),
        case.kind,
        rounds=case.rounds,
        count=case.count,
        criterion=CHOOSERS[chooser],
        score=lambda result: {"accuracy": case.accuracy(case.truth, result)},
        seed=1000 * seed,
    )
    return campaign.rounds


def peer_rounds(case: Case, name: str, seed: int, budgets: list[int]) -> pd.DataFrame:
    """The same fit to the constraints that a peer's chooser asked for, round by round."""
    from asking_peers import as_answers, questions  # in this folder; needs the package

    features = np.asarray(case.data.features)
    asked = questions(name, features, case.truth, max(budgets), seed)
    rows = []
    for budget in budgets:
        data = CrowdData(features, as_answers(asked.head(budget)))
        accuracy = case.accuracy(case.truth, case.fit(data, seed=seed))
        rows.append({"round": len(rows), "asked": budget, "accuracy": accuracy})
        print(f"  {name} {budget} {accuracy:.3f}", flush=True)
    return pd.DataFrame(rows)


def answers_to(rounds: pd.DataFrame, target: float) -> int | None:
    """Number of questions until the accuracy reaches the target and stays there three rounds."""
    accuracy = rounds["accuracy"]
    ahead = accuracy[::-1].rolling(3, min_periods=1).mean()[::-1]
    there = (accuracy >= target) & (ahead >= target)
    return int(rounds["asked"][there].iloc[0]) if there.any() else None


def summarize(table: pd.DataFrame) -> dict[str, object]:
    """Medians over seeds for one case; a chooser that misses the target counts with its budget."""
    needed: dict[str, list[int]] = {}
    stops = []
    for _, of_seed in table.groupby("seed"):
        by_chooser = dict(list(of_seed.groupby("chooser")))
        random = by_chooser["random"]
        target = float(random["accuracy"].iloc[-3:].mean())
        for name, rounds in by_chooser.items():
            found = answers_to(rounds, target)
            needed.setdefault(name, []).append(
                int(rounds["asked"].iloc[-1]) if found is None else found
            )
        ours = by_chooser["ours"].reset_index(drop=True)
        stop = Stop().round(ours)
        end = float(ours["accuracy"].iloc[-1])
        at = (np.nan, np.nan) if stop is None else ours.loc[stop, ["asked", "accuracy"]]
        stops.append((*at, end, target))
    middle = {name: float(np.median(counts)) for name, counts in needed.items()}
    others = [count for name, count in middle.items() if name not in ("ours", "random")]
    stopped, at_stop, at_end, target = np.median(np.array(stops), axis=0)
    return {
        "answers_to_target": middle,
        "target": round(float(target), 3),
        "random_over_ours": round(middle["random"] / middle["ours"], 2),
        "best_other_over_ours": round(min(others) / middle["ours"], 2) if others else None,
        "stopped_at": None if np.isnan(stopped) else float(stopped),
        "accuracy_at_stop": None if np.isnan(stopped) else round(float(at_stop), 3),
        "accuracy_at_end": round(float(at_end), 3),
        "seconds_per_round": round(
            float(table.loc[table["chooser"] == "ours", "seconds"].median()), 2
        ),
    }


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Run the campaigns; returns what is printed last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = Path(os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data"))
    parser.add_argument("--data", type=Path, default=folder)
    parser.add_argument("--cases", nargs="+", default=None)
    parser.add_argument("--choosers", nargs="+", default=list(CHOOSERS))
    parser.add_argument("--peers", nargs="*", default=[])
    parser.add_argument("--peer-budgets", nargs="+", type=int, default=[100, 200, 400, 800])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--items", type=int, default=None, help="number of items, with features")
    parser.add_argument("--components", type=int, default=40, help="number, with features")
    parser.add_argument("--feature-weight", type=float, default=0.1, help="1: features count fully")
    parser.add_argument("--first-call", action="store_true", help="fits of `cluster`")
    parser.add_argument("--lines", type=Path, default=None, help="append rounds to this file")
    options = parser.parse_args(arguments)
    known = cases(options.data)
    found = {}
    for name in options.cases or known:
        try:
            case = known[name]()
        except FileNotFoundError as error:
            print(f"{name}: skipped, {error.filename} does not exist")
            continue
        if options.rounds is not None:
            case = replace(case, rounds=options.rounds)
        if options.items is not None:
            part = CrowdData(case.data.features[: options.items])
            case = replace(case, data=part, truth=case.truth[: options.items])
        if case.fit is mixture:
            with_options = partial(
                mixture,
                num_components=options.components,
                feature_weight=options.feature_weight,
            )
            case = replace(case, fit=first_call if options.first_call else with_options)
        parts = []
        for seed in range(options.seeds):
            campaigns = {
                chooser: partial(run, case, chooser, seed) for chooser in options.choosers
            } | {
                peer: partial(peer_rounds, case, peer, seed, options.peer_budgets)
                for peer in options.peers
            }
            for chooser, campaign in campaigns.items():
                try:
                    rounds = campaign()
                except ModuleNotFoundError as error:
                    print(f"{name} {chooser}: skipped, {error.name} is not installed")
                    continue
                rounds = rounds.assign(case=name, chooser=chooser, seed=seed)
                curve = " ".join(f"{value:.3f}" for value in rounds["accuracy"])
                print(f"{name} {chooser} {seed}: {curve}", flush=True)
                parts.append(rounds)
                if options.lines is not None:
                    with options.lines.open("a") as file:
                        rounds.to_json(file, orient="records", lines=True)
        if {"ours", "random"} <= {*options.choosers}:
            found[name] = summarize(pd.concat(parts, ignore_index=True))
            print(name, json.dumps(found[name]), flush=True)
    print(json.dumps(found))
    return found


if __name__ == "__main__":
    main()
