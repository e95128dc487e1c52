"""A self-contained HTML page on which a person sorts items into groups, without a server."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pandas as pd

from pyro_crowdclust.exchange.crowd_answers import CrowdAnswers
from pyro_crowdclust.exchange.items import Items, ShownItems
from pyro_crowdclust.exchange.plain_csv import PlainCsv
from pyro_crowdclust.exchange.questions import PageQuestion, Question, Questions, read_questions
from pyro_crowdclust.exchange.worker_files import files_by_worker


@dataclass(frozen=True)
class HtmlPage:
    """An HTML page for sorting items into groups: a single file that needs no network.

    Workers drag items into groups, or select them by keyboard or touch, or answer "can't tell".
    In the same browser they can continue later. They save a table of ``page, item, worker, group,
    seconds``, where an empty group is "can't tell". Pictures are embedded in the file. If items
    have pictures or texts, their ids are not shown.

    Parameters
    ----------
    title
        Headline of the page.
    sentence
        Instruction for the workers.

    Examples
    --------
    >>> pages = pd.DataFrame({"page": [1, 1], "item": ["ant", "bee"]})
    >>> text = HtmlPage(title="Insects").tasks(pages, {"ant": "six legs", "bee": "and wings"})
    >>> text[:15], "six legs" in text
    ('<!doctype html>', True)
    """

    title: str = "Sort into groups"
    sentence: str = PageQuestion.sentence

    def tasks(self, questions: Questions, items: Items = None) -> str:
        """The page, for all questions.

        Raises
        ------
        ValueError
            For questions that are not pages, items that are not among ``items``, and pictures that
            are addresses in the network.
        """
        return self._page(read_questions(questions), ShownItems.of(items))

    def files(self, questions: Questions, items: Items = None) -> dict[str, str]:
        """One HTML file per worker, and one for questions without a worker."""
        shown = ShownItems.of(items)
        by_file = files_by_worker(read_questions(questions), "sort", ".html")
        return {name: self._page(own, shown) for name, own in by_file.items()}

    def parse(self, text: str) -> pd.DataFrame:
        """The table in a file that a worker saved."""
        return PlainCsv().parse(text)

    def answers(self, export: pd.DataFrame | Mapping[str, Any]) -> CrowdAnswers:
        """The answers in a table that a worker saved.

        Raises
        ------
        ValueError
            If a column is missing.
        """
        return PlainCsv().answers(export)

    def _page(self, questions: Sequence[Question], shown: ShownItems) -> str:
        pages = [_page(question, shown) for question in questions]
        workers = {question.worker for question in questions}
        worker = workers.pop() if len(workers) == 1 else None
        content = {"worker": "" if worker is None else str(worker), "pages": pages}
        # The browser stores what was sorted under this key, for the same questions and worker.
        key = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
        # "<" could end the script that contains the data.
        data = json.dumps({"key": key, **content}, ensure_ascii=False).replace("<", "\\u003c")
        page = _source("sort.html")
        for name, text in (
            ("{{title}}", html.escape(self.title)),
            ("{{sentence}}", html.escape(self.sentence)),
            ("{{style}}", _source("sort.css")),
            ("{{script}}", _source("sort.js") + _source("hands.js")),
            ("{{data}}", data),
        ):
            page = page.replace(name, text)
        return page


def _page(question: Question, shown: ShownItems) -> dict[str, Any]:
    if not isinstance(question, PageQuestion):
        raise ValueError("the HTML page can only sort pages: ask for pages, or use another tool")
    return {"page": question.page, "items": [_item(item, shown) for item in question.items]}


def _item(item: Any, shown: ShownItems) -> dict[str, Any]:
    entry = {"item": item}
    if shown.has_texts:
        entry["text"] = shown.text(item)
    if shown.has_images:
        image = shown.image(item)
        if not image.startswith("data:"):
            raise ValueError(
                f"image of item {item!r} is at {image}, but the page uses no network: give a file"
            )
        entry["image"] = image
    return entry


def _source(name: str) -> str:
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")
