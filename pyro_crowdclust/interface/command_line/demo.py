"""``pyro-crowdclust simulate`` and ``demo``: data of a simulated crowd, and a fit to them."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import pandas as pd

from pyro_crowdclust.files.csv_files import write_csv
from pyro_crowdclust.interface.command_line.after_fit import report
from pyro_crowdclust.interface.command_line.arguments import parser
from pyro_crowdclust.interface.command_line.fit import fit
from pyro_crowdclust.interface.command_line.fit_folder import new_folder
from pyro_crowdclust.metrics import clustering_report
from pyro_crowdclust.simulation import simulate_pages


def simulate(options: Namespace) -> int:
    """Write items, answers of a simulated crowd and the truth, as files to try."""
    with new_folder(options.out, options.force):
        features, pairs, truth = _crowd(options)
        write_csv(features, options.out / "features.csv")
        write_csv(pairs, options.out / "answers.csv", index=False)
        write_csv(truth, options.out / "truth.csv")
    if not options.quiet:
        print(f"{options.out}: features.csv, answers.csv, truth.csv ({len(pairs)} answers)")
    return 0


def demo(options: Namespace) -> int:
    """Simulate a crowd, fit it, write the page, and compare with the truth."""
    simulate(options)
    folder = options.out
    files = {"--out": "fit", "--features": "features.csv", "--pairs": "answers.csv"}
    words = [word for name, file in files.items() for word in (name, str(folder / file))]
    fit_options = parser().parse_args(["fit", *words])
    for name in ("clusters", "epochs", "starts", "seed", "quiet", "force"):
        setattr(fit_options, name, getattr(options, name))
    code = fit(fit_options)
    report(Namespace(folder=folder / "fit", out=None))
    truth = pd.read_csv(folder / "truth.csv", index_col="item")["cluster"]
    found = pd.read_csv(folder / "fit" / "items.csv", index_col="item")["cluster"]
    scores = clustering_report(truth.to_numpy(), found.loc[truth.index].to_numpy())
    print(f"accuracy against the truth {scores['accuracy']:.3f}, NMI {scores['nmi']:.3f}")
    return code


def _crowd(options: Namespace) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Items from overlapping Gaussians, answers about a third of them, and the true clusters."""
    rng = np.random.default_rng(options.seed)
    kinds = rng.integers(options.true_clusters, size=options.items)
    centers = rng.normal(scale=2.5, size=(options.true_clusters, 4))
    names = pd.Index([f"item-{i:04d}" for i in range(options.items)], name="item")
    features = pd.DataFrame(
        centers[kinds] + rng.normal(size=(options.items, 4)), names, list("abcd")
    )
    good = rng.uniform(0.8, 0.98, (2, options.workers - 1))
    sensitivity, specificity = np.column_stack([good, [0.5, 0.5]])
    page_size = min(12, options.items)
    asked = rng.choice(options.items, max(options.items // 3, page_size), replace=False)
    pairs = simulate_pages(
        kinds,
        sensitivity,
        specificity,
        pages_per_worker=options.pages,
        page_size=page_size,
        items=asked,
        seed=options.seed,
    )
    named = pairs.assign(
        left=names[pairs["left"]],
        right=names[pairs["right"]],
        worker="worker-" + pairs["worker"].astype(str),
        page="page-" + pairs["page"].astype(str),
    )
    return features.round(4), named, pd.DataFrame({"cluster": kinds}, index=names)
