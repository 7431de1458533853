"""Columns as arrays and tensors, and their imports."""

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from headrace.clients.pipeline.ranges import OffsetRange
from headrace.clients.pipeline.source_options import read_options
from headrace.clients.ray_data import training_io
from headrace.clients.ray_data.sharding import Shards
from headrace.clients.ray_data.tensors import as_numpy, as_torch
from headrace.clients.ray_data.training_io import ShardIterator
from headrace.protocol.errors import ConfigError

TIMES = pa.array([1_000_000, 2_000_000], pa.timestamp("us", tz="UTC"))
PLAN = Shards(tuple(OffsetRange("t", each, 0, 10) for each in range(4)), read_options({"subscribe": "t"}))


def test_ray_and_torch_are_imported_at_first_use() -> None:
    """`headrace` imports no Ray; the iterator of a training and its pickle import neither."""
    program = (
        "import sys\n"
        "from headrace import ray_data\n"
        "assert not {'ray', 'pyarrow', 'torch'} & set(sys.modules)\n"
        "ray_data.ShardIterator, ray_data.Shards, ray_data.sharded\n"
        "assert not {'ray', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_columns_as_numpy_arrays() -> None:
    """Numbers and times keep their type, bytes are objects, null is None."""
    found = as_numpy(pa.table({"offset": [1, 2], "timestamp": TIMES, "key": [b"a", None]}))
    assert found["offset"].tolist() == [1, 2]
    assert found["timestamp"].dtype == np.dtype("datetime64[us]")
    assert found["timestamp"].astype(int).tolist() == [1_000_000, 2_000_000]
    assert found["key"].tolist() == [b"a", None]


class FakeTorch(ModuleType):
    """The used part of torch: it raises where torch would warn or raise."""

    uint8, int32, int64 = np.uint8, np.int32, np.int64
    empty = staticmethod(np.empty)

    def __init__(self) -> None:
        super().__init__("torch")
        self.worker: Any = None
        self.utils = SimpleNamespace(data=SimpleNamespace(get_worker_info=lambda: self.worker))

    @staticmethod
    def frombuffer(memory: Any, dtype: Any) -> Any:
        assert memory
        assert not memoryview(memory).readonly
        return np.frombuffer(memory, dtype)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.mark.usefixtures("torch")
def test_columns_as_tensors() -> None:
    """Bytes of one length are two-dimensional uint8; times are microseconds."""
    found = as_torch(pa.table({"value": [b"ab", b"cd"], "offset": [1, 2], "timestamp": TIMES}))
    assert found["value"].tolist() == [[97, 98], [99, 100]]
    assert found["value"].dtype == np.uint8
    assert found["offset"].tolist() == [1, 2]
    assert found["timestamp"].tolist() == [1_000_000, 2_000_000]


@pytest.mark.usefixtures("torch")
def test_tensors_of_slices() -> None:
    """They do not hold the rest of the batch; an empty slice is a tensor too."""
    whole = pa.table(
        {"value": [b"ab", b"cd", b"ef"], "partition": pa.array([1, 2, 3], pa.int32()), "offset": [4, 5, 6]}
    )
    found = as_torch(pa.concat_tables([whole.slice(1), whole.slice(0, 1)]))
    assert {name: array.tolist() for name, array in found.items()} == {
        "value": [[99, 100], [101, 102], [97, 98]], "partition": [2, 3, 1], "offset": [5, 6, 4],
    }  # fmt: skip
    assert {name: array.shape for name, array in as_torch(whole.slice(0, 0)).items()} == {
        "value": (0, 0), "partition": (0,), "offset": (0,),
    }  # fmt: skip
    assert as_torch(pa.table({"value": [b"", b""]}))["value"].shape == (2, 0)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([b"a", None]), "1 nulls"),
        (pa.array([b"a", b"bc"]), "2 lengths"),
        (pa.array(["a"]), "string"),
    ],
)
def test_columns_without_a_tensor_type_are_errors(column: Any, text: str) -> None:
    """The error names the column and the remedy."""
    with pytest.raises(ValueError, match=f"'value' has.*{text}.*decode="):
        as_torch(pa.table({"value": column}))


def test_missing_torch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="tensors: torch is not installed here: pip install"):
        as_torch(pa.table({"offset": [1]}))


def fetched(range_: OffsetRange, *_: Any, columns: list[str]) -> Any:
    """A row for two of three offsets, in batches of four."""
    offsets = [each for each in range(range_.start, range_.end) if each % 3]
    for start in range(0, len(offsets), 4):
        some = offsets[start : start + 4]
        table = pa.table({"partition": [range_.partition] * len(some), "offset": some})
        yield table.select(columns).to_batches()[0]


@pytest.fixture
def gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_io, "fetch_arrow", fetched)


def iterator(rank: int = 0, size: int = 1, **more: Any) -> ShardIterator:
    more = {"batch_format": "arrow", "columns": ["partition", "offset"], "batch_size": 5, **more}
    return ShardIterator(PLAN, rank=rank, world_size=size, **more)


ROWS = [(partition, offset) for partition in range(4) for offset in range(10) if offset % 3]


def rows(batches: Any) -> list[tuple[int, int]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.usefixtures("gaps")
def test_batches_span_gaps_and_ranges() -> None:
    """All have the batch size but the last; each `for` is an epoch."""
    whole = iterator()
    for epoch in range(2):
        assert whole.epoch == epoch
        batches = list(whole)
        assert [batch.num_rows for batch in batches] == [5, 5, 5, 5, 4]
        assert rows(batches) == ROWS
    assert [batch.num_rows for batch in iterator(drop_last=True)] == [5, 5, 5, 5]
    assert list(iterator(decode=lambda table: table.num_rows)) == [5, 5, 5, 5, 4]


@pytest.mark.usefixtures("gaps")
@pytest.mark.parametrize("batches", range(6))
def test_iteration_resumes_after_any_batch(batches: int) -> None:
    """No row is repeated or left out."""
    first = iterator()
    seen = rows(batch for _, batch in zip(range(batches), first, strict=False))
    second = iterator(batch_size=3)
    second.load_state_dict(first.state_dict())
    assert seen + rows(second) == ROWS
    assert rows(second) == ROWS


@pytest.mark.usefixtures("gaps")
def test_other_workers_resume_together() -> None:
    """From the states of all, in any order."""
    before = [iterator(rank, 3) for rank in range(3)]
    seen = rows(next(iter(each)) for each in before[:2])
    states = [each.state_dict() for each in reversed(before)]
    after = [iterator(rank, 2) for rank in range(2)]
    for each in after:
        each.load_state_dict(states)
        seen += rows(each)
    assert sorted(seen) == ROWS
    with pytest.raises(ConfigError, match="give a list of the states of all"):
        after[0].load_state_dict(states[0])


@pytest.mark.usefixtures("gaps")
def test_workers_of_a_data_loader_share_a_shard(torch: FakeTorch) -> None:
    """Also the rest of an epoch that was loaded before they were forked."""
    first = iterator(1, 2)
    seen = rows([next(iter(first))])
    state, found = first.state_dict(), []
    for number in range(2):
        torch.worker = None
        forked = iterator(1, 2)
        forked.load_state_dict(state)
        torch.worker = SimpleNamespace(id=number, num_workers=2)
        found += rows(forked)
        assert forked.state_dict()["shards"] == 4
    assert sorted(seen + found) == ROWS[12:]


@pytest.mark.parametrize(
    "more", [{"batch_size": 0}, {"batch_format": "pandas"}, {"rank": 1, "size": 1}, {"rank": 0, "size": None}]
)
def test_invalid_arguments_are_errors(more: dict[str, Any]) -> None:
    """Each with its own error."""
    with pytest.raises(ConfigError):
        iterator(**more)
