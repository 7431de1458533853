"""The arguments of `commit` in one form: offsets by partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ...protocol.model import TopicPartition
from .group_metadata import OffsetAndMetadata

if TYPE_CHECKING:
    from ...protocol.errors import HeadraceError

    # By partition: the next offset to read, as Kafka commits it.
    Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]

NO_GROUP = "this consumer has no group; pass group=... when it is made"


def offsets_to_commit(what: Any) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """Convert a record, records, an Arrow table of records, or offsets by partition to offsets by partition.

    None (all positions of the consumer) stays None. Errors: TypeError; ValueError for a negative offset.
    """
    if what is None:
        return None
    if isinstance(what, Mapping):
        return {_partition(tp): _offset(offset) for tp, offset in what.items()}
    if hasattr(what, "schema") and hasattr(what, "column"):
        return _of_table(what)
    records = what if isinstance(what, Iterable) else (what,)
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for record in records:
        try:
            tp = TopicPartition(record.topic, record.partition)
            following = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
        except AttributeError as error:
            raise TypeError(
                f"a record, records, or offsets by partition are committed, not {what!r}"
            ) from error
        if tp not in found or found[tp].offset < following.offset:
            found[tp] = following
    return found


def _of_table(table: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    from ..arrow.library import pa

    places = ["topic", "partition", "offset"]
    if not set(places) <= set(table.schema.names):
        raise TypeError(f"a table is committed by its columns {', '.join(places)}, not {table.schema.names}")
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    last = table.group_by(places[:2], use_threads=False).aggregate([("offset", "max")])
    return {
        _partition((row["topic"], row["partition"])): _offset(row["offset_max"] + 1)
        for row in last.to_pylist()
    }


def _partition(tp: Any) -> TopicPartition:
    match tp:
        case (str(topic), int(partition)):
            return TopicPartition(topic, partition)
    raise TypeError(f"partitions are given as TopicPartition(topic, partition), not {tp!r}")


def _offset(offset: Any) -> OffsetAndMetadata:
    found = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
    if isinstance(found.offset, bool) or not isinstance(found.offset, int):
        raise TypeError(f"an offset is a whole number or an OffsetAndMetadata, not {offset!r}")
    if found.offset < 0:
        raise ValueError(f"an offset must not be negative: {found.offset}")
    return found


def no_group() -> HeadraceError:
    """The error of a group operation on a consumer without a group."""
    return ConfigError(NO_GROUP)
