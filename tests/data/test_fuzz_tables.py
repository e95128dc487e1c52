"""Malformed input of every kind: a clear error, or a right result; never a crash deep inside.

More than 2,000 random inputs in all. Most begin as good ones in which a few things are spoiled, for
what is wrong everywhere is seen at the first look.
"""

from __future__ import annotations

import datetime
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pyro_crowdclust
from pyro_crowdclust import CrowdData
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch

PACKAGE = str(Path(pyro_crowdclust.__file__).parent)

fuzzed = settings(
    deadline=None,
    derandomize=True,
    max_examples=250,
    database=None,
    phases=[Phase.generate],  # what has gone wrong is small enough to be read as it is
    suppress_health_check=list(HealthCheck),
)

odd_values = st.one_of(
    st.none(),
    st.sampled_from(
        [
            *(float("nan"), float("inf"), pd.NA, pd.NaT, np.float32(1), np.datetime64("NaT", "s")),
            *("", "0", "☃", "\x00", b"a", -1, 10**30, 2**63, 1e400, -0.0, 1j, True, ..., int, len),
            *(
                (),
                (1,),
                [],
                [1],
                {},
                {"a": 1},
                {1},
                frozenset({1}),
                range(3),
                np.array(1),
                object(),
            ),
            *(
                np.array(1),
                np.array([1, 2]),
                torch.tensor(1),
                torch.ones(2),
                pd.Series([1]),
                pd.Timestamp(0),
            ),
            *(datetime.date(2026, 1, 1), datetime.timedelta(1), 0.5, 1 + 1e-12, "nan", "None"),
        ]
    ),
    st.integers(-2, 9),
    st.floats(),
    st.text(max_size=3),
)


def spoiled(values: st.SearchStrategy[list]) -> st.SearchStrategy[list]:
    """Lists of which a few entries are replaced by odd ones, and some are cut short."""

    @st.composite
    def spoil(draw: Callable) -> list:
        good = list(draw(values))
        for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
            if good:
                good[draw(st.integers(0, len(good) - 1))] = draw(odd_values)
        if draw(st.integers(0, 9)) == 0:
            good = good[: draw(st.integers(0, len(good)))]
        return good

    return spoil()


def columns(names: list[str]) -> st.SearchStrategy[dict[str, list]]:
    """Tables of about six rows about items 0 to 4."""
    items = st.lists(st.integers(0, 4), min_size=6, max_size=6)
    labels = st.lists(st.integers(0, 1), min_size=6, max_size=6)
    return st.fixed_dictionaries(
        {name: spoiled(labels if name == "label" else items) for name in names}
    )


@st.composite
def tables(draw: Callable, names: list[str], optional: list[str]) -> Any:
    """Tables in all the ways that a table can be written, good and bad."""
    chosen = names + [name for name in optional if draw(st.booleans())]
    table = draw(columns(chosen))
    match draw(st.integers(0, 11)):
        case 0:
            return draw(odd_values)
        case 1:
            table.pop(draw(st.sampled_from(chosen)))
        case 2:
            table = {draw(odd_values.filter(_has_hash)): column for column in table.values()}
        case 3:
            return list(table.values())
        case 4:
            return [
                dict(zip(table, row, strict=False)) for row in zip(*table.values(), strict=False)
            ]
    form, kind = draw(st.integers(0, 9)), draw(st.sampled_from(["str", "object", "category"]))
    try:
        return _in_form(pd.DataFrame(table), form, kind)
    except Exception:  # whatever pandas says, CrowdData is to say it better
        return table


def _in_form(frame: pd.DataFrame, form: int, kind: str) -> Any:
    """A table in another form."""
    forms = {
        1: lambda: frame.iloc[::-1],
        2: lambda: pd.concat([frame, frame], axis=1),
        3: lambda: frame.astype(kind),
        4: lambda: frame.set_index(frame.columns[:2].tolist()),
        5: frame.to_numpy,
        6: lambda: frame.set_axis(pd.MultiIndex.from_product([["a"], frame.columns]), axis=1),
    }
    return forms.get(form, lambda: frame)()


def _has_hash(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@st.composite
def arrays(draw: Callable) -> Any:
    """Features: arrays, tensors and frames of odd shapes, types and contents."""
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 5, 5]), max_size=3)))
    shape = draw(st.sampled_from([shape, (5, 2), (5, 2)]))
    values = np.arange(float(np.prod(shape))).reshape(shape)
    if values.size and draw(st.booleans()):
        values.flat[draw(st.integers(0, values.size - 1))] = draw(
            st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e-320, 1e39])
        )
    kinds = ["f2", "f4", ">f8", "g", "i1", "u8", "?", "c8", "O", "U3", "S2", "M8[s]", "m8[D]", "V4"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match draw(st.integers(0, 9)):
            case 0:
                return draw(odd_values)
            case 1:
                return values.tolist()
            case 2:
                return np.ma.masked_array(values, mask=values == 1)
            case 3 | 4:
                kind = draw(st.sampled_from(kinds))
                try:
                    return values.astype(kind)
                except (TypeError, ValueError):
                    return np.zeros(shape, kind)
            case 5:
                return torch.from_numpy(values).to(
                    draw(st.sampled_from([torch.half, torch.int8, torch.cfloat, torch.bool]))
                )
            case 6:
                return torch.from_numpy(values).to_sparse() if values.ndim else torch.tensor(1.0)
            case 7 | 8:
                table = draw(st.dictionaries(odd_values.filter(_has_hash), st.just(list(range(5)))))
                table |= {"odd": draw(spoiled(st.just([0.0, 1, 2, 3, 4])))}
                try:
                    return pd.DataFrame(table)
                except Exception:
                    return table
    return values


def read(features: Any, pairs: Any = None, **options: Any) -> CrowdData | None:
    """The data, or None after a clear error: a ``ValueError`` that this library raised itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return CrowdData(features, pairs, **options)
    except ValueError as error:
        check_clear(error)
        return None


def check_clear(error: ValueError) -> None:
    """Raised by this library itself, and with words to it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert last.filename.startswith(PACKAGE), f"raised in {last.filename}: {error}"
    assert len(str(error)) > 20


def check(data: CrowdData) -> None:
    """What everything further in relies on."""
    repr(data)
    assert data.item_ids.is_unique
    assert not data.item_ids.isna().any()
    if data.features is not None:
        assert len(data.features) == data.num_items > 0
        rows = data.all_rows()
        assert rows.is_floating_point()
        assert not rows.isinf().any()
        assert rows.isnan().sum() == data.num_missing
    if data.answers is not None:
        answers = data.answers
        for end in (answers.left, answers.right):
            assert end.dtype == torch.int64
            assert 0 <= end.min() <= end.max() < data.num_items
        assert (answers.left != answers.right).all()
        assert ((answers.label == 0) | (answers.label == 1)).all()
        assert answers.worker.unique().tolist() == list(range(data.num_workers))
        assert len(data.counted_pairs) == data.num_pairs > 0
        assert len(data.pairs) == data.num_all_pairs
    batch = full_batch(data)
    assert batch.items.unique().tolist() == list(range(data.num_items))
    generator = torch.Generator().manual_seed(0)
    next(iter(MinibatchSampler(data, batch_size=2, answers_per_step=2, generator=generator)))


PAIRS = tables(["left", "right", "worker", "label"], ["page", "note"])


@pytest.mark.long
@given(pairs=PAIRS, ids=st.sampled_from([None, None, list("abcde"), range(5)]))
@fuzzed
def test_answers(pairs, ids):
    data = read(np.eye(5), pairs, item_ids=ids)
    if data is not None:
        check(data)


@pytest.mark.long
@given(pairs=PAIRS, ids=st.one_of(st.none(), spoiled(st.just([0, 1, 2, 3, 4])), odd_values))
@fuzzed
def test_answers_without_features(pairs, ids):
    data = read(None, pairs, item_ids=ids)
    if data is not None:
        check(data)


@pytest.mark.long
@given(features=arrays(), ids=st.one_of(st.none(), st.none(), spoiled(st.just([0, 1, 2, 3, 4]))))
@fuzzed
def test_features(features, ids):
    data = read(features, None, item_ids=ids)
    if data is not None:
        check(data)


@pytest.mark.long
@given(
    known=st.one_of(
        st.none(),
        odd_values,
        spoiled(st.lists(st.integers(-1, 2), min_size=5, max_size=5)),
        spoiled(st.just([0, 1, 2, None, -1])).map(lambda values: pd.Series(values, dtype=object)),
        spoiled(st.just(["a", "b", None, "a", "c"])).map(lambda values: np.array(values, object)),
    ),
    must=st.one_of(st.none(), tables(["left", "right"], ["note"])),
    cannot=st.one_of(st.none(), tables(["left", "right"], [])),
)
@fuzzed
def test_labels_and_links(known, must, cannot):
    data = read(np.eye(5), None, known=known, must_link=must, cannot_link=cannot)
    if data is None:
        return
    check(data)
    if data.known is not None:
        assert data.known.shape == (5,)
        assert -1 <= data.known.min() <= data.known.max() < data.num_known_classes
