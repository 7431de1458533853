"""The positions of a consumer as its group needs them: to commit, and to start from. Pure; under the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.model import NO_EPOCH
from ..group.group_metadata import OffsetAndMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.errors import HeadraceError
    from ...protocol.model import TopicPartition
    from .fetch_collector import FetchCollector
    from .fetcher import Fetcher

ANY_EPOCH = 2**31 - 1

# By partition: the version that the position belongs to, and the position.
Positions = dict["TopicPartition", tuple[int, OffsetAndMetadata]]


def positions(fetcher: Fetcher, collector: FetchCollector, *, processed: bool) -> Positions:
    """The position of each partition; with `processed` the one after the last record that the application
    has processed."""
    unprocessed = collector.unprocessed() if processed else {}
    found: Positions = {}
    for tp, state in fetcher.states.items():
        offset = state.next_position()
        if offset is None:
            continue
        first = unprocessed.get(tp)
        if first is not None and first.version == state.version:
            offset = min(offset, first.position)
        epoch = state.validation.epochs.last_before(offset, ANY_EPOCH)
        found[tp] = state.version, OffsetAndMetadata(offset, "", epoch)
    return found


def versions(fetcher: Fetcher, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The versions of those partitions that are assigned."""
    return {tp: fetcher.states[tp].version for tp in tps if tp in fetcher.states}


def await_start(fetcher: Fetcher, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Assign those that are not assigned yet, without a position; their versions."""
    added = {tp: fetcher.await_start(tp) for tp in tps}
    return {tp: version for tp, version in added.items() if version is not None}


def start(
    fetcher: Fetcher,
    awaited: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
) -> None:
    """Start awaited partitions at the committed offsets of the group."""
    for tp, version in awaited.items():
        offset = committed.get(tp)
        if offset is None:
            fetcher.start(tp, version, None, NO_EPOCH)
        else:
            fetcher.start(tp, version, offset.offset, offset.leader_epoch)


def start_failed(fetcher: Fetcher, awaited: Mapping[TopicPartition, int], error: HeadraceError) -> None:
    """The committed offsets could not be fetched: raise `error` to the application."""
    for tp in still_awaiting(fetcher, awaited):
        fetcher.states[tp].error = error


def still_awaiting(fetcher: Fetcher, awaited: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Those of `awaited` that were neither removed nor sought since."""
    states = fetcher.states
    return {
        tp: version
        for tp, version in awaited.items()
        if tp in states and states[tp].version == version and states[tp].awaits_start
    }
