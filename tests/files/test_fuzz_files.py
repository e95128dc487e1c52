"""Damaged files of features and answers: one clear error, or a table that can be used."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.command_line.reading import read_answer_file, read_feature_file

FEATURES = pd.DataFrame(
    {"item": [f"item {i}" for i in range(6)], "a": np.arange(6.0), "b": [0.5, -1, 2e8, 3, 4, 5]}
)
ANSWERS = pd.DataFrame(
    {
        "left": FEATURES["item"].to_numpy()[:5],
        "right": FEATURES["item"].to_numpy()[1:],
        "worker": list("uvuvu"),
        "label": [1, 0, 1, 0, 1],
        "page": list("xxyyz"),
    }
)
PAIRS = ("left", "right", "worker", "page")


def parquet(frame: pd.DataFrame) -> bytes:
    pytest.importorskip("pyarrow", reason="pyarrow is an optional extra, and not installed")
    return frame.to_parquet(index=False)


def npy(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, frame[["a", "b"]].to_numpy())
    return buffer.getvalue()


WRITERS = {
    ".csv": lambda frame: frame.to_csv(index=False).encode(),
    ".tsv": lambda frame: frame.to_csv(index=False, sep="\t").encode(),
    ".parquet": parquet,
    ".npy": npy,
}

# Where, as a share of the file; how many bytes are taken out; what is put in.
damages = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=6)), max_size=4
)
fuzzed = settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def damaged(content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for share, taken, put in changes:
        at = int(share * len(content))
        content = content[:at] + put + content[at + taken :]
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


@pytest.mark.parametrize("kind", WRITERS)
@given(changes=damages)
@fuzzed
def test_features(kind, folder, changes):
    path = folder / f"features{kind}"
    path.write_bytes(damaged(WRITERS[kind](FEATURES), changes))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*are read as names of columns")
            warnings.filterwarnings("ignore", ".*left out, as all cells are empty")
            table = read_feature_file(path)
            data = CrowdData(table.values, item_ids=table.ids)
    except ValueError:
        return
    assert data.num_items == len(table.ids)
    # An empty cell is a gap.
    assert not np.isinf(np.asarray(data.features)).any()


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != ".npy"])
@given(changes=damages)
@fuzzed
def test_answers(kind, folder, changes):
    path = folder / f"answers{kind}"
    path.write_bytes(damaged(WRITERS[kind](ANSWERS), changes))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*repeats an earlier answer")
            data = CrowdData(
                FEATURES[["a", "b"]], read_answer_file(path, PAIRS), item_ids=FEATURES["item"]
            )
    except ValueError:
        return
    assert data.pairs["label"].isin([0, 1]).all()
    assert set(data.pairs["left"]) <= set(FEATURES["item"])
