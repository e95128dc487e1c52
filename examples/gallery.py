"""All plots of the library, for one fit to digit images and a simulated crowd.

The data are those of digits_crowd.py. Writes the pictures of docs/plots.md to a folder, exports
the fit and two restarts to ArviZ, and prints its diagnostics.

    python examples/gallery.py --epochs 15 --restarts 2 --figures docs/images

Prints a table of checks of the workers and, last, one JSON object: the number of pictures and
their size in kilobytes, leave-one-out scores of items and answers (nats each), and the worst R-hat
of the cluster weights over the restarts.
"""

from __future__ import annotations

import argparse
import json
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from digits_crowd import NUM_WORKERS, simulate
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.diagnostics import arviz, check_workers, to_arviz
from pyro_crowdclust.emissions import BernoulliEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.plots import (
    plot_calibration,
    plot_cluster_samples,
    plot_cluster_sizes,
    plot_confusion,
    plot_contingency,
    plot_history,
    plot_latent,
    plot_partition,
    plot_worker_weights,
    plot_workers,
)
from pyro_crowdclust.restarts import fit_restarts
from pyro_crowdclust.simulation import two_coin_rates
from pyro_crowdclust.training import RobbinsMonro


def cluster(data: CrowdData, options: argparse.Namespace) -> list[Fitted]:
    """Fit BayesSCDC from several seeds, the best first."""
    pixels, dim, hidden = data.features.shape[1], options.dim, options.hidden
    model = SemiCrowdsourcedMixture(
        DirichletWeights(options.clusters),
        GaussianComponents(options.clusters, dim),
        BernoulliEmission(SkipMLP((dim, hidden, hidden, pixels))),
        TwoCoin(NUM_WORKERS),
    )
    guide = MessagePassingGuide(
        model,
        GaussianRecognition(SkipMLP((pixels, hidden, hidden, 2 * dim)), dim),
        recognition_term=RecognitionTerm(20.0),
    )
    return fit_restarts(
        model,
        guide,
        data,
        seeds=range(options.restarts),
        epochs=options.epochs,
        step_size=RobbinsMonro(0.1, delay=200.0),
        optim=partial(torch.optim.Adam, lr=3e-3),
        progress=False,
        callbacks=[MergeMoves(first_epoch=10)],
    )


def simulated_confusion(seed: int) -> np.ndarray:
    """Confusion matrices of a careful worker, one who guesses, and one who confuses 4 and 9."""
    rng = np.random.default_rng(seed)
    careful = np.eye(10) * 60 + rng.dirichlet(np.ones(10), 10) * 5
    guesses = rng.dirichlet(np.full(10, 30.0), 10)
    swaps = careful.copy()
    swaps[[4, 9]] = careful[[9, 4]]
    matrices = np.stack([careful, guesses, swaps])
    return matrices / matrices.sum(-1, keepdims=True)


def draw(
    results: list[Fitted], labels: np.ndarray, truth: pd.DataFrame, folder: Path
) -> list[Path]:
    """Write the pictures; returns their paths."""
    best = results[0]
    tsne = TSNE(2, init="pca", perplexity=min(30, len(labels) / 4), random_state=0)
    plane = PCA(2, svd_solver="full").fit_transform(best.data.features)
    pictures = {
        "history": plot_history(results),
        "latent": plot_latent(best, true_labels=labels),
        "latent_tsne": plot_latent(best, true_labels=labels, projection=tsne),
        "partition": plot_partition(plane, labels),
        "samples": plot_cluster_samples(best, (8, 8), at_least=0.002),
        "worker_weights": plot_worker_weights(best, truth=truth),
        "workers": plot_workers(best),
        "cluster_sizes": plot_cluster_sizes(best),
        "contingency": plot_contingency(best, labels),
        "calibration": plot_calibration(best, labels),
        "confusion": plot_confusion(
            simulated_confusion(0), workers=["careful", "guesses", "takes 4 for 9"]
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, drawn in pictures.items():
        paths.append(folder / f"{name}.png")
        getattr(drawn, "figure", drawn).savefig(paths[-1], dpi=75, metadata={"Software": None})
    return paths


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Fit, draw and diagnose; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--figures", type=Path, default=Path("figures"))
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--items", type=int, default=1797)
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args(arguments)

    images, labels = load_digits(return_X_y=True)
    images, labels = (images[: options.items] / 16).astype(np.float32), labels[: options.items]
    pairs = simulate(labels, options.seed)
    results = cluster(CrowdData(images, pairs), options)
    paths = draw(results, labels, two_coin_rates(pairs, labels), options.figures)
    print(f"pictures in {options.figures}: {', '.join(path.stem for path in paths)}")

    checks = check_workers(results[0], num_draws=min(options.draws, 100))
    print(checks.filter(regex="agreement|worst_page").to_string(float_format="{:.2f}".format))
    figures = {
        "pictures": len(paths),
        "kilobytes": round(sum(path.stat().st_size for path in paths) / 1024),
    }
    tree = to_arviz(results[0], options.draws, max_items=200, max_answers=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some items have heavy tails
        for name, dimension in (("features", "item"), ("answers", "answer")):
            scores = arviz().loo(tree, var_name=name, pointwise=True, reff=1.0)
            total = scores["elpd_loo"] if "elpd_loo" in dir(scores) else scores.elpd
            figures[f"loo_per_{dimension}"] = round(
                float(total) / tree["log_likelihood"].sizes[dimension], 3
            )
    chains = to_arviz(results, options.draws, log_likelihood=False)
    rhat = arviz().rhat(chains, var_names=["weights"])["weights"]
    figures["worst_rhat_weights"] = round(float(rhat.max()), 2)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
