"""One answer per family of workers who err together, such as copies or prompts of one model.

    a_if = argmax_k sum_{j in f} [a_ij = k], and nothing where two labels have the most votes

Every model of annotators treats answers as independent, given what it knows about the item. Four
copies of one worker then count as four witnesses, and if there are seven workers the model follows
this majority. With one joint answer of the four there are four independent workers, and the
assumptions of the models hold again. If the four are in truth independent, little is lost.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from pyro_crowdclust.data.alike import refuse_two_types
from pyro_crowdclust.data.pair_tables import alike_written, in_one_order
from pyro_crowdclust.data.tables import are_blank, read_table
from pyro_crowdclust.errors import show

_ENDS = ["left", "right"]


def one_answer_per_family(
    answers: Any, family: str | Mapping[Hashable, Hashable] | pd.Series
) -> pd.DataFrame:
    """The answers, with those of every family replaced by the majority of its workers.

    Parameters
    ----------
    answers
        Class labels ``item, worker, label`` or pairs ``left, right, worker, label``, whose items
        may stand in either order. Labels of pairs may be written as ``CrowdData`` takes them (1,
        True, "same", "yes"). Missing and blank ones ("can't tell") have no vote. Other columns are
        dropped.
    family
        The family of every worker, or the name of the column that has it. Workers without one, or
        with a blank one, answer for themselves.

    Returns
    -------
    A table of the same kind, in which a family is a worker. A family that is split about an item
    gives no answer about it.

    Raises
    ------
    ValueError
        If a column is missing, ``family`` has another type or names no worker of the answers, a
        worker has two families, or a family has the name of a worker who is not in it.

    Examples
    --------
    >>> labels = {"item": [0] * 4 + [1] * 3, "worker": list("abcdabd"), "label": list("xxyyxyy")}
    >>> one_answer_per_family(labels, {"a": "llama", "b": "llama", "c": "llama"})
       item worker label
    0     0      d     y
    1     0  llama     x
    2     1      d     y
    """
    if not isinstance(family, (str, Mapping, pd.Series)):
        raise ValueError(
            f"family is {show(family)}, but must be the name of a column, or a mapping or series "
            "that has the family of every worker, such as {'ann': 'twins', 'ben': 'twins'}"
        )
    table, items = read_voices(answers, [family] if isinstance(family, str) else [])
    own = table[family] if isinstance(family, str) else table["worker"].map(dict(family))
    own = own.mask(are_blank(own))
    if own.isna().all() and len(family):
        raise ValueError(
            f"no worker of the answers ({show(table['worker'].iloc[0])}, ...) has a family; name "
            "the families of workers by their ids"
        )
    _check_families(table["worker"], own)
    who = [*items, "worker"]
    columns = [*who, "label"]
    voices = table[columns].assign(worker=own.where(own.notna(), table["worker"]))
    votes = voices.groupby(columns, sort=True, observed=True).size().rename("votes").reset_index()
    most = votes.groupby(who, observed=True)["votes"].transform("max")
    winners = votes[votes["votes"] == most]
    split = winners.duplicated(who, keep=False)
    return winners.loc[~split, columns].reset_index(drop=True)


def read_voices(answers: Any, others: Sequence[str] = ()) -> tuple[pd.DataFrame, list[str]]:
    """Read class labels or pairs; the second result names the columns that hold items.

    The two items of a pair have the same order in every row, labels with the same meaning are
    spelled in one way, and blank labels are missing.

    Raises
    ------
    ValueError
        As ``read_table`` does, and for a class that is a number in one row and a text in another.
    """
    named = answers.keys() if isinstance(answers, (pd.DataFrame, Mapping)) else ()
    items = _ENDS if _ENDS[0] in named else ["item"]
    columns = [*items, "worker", "label"]
    table = read_table(answers, "answers", [*columns, *others], may_lack=["label", *others])
    label = table["label"].mask(are_blank(table["label"]))
    if items == _ENDS:
        return in_one_order(table.assign(label=alike_written(label))), items
    refuse_two_types(pd.Index(label.dropna().unique(), tupleize_cols=False), "labels")
    return table.assign(label=label), items


def _check_families(workers: pd.Series, families: pd.Series) -> None:
    members = pd.DataFrame({"worker": workers, "family": families}).drop_duplicates()
    twice = members["worker"].duplicated()
    if twice.any():
        one = members.loc[twice, "worker"].iloc[0]
        raise ValueError(
            f"worker {show(one)} is in two families, or in one for some answers only; give every "
            "worker one family, or none"
        )
    outside = members.loc[members["family"].isna(), "worker"]
    if taken := {*outside} & {*members["family"]}:
        raise ValueError(
            f"{show(taken.pop())} is the name of a family and of a worker who is not in it; rename "
            "the family"
        )
