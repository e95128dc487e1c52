"""Four Gaussians, three labels; Echraibi et al. 2019, sections 3.1 and 3.2 (figures 2 to 7).

Part (a): 400 points of four Gaussians in a column. 5 % of the points of the top one and of the
bottom one have a label each; 10 % of the points of the two in the middle have a common label. With
these labels, three clusters should be found, whatever the truncation T. Part (b): four Gaussians at
the corners of a square, which can be divided into two clusters in two ways, according to the
labels: top and bottom, or left and right.

    python examples/four_gaussians.py --figure figures/four_gaussians.png

Mixtures with stick-breaking weights, eta = 1, and full covariances: without labels; with the
paper's hidden Markov random field from the paper's start (soft k-means); and with the field, or the
class table, from a start with one cluster for each label. The row "start alone" is a fit from that
start without labels. The last line is a JSON object with the number of clusters and the share of
points in the cluster that the labels ask for.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import GaussianComponents, StickBreakingWeights
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.plots import new_figure, plot_partition
from pyro_crowdclust.results import known_or_likeliest
from pyro_crowdclust.starts import KMeansStart, LabeledStart
from pyro_crowdclust.supervision import ClassTable, HiddenMarkovField, Unsupervised

ROW = np.array([[0.0, 7.5], [0.0, 2.5], [0.0, -2.5], [0.0, -7.5]])
SQUARE = np.array([[-3.0, 3.0], [3.0, 3.0], [-3.0, -3.0], [3.0, -3.0]])
PAPER_START = ("none", "field, paper's start")
KINDS = (*PAPER_START, "field", "table", "start alone")
# The cluster of each Gaussian.
MIDDLE, ROWS, COLUMNS = [0, 1, 1, 2], [0, 0, 1, 1], [0, 1, 0, 1]


def four_gaussians(
    centers: np.ndarray, wanted: list[int], shares: list[float], seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """400 points, the cluster that each should be in, and labels of a share of each Gaussian."""
    rng = np.random.default_rng(seed)
    gaussian = np.repeat(np.arange(4), 100)
    points = centers[gaussian] + rng.normal(size=(400, 2)) * [1.5, 1.0]
    truth = np.array(wanted)[gaussian]
    known = np.full(400, -1)
    for one, share in enumerate(shares):
        chosen = rng.choice(np.flatnonzero(gaussian == one), round(100 * share), replace=False)
        known[chosen] = truth[chosen]
    return points, truth, known


def fit_mixture(points: np.ndarray, known: np.ndarray, clusters: int, kind: str, args) -> Fitted:
    """A truncated Dirichlet-process mixture, without labels or with one kind of supervision."""
    data = CrowdData(points, known=known)
    supervision = Unsupervised(refuses=False)
    if kind.startswith("field"):
        supervision = HiddenMarkovField.of(data, clusters, strength=args.strength)
    elif kind == "table":
        supervision = ClassTable.of(data, clusters)
    model = SemiCrowdsourcedMixture(
        StickBreakingWeights(clusters, 1.0),
        GaussianComponents(clusters, 2, concentration=0.1, scale=2.0, degrees=4.0),
        Identity(),
        supervision=supervision,
    )
    return fit(
        model,
        MessagePassingGuide(model),
        data,
        batch_size=None,
        step_size=1.0,
        epochs=args.sweeps,
        initialize=KMeansStart() if kind in PAPER_START else LabeledStart(share=0.01),
        dtype=torch.float64,
        progress=False,
        seed=args.seed,
    )


def figures_of(result: Fitted, truth: np.ndarray, kind: str) -> dict[str, float]:
    """Clusters with at least 1 % of the points, and accuracy under the best one-to-one map."""
    sizes = np.bincount(result.assignments)
    found = {
        "clusters": int((sizes >= 4).sum()),
        "accuracy": round(clustering_accuracy(truth, result.assignments), 4),
    }
    if kind == "table":
        found["class_accuracy"] = round(float((known_or_likeliest(result) == truth).mean()), 4)
    return found


def draw(path: Path, panels: list[tuple[str, np.ndarray, np.ndarray]]) -> None:
    """One panel for every fit."""
    figure = new_figure(3 * len(KINDS), 12)
    axes = figure.subplots(4, len(KINDS))
    for axis, (title, points, assignments) in zip(axes.flat, panels, strict=False):
        plot_partition(points, assignments, axes=axis)
        axis.set_title(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: list[str] | None = None) -> dict:
    """Fit every case; print a line each, and last the JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=60)
    parser.add_argument("--strength", type=float, default=1.0, help="lambda of the field")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path, help="where to draw all partitions")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)

    cases = [
        (f"row_T{clusters}", ROW, MIDDLE, [0.05, 0.1, 0.1, 0.05], clusters) for clusters in (4, 10)
    ]
    cases += [
        (f"view_{name}", SQUARE, wanted, [0.1] * 4, 3)
        for name, wanted in (("horizontal", ROWS), ("vertical", COLUMNS))
    ]
    figures, panels = {}, []
    for name, centers, wanted, shares, clusters in cases:
        points, truth, known = four_gaussians(centers, wanted, shares, args.seed)
        figures[name] = {}
        for kind in KINDS:
            result = fit_mixture(points, known, clusters, kind, args)
            figures[name][kind] = figures_of(result, truth, kind)
            panels.append((f"{name}, {kind}", points, result.assignments))
            print(f"{name:16s} {kind:20s} {figures[name][kind]}", flush=True)
    if args.figure is not None:
        draw(args.figure, panels)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
