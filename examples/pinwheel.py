"""The Pinwheel experiment of Luo et al. 2018, section 5.1: five arms, answers about a fifth.

500 points in five curved arms. 20 workers with sensitivity and specificity 0.9 answer 49 pairs each
about 100 of the points. BayesSCDC and SCDC start with K = 15 clusters. BayesSCDC is also fitted
without answers, from ten random starts on the points of the first seed.

    python examples/pinwheel.py --seeds 10 --figure figures/pinwheel.png

Prints a line per seed and model and, last, one JSON object. With ``--figure`` it draws the four
panels of the paper's figure 2: the data, clusters without answers from two starts, and with them.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import numpy as np
import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.metrics import clustering_report
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP
from pyro_crowdclust.plots import plot_partition
from pyro_crowdclust.simulation import pinwheel, simulate_pairs
from pyro_crowdclust.training import RobbinsMonro

CLUSTERS, WORKERS, HIDDEN = 15, 20, 40


def make_data(seed: int, answers: bool = True) -> tuple[CrowdData, np.ndarray]:
    """Standardized points (with 980 answers about 100 of them) and their arms."""
    points, arms = pinwheel(seed=seed)
    points = (points - points.mean(0)) / points.std()
    if not answers:
        return CrowdData(points), arms
    asked = np.random.default_rng(seed).choice(len(points), 100, replace=False)
    rates = [0.9] * WORKERS
    pairs = simulate_pairs(arms, rates, rates, pairs_per_worker=49, items=asked, seed=seed)
    return CrowdData(points, pairs), arms


def make_model(answers: bool) -> SemiCrowdsourcedMixture:
    """The semi-crowdsourced mixture of Luo et al. 2018, with a Normal emission."""
    return SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS),
        GaussianComponents(CLUSTERS, 2),
        NormalEmission(SkipMLP((2, HIDDEN, HIDDEN, 2)), 2, initial_scale=0.3),
        TwoCoin(WORKERS) if answers else None,
    )


def fit_bayes(data: CrowdData, seed: int, epochs: int, start: int | None = None) -> Fitted:
    """Fit BayesSCDC, first with large natural steps, which empty superfluous clusters."""
    model = make_model(data.answers is not None)
    guide = MessagePassingGuide(model, GaussianRecognition(SkipMLP((2, HIDDEN, HIDDEN, 4)), 2))
    return fit(
        model,
        guide,
        data,
        epochs=epochs,
        batch_size=50,
        step_size=RobbinsMonro(0.3, delay=20.0),
        seed=seed if start is None else start,
        progress=False,
        callbacks=[MergeMoves(first_epoch=max(1, epochs // 2))],
    )


def fit_amortized(data: CrowdData, seed: int, epochs: int) -> Fitted:
    """Fit SCDC, with merge moves, since point estimates do not empty superfluous clusters."""
    model = make_model(answers=True)
    guide = AmortizedGuide(
        model,
        AmortizedRecognition((2, HIDDEN, HIDDEN), 2, CLUSTERS),
        recognition_term=RecognitionTerm(lambda epoch: 20 * max(0.0, 1 - epoch / (0.7 * epochs))),
    )
    return fit(
        model,
        guide,
        data,
        epochs=epochs,
        batch_size=50,
        optim=partial(torch.optim.Adam, lr=3e-3),
        seed=seed,
        progress=False,
        callbacks=[MergeMoves(first_epoch=max(1, epochs // 5))],
    )


def draw(path: Path, seed: int, epochs: int) -> None:
    """The four panels of figure 2."""
    from matplotlib.figure import Figure

    data, arms = make_data(seed)
    plain, _ = make_data(seed, answers=False)
    panels = {"data": arms, "with answers": fit_bayes(data, seed, epochs).assignments}
    for start in (1, 2):
        fitted = fit_bayes(plain, seed, epochs, start=start)
        panels[f"no answers, start {start}"] = fitted.assignments
    asked = np.isin(np.arange(data.num_items), data.annotated_items)
    figure = Figure(figsize=(13, 3.7), layout="constrained")
    order = ["data", "no answers, start 1", "no answers, start 2", "with answers"]
    for axes, name in zip(figure.subplots(1, 4), order, strict=True):
        marked = asked if name == "with answers" else None
        plot_partition(data.features, panels[name], marked=marked, axes=axes)
        accuracy = clustering_report(arms, panels[name])["accuracy"]
        title = name if name == "data" else f"{name}: {accuracy:.3f}"
        axes.set(title=title, xticks=[], yticks=[], aspect="equal")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    """Run the experiment; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--scdc-epochs", type=int, default=50)
    parser.add_argument("--starts", type=int, default=10, help="without answers")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args(arguments)

    figures: dict[str, list[float]] = {}

    def score(prefix: str, title: str, fitted: Fitted, arms: np.ndarray) -> None:
        scores = clustering_report(arms, fitted.assignments)
        for name in ("accuracy", "nmi", "clusters_in_use"):
            figures.setdefault(prefix + name, []).append(round(float(scores[name]), 4))
        print(
            f"{title}  accuracy {scores['accuracy']:.3f}  NMI {scores['nmi']:.3f}  "
            f"clusters {scores['clusters_in_use']:.0f}  {fitted.seconds:.0f} s",
            flush=True,
        )

    for seed in range(options.seeds):
        data, arms = make_data(seed)
        score("", f"seed {seed}  BayesSCDC", fit_bayes(data, seed, options.epochs), arms)
        if options.scdc_epochs:
            fitted = fit_amortized(data, seed, options.scdc_epochs)
            score("scdc_", f"seed {seed}  SCDC", fitted, arms)
    plain, arms = make_data(0, answers=False)
    for start in range(options.starts):
        fitted = fit_bayes(plain, 0, options.epochs, start=start)
        score("without_", f"start {start}  no answers", fitted, arms)
    if options.figure is not None:
        draw(options.figure, 0, options.epochs)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
