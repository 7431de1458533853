"""Dump the files of a log, headrace's or Apache Kafka's, as a stream of entries with a text form.

Damage never ends in an exception: a fault entry says at which byte or line and why, and the dump goes on
where it can. Only a disk that fails raises (KafkaStorageError).
Source: Kafka DumpLogSegments.scala, for what is worth showing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError
from ...protocol.records.codec import active_codec
from ...protocol.records.control import control_type
from ...protocol.records.header import HEADER_BYTES, BatchHeader, Compression, read_batch_header
from ...runtime.files.file_layer import Files, read_file
from . import names
from .batches import crc_fault
from .checkpoints import (
    CorruptFileError,
    parse_epochs,
    parse_offsets,
    parse_partition_metadata,
    parse_properties,
    uuid_text,
)
from .dump_indexes import IndexCheck, dump_offset_index, dump_time_index
from .producer_snapshot import parse_producer_snapshot
from .transaction_index import ENTRY_BYTES, parse_transaction_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...runtime.files.file_layer import File

_STATE_SUFFIXES = (names.DELETED, names.CLEANED, names.SWAP, names.TEMPORARY)
_QUORUM_STATE = "quorum-state"
# How the value of a UserScramCredentialRecord in the metadata log begins: MessagePack, three elements.
_CREDENTIAL = b"\x93\xb3UserScramCredential"
_METADATA_SNAPSHOT = re.compile(r"([0-9]{20}-[0-9]{10}|bootstrap)\.checkpoint")


@dataclass(frozen=True, slots=True)
class DumpEntry:
    """One entry of a file.

    `kind` names it (batch, record, offset_index, fault, ...); `fields` are in order, with keys and values of
    records as bytes; `position` is the byte of the file where it starts, where that says anything.
    """

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    position: int | None = None

    @property
    def is_fault(self) -> bool:
        return self.kind == "fault"

    def text(self) -> str:
        at = "" if self.position is None else f" @{self.position}"
        indent = "  " if self.kind in ("record", "control_record") else ""
        fields = " ".join(f"{name}={_text(value)}" for name, value in self.fields.items())
        return f"{indent}{self.kind}{at} {fields}".rstrip()

    def to_mapping(self) -> dict[str, Any]:
        """The entry as JSON-able values: bytes become text, with bytes that are not UTF-8 escaped."""
        fields = {name: _jsonable(value) for name, value in self.fields.items()}
        position = {} if self.position is None else {"position": self.position}
        return {"kind": self.kind, **position, **fields}


def is_known(name: str) -> bool:
    """Whether `dump_file` knows files of this name."""
    name = _plain(name)
    found = names.parse_segment_name(name)
    is_segment = name.endswith(names.LOG) or (found is not None and found[1] in names.SEGMENT_SUFFIXES)
    return is_segment or bool(_METADATA_SNAPSHOT.fullmatch(name)) or _small_file_dumper(name) is not None


def _plain(name: str) -> str:
    for suffix in _STATE_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def dump_file(
    files: Files, path: str, *, has_records: bool = True, verify: bool = False
) -> Iterator[DumpEntry]:
    """Entries of the file at `path`; its name tells the format.

    With `has_records` every batch is decoded to its records. With `verify` index entries are checked against
    the `.log` file beside them. A file of an unknown name is one fault.
    """
    name = _plain(path.rpartition("/")[2])
    if name.endswith(names.LOG) or _METADATA_SNAPSHOT.fullmatch(name):
        yield from _dump_batches(files, path, has_records=has_records)
        return
    found = names.parse_segment_name(name)
    if found is not None and found[1] in (names.OFFSET_INDEX, names.TIME_INDEX):
        check = _index_check(files, path, found[0]) if verify else None
        dump = dump_offset_index if found[1] == names.OFFSET_INDEX else dump_time_index
        for kind, fields, position in dump(read_file(files, path), found[0], check):
            yield DumpEntry(kind, fields, position)
        return
    dump_small = _small_file_dumper(name)
    if dump_small is None:
        yield fault(0, f"{name!r} is not a file of a log")
        return
    try:
        yield from dump_small(read_file(files, path))
    except CorruptFileError as error:
        yield fault(None, str(error))


def _dump_batches(files: Files, path: str, *, has_records: bool) -> Iterator[DumpEntry]:
    file = files.open(path)
    try:
        end = file.size()
        position, expected = 0, None
        while position < end:
            try:
                header = _header(file, position, end)
            except CorruptMessageError as error:
                yield fault(position, f"{error}; the {end - position} bytes from here on are not read")
                return
            yield DumpEntry("batch", _batch_fields(header), position)
            yield from _order_faults(header, position, expected)
            data = memoryview(file.pread(position, header.size_bytes))
            why = crc_fault(data, header)
            if why:
                yield fault(position, why)
            elif has_records:
                yield from _dump_records(data, header, position)
            position += header.size_bytes
            expected = header.next_offset
    finally:
        file.close()


def _header(file: File, position: int, end: int) -> BatchHeader:
    data = file.pread(position, HEADER_BYTES)
    if len(data) >= HEADER_BYTES and not any(data):
        raise CorruptMessageError("zeros where a batch should start, as preallocated or lost space has them")
    header = read_batch_header(data)
    if position + header.size_bytes > end:
        raise CorruptMessageError(f"a batch of {header.size_bytes} bytes, {end - position} are left")
    return header


def _order_faults(header: BatchHeader, position: int, expected: int | None) -> Iterator[DumpEntry]:
    if expected is not None and header.base_offset < expected:
        yield fault(position, f"base offset {header.base_offset} is below {expected}")
    elif expected is not None and header.base_offset > expected:
        yield DumpEntry("gap", {"from_offset": expected, "to_offset": header.base_offset}, position)


def _dump_records(data: memoryview, header: BatchHeader, position: int) -> Iterator[DumpEntry]:
    try:
        records = active_codec().decode(data, check_crc=False)
    except (CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError) as error:
        yield fault(position, f"records: {error}")
        return
    for record in records:
        fields: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
        if header.is_control:
            fields["type"] = _control_name(record.key)
        fields |= {"key": record.key, "value": _shown(record.value)}
        if record.headers:
            fields["headers"] = [list(pair) for pair in record.headers]
        yield DumpEntry("control_record" if header.is_control else "record", fields)


def _shown(value: bytes | None) -> bytes | None:
    """The value, without what only servers may know."""
    return b"[hidden]" if value is not None and value.startswith(_CREDENTIAL) else value


def _control_name(key: bytes | None) -> str:
    try:
        return control_type(key).name
    except InvalidRecordError as error:
        return f"damaged ({error})"


def _batch_fields(header: BatchHeader) -> dict[str, Any]:
    codec = header.compression_id
    fields: dict[str, Any] = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "size_bytes": header.size_bytes,
        "compression": Compression(codec).name.lower() if codec <= max(Compression) else f"unknown ({codec})",
        "timestamp_type": header.timestamp_type.name.lower(),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc": header.crc,
    }
    if header.delete_horizon_ms is not None:
        fields["delete_horizon_ms"] = header.delete_horizon_ms
    return fields


def _index_check(files: Files, path: str, base_offset: int) -> IndexCheck | None:
    directory, slash, _ = path.rpartition("/")
    log_path = f"{directory}{slash}{names.segment_name(base_offset, names.LOG)}"
    return IndexCheck(files, log_path) if files.exists(log_path) else None


def _small_file_dumper(name: str) -> Callable[[bytes], Iterator[DumpEntry]] | None:
    if name.endswith(names.TXN_INDEX):
        return _dump_transaction_index
    if name.endswith(names.SNAPSHOT):
        return _dump_producers
    if name in (names.RECOVERY_POINTS, names.LOG_START_OFFSETS, names.HIGH_WATERMARKS, names.CLEANER_OFFSETS):
        return _dump_offsets
    return {
        names.LEADER_EPOCHS: _dump_epochs,
        names.PARTITION_METADATA: _dump_partition_metadata,
        names.META_PROPERTIES: _dump_properties,
        names.CLEAN_SHUTDOWN: _dump_json,
        _QUORUM_STATE: _dump_json,
    }.get(name)


def _dump_transaction_index(data: bytes) -> Iterator[DumpEntry]:
    for number, entry in enumerate(parse_transaction_index(data)):
        yield DumpEntry("aborted_transaction", entry._asdict(), number * ENTRY_BYTES)
    if len(data) % ENTRY_BYTES:
        at = len(data) - len(data) % ENTRY_BYTES
        yield fault(at, f"{len(data) - at} bytes at the end are not a whole entry")


def _dump_producers(data: bytes) -> Iterator[DumpEntry]:
    for producer in parse_producer_snapshot(data):
        yield DumpEntry("producer", producer._asdict())


def _dump_offsets(data: bytes) -> Iterator[DumpEntry]:
    for (topic, partition), offset in parse_offsets(data).items():
        yield DumpEntry("offset", {"topic": topic, "partition": partition, "offset": offset})


def _dump_epochs(data: bytes) -> Iterator[DumpEntry]:
    for entry in parse_epochs(data):
        yield DumpEntry("leader_epoch", entry._asdict())


def _dump_partition_metadata(data: bytes) -> Iterator[DumpEntry]:
    yield DumpEntry("partition_metadata", {"topic_id": uuid_text(parse_partition_metadata(data))})


def _dump_properties(data: bytes) -> Iterator[DumpEntry]:
    yield DumpEntry("properties", dict(parse_properties(data)))


def _dump_json(data: bytes) -> Iterator[DumpEntry]:
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise CorruptFileError(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise CorruptFileError(f"a JSON object is expected, not {str(fields)[:60]!r}")
    yield DumpEntry("properties", fields)


def fault(position: int | None, why: str) -> DumpEntry:
    """A fault, with the byte of the file if known."""
    return DumpEntry("fault", {"why": why}, position)


def _jsonable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    return value


def _text(value: Any) -> str:
    """Text without line breaks, whatever a record contains."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, list)):
        return json.dumps(_jsonable(value), ensure_ascii=False)
    text = str(value)
    return text if text.isprintable() else json.dumps(text)
