"""Active learning on digits: which page to ask next, which worker to ask, and when to stop.

1,797 images of 8x8 pixels, at first without answers. Five simulated workers sort pages of twelve
images into groups, one page per round; one worker sorts at random, which the model is not told. One
campaign chooses the items of a page and the worker by expected information, the other one chooses
both at random. The fit is updated with every page (`result.update`).

    python examples/ask_next.py --seeds 5 --figures figures

Prints the accuracy after each round, how often each worker was asked and, last, one JSON object of
means over the seeds, which the figure also shows.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.asking import (
    Campaign,
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
    """Run both campaigns from every seed; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--size", type=int, default=12)
    parser.add_argument("--items", type=int, default=None)
    parser.add_argument("--components", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--figures", type=Path, default=Path("figures"))
    options = parser.parse_args(arguments)

    images, labels = load_digits(return_X_y=True)
    images, labels = images[: options.items], labels[: options.items]
    directions = PCA(20, random_state=0).fit_transform(images)
    data = CrowdData(directions / directions[:, 0].std())

    def accuracy(result: Fitted) -> dict[str, float]:
        return {"accuracy": clustering_accuracy(labels, result.assignments)}

    criteria = {"ours": InformationGain(), "random": Random()}
    campaigns: dict[str, list[Campaign]] = {name: [] for name in criteria}
    for seed in range(options.seeds):
        for name, criterion in criteria.items():
            campaign = simulate_campaign(
                partial(cluster, components=options.components, seed=seed),
                data,
                SimulatedCrowd(labels, ACCURACY, seed=seed),
                Pages(options.size),
                rounds=options.rounds,
                criterion=criterion,
                score=accuracy,
                seed=seed,
            )
            campaigns[name].append(campaign)
            print(seed, name, np.round(campaign.rounds["accuracy"].to_list(), 3), flush=True)

    means = {
        name: pd.concat([each.rounds for each in several]).groupby("round", as_index=False).mean()
        for name, several in campaigns.items()
    }
    ours = campaigns["ours"]
    pages = pd.concat(
        [each.questions.drop_duplicates(["round", "page"]) for each in ours], ignore_index=True
    )
    print(pages["worker"].value_counts().to_string())
    options.figures.mkdir(parents=True, exist_ok=True)
    each_page = pages.assign(round=range(len(pages)))  # rounds of several seeds are several
    plot_campaign(means, questions=each_page).savefig(options.figures / "ask_next.png")

    figures: dict[str, object] = {
        f"accuracy_{name}": round(float(table["accuracy"].iloc[-1]), 4)
        for name, table in means.items()
    }
    figures["pages_of_guesser"] = float((pages["worker"] == "guesser").sum() / len(ours))
    figures["stop_after_round"] = [Stop().round(each.rounds) for each in ours]
    figures["seconds_per_round"] = round(float(means["ours"]["seconds"].median()), 2)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
