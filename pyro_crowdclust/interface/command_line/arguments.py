"""What the words of the command line mean; no command is loaded for it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyro_crowdclust._version import __version__

PROGRAM = "pyro-crowdclust"
# What a command does is loaded when it is run: torch takes seconds, to say how it is used none.
_COMMANDS = {
    "fit": "Fit a model to items and answers, and write what it found to a folder.",
    "ask": "Choose what to ask next, and write it as files of a tool that people answer in.",
    "predict": "Cluster new items by their features, with what 'fit' learned.",
    "report": "Write a page with the tables and pictures of what 'fit' learned.",
    "simulate": "Write items, answers of a simulated crowd and the truth, as files to try.",
    "demo": "Simulate a crowd, fit it, write the page, and compare with the truth.",
}
MODELS = (
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
FORMATS = ("csv", "html", "label-studio", "prodigy", "argilla", "dedupe", "crowd-kit")


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
    """What the command line understands."""
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
    parser: argparse.ArgumentParser, required: bool, usual_ids: str = "'item' or 'id'"
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
        help=f"column of item ids; default: {usual_ids}, else a first column of text, else rows "
        "are numbered from 0",
    )


def _add_training(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--clusters",
        type=_count(1),
        metavar="K",
        help="upper bound on the number of clusters (default: as the data need, or 10 with a "
        "--model that is not chosen)",
    )
    parser.add_argument(
        "--epochs", type=_count(1), help="passes over the data (default: as the data need)"
    )
    parser.add_argument(
        "--starts", type=_count(1), default=3, help="fits to choose the best of (default 3)"
    )
    parser.add_argument("--seed", type=_count(0), default=0, help="same seed, same answer")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no summary")
    parser.add_argument("--force", action="store_true", help="write into a folder that has files")


def _add_fit(parsers: Any) -> None:
    parser = _add_command(parsers, "fit")
    _add_features(parser, required=False)
    parser.add_argument(
        "--ignore",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="columns that are no features",
    )
    _add_answers(parser)
    _add_model(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    _add_training(parser)


def _add_answers(parser: argparse.ArgumentParser) -> None:
    """What people said of the items."""
    parser.add_argument(
        "--pairs",
        type=Path,
        metavar="FILE",
        help="answers: columns left, right, worker, label (1 or same, 0 or different), maybe page",
    )
    parser.add_argument(
        "--grades",
        nargs="+",
        metavar="GRADE",
        help="labels of pairs that are grades, from different to same; others, and empty ones in "
        "--pairs, are people who cannot tell. One number: labels are probabilities of same, to be "
        "rounded to so many levels",
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
        help="workers who gave --labels and are always right, such as an expert",
    )
    parser.add_argument(
        "--answers",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="instead of these: what people answered to 'ask', in files that they saved (.csv) or "
        "that their tool exported (.json: Label Studio, .jsonl: Prodigy)",
    )
    parser.add_argument(
        "--answers-format", choices=FORMATS, help="of --answers, where the file's name is not it"
    )
    parser.add_argument(
        "--likeness",
        type=Path,
        metavar="FILE",
        help="without --features, how alike the items of pairs are: columns left, right, and "
        "numbers",
    )
    parser.add_argument(
        "--known",
        type=Path,
        metavar="FILE",
        help="labels of some items that are sure: columns item, label",
    )
    for name, text in (("must", "share"), ("cannot", "do not share")):
        parser.add_argument(
            f"--{name}-link",
            type=Path,
            metavar="FILE",
            help=f"items that {text} a cluster: columns left, right",
        )


def _add_model(parser: argparse.ArgumentParser) -> None:
    """How the features are modelled, and what columns hold."""
    parser.add_argument(
        "--model",
        choices=MODELS,
        default="choose",
        help="choose: clusters of the kind that suits the table best, or classes, where there are "
        "--labels; gaussian: on the features "
        "themselves, for tables (what columns hold is recognized); diagonal-gaussian: the same for "
        "hundreds of columns; binary: all columns are 0 or 1; counts: all are counts; words: "
        "counts of words in texts; "
        "deep-normal: with networks, for many real features; deep-bernoulli: with networks, for "
        "pixels in [0, 1]; dawid-skene: the class of every item from --labels alone (default "
        "choose)",
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
            help=f"columns that hold {text}, where that is not recognized",
        )
    parser.add_argument("--dim", type=_count(1), default=8, help="latent dimensions of networks")
    parser.add_argument(
        "--hidden", type=_count(1), nargs="+", default=[128, 128], help="hidden layers of networks"
    )


def _add_ask(parsers: Any) -> None:
    parser = _add_command(parsers, "ask")
    parser.add_argument("folder", type=Path, metavar="DIR", help="what 'fit' wrote")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--pages",
        type=_count(1),
        default=20,
        metavar="N",
        help="pages of items to sort into groups (default 20); of a fit of labels as many items to "
        "label",
    )
    kind.add_argument("--pairs", type=_count(1), metavar="N", help="pairs: are they the same?")
    kind.add_argument("--labels", type=_count(1), metavar="N", help="items to label")
    parser.add_argument(
        "--size", type=_count(2), default=12, metavar="N", help="items on a page (default 12)"
    )
    parser.add_argument(
        "--workers",
        nargs="+",
        action="extend",
        metavar="ID",
        help="whom to ask (default: those of the fit)",
    )
    parser.add_argument(
        "--items",
        type=Path,
        metavar="FILE",
        help="what people see: a table of texts by item, with a column 'image' for files of "
        "pictures, or .npy of pictures [item, height, width] (default: the features)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format", choices=FORMATS, help="of the files (default html for pages, else csv)"
    )
    form.add_argument(
        "--html",
        action="store_const",
        const="html",
        dest="format",
        help="the same as --format html: a page to sort on, for each worker, without any server",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    parser.add_argument("--seed", type=_count(0), default=0, help="same seed, same questions")
    parser.add_argument("--quiet", action="store_true", help="no summary")
    parser.add_argument("--force", action="store_true", help="write into a folder that has files")


def _add_predict(parsers: Any) -> None:
    parser = _add_command(parsers, "predict")
    parser.add_argument("folder", type=Path, metavar="DIR", help="what 'fit' wrote")
    _add_features(parser, required=True, usual_ids="that of the fit, 'item' or 'id'")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=".csv to write (default: standard output)"
    )


def _add_report(parsers: Any) -> None:
    parser = _add_command(parsers, "report")
    parser.add_argument("folder", type=Path, metavar="DIR", help="what 'fit' wrote")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=".html to write (default: DIR/report.html)"
    )


def _add_simulate(parsers: Any) -> None:
    parser = _add_command(parsers, "simulate")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    _add_crowd(parser)
    parser.add_argument("--seed", type=_count(0), default=0, help="same seed, same data")
    parser.add_argument("--quiet", action="store_true", help="no summary")
    parser.add_argument("--force", action="store_true", help="write into a folder that has files")


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
        ("workers", 8, 1, "workers, of whom the last guesses"),
        ("pages", 2, 1, "pages of 12 items that every worker answers"),
    ):
        parser.add_argument(
            f"--{name}",
            type=_count(least),
            default=default,
            metavar="N",
            help=f"number of {text} (default {default})",
        )
