"""Hands fetched records to the user: decodes, deserialises, keeps the order, moves positions. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError, SerializationError
from .gathering import Start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from ...protocol.records.codec import RecordCodec
    from ..records import Headers
    from .fetch_state import Chunk, PartitionState
    from .fetcher import Fetcher
    from .gathering import Gathering

Loads = Callable[[str, bytes, "Headers"], Any]
# What to do with a record that cannot be deserialised: the record to hand out instead, None to skip it.
OnBadRecord = Callable[[Any, SerializationError], Any]
# Gets records that can be handed out: those that are, of the same offsets and in the same order.
OnReady = Callable[[list[Any]], list[Any]]


class Handout:
    """The user's end of a fetcher. `loads_key` and `loads_value` are None for plain bytes.

    `on_bad_record` None raises the SerializationError; the position then stays at the bad record, so that
    the user may seek past it. `on_ready` None hands out all.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        codec: RecordCodec,
        loads_key: Loads | None,
        loads_value: Loads | None,
        on_bad_record: OnBadRecord | None,
        *,
        check_crcs: bool,
        on_ready: OnReady | None = None,
    ) -> None:
        self._fetcher, self._codec, self._check_crcs = fetcher, codec, check_crcs
        self._loads_key, self._loads_value, self._on_bad_record = loads_key, loads_value, on_bad_record
        self._is_plain, self._on_ready = loads_key is None and loads_value is None, on_ready
        self._last: TopicPartition | None = None  # whose chunk was handed out last
        self._current: Chunk | None = None  # that chunk, while there may be more of it
        # What was taken and not handed out yet: from where in a chunk on, and the version of its partition.
        self._marks: list[tuple[Chunk, int, int]] = []
        # What was handed out last and counts as unfinished until more is asked for, in the same form; rows.
        self._handed: list[tuple[Chunk, int, int]] = []
        self._gathering: Gathering | None = None
        self._iterating: tuple[Chunk, int, int] | None = None  # where the iteration over a chunk began
        self.records_total = 0
        self.is_blocked = False  # the last `take` stopped before an error

    def head(self, *, after_records: bool = False) -> Chunk | None:
        """The chunk that comes next, or None when nothing is there. Unless it `is_ready`, it must be given to
        `prepare` before anything of it can be handed out.

        Partitions take turns, chunk by chunk. Errors: what a partition met, once, but not `after_records`,
        where it is left for the next call.
        """
        current = self._current
        if current is not None and current.is_active and current.index < current.ready:
            return current  # a chunk that was begun is finished first: the short way there
        self._current = None
        for state in self._in_turn():
            if state.error is not None and not state.chunks:  # what was fetched before the error comes first
                if after_records:
                    self.is_blocked = True
                    return None
                self._raise_error(state, state.error)
            if state.is_paused:
                continue
            while state.chunks:
                chunk = state.chunks[0]
                if not chunk.is_decoded or chunk.index < len(chunk.records):
                    if chunk.is_ready:
                        self._last, self._current = state.tp, chunk
                    return chunk
                self._fetcher.chunk_done(chunk)
        return None

    def prepare(self, chunk: Chunk) -> None:
        """Decode a chunk and deserialise records of it; perhaps none is left then.

        Needs no lock: only the user takes chunks away, and what a deserialiser does (seek, pause) makes the
        chunk stop being active. Errors: SerializationError, or what the user's code raises;
        CorruptMessageError, InvalidRecordError (again at every call until the user seeks).
        """
        if not chunk.is_decoded:
            self._decode(chunk)
        if not chunk.is_ready and chunk.index < len(chunk.records):
            self._make_ready(chunk)

    def take(self, taken: list[Any], max_records: int) -> Chunk | None:
        """Move records to `taken` until these are `max_records`; the chunk that must be given to `prepare`
        before more can be moved, if one stopped it. Errors: as `head`, but never with records in `taken`.

        The positions move too: tell `handed_out`, or `put_back`.
        """
        self.is_blocked = False
        while len(taken) < max_records:
            chunk = self.head(after_records=bool(taken))
            if chunk is None or not chunk.is_ready:
                return chunk
            self._marks.append((chunk, chunk.index, chunk.state.version))
            end = min(chunk.ready, chunk.index + max_records - len(taken))
            taken += chunk.records[chunk.index : end]
            chunk.index = end
            self.settle(chunk)
        return None

    def handed_out(self, count: int) -> None:
        """The user has the records taken since the last call."""
        # Order: no call in here, nor from here to the user's hands: an interrupt is delivered after a call.
        self._handed = self._marks
        self._marks = []
        self.records_total += count

    def asked(self) -> None:
        """The user asks for more: what it has, it has finished."""
        self._handed = []
        self._gathering = self._iterating = None

    def unfinished(self) -> dict[TopicPartition, Start]:
        """Where each partition stood before the first record that the user has not finished."""
        found: dict[TopicPartition, Start] = {}
        marks = [*self._handed, *self._marks]
        if self._iterating is not None:
            chunk, first, version = self._iterating
            if chunk.index > first:  # the record before is in the user's hands
                marks.append((chunk, chunk.index - 1, version))
        for chunk, index, version in marks:
            found.setdefault(chunk.state.tp, Start(version, chunk.records[index].offset))
        if self._gathering is not None:
            found |= self._gathering.starts
        return found

    def iterate(self, chunk: Chunk) -> None:
        """The user gets the chunk's records one by one."""
        self._iterating = (chunk, chunk.index, chunk.state.version)

    def iterated(self) -> tuple[int, int]:
        """What changes while the user iterates over records."""
        return (0, 0) if self._iterating is None else (id(self._iterating[0]), self._iterating[0].index)

    def put_back(self) -> None:
        """The user does not get the records taken since the last call (an interrupt, a cancelled task)."""
        starts: dict[TopicPartition, Start] = {}
        for chunk, index, version in self._marks:
            starts.setdefault(chunk.state.tp, Start(version, chunk.records[index].offset))
        self._go_back(starts)
        self._marks = []

    def settle(self, chunk: Chunk) -> None:
        """The user has taken records of the chunk: drop it when none are left."""
        state = chunk.state
        if chunk.index >= len(chunk.records) and state.chunks and state.chunks[0] is chunk:
            self._fetcher.chunk_done(chunk)

    def choose(self, gathering: Gathering) -> list[Chunk]:
        """Chunks of one partition with about as many rows as the gathering has room for, none of them
        decoded; empty when nothing is there. All that is there of one partition comes before the next.

        Errors: what a partition met, once; while the gathering has rows it is blocked instead.
        """
        chosen: list[Chunk] = []
        self._gathering = gathering
        rows = 0
        for state in self._in_turn():
            if state.error is not None and not state.chunks:
                if gathering.count:
                    gathering.is_blocked = True
                    return chosen
                self._raise_error(state, state.error)
            if state.is_paused or not state.chunks:
                continue
            state.unpack_head()
            self._last = state.tp
            for chunk in state.chunks:
                chosen.append(chunk)
                rows += chunk.count
                if rows >= gathering.left:
                    break
            return chosen  # of one partition: its room is told before the next one is read
        return chosen

    def gather(self, gathering: Gathering, chunks: list[Chunk], moves: list[tuple[Chunk, int]]) -> None:
        """Take the rows of chosen chunks; `moves` gets how far each was read, to be told by `moved`.

        Needs no lock: the chunks stay what they are as long as the user does nothing else. Errors: as
        `head`, for the first chunk that cannot be read.
        """
        previous: PartitionState | None = None
        position = 0
        for chunk in chunks:
            if not gathering.left:
                return
            if chunk.state is not previous:
                previous = chunk.state
                assert previous.position is not None
                position = previous.position
            next_offset = chunk.next_offset
            if not chunk.is_hidden:
                try:
                    next_offset = gathering.add(chunk, position, check_crc=self._check_crcs)
                except HeadraceError as error:
                    raise type(error)(f"{chunk.state.tp} at offset {position}: {error}") from error
            moves.append((chunk, next_offset))
            if next_offset != chunk.next_offset:
                gathering.is_blocked = True  # full, by rows or by the bytes of a column
                return
            position = next_offset

    def moved(self, moves: list[tuple[Chunk, int]]) -> None:
        """Move the positions behind what was gathered."""
        for chunk, next_offset in moves:
            if next_offset == chunk.next_offset:
                self._fetcher.chunk_done(chunk)
            else:
                chunk.state.position = next_offset
                chunk.is_partly_gathered = True

    def undo(self, gathering: Gathering) -> None:
        """What was gathered is not handed out."""
        self._go_back(gathering.starts)
        self._gathering = None

    def _go_back(self, starts: Mapping[TopicPartition, Start]) -> None:
        """To where it began, unless the user went elsewhere."""
        for tp, start in starts.items():
            state = self._fetcher.states.get(tp)
            if state is not None and state.version == start.version:
                self._fetcher.go_back(tp, start.position)

    def _in_turn(self) -> list[PartitionState]:
        states = list(self._fetcher.states.values())
        for index, state in enumerate(states):
            if state.tp == self._last:
                head = state.chunks[0] if state.chunks else None
                # a chunk that was begun is finished first
                start = index if head is not None and head.is_begun else index + 1
                return states[start:] + states[:start]
        return states

    def _raise_error(self, state: PartitionState, error: HeadraceError) -> None:
        if state.position is not None:
            state.error = None  # told; the next poll tries again
            self._fetcher.needs_wake = True
        raise error

    def _decode(self, chunk: Chunk) -> None:
        state = chunk.state
        assert state.position is not None
        if not chunk.is_hidden:
            tp = state.tp
            try:
                records = self._codec.decode(
                    chunk.batch, topic=tp.topic, partition=tp.partition, check_crc=self._check_crcs
                )
            except HeadraceError as error:
                raise type(error)(f"{tp} at offset {state.position}: {error}") from error
            if records and records[0].offset < state.position:  # the position is inside the batch
                records = [record for record in records if record.offset >= state.position]
            chunk.records = list(records)
            chunk.loaded = len(records) if self._is_plain else 0
            chunk.ready = chunk.loaded if self._on_ready is None else 0
        chunk.is_decoded = True

    def _make_ready(self, chunk: Chunk) -> None:
        """Deserialise up to the first record that makes an error, which is raised if none is before it; then
        let `on_ready` choose."""
        records, index = chunk.records, chunk.loaded
        try:
            while index < len(records) and chunk.is_active:
                record = self._deserialized(records[index])
                if record is None:
                    del records[index]
                    continue
                records[index] = record
                index += 1
        except Exception:
            if index == chunk.index:
                raise
            # the good ones are handed out first; the next call meets it again
        finally:
            chunk.loaded = index  # whatever happened, no record is deserialised twice
        if self._on_ready is not None and chunk.ready < index and chunk.is_active:
            # Order: an interrupt in there leaves them unseen, and the next call shows them again.
            chosen = self._on_ready(records[chunk.ready : index])
            records[chunk.ready : index] = chosen
            chunk.loaded = chunk.ready + len(chosen)
        chunk.ready = chunk.loaded

    def _deserialized(self, record: Any) -> Any:
        """The record to hand out, None to skip it."""
        try:
            self._deserialize(record)
        except SerializationError as error:
            bad = _at(record, error)
            if self._on_bad_record is None:
                raise bad from error
            return self._on_bad_record(record, bad)
        return record

    def _deserialize(self, record: Any) -> None:
        # Order: both before the record is filled, so that a bad one is seen as it came.
        key, value = record.key, record.value
        if self._loads_key is not None and key is not None:
            key = self._loads_key(record.topic, key, record.headers)
        if self._loads_value is not None and value is not None:
            value = self._loads_value(record.topic, value, record.headers)
        record._fill(key, value)  # noqa: SLF001 - nobody has it yet, and one object less for every record


def _at(record: Any, error: SerializationError) -> SerializationError:
    where = f"{record.topic}-{record.partition} at offset {record.offset}"
    text = f"{where}: {error}; seek past it, or pass on_deserialize_error='skip'"
    return SerializationError(text, record.topic, error.field, record.partition, record.offset, record)
