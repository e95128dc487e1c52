"""The arguments of the command line, defined without loading any command."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyro_crowdclust._version import __version__

PROGRAM = "pyro-crowdclust"
# Commands are loaded only when they run, as loading torch takes seconds and --help should not.
_COMMANDS = {
    "fit": "Fit a model to items and answers, and write what it found to a folder.",
    "ask": "Choose what to ask next, and write it as files for an annotation tool.",
    "predict": "Cluster new items by their features, with what 'fit' learned.",
    "report": "Write a page with the tables and pictures of what 'fit' learned.",
    "simulate": "Write items, answers of a simulated crowd and the truth, as files to try.",
    "demo": "Simulate a crowd, fit it, write the page, and compare with the truth.",
}
MODEL_NAMES = (
    "choose",
    "gaussian",
    "diagonal-gaussian",
    "binary",
    "counts",
    "words",
    "deep-normal",
    "deep-bernoulli",
    "dawid-skene",
)
FORMAT_NAMES = ("csv", "html", "label-studio", "prodigy", "argilla", "dedupe", "crowd-kit")


def _count(least: int) -> Callable[[str], int]:
    """Type of an argument that is an integer of at least ``least``."""

    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is below {least}")
        return value

    read.__name__ = "integer"
    return read


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    program = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Cluster items by their features and by imperfect human answers about them.",
        epilog=f"First time? {PROGRAM} demo",
    )
    program.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parsers = program.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (_add_fit, _add_ask, _add_predict, _add_report, _add_simulate, _add_demo):
        add(parsers)
    return program


def _add_command(parsers: Any, name: str) -> argparse.ArgumentParser:
    summary = _COMMANDS[name]
    return parsers.add_parser(name, help=summary, description=summary)


def _add_features(
    parser: argparse.ArgumentParser, required: bool, usual_ids: str = "'item', 'id' or 'item_id'"
) -> None:
    parser.add_argument(
        "--features",
        type=Path,
        required=required,
        metavar="FILE",
        help=".npy, .csv, .tsv or .parquet: one row per item; cells that are empty, or hold NA, "
        "N/A, NaN, null or None, are missing",
    )
    parser.add_argument(
        "--id-column",
        metavar="NAME",
        help=f"column of item ids; default: {usual_ids}, or a first column of text, or else rows "
        "are numbered from 0",
    )


def _add_training(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--clusters",
        type=_count(1),
        metavar="K",
        help="upper bound on the number of clusters (default: chosen from the data, or 10 if "
        "--model names a model)",
    )
    parser.add_argument(
        "--epochs",
        type=_count(1),
        help="maximum number of passes over the data (default: depends on the data)",
    )
    parser.add_argument(
        "--starts",
        type=_count(1),
        default=3,
        help="number of fits from which the best is kept (default 3)",
    )
    parser.add_argument(
        "--seed", type=_count(0), default=0, help="the same seed gives the same result (default 0)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no summary")
    parser.add_argument(
        "--force",
        action="store_true",
        help="write even if the folder is not empty; files of an earlier fit are replaced",
    )


def _add_fit(parsers: Any) -> None:
    parser = _add_command(parsers, "fit")
    _add_features(parser, required=False)
    parser.add_argument(
        "--ignore",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="columns that are not features",
    )
    _add_answers(parser)
    _add_model(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    _add_training(parser)


def _add_answers(parser: argparse.ArgumentParser) -> None:
    """Add options for what people said about the items."""
    parser.add_argument(
        "--pairs",
        type=Path,
        metavar="FILE",
        help="answers: columns left, right, worker, label (1 or same, 0 or different), and "
        "optionally page",
    )
    parser.add_argument(
        "--grades",
        nargs="+",
        metavar="GRADE",
        help="all grades that labels of pairs may have, from different to same; other labels, and "
        "empty ones in --pairs, mean that the worker cannot tell. A single number: labels are "
        "probabilities of same, to be rounded to this number of levels",
    )
    parser.add_argument(
        "--placements",
        type=Path,
        metavar="FILE",
        help="pages that workers sorted into groups: columns page, item, worker, group",
    )
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="class labels by workers, with or without features: columns item, worker, label",
    )
    parser.add_argument(
        "--trusted",
        nargs="+",
        action="extend",
        default=[],
        metavar="WORKER",
        help="workers among those of --labels who are always right, such as an expert",
    )
    parser.add_argument(
        "--answers",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="instead of --pairs, --placements or --labels: answers to the questions of 'ask', in "
        "files that people saved (.csv) or that their tool exported (.json: Label Studio, .jsonl: "
        "Prodigy)",
    )
    parser.add_argument(
        "--answers-format",
        choices=FORMAT_NAMES,
        help="format of the --answers, if it does not follow from the names of the files",
    )
    parser.add_argument(
        "--likeness",
        type=Path,
        metavar="FILE",
        help="without --features, how similar the two items of pairs are: columns left, right, and "
        "numbers",
    )
    parser.add_argument(
        "--known",
        type=Path,
        metavar="FILE",
        help="labels of some items that are certain: columns item, label",
    )
    for name, text in (("must", "share"), ("cannot", "do not share")):
        parser.add_argument(
            f"--{name}-link",
            type=Path,
            metavar="FILE",
            help=f"items that {text} a cluster: columns left, right",
        )


def _add_model(parser: argparse.ArgumentParser) -> None:
    """Add options for the model of the features, and for what columns hold."""
    parser.add_argument(
        "--model",
        choices=MODEL_NAMES,
        default="choose",
        help="choose: clusters of the kind that suits the table best, or classes, if there are "
        "--labels; gaussian: Gaussian clusters for tables (what columns hold is inferred); "
        "diagonal-gaussian: the same for hundreds of columns; binary: all columns are 0 or 1; "
        "counts: all columns are counts; words: counts of words in texts; deep-normal: with neural "
        "networks, for many real features; deep-bernoulli: with neural networks, for pixels in [0, "
        "1]; dawid-skene: the class of every item from --labels alone (default choose)",
    )
    for name, text in (
        ("real", "real numbers"),
        ("binary", "yes or no"),
        ("counts", "counts"),
        ("categories", "categories"),
    ):
        parser.add_argument(
            f"--{name}",
            nargs="+",
            action="extend",
            default=[],
            metavar="NAME",
            help=f"columns that hold {text}, if that is not inferred correctly",
        )
    parser.add_argument(
        "--dim", type=_count(1), default=8, help="latent dimensions of deep models (default 8)"
    )
    parser.add_argument(
        "--hidden",
        type=_count(1),
        nargs="+",
        default=[128, 128],
        help="sizes of the hidden layers of deep models (default 128 128)",
    )


def _add_ask(parsers: Any) -> None:
    parser = _add_command(parsers, "ask")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder that 'fit' wrote")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--pages",
        type=_count(1),
        metavar="N",
        help="pages of items to sort into groups (default 20); after a fit of labels, as many "
        "items to label as these pages would have; after one of grades by default as many pairs",
    )
    kind.add_argument(
        "--pairs", type=_count(1), metavar="N", help="pairs to compare: are they the same?"
    )
    kind.add_argument("--labels", type=_count(1), metavar="N", help="items to label")
    parser.add_argument(
        "--size", type=_count(2), default=12, metavar="N", help="items on a page (default 12)"
    )
    parser.add_argument(
        "--workers",
        nargs="+",
        action="extend",
        metavar="ID",
        help="whom to ask, separated by spaces (default: the workers of the fit)",
    )
    parser.add_argument(
        "--items",
        type=Path,
        metavar="FILE",
        help="what people see: a table with texts for each item, and a column 'image' for files of "
        "pictures, or .npy of pictures [item, height, width] (default: the features)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format",
        choices=FORMAT_NAMES,
        help="format of the files to write (default: html for pages, otherwise csv)",
    )
    form.add_argument(
        "--html",
        action="store_const",
        const="html",
        dest="format",
        help="the same as --format html: for each worker a web page to sort on, without a server",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    parser.add_argument(
        "--seed", type=_count(0), default=0, help="the same seed gives the same questions"
    )
    parser.add_argument("--quiet", action="store_true", help="no summary")
    parser.add_argument(
        "--force", action="store_true", help="write even if the folder is not empty"
    )


def _add_predict(parsers: Any) -> None:
    parser = _add_command(parsers, "predict")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder that 'fit' wrote")
    _add_features(parser, required=True, usual_ids="that of the fit, or 'item', 'id' or 'item_id'")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=".csv to write (default: standard output)"
    )


def _add_report(parsers: Any) -> None:
    parser = _add_command(parsers, "report")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder that 'fit' wrote")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=".html to write (default: DIR/report.html)"
    )


def _add_simulate(parsers: Any) -> None:
    parser = _add_command(parsers, "simulate")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    _add_crowd(parser)
    parser.add_argument(
        "--seed", type=_count(0), default=0, help="the same seed gives the same data"
    )
    parser.add_argument("--quiet", action="store_true", help="no summary")
    parser.add_argument(
        "--force", action="store_true", help="write even if the folder is not empty"
    )


def _add_demo(parsers: Any) -> None:
    parser = _add_command(parsers, "demo")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("pyro-crowdclust-demo"),
        metavar="DIR",
        help="where to write (default ./pyro-crowdclust-demo)",
    )
    _add_crowd(parser)
    _add_training(parser)


def _add_crowd(parser: argparse.ArgumentParser) -> None:
    for name, default, least, text in (
        ("items", 300, 10, "items"),
        ("true-clusters", 4, 2, "true clusters"),
        ("workers", 8, 1, "workers; the last one guesses"),
        ("pages", 2, 1, "pages of 12 items that every worker answers"),
    ):
        parser.add_argument(
            f"--{name}",
            type=_count(least),
            default=default,
            metavar="N",
            help=f"number of {text} (default {default})",
        )
