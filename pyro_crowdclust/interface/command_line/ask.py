"""``pyro-crowdclust ask``: chooses what to ask next, and writes files for an annotation tool."""

from __future__ import annotations

import hashlib
import shlex
from argparse import Namespace
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyro_crowdclust import Fitted
from pyro_crowdclust.asking import Labels, Pages, Pairs, Suggestions, suggest
from pyro_crowdclust.errors import count as counted
from pyro_crowdclust.errors import listed, show, warn
from pyro_crowdclust.exchange import (
    FORMATS,
    Format,
    LabelStudio,
    PlainCsv,
    Prodigy,
    picture_frame,
)
from pyro_crowdclust.exchange.formats import write_texts
from pyro_crowdclust.interface.command_line.fit_folder import (
    FILES,
    new_folder,
    read_result,
    refuse_inputs,
)
from pyro_crowdclust.interface.command_line.reading import read_feature_file, read_shown
from pyro_crowdclust.interface.command_line.summary import SURE, has_clusters

# Pages, if nothing else is asked for.
_PAGES = 20
# Nobody reads more columns than this.
_MAX_COLUMNS = 20
# Workers whose answers are not by chance with a probability below this seem to guess.
_GUESSES = 0.3
# So many of them are named.
_NAMED = 3
# A page of more items is warned of: nobody overlooks it, and to choose its items takes long.
_MANY_ITEMS = 100
# What pages that people can overlook have.
_CAN_OVERLOOK = "a page that people can overlook has 10 to 30"
# Formats that list the classes to choose from.
_WITH_CLASSES: dict[str, Callable[..., Format]] = {"label-studio": LabelStudio, "prodigy": Prodigy}


def ask(options: Namespace) -> int:
    """Choose what to ask next, and write it as files for an annotation tool."""
    result, settings = read_result(options.folder, with_features=True)
    with new_folder(options.out, options.force):
        found = _suggestions(options, result)
        questions = _with_unique_pages(found.frame)
        name = options.format or ("html" if "page" in questions else "csv")
        form = FORMATS[name]
        if len(result.data.grade_ids) and not isinstance(form, PlainCsv):
            raise ValueError(
                f"the answers are grades, which --format {name} does not support: leave it out, "
                "and let people fill in the column 'label'"
            )
        shown = _shown(options.items, settings, questions)
        if list(questions.columns[:1]) == ["item"] and name in _WITH_CLASSES:
            if not len(result.data.class_ids):
                raise ValueError(
                    f"--format {name} shows classes to choose from, but the fit has none: leave it "
                    "out, for a table to fill in, or ask for --pairs or --pages"
                )
            form = _WITH_CLASSES[name](classes=[str(one) for one in result.data.class_ids])
        texts = {options.out / name: text for name, text in form.files(questions, shown).items()}
        inputs = [settings.get(name) for name in (*FILES, "labels")]
        inputs += [options.items, *(settings.get("answers") or [])]
        refuse_inputs(texts, inputs)
        paths = write_texts(texts)
    if not options.quiet:
        print(f"{options.out}: {', '.join(path.name for path in paths)}\n{found}")
        print(_is_it_enough(result, found))
        for note in (*_about_fewer(options, result, found), *_about_guesses(found)):
            print(note)
    return 0


def _about_fewer(options: Namespace, result: Fitted, found: Suggestions) -> list[str]:
    """What to know where there are fewer questions than asked for, or smaller pages."""
    kind, count = _asked_for(options, result)
    notes = []
    if len(found) < count:
        notes.append(
            f"{counted(count, 'question')} were asked for, but {len(found)} are all that is left "
            "to ask these workers"
        )
    if isinstance(kind, Pages) and "page" in found.frame:
        largest = int(found.frame["page"].value_counts().max())
        if largest < kind.size:
            notes.append(
                f"pages of {kind.size} items were asked for, but they have {largest} at most of "
                f"{counted(result.data.num_items, 'item')}; {_CAN_OVERLOOK}"
            )
    return notes


def _about_guesses(found: Suggestions) -> list[str]:
    """What to know where workers are asked who seem to guess."""
    workers = found.workers
    guess = workers[(workers["asked"] > 0) & (workers["reliability"] < _GUESSES)]
    if guess.empty or len(guess) == (workers["asked"] > 0).sum():
        return []
    names = listed(list(guess.index), _NAMED)
    return [
        f"{int(guess['asked'].sum())} of {len(found)} questions are for workers who seem to guess "
        f"({names}): what others can still tell is used up; ask for fewer, or name by --workers "
        "whom to ask"
    ]


def _is_it_enough(result: Fitted, found: Suggestions) -> str:
    """What the answers may change, and what is in doubt: the scale of the gain in nats."""
    moved, items = found.expected_moved, counted(result.data.num_items, "item")
    doubt = int((result.assignment_probabilities < SURE).sum())
    whole = "cluster" if has_clusters(result) else "class"
    return (
        f"the answers may move about {moved:.1f} of {items} to another {whole}; in doubt now: "
        f"{counted(doubt, 'item')}, each with less than {SURE:.0%} for its most probable {whole}"
    )


def _suggestions(options: Namespace, result: Fitted) -> Suggestions:
    kind, count = _asked_for(options, result)
    if isinstance(kind, Pages) and kind.size > _MANY_ITEMS:
        of_all = f" of {counted(result.data.num_items, 'item')}"
        warn(
            f"--size {kind.size}: to choose pages of so many{of_all} may take long; {_CAN_OVERLOOK}"
        )
    # In a result from Python the ids of workers may be numbers.
    known = {str(who): who for who in result.data.worker_ids}
    for who in options.workers or ():
        _refuse_list(who, known)
    workers = options.workers and [known.get(who, who) for who in options.workers]
    found = suggest(result, kind, count=count, workers=workers, seed=options.seed)
    if not len(found):
        raise ValueError("there is nothing left to ask these workers: name others by --workers")
    return found


def _refuse_list(worker: str, known: Collection[str]) -> None:
    """Raise a ``ValueError`` where the word for a worker is a list of the workers of the fit.

    Among words without spaces, "ann,ben" would be a new person. "Doe, Jane" can be one.
    """
    names = [name.strip() for name in worker.split(",")]
    if worker not in known and any(name in known for name in names):
        raise ValueError(
            f"--workers {worker} names one person, whose id is {show(worker)}: separate workers "
            f"by spaces, --workers {' '.join(map(shlex.quote, filter(None, names)))}"
        )


def _asked_for(options: Namespace, result: Fitted) -> tuple[Pairs | Labels | Pages, int]:
    """What to ask, and how much; where nothing is said, what the fit can use."""
    of_pages = options.size * (options.pages or _PAGES)
    if not has_clusters(result):
        if options.pairs is not None:
            raise ValueError(
                "--pairs asks which items are the same, but the fit is of class labels, which does "
                "not use pairs: ask for labels of items by --labels N"
            )
        # A fit of labels continues with labels: of as many items as that many pages would have.
        return Labels(), of_pages if options.labels is None else options.labels
    grades = bool(len(result.data.grade_ids))
    if options.labels is not None:
        if result.data.has_answers:
            instead = "--pairs N" if grades else "--pages N or --pairs N"
            raise ValueError(
                "--labels asks for the classes of items, but the fit is of answers about which "
                f"items are the same, and has no classes: ask by {instead}"
            )
        return Labels(), options.labels
    if options.pairs is not None:
        return Pairs(), options.pairs
    if grades:
        if options.pages is not None:
            raise ValueError(
                "--pages asks for groups of items, but the workers of this fit grade pairs, and a "
                "group has no grade: ask by --pairs N"
            )
        return Pairs(), of_pages
    return Pages(options.size), options.pages or _PAGES


def _with_unique_pages(questions: pd.DataFrame) -> pd.DataFrame:
    """Questions whose page ids differ from those of all other rounds."""
    if "page" not in questions:
        return questions
    content = questions[["page", "item"]].to_csv(index=False).encode()
    stem = hashlib.sha256(content).hexdigest()[:6]
    return questions.assign(page=[f"{stem}-{page}" for page in questions["page"]])


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table with real numbers rounded to about a hundredth of their standard deviation."""
    reals = table.select_dtypes(["float32", "float64"]).astype(np.float64)
    spread = reals.std()
    decimals = (2 - np.floor(np.log10(spread[spread > 0]))).clip(0, 300).astype(int)
    return table.astype(reals.dtypes.to_dict()).round(decimals)


def _shown(
    path: Path | None, settings: dict[str, Any], questions: pd.DataFrame
) -> pd.DataFrame | None:
    """What people see of the items: rows or pictures of a file, or else those of the features."""
    if path is not None:
        ends = questions.columns.intersection(["left", "right", "item"])
        return read_shown(path, map(str, questions[ends].to_numpy().ravel()))
    if settings["features"] is None:
        return None
    table = read_feature_file(
        Path(settings["features"]), id_column=settings["id_column"], ignore=settings["ignore"]
    )
    if table.values.ndim > 2:
        return picture_frame(np.asarray(table.values), table.ids)
    if isinstance(table.values, pd.DataFrame) and table.values.shape[1] <= _MAX_COLUMNS:
        return _readable(table.values)
    warn(
        f"people will see only the ids of the items, as {settings['features']} has "
        f"{table.values.shape[1]} columns, too many to show: name what to show by --items FILE"
    )
    return None
