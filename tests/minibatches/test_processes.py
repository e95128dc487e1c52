"""Processes that share a fit: two real ones against one, and how the work is divided."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.minibatches import MinibatchSampler, Ranks, full_batch
from pyro_crowdclust.minibatches.selection import _filled_up
from pyro_crowdclust.supervision import CertainLinks, HiddenMarkovField
from pyro_crowdclust.training import Checkpoint

from ..ranks_fit import FITS, _die, crowd_of_pages, run, values

ROOT = Path(__file__).resolve().parents[2]


class Rank(Ranks):
    """One of several ranks, as far as the division of work can tell."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory) -> tuple[Path, int, str]:
    """What two processes left, how their job ended, and what it said."""
    folder = tmp_path_factory.mktemp("ranks")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # a fixture of a module comes before those of its tests
    run("message passing", epochs=2, checkpoint=folder / "one process.safetensors")
    torch.set_default_dtype(before)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    # The other process is to notice by itself that one has died, before it is ended.
    command += [
        "--monitor-interval",
        "2",
        "--nproc-per-node",
        "2",
        str(ROOT / "tests" / "ranks_fit.py"),
        str(folder),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    job = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return folder, job.returncode, job.stderr


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.long
@pytest.mark.parametrize("kind", FITS)
def test_two_processes_find_what_one_finds(kind, two_processes):
    folder, _, said = two_processes
    parts = [folder / f"{kind} {rank}.pt" for rank in range(2)]
    assert all(part.exists() for part in parts), said
    first, second = (torch.load(part) for part in parts)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert_same(first, values(run(kind)))


@pytest.mark.long
def test_two_processes_go_on_from_the_checkpoint_of_one(two_processes):
    folder, _, said = two_processes
    assert (folder / "resumed 0.pt").exists(), said
    assert_same(torch.load(folder / "resumed 0.pt"), values(run("message passing")))


# What is imported meanwhile may keep the group, as ``torch.distributed.nn`` does by its defaults.
ALONE_IN_A_GROUP = """
from importlib import import_module
from pathlib import Path
import torch
from pyro_crowdclust.minibatches import joined_ranks

def gloo_threads():
    return sum("gloo" in file.read_text() for file in Path("/proc/self/task").glob("*/comm"))

with joined_ranks() as ranks:
    torch.distributed.all_reduce(torch.ones(3))
    import_module("torch._dynamo")
    print(ranks.rank, ranks.count, gloo_threads() > 0)
print(gloo_threads())
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_no_thread_of_the_group_outlives_it():
    command = [sys.executable, "-c", ALONE_IN_A_GROUP]
    with socket.socket() as any_port:
        any_port.bind(("localhost", 0))
        port = any_port.getsockname()[1]
    group_of_one = {"TORCHELASTIC_RUN_ID": "one", "RANK": "0", "WORLD_SIZE": "1"}
    group_of_one |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    environment = os.environ | group_of_one
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split("\n") == ["0 1 True", "0", ""]


@pytest.mark.long
def test_a_rank_that_dies_ends_the_job_and_one_process_goes_on(two_processes):
    folder, code, said = two_processes
    assert code != 0
    assert "RankLost: another process of this fit has ended" in said
    path = folder / "two processes.safetensors"
    moves = [MergeMoves(), partial(_die, 1, 0)]
    resumed = run("message passing", checkpoint=Checkpoint(path, resume=True), callbacks=moves)
    assert_same(values(resumed), values(run("message passing")))


@pytest.mark.parametrize("second", [4.0, np.inf])
def test_gradients_of_all_ranks_are_averaged_unless_a_loss_is_not_finite(second):
    """Two threads; a gradient that one lacks counts as zero, one that both lack is none."""
    meeting, sent = Barrier(2), {}

    class Meeting(Rank):
        def _sum(self, tensor):
            sent[self.rank] = tensor.clone()
            meeting.wait(timeout=20)
            total = sent[0] + sent[1]
            meeting.wait(timeout=20)
            tensor.copy_(total)

    kinds = (torch.float64, (2, 3)), (torch.float32, (2,)), (torch.float64, ()), (torch.float64, 1)
    of_ranks = [[torch.zeros(shape, dtype=dtype) for dtype, shape in kinds] for _ in range(2)]
    for rank, parameters in enumerate(of_ranks):
        for number in ((0, 1, 2), (0, 2))[rank]:
            parameters[number].grad = torch.randn_like(parameters[number])
    before = [[one.grad for one in parameters] for parameters in of_ranks]
    expected = [(before[0][0] + before[1][0]) / 2, before[0][1] / 2]
    expected += [(before[0][2] + before[1][2]) / 2, None]
    if not np.isfinite(second):
        expected = None
    before = [[None if one is None else one.clone() for one in rank] for rank in before]
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(Meeting(1, 2).average, of_ranks[1], second)
        found = Meeting(0, 2).average(of_ranks[0], 1.0)
    assert found == other.result() == (1.0 + second) / 2
    for rank, parameters in enumerate(of_ranks):
        torch.testing.assert_close([one.grad for one in parameters], expected or before[rank])


@pytest.mark.parametrize("count", [2, 3, 7])
def test_parts_make_up_the_batch(count):
    data = crowd_of_pages()

    def epoch(ranks):
        options = {"batch_size": 10, "answers_per_step": 40}
        generator = torch.Generator().manual_seed(0)
        return list(MinibatchSampler(data, generator=generator, **options).epoch(ranks))

    whole = epoch(Ranks())
    parts = [epoch(Rank(rank, count)) for rank in range(count)]
    for step, batch in enumerate(whole):
        held = [of_rank[step] for of_rank in parts]
        expected = torch.zeros(data.num_items).index_add(0, batch.items, batch.item_weight)
        found = torch.zeros(data.num_items)
        answers = []
        for part in held:
            found = found.index_add(0, part.items, part.item_weight / count)
            assert torch.equal(part.items, batch.items[part.part.rows])
            assert len(part.items) >= 1
            ends = torch.cat([part.left, part.right]).unique()
            assert ends.tolist() == list(range(part.num_paired))
            assert bool((part.pair_weight == count * batch.pair_weight[0]).all())
            columns = part.items[part.left], part.items[part.right], part.worker, part.label
            answers += zip(*(column.tolist() for column in columns), strict=True)
        torch.testing.assert_close(found, expected)
        columns = batch.items[batch.left], batch.items[batch.right], batch.worker, batch.label
        assert sorted(answers) == sorted(zip(*(c.tolist() for c in columns), strict=True))


def test_items_that_no_answer_ties_are_divided_evenly():
    data = CrowdData(np.zeros((11, 1)))
    sizes = [len(full_batch(data, Rank(rank, 3)).items) for rank in range(3)]
    assert sum(sizes) == 11
    assert max(sizes) - min(sizes) <= 1


def test_pages_that_share_items_stay_together():
    pairs = {"left": [0, 1, 3, 4], "right": [1, 2, 4, 5], "worker": [0] * 4, "label": [1] * 4}
    data = CrowdData(np.zeros((6, 1)), pairs)
    parts = [full_batch(data, Rank(rank, 2)).items.tolist() for rank in range(2)]
    assert sorted(parts) == [[0, 1, 2], [3, 4, 5]]


def test_answers_are_divided_evenly():
    """The chain of three answers goes to one rank, three single answers to the other."""
    pairs = {"left": [0, 2, 4, 6, 7, 8], "right": [1, 3, 5, 7, 8, 9], "worker": 0, "label": 1}
    data = CrowdData(np.zeros((10, 1)), pairs)
    parts = [full_batch(data, Rank(rank, 2)).items.tolist() for rank in range(2)]
    assert sorted(parts) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]


@pytest.mark.parametrize(
    ("held", "count"),
    [
        ([0, 0, 0], 11),
        ([5, 0, 2], 11),
        ([10, 3, 0], 5),
        ([10, 0, 0], 3),
        ([4, 0], 0),
        ([0, 7, 3], 2),
    ],
)
def test_ranks_that_hold_least_are_filled_up_to_one_level(held, count):
    bounds = _filled_up(np.array(held), count)
    assert (bounds[0], bounds[-1]) == (0, count)
    given = np.diff(bounds)
    sizes = held + given
    assert (given >= 0).all()
    assert (sizes[given > 0] - sizes.min() <= 1).all()


def test_more_ranks_than_items():
    data = CrowdData(np.zeros((2, 1)))
    weights = [full_batch(data, Rank(rank, 4)).item_weight for rank in range(4)]
    assert float(torch.cat(weights).sum()) == 8
    assert sorted(map(len, weights)) == [1, 1, 1, 1]


def test_noise_of_parts_is_that_of_the_batch():
    data = crowd_of_pages()
    torch.manual_seed(0)
    batch = full_batch(data)
    expected = batch.noise(torch.zeros(3, len(batch.items), 2))
    found = torch.zeros_like(expected)
    for rank in range(2):
        torch.manual_seed(0)
        part = full_batch(data, Rank(rank, 2))
        found[:, part.part.rows] = part.noise(torch.zeros(3, len(part.items), 2))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("supervision", [HiddenMarkovField, CertainLinks])
def test_what_ties_items_is_for_one_process(supervision):
    """In every rank, also in one whose part has no item with neighbours."""
    data = CrowdData(np.zeros((6, 1)), must_link={"left": [0], "right": [1]})
    tied = supervision.of(data, 2)
    assert tied.coupling({}, full_batch(data)) is not None
    for rank in range(3):
        with pytest.raises(ValueError, match="fit these data in one process, or use ClassTable"):
            tied.coupling({}, full_batch(data, Rank(rank, 3)))
