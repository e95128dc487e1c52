"""Features that stay on disk: what is read, and in what order; fits that see no difference."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from pyarrow import parquet
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import (
    DatasetFeatures,
    MemmapFeatures,
    ParquetFeatures,
    StoredFeatures,
    features,
)
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch
from pyro_crowdclust.minibatches.item_order import random_items
from pyro_crowdclust.training import Checkpoint

from ..crowds import NUM_FEATURES, crowd, message_passing_pair, plain_mixture, plain_pair, quiet_fit

KINDS = ["memmap", "dataset", "parquet"]


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Puts an array where it is stored, in chunks of seven rows, of which three are held."""

    def make(kind: str, array: np.ndarray) -> StoredFeatures:
        path = tmp_path / "features"
        if kind == "memmap":
            np.save(path, array)
            row = array[0].nbytes
            monkeypatch.setattr("pyro_crowdclust.data.stored_features._CHUNK_BYTES", 7 * row)
            monkeypatch.setattr("pyro_crowdclust.data.stored_features._WINDOW_CHUNKS", 3)
            return MemmapFeatures(np.load(f"{path}.npy", mmap_mode="r"))
        if kind == "dataset":
            monkeypatch.setattr("pyro_crowdclust.data.stored_features._WINDOW_CHUNKS", 7)
            monkeypatch.setattr("pyro_crowdclust.data.stored_features._WINDOW_ROWS", 21)
            return DatasetFeatures(TensorDataset(torch.as_tensor(array), torch.zeros(len(array))))
        monkeypatch.setattr("pyro_crowdclust.data.stored_features._WINDOW_ROWS", 0)
        monkeypatch.setattr("pyro_crowdclust.data.stored_features._MIN_GROUPS", 3)
        frame = pd.DataFrame(array, columns=[f"f{at}" for at in range(array.shape[1])])
        frame.assign(name="x").to_parquet(path, row_group_size=7)
        return ParquetFeatures(path, list(frame.columns))

    return make


def numbers(count: int = 50, width: int = 3) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((count, width))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_array(kind, store):
    array = numbers()
    stored = store(kind, array)
    assert (stored.shape, stored.ndim, len(stored)) == ((50, 3), 2, 50)
    some = np.array([3, 49, 4, 5, 20, 3, 0])
    for held in ([], [0, 2], [7, 0, 3], [6]):
        stored.hold(held)
        np.testing.assert_array_equal(stored[some], array[some])
        np.testing.assert_array_equal(stored[::4], array[::4])
        np.testing.assert_array_equal(stored[np.arange(50)], array)
    assert stored[np.array([], dtype=np.int64)].shape == (0, 3)
    np.testing.assert_array_equal(CrowdData(stored).rows(torch.tensor([7, 2])), array[[7, 2]])


DTYPES = ["bool", "int8", "uint16", "int32", "int64", ">i8", "float16", "float32", ">f4", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_in_memory_whatever_the_dtype(kind, dtype, store, tmp_path):
    array = numbers(20)
    if np.dtype(dtype).kind in "biu":
        largest = 1 if dtype == "bool" else min(np.iinfo(dtype).max, 2**30)
        array = largest - np.arange(60).reshape(20, 3) % min(largest + 1, 100)
    array = array.astype(dtype)
    if kind == "dataset":
        stored = DatasetFeatures(list(array))
    elif kind == "parquet" and (dtype.startswith(">") or dtype == "float16"):
        return  # which a parquet file cannot hold
    else:
        stored = store(kind, array)
    rows = torch.tensor([7, 2, 19])
    found, expected = CrowdData(stored).rows(rows), CrowdData(array).rows(rows)
    assert found.is_floating_point()
    np.testing.assert_array_equal(found.double(), expected.double())


@pytest.mark.parametrize("kind", KINDS)
def test_positions_outside_of_the_features_are_refused(kind, store):
    array = numbers(20)
    stored = store(kind, array)
    for wrong in ([-1], [3, 20], [1.5], np.ones(20, dtype=bool), -1, 20):
        with pytest.raises(IndexError, match="whole numbers from 0 to 19"):
            stored[wrong]
    np.testing.assert_array_equal(stored[3], array[3])
    np.testing.assert_array_equal(list(stored), array)


def test_rows_that_another_dtype_would_cut_off_are_named():
    counts = [np.array([0, 1]), np.array([2, 3]), np.array([0.5, np.nan]), np.array([1, 1])]
    with pytest.raises(ValueError, match="row 2 is float64, which cannot become int64"):
        CrowdData(DatasetFeatures(counts)).rows(torch.arange(4))
    small = [np.zeros(2, dtype=np.int8), np.array([300, 1])]
    with pytest.raises(ValueError, match="row 1 is int64, which cannot become int8"):
        CrowdData(DatasetFeatures(small)).rows(torch.arange(2))
    mixed = DatasetFeatures([np.zeros(2, dtype=np.float32), np.array([3, 1]), np.array([0.5, 2])])
    assert CrowdData(mixed).rows(torch.arange(3)).tolist() == [[0, 0], [3, 1], [0.5, 2]]


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
def test_empty_cells_of_a_parquet_file_are_found(dtype, tmp_path):
    table = pd.DataFrame({"a": [1, 1, None], "b": [1, 1, 1]}).astype({"a": dtype})
    table.to_parquet(tmp_path / "items.parquet")
    data = CrowdData(ParquetFeatures(tmp_path / "items.parquet"))
    told = "row 0 is object" if dtype == "boolean" else "row 2 holds NaN"
    with pytest.raises(ValueError, match=told):
        data.rows(torch.arange(3))


def test_a_parquet_file_without_row_groups_has_no_rows(tmp_path):
    schema = pyarrow.schema([("a", pyarrow.float64()), ("b", pyarrow.int8())])
    parquet.ParquetWriter(tmp_path / "items.parquet", schema).close()
    features = ParquetFeatures(tmp_path / "items.parquet")
    assert features.shape == (0, 2)
    with pytest.raises(ValueError, match="pass at least one row"):
        CrowdData(features)


@pytest.mark.parametrize("shape", [(20, 2, 5), (20,)])
@pytest.mark.parametrize("offset", [0, 12])
def test_memory_maps_of_any_shape(shape, offset, tmp_path):
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (tmp_path / "raw").write_bytes(bytes(offset) + array.tobytes())
    mapped = np.memmap(tmp_path / "raw", np.float32, "r", offset, shape)
    np.testing.assert_array_equal(MemmapFeatures(mapped)[[19, 0, 3]], array[[19, 0, 3]])


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_has_every_item_once(kind, store):
    array = numbers()
    pairs = {"left": [3, 20], "right": [30, 21], "worker": [0, 0], "label": [1, 0]}
    sampler = MinibatchSampler(
        CrowdData(store(kind, array), pairs),
        batch_size=10,
        answers_per_step=1,
        generator=torch.Generator().manual_seed(0),
    )
    orders = []
    for _ in range(2):
        batches = list(sampler)
        others = torch.cat([batch.items[batch.num_paired :] for batch in batches])
        assert sorted(others.tolist()) == sorted(set(range(50)) - {3, 20, 21, 30})
        for batch in batches:
            np.testing.assert_array_equal(batch.features, array[batch.items])
            weight = batch.item_weight[batch.num_paired :]
            assert bool((weight == 46 / len(weight)).all())
        sizes = [len(batch.items) - batch.num_paired for batch in batches]
        assert max(sizes) - min(sizes) <= 1
        orders.append(others.tolist())
    assert orders[0] != orders[1] != sorted(orders[1])


@pytest.mark.long
def test_every_item_is_as_likely_in_the_first_batch(store):
    stored = store("memmap", numbers(49))
    sampler = MinibatchSampler(
        CrowdData(stored), batch_size=10, generator=torch.Generator().manual_seed(0)
    )
    count, drawn = 2000, torch.zeros(49)
    for _ in range(count):
        drawn[next(iter(sampler)).items] += 1
    share = drawn.sum() / 49 / count  # five steps of ten items, one of them of nine
    assert (drawn / count - share).abs().max() < 6 * (share * (1 - share) / count) ** 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_than_two_windows_are_held(kind, store):
    stored = store(kind, numbers())
    for first, last in stored.windows(torch.Generator().manual_seed(0)):
        assert int((last - first).sum()) <= 21
        assert len(stored._values) <= 42


@pytest.mark.parametrize("kind", ["memmap", "parquet"])
def test_an_epoch_reads_every_row_once(kind, store):
    stored, asked = store(kind, numbers()), []
    read = stored.read

    def counting(start: int, stop: int) -> np.ndarray:
        asked.extend(range(start, stop))
        return read(start, stop)

    stored.read = counting
    # Seven does not divide the rows of a window, so some minibatches have rows of two.
    sampler = MinibatchSampler(
        CrowdData(stored), batch_size=7, generator=torch.Generator().manual_seed(0)
    )
    for batch in sampler:
        np.testing.assert_array_equal(batch.features, numbers()[batch.items])
    assert sorted(asked) == list(range(len(stored)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_of_all_data_is_that_of_the_array(kind, store):
    data = crowd()
    elsewhere = CrowdData(store(kind, data.features), data.pairs)
    options = {"batch_size": None, "step_size": 1.0, "initialize": None}
    found, expected = (quiet_fit(*plain_pair(), one, **options) for one in (elsewhere, data))
    # Sums over columns that lie elsewhere in memory are rounded in another order.
    np.testing.assert_allclose(found.probabilities, expected.probabilities, rtol=1e-11)
    np.testing.assert_array_equal(full_batch(elsewhere).features, full_batch(data).features)


@pytest.mark.parametrize("kind", KINDS)
def test_minibatches_learn_from_stored_features(kind, store, tmp_path):
    data = crowd()
    elsewhere = CrowdData(store(kind, data.features), data.pairs)
    options = {"checkpoint": Checkpoint(tmp_path / "fit.safetensors", resume=True)}
    half = quiet_fit(*message_passing_pair(), elsewhere, epochs=2, **options)
    torch.manual_seed(0)
    assert half.predict(elsewhere.features).shape == (60,)
    resumed = quiet_fit(*message_passing_pair(), elsewhere, epochs=4, **options)
    whole = quiet_fit(*message_passing_pair(), elsewhere, epochs=4)
    np.testing.assert_array_equal(resumed.probabilities, whole.probabilities)


def test_random_items_are_of_one_window(store):
    stored = store("memmap", numbers(49))
    items = random_items(CrowdData(stored), 30, torch.Generator().manual_seed(0))
    assert len(items) == len(items.unique()) == 21
    assert len((items // 7).unique()) == 3


@pytest.mark.parametrize("given", ["training items", "new items"])
def test_items_are_written(given, tmp_path):
    ids = [f"id {at}" for at in range(60)]
    data = crowd(item_ids=ids)
    result = quiet_fit(*plain_pair(), data)
    result.write_items(
        tmp_path / "items.parquet", None if given == "training items" else data.features
    )
    found = parquet.read_table(tmp_path / "items.parquet")
    probabilities = np.array(found["probabilities"].to_pylist())
    if given == "training items":
        expected, names = result.probabilities, ids
    else:
        expected, names = result.predict_proba(data.features), list(range(60))
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    assert found["item"].to_pylist() == names
    assert found["cluster"].to_pylist() == expected.argmax(1).tolist()
    np.testing.assert_allclose(found["probability"], expected.max(1), atol=1e-6)


@pytest.mark.parametrize("with_answers", [True, False])
def test_items_are_written_part_by_part(with_answers, tmp_path, monkeypatch):
    monkeypatch.setattr("pyro_crowdclust.results.item_posterior.PREDICTION_ROWS", 7)
    data = crowd()
    if not with_answers:
        data = CrowdData(data.features)
    model = plain_mixture(3 if with_answers else None)
    result = quiet_fit(model, type(plain_pair()[1])(model), data)
    result.write_items(tmp_path / "items.parquet")
    file = parquet.ParquetFile(tmp_path / "items.parquet")
    assert file.num_row_groups == 9
    probabilities = np.array(file.read()["probabilities"].to_pylist())
    np.testing.assert_allclose(probabilities, result.probabilities, atol=1e-6)


def test_large_memory_maps_are_read_from_their_file(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "_IN_MEMORY_BYTES", 100)
    np.save(tmp_path / "features.npy", numbers())
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    assert isinstance(CrowdData(mapped).features, MemmapFeatures)
    assert isinstance(CrowdData(mapped[3:]).features, np.memmap)
    with pytest.raises(ValueError, match="pass the whole"):
        MemmapFeatures(mapped[3:])


def test_a_file_that_holds_columns_is_told(tmp_path):
    """As ``numpy.save`` writes the numbers of a data frame."""
    table = pd.DataFrame({"a": np.arange(5.0), "b": np.arange(5.0)})
    np.save(tmp_path / "columns.npy", table.to_numpy())
    with pytest.raises(ValueError, match=r"column after column, .*numpy.ascontiguousarray"):
        MemmapFeatures(np.load(tmp_path / "columns.npy", mmap_mode="r"))


def test_images_of_a_dataset():
    class Images(Dataset):
        def __len__(self) -> int:
            return 5

        def __getitem__(self, row: int) -> torch.Tensor:
            return torch.full((2, 2), row, dtype=torch.uint8)

    data = CrowdData(Images())
    assert repr(data) == "CrowdData(5 items, features uint8 [2, 2], no answers)"
    assert data.rows(torch.tensor([4])).tolist() == [[[4.0, 4.0], [4.0, 4.0]]]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_not_finite_are_found_when_they_are_read(kind, store):
    array = numbers(width=NUM_FEATURES)
    array[33, 1] = np.nan
    data = CrowdData(store(kind, array))
    with pytest.raises(ValueError, match="features row 33 holds NaN or infinite numbers"):
        quiet_fit(*plain_pair(), data)


def test_what_cannot_be_read(tmp_path):
    class Stream(IterableDataset):
        def __iter__(self):
            yield torch.zeros(2)

    with pytest.raises(ValueError, match="the dataset Stream cannot be indexed"):
        CrowdData(Stream())
    path = tmp_path / "items.parquet"
    pd.DataFrame({"a": [1.0], "name": ["x"]}).to_parquet(path)
    with pytest.raises(ValueError, match="has no column 'b', only a, name"):
        ParquetFeatures(path, ["a", "b"])
    with pytest.raises(ValueError, match="column 'name' of .* is not numeric"):
        ParquetFeatures(path)


@pytest.mark.parametrize(
    "name",
    [lambda at: ("box", at), lambda at: at if at < 30 else f"id {at}"],
    ids=["tuples", "both"],
)
def test_ids_of_several_types_are_written_as_texts(name, tmp_path, monkeypatch):
    """In every part of the file, also where those of a part are of one type."""
    monkeypatch.setattr("pyro_crowdclust.results.item_posterior.PREDICTION_ROWS", 7)
    ids = [name(at) for at in range(60)]
    result = quiet_fit(*plain_pair(), CrowdData(crowd().features, item_ids=ids), epochs=1)
    result.write_items(tmp_path / "items.parquet")
    found = parquet.read_table(tmp_path / "items.parquet")
    assert found["item"].to_pylist() == [str(one) for one in ids]
