"""Rows for training: each worker reads its shard of a plan directly from the nodes, without Ray's tasks.

The position is known by exact offsets, so a training continues where it stopped, with any number of workers.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ..arrow.layout import projection
from ..arrow.library import pa
from ..pipeline.reading_io import fetch_arrow
from .planning_io import planned
from .sharding import Place, Shards, first_place, own_place, place_from, spread
from .tensors import as_numpy, as_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ..pipeline.ranges import OffsetRange

FORMATS = {"arrow": lambda table: table, "numpy": as_numpy, "torch": as_torch}


def sharded(
    topics: str | list[str] | None = None,
    *,
    bootstrap_servers: str | list[str] | None = None,
    start_offset: Any = "earliest",
    end_offset: Any = "latest",
    **options: Any,
) -> Shards:
    """The plan that all workers of a training share; arguments as for `read`, except those of Ray's tasks.

    Errors: ConfigError, UnknownTopicOrPartitionError, DataLossError, NoClusterError, ApiTimeoutError.
    """
    given = {name: value for name, value in options.items() if value is not None}
    checked, plan = planned(topics, bootstrap_servers, start_offset, end_offset, given)
    return Shards(plan.ranges, checked)


class ShardIterator:
    """Batches of one shard. Each `for` loop returns the rest of an epoch; the next one starts the next epoch.

    Batches have `batch_size` rows; the last one of an epoch may have fewer, or is dropped (`drop_last`). They
    are the result of `decode` for a pyarrow.Table; without it, by `batch_format`, the table ("arrow"), or a
    dict of its columns as NumPy arrays ("numpy": numbers, times in UTC, objects for other types; null is None
    or NaT), or as tensors ("torch": numbers, times in microseconds, bytes of equal length as uint8).

    The shard is that of `rank` among `world_size` workers, by default from Ray Train; workers of a torch
    DataLoader share it. `epoch` counts from 0. Used by one thread.

    Errors: ConfigError; while iterating those of `fetch_arrow`.
    """

    def __init__(
        self,
        shards: Shards,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        batch_size: int = 1024,
        batch_format: str = "numpy",
        columns: Iterable[str] | None = None,
        decode: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be an integer >= 1, not {batch_size!r}")
        if batch_format not in FORMATS:
            raise ConfigError(f"batch_format must be one of {', '.join(FORMATS)}, not {batch_format!r}")
        if (rank is None) != (world_size is None):
            raise ConfigError("give both rank and world_size, or neither")
        self._shards, self._batch_size, self._drop_last = shards, batch_size, drop_last
        self._worker = _train_worker() if rank is None or world_size is None else (rank, world_size)
        first_place(*self._worker)
        if columns is None:
            columns = [
                name
                for name in projection(None).schema.names
                if name != "headers" or shards.options.include_headers
            ]
        self._names = projection(columns).schema.names
        self._shape: Callable[[Any], Any] = FORMATS[batch_format] if decode is None else decode
        self._place: Place | None = None

    @property
    def epoch(self) -> int:
        """The current epoch, or the next one."""
        place = self._placed()
        return place.rests[0][0] if place.rests else place.next_epoch

    def __iter__(self) -> Iterator[Any]:
        place = self._placed()
        if not place.rests:
            epoch = place.next_epoch
            whole = self._shards.of(place.shard, place.count)
            self._place = Place(place.shard, place.count, ((epoch, whole),), epoch + 1)
        yield from self._rest()

    def state_dict(self) -> dict[str, Any]:
        """The unread rest as JSON-able state: all rows that were not returned."""
        return self._placed().state(self._shards.mark)

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Continue from the state of this shard, or from a list of the states of all shards, of any number.
        Errors: ConfigError."""
        shard, count = self._identity()
        if isinstance(state, list | tuple):
            self._place = place_from(self._shards, state, shard, count)
        else:
            self._place = own_place(self._shards, state, shard, count)  # type: ignore[arg-type]

    # --- position -------------------------------------------------------------------------------------------

    def _placed(self) -> Place:
        place = first_place(*self._worker) if self._place is None else self._place
        if place.count != self._identity()[1]:  # just forked by a DataLoader
            place = spread(place, *_loader_worker())
        self._place = place
        return place

    def _identity(self) -> tuple[int, int]:
        rank, size = self._worker
        number, workers = _loader_worker()
        return rank * workers + number, size * workers

    def _rest(self) -> Iterator[Any]:
        """Batches of the first started epoch. The position is advanced before a batch is returned."""
        place = self._placed()
        (epoch, ranges), later = place.rests[0], place.rests[1:]
        for table, left in _batches(ranges, self._shards, self._names, self._batch_size):
            if table.num_rows == self._batch_size or not self._drop_last:
                self._place = Place(place.shard, place.count, ((epoch, left), *later), place.next_epoch)
                yield self._shape(table)
        self._place = Place(place.shard, place.count, later, place.next_epoch)


def _batches(
    ranges: Sequence[OffsetRange], shards: Shards, names: list[str], size: int
) -> Iterator[tuple[Any, tuple[OffsetRange, ...]]]:
    """Tables of `size` rows, the last one smaller, with the unread rest after each."""
    columns = list(dict.fromkeys([*names, "offset"]))
    pieces: list[Any] = []
    rows = 0
    left: tuple[OffsetRange, ...] = tuple(ranges)
    for number, each in enumerate(ranges):
        for batch in fetch_arrow(each, shards.options, columns=columns):
            start = 0
            while start < batch.num_rows:
                piece = batch.slice(start, size - rows)
                start, rows = start + piece.num_rows, rows + piece.num_rows
                pieces.append(piece)
                after = piece.column("offset")[piece.num_rows - 1].as_py() + 1
                left = (each._replace(start=after), *ranges[number + 1 :])
                if rows == size:
                    yield pa.Table.from_batches(pieces).select(names), left
                    pieces, rows = [], 0
    if pieces:
        yield pa.Table.from_batches(pieces).select(names), ()


def _train_worker() -> tuple[int, int]:
    import ray.train  # imported only when used

    context = ray.train.get_context()
    return context.get_world_rank(), context.get_world_size()


def _loader_worker() -> tuple[int, int]:
    """The index of this process among the workers of a torch DataLoader, and their number."""
    torch: Any = sys.modules.get("torch")
    found = None if torch is None else torch.utils.data.get_worker_info()
    return (0, 1) if found is None else (found.id, found.num_workers)
