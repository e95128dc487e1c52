"""Active learning on digits: which page to ask next, which worker to ask, and when to stop.

1,797 images of 8x8 pixels, at first without answers. Five simulated workers sort pages of twelve
images into groups, one page per round; one worker sorts at random, which the model is not told. One
campaign chooses the items of a page and the worker by expected information, the other one chooses
both at random. The fit is updated with every page (`result.update`).

    python examples/ask_next.py --rounds 20 --figures figures

Prints the accuracy after each round, how often each worker was asked and, last, one JSON object.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.asking import (
    InformationGain,
    Pages,
    Random,
    SimulatedCrowd,
    Stop,
    simulate_campaign,
)
from pyro_crowdclust.callbacks import LearnedPrior, NearbyOwners, OwnershipMoves
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.plots import plot_campaign
from pyro_crowdclust.starts import TrustingStart
from pyro_crowdclust.training import Stopping

ACCURACY = {"ann": 0.98, "bob": 0.95, "cem": 0.9, "dee": 0.85, "guesser": 0.1}


def cluster(data: CrowdData, components: int, seed: int) -> Fitted:
    """Fit clusters that own several Gaussian components each; answers determine which ones."""
    data = data.as_pairs()
    dim, answered = data.features.shape[1], data.has_answers
    degrees = dim + 2.0
    model = SemiCrowdsourcedMixture(
        DirichletWeights(components),
        GaussianComponents(
            components, dim, concentration=0.05, scale=0.2 * degrees, degrees=degrees
        ),
        Identity(),
        TwoCoin(data.num_workers, (4.0, 1.0), (4.0, 1.0)) if answered else None,
        sum_out_assignments=None if answered else torch.float64,
        ownership=Ownership(components, own=0.3) if answered else None,
    )
    return fit(
        model,
        MessagePassingGuide(model),
        data,
        epochs=60,
        batch_size=None,
        step_size=1.0,
        initialize=TrustingStart(),
        stopping=Stopping(1e-3, 3),
        callbacks=[LearnedPrior(), *([NearbyOwners(), OwnershipMoves()] if answered else [])],
        dtype=torch.float64,
        seed=seed,
        progress=False,
    )


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Run both campaigns; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--size", type=int, default=12)
    parser.add_argument("--items", type=int, default=None)
    parser.add_argument("--components", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figures", type=Path, default=Path("figures"))
    options = parser.parse_args(arguments)

    images, labels = load_digits(return_X_y=True)
    images, labels = images[: options.items], labels[: options.items]
    directions = PCA(20, random_state=0).fit_transform(images)
    data = CrowdData(directions / directions[:, 0].std())

    def accuracy(result: Fitted) -> dict[str, float]:
        return {"accuracy": clustering_accuracy(labels, result.assignments)}

    campaigns = {}
    for name, criterion in (("ours", InformationGain()), ("random", Random())):
        campaigns[name] = simulate_campaign(
            partial(cluster, components=options.components, seed=options.seed),
            data,
            SimulatedCrowd(labels, ACCURACY, seed=options.seed),
            Pages(options.size),
            rounds=options.rounds,
            criterion=criterion,
            score=accuracy,
            seed=options.seed,
        )
        print(name, np.round(campaigns[name].rounds["accuracy"].to_list(), 3), flush=True)
    ours = campaigns["ours"]
    pages = ours.questions.drop_duplicates(["round", "page"])["worker"].value_counts()
    print(pages.to_string())

    stop = Stop().round(ours.rounds)
    options.figures.mkdir(parents=True, exist_ok=True)
    tables = {name: campaign.rounds for name, campaign in campaigns.items()}
    plot_campaign(tables, questions=ours.questions).savefig(options.figures / "ask_next.png")

    figures: dict[str, object] = {
        f"accuracy_{name}": round(float(table["accuracy"].iloc[-1]), 4)
        for name, table in tables.items()
    }
    figures["pages_of_guesser"] = int(pages.get("guesser", 0))
    figures["stop_after_round"] = stop
    figures["seconds_per_round"] = round(float(ours.rounds["seconds"].median()), 2)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
