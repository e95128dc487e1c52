"""Names of files with the questions of each worker."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

from pyro_crowdclust.exchange.questions import Question


def files_by_worker(
    questions: Sequence[Question], stem: str, suffix: str
) -> dict[str, list[Question]]:
    """The questions of every worker, by the name of the worker's file.

    Examples
    --------
    >>> from pyro_crowdclust.exchange.questions import PairQuestion
    >>> asked = [PairQuestion("ant", "bee", who) for who in ("Ann O.", "ann/o", None)]
    >>> list(files_by_worker(asked, "pairs", ".csv"))
    ['pairs-Ann-O.csv', 'pairs-ann-o-2.csv', 'pairs.csv']
    """
    by_worker: dict[Hashable | None, list[Question]] = {}
    for question in questions:
        by_worker.setdefault(question.worker, []).append(question)
    files: dict[str, list[Question]] = {}
    for worker, own in by_worker.items():
        words = [stem] if worker is None else [stem, *re.findall(r"\w+", str(worker))]
        name = "-".join(words)
        # Names that differ only in signs or in case (some file systems ignore it) get a number.
        names = (name, *(f"{name}-{number}" for number in range(2, len(by_worker) + 2)))
        taken = {other.lower() for other in files}
        free = next(one for one in names if f"{one}{suffix}".lower() not in taken)
        files[f"{free}{suffix}"] = own
    return files
