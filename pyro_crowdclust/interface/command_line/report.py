"""One self-contained page about a fit: tables and pictures in a single HTML file."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from pyro_crowdclust._version import __version__
from pyro_crowdclust.annotators.page_coupling import PAGE_STATES
from pyro_crowdclust.errors import count
from pyro_crowdclust.interface.advising.advice import advice
from pyro_crowdclust.interface.command_line.portraits import (
    items_in_doubt,
    pairs_in_dispute,
    typical_items,
    what_sets_apart,
)
from pyro_crowdclust.interface.command_line.summary import SURE, has_clusters, tables
from pyro_crowdclust.interface.command_line.wording import in_options
from pyro_crowdclust.plots import plot_history, plot_latent, plot_worker_weights, plot_workers
from pyro_crowdclust.plots.style import color_of, is_large
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.results.text import what_was_found

# Longer tables are cut on the page; the files of the fit have all rows.
_MAX_ROWS = 50
# As are those of clusters with their items, where there is nothing else to see of them.
_MAX_CLUSTERS = 500

# What the columns of the table of workers mean, as far as it has them.
_OF_WORKERS = {
    "sensitivity": "Sensitivity: how often the worker says “same” about two items of one cluster.",
    "specificity": "Specificity: how often the worker says “different” about items of two "
    "clusters.",
    "accuracy": "Accuracy: how often the worker puts an item into the group where its cluster is "
    "at home.",
    "attention": "Attention: the share of pages on which the worker paid attention.",
    "lumped": "Lumped: the share of pages on which clusters share groups.",
    "careless": "Careless: the share of pages that carry no information.",
    "weight": "The weight says how much an answer counts, in nats: near zero if the worker "
    "guesses, negative if the worker says the opposite.",
}

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --quiet: #55606e; --line: #d5dae2;
        --page: #ffffff; --head: #f4f6f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --quiet: #a3adba; --line: #3a4350; --page: #14181e; --head: #222934; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.4rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 0.3rem; }
p { max-width: 46rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.2rem 0.8rem; text-align: right; border-bottom: 1px solid var(--line); }
th { background: var(--head); font-weight: 600; }
tbody th, td:first-child { text-align: left; background: none; font-weight: 600; }
figure { margin: 1rem 0; }
img { max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
.scroll { overflow-x: auto; }
.note { color: var(--quiet); font-size: 0.9rem; }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0.3rem 1rem; }
.legend span { display: inline-block; width: 0.8rem; height: 0.8rem; border-radius: 50%;
               margin-right: 0.35rem; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; padding: 0 0.7rem; }
  h1 { font-size: 1.35rem; }
  th, td { padding: 0.2rem 0.45rem; }
}
"""


def report_page(result: Fitted, title: str = "Clusters and workers") -> str:
    """An HTML page with everything that a fit found, complete in one file.

    Parameters
    ----------
    result
        What ``fit`` or ``load`` returned.
    title
        Headline.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust import cluster
    >>> features = np.random.default_rng(0).normal(size=(20, 2))
    >>> page = report_page(cluster(features, num_clusters=2, epochs=2, progress=False))
    >>> page.startswith("<!doctype html>"), "<h2>Clusters</h2>" in page
    (True, True)
    """
    found = tables(result)
    sections = [
        _summary(result, found),
        *_findings(result, found),
        _section(
            "Training",
            "The evidence lower bound should rise and level off; if it still rises at the end, "
            "train for more epochs.",
            _rows(_details(result)),
            _picture("training", lambda: plot_history(result)),
        ),
    ]
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>\n"
        f"<h1>{html.escape(title)}</h1>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


def _plot_items(result: Fitted) -> Any:
    if result.latent_means is None and result.data.features is None:
        raise ValueError("the features of the fit are not available")
    return plot_latent(result)


def _summary(result: Fitted, found: dict[str, pd.DataFrame]) -> str:
    """What was found, from what, and how sure it is; then what to change."""
    rows = {}
    if "items" in found:
        rows["found"] = what_was_found(result)
    rows["from"] = str(result.data).removeprefix("CrowdData(").removesuffix(")")
    if "items" in found:
        sure, whole = found["items"]["probability"], "cluster" if has_clusters(result) else "class"
        rows["how sure"] = (
            f"the {whole} is at least {SURE:.0%} probable for {(sure >= SURE).sum()} of "
            f"{count(len(sure), 'item')}"
        )
    if result.chosen is not None:
        rows["chosen"] = f"{result.chosen.winner}; {result.chosen.reason}"
    advised = (html.escape(in_options(sentence)) for sentence in advice(result))
    notes = "".join(f"<li>{sentence}</li>" for sentence in advised)
    notes = f"<p><strong>Advice</strong></p><ul>{notes}</ul>" if notes else ""
    return _rows(rows) + notes


def _details(result: Fitted) -> dict[str, str]:
    """What made the fit, for those who know the library."""
    return {
        "training": f"{result.stop_reason}; {result.seconds:.1f} s",
        "evidence lower bound": f"{result.elbo:,.1f} nats",
        "model and guide": f"{type(result.model).__name__}, {type(result.guide).__name__}",
        "seed": f"{result.seed}, of the start that was kept",
        "made by": f"pyro_crowdclust {__version__}",
    }


def _rows(rows: Mapping[str, str]) -> str:
    """A table of two columns, the names and the texts."""
    cells = "".join(
        f"<tr><th>{name}</th><td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return f'<div class="scroll"><table><tbody>{cells}</tbody></table></div>'


def _findings(result: Fitted, found: dict[str, pd.DataFrame]) -> Iterable[str]:
    """Sections about clusters or about classes; none for a user-defined model without either."""
    if has_clusters(result):
        return _cluster_sections(result, found)
    return _class_sections(found) if "classes" in found else ()


def _cluster_sections(result: Fitted, found: dict[str, pd.DataFrame]) -> Iterable[str]:
    yield from _open_questions(result)
    if result.feature_shape is None and result.latent_means is None:
        yield _clusters_of_answers(result, found["clusters"])
    else:
        yield _section(
            "Clusters",
            f"Those of the {len(found['clusters'])} clusters that have items, numbered from the "
            "largest. Expected items are sums of probabilities; the weight is the posterior mean "
            "of the cluster's share.",
            _table(found["clusters"].query("assigned_items > 0")),
        )
        yield _section(
            "Items",
            "Colours show the clusters; a ring marks items with answers.",
            _picture("items by cluster", lambda: _plot_items(result)),
            _legend(result),
        )
        yield _portraits(result)
    if "workers" in found:
        yield _section(
            "Workers",
            " ".join(text for name, text in _OF_WORKERS.items() if name in found["workers"])
            + " Intervals hold 90 %.",
            _table(_with_intervals(found["workers"].sort_values("weight", ascending=False))),
            _picture("weights of workers", lambda: plot_worker_weights(result)),
            _picture("rates of workers", lambda: plot_workers(result)),
        )

    if "pages" in found:
        pages = found["pages"].sort_values("misplaced", ascending=False)
        text = "The twenty pages that have the most items out of place."
        if "sorted" in pages:  # missing where there are pages but no features
            pages = pages.sort_values("sorted", kind="stable")
            text = (
                "The twenty pages that look least as if they had been sorted. On lumped pages, "
                "clusters share groups; careless pages carry no information."
            )
        yield _section("Pages", text, _table(pages.head(20)))


def _legend(result: Fitted) -> str:
    """The colour of every cluster on the map of items."""
    sizes = result.clusters["assigned_items"]
    num_items = result.data.num_items
    colors = [color_of(k, is_large(size, num_items)) for k, size in enumerate(sizes)]
    entries = "".join(
        f'<li><span style="background:{color}"></span>cluster {k}: {count(size, "item")}</li>'
        for k, (color, size) in enumerate(zip(colors, sizes, strict=True))
        if size
    )
    return f'<ul class="legend">{entries}</ul>'


def _clusters_of_answers(result: Fitted, clusters: pd.DataFrame) -> str:
    """What the clusters are where there are only answers: which items they hold.

    Of records there are hundreds, each with a few items.
    """
    clusters = clusters.query("assigned_items > 0").drop(columns="weight", errors="ignore")
    single = int((clusters["assigned_items"] == 1).sum())
    joined = clusters[clusters["assigned_items"] > 1]
    alone = f" {count(single, 'more item')}: each a cluster of its own." if single else ""
    return _section(
        "Clusters",
        f"{count(len(joined), 'cluster')} of several items, numbered from the largest, with those "
        f"items whose cluster is most certain.{alone} Expected items are sums of probabilities.",
        _table(joined.join(typical_items(result)), _MAX_CLUSTERS),
    )


def _portraits(result: Fitted) -> str:
    """The section about what each cluster is."""
    parts = ["<h3>Typical items</h3>", _table(typical_items(result))]
    apart = what_sets_apart(result)
    text = "Typical items lie in the middle of their cluster."
    if apart is not None and len(apart):
        parts += ["<h3>What sets it apart</h3>", _table(apart)]
        text += (
            " What sets a cluster apart is the difference between a column's mean in the cluster "
            "and its mean over all other items, in standard deviations of the column."
        )
    return _section("What the clusters are", text, *parts)


def _open_questions(result: Fitted) -> Iterable[str]:
    """The section about what is still open, if anything is."""
    doubt, dispute = items_in_doubt(result), pairs_in_dispute(result)
    parts = []
    if len(doubt):
        parts += ["<h3>Items in doubt</h3>", _table(doubt)]
    if dispute is not None:
        parts += ["<h3>Pairs in dispute</h3>", _table(dispute.set_index("left"))]
    if parts:
        yield _section(
            "What is open",
            "Items whose cluster is least certain, and pairs about which people disagree with each "
            "other or with the clusters: look at these again, or ask about them.",
            *parts,
        )


def _class_sections(found: dict[str, pd.DataFrame]) -> Iterable[str]:
    yield _section(
        "Classes",
        "Expected items are sums of probabilities.",
        _table(found["classes"]),
    )
    unsure = found["items"].sort_values("probability", kind="stable").head(20)
    yield _section("Items", "The twenty items whose class is least certain.", _table(unsure))
    yield _section(
        "Workers",
        "Accuracy: the probability that the worker names the true class of an item, averaged over "
        "the classes with their shares as weights.",
        _table(found["workers"].sort_values("accuracy", ascending=False)),
    )


def _with_intervals(workers: pd.DataFrame) -> pd.DataFrame:
    """The table of workers, with each rate and its interval in one column."""
    columns = {}
    names = map(str, workers.columns)
    for name in (name.removesuffix("_lower") for name in names if name.endswith("_lower")):
        low, high = workers[f"{name}_lower"], workers[f"{name}_upper"]
        columns[name] = [
            f"{mean:.2f}" if pd.isna(a) else f"{mean:.2f} ({a:.2f} to {b:.2f})"
            for mean, a, b in zip(workers[name], low, high, strict=True)
        ]
    rest = workers[["weight", "weight_sd", "answers"]]
    return pd.concat([pd.DataFrame(columns, index=workers.index), rest], axis=1)


def _section(title: str, text: str, *parts: str) -> str:
    return f"<h2>{title}</h2>\n<p>{text}</p>\n" + "\n".join(parts)


def _table(frame: pd.DataFrame, max_rows: int = _MAX_ROWS) -> str:
    shown = frame.head(max_rows).reset_index()
    shown.columns = [str(name).replace("_", " ") for name in shown.columns]
    numbers = shown.select_dtypes("number").columns
    probabilities = [name for name in numbers if "probability" in name or name in PAGE_STATES]
    shown = shown.assign(**{name: shown[name].map(_as_probability) for name in probabilities})
    text = shown.to_html(border=0, float_format="{:.3g}".format, index=False)
    note = ""
    if len(frame) > len(shown):
        note = f'<p class="note">The first {len(shown)} of {len(frame)} rows.</p>'
    return f'<div class="scroll">{text}</div>{note}'


def _as_probability(value: float) -> str:
    """A probability with three digits.

    Examples
    --------
    >>> [_as_probability(value) for value in (0.0, 1e-27, 0.25, 0.9999, 1.0)]
    ['0', '< 0.001', '0.25', '> 0.999', '1']
    """
    if 0 < value < 0.001:
        return "< 0.001"
    return "> 0.999" if 0.999 < value < 1 else f"{value:.3g}"


def _picture(description: str, draw: Callable[[], Any]) -> str:
    """The picture as an HTML element, or a sentence where there is nothing to draw."""
    try:
        figure = draw()
    except ValueError as error:
        return f'<p class="note">No picture of {description}: {html.escape(str(error))}.</p>'
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<figure><img alt="{description}" src="data:image/png;base64,{encoded}"></figure>'
