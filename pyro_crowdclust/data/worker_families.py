"""Annotators who fail together answer once: families, such as copies or prompts of one model.

    a_if = argmax_k sum_{j in f} [a_ij = k], and nothing where two labels have the most votes

Every model of annotators takes their answers as independent given what it knows of the item. Four
who copy one are then four witnesses, and the model follows them: of seven judges four are a
majority. One answer of the four leaves four independent judges, about whom all that models say
holds again. What is lost where the four are independent in truth is little.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from pyro_crowdclust.data.alike import refuse_two_types
from pyro_crowdclust.data.pair_answers import alike_written, in_one_order
from pyro_crowdclust.data.tables import are_blank, read_table, show

_ENDS = ["left", "right"]


def one_answer_per_family(
    answers: Any, family: str | Mapping[Hashable, Hashable] | pd.Series
) -> pd.DataFrame:
    """The answers in which every family says once what most of its workers say.

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
    A table of the same kind, in which a family is a worker. An item about which a family is split
    has no answer of it.

    Raises
    ------
    ValueError
        If a column is missing, families are no such thing, a worker has two of them, or a family
        has the name of a worker who is not in it.

    Examples
    --------
    >>> said = {"item": [0] * 4 + [1] * 3, "worker": list("abcdabd"), "label": list("xxyyxyy")}
    >>> one_answer_per_family(said, {"a": "llama", "b": "llama", "c": "llama"})
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
    """Class labels or pairs, and the columns that name items.

    Pairs are in one order of their items, labels of one meaning are written in one way, and blank
    ones are missing.

    Raises
    ------
    ValueError
        As of ``read_table``, and for a class that is a number in one row and a text in another.
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
            f"{show(taken.pop())} is a family and a worker who is not in it; rename the family"
        )
