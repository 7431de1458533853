"""What a group asks of the positions of its member. Pure; under the engine's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.model import NO_EPOCH
from ..group.group_metadata import OffsetAndMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.errors import HeadraceError
    from ...protocol.model import TopicPartition
    from .fetcher import Fetcher
    from .handout import Handout

ANY_EPOCH = 2**31 - 1

# Of a partition: the version that the position belongs to, and the position.
Positions = dict["TopicPartition", tuple[int, OffsetAndMetadata]]


def positions(fetcher: Fetcher, handout: Handout, *, finished: bool) -> Positions:
    """Where each partition stands; with `finished` not beyond what the user is done with."""
    unfinished = handout.unfinished() if finished else {}
    found: Positions = {}
    for tp, state in fetcher.states.items():
        offset = state.next_position()
        if offset is None:
            continue
        first = unfinished.get(tp)
        if first is not None and first.version == state.version:
            offset = min(offset, first.position)
        epoch = state.epochs.last_before(offset, ANY_EPOCH)
        found[tp] = state.version, OffsetAndMetadata(offset, "", epoch)
    return found


def versions(fetcher: Fetcher, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The versions of those partitions that are read."""
    return {tp: fetcher.states[tp].version for tp in tps if tp in fetcher.states}


def await_start(fetcher: Fetcher, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Begin with those that are not read yet; their versions."""
    begun = {tp: fetcher.await_start(tp) for tp in tps}
    return {tp: version for tp, version in begun.items() if version is not None}


def start(
    fetcher: Fetcher,
    awaited: Mapping[TopicPartition, int],
    found: Mapping[TopicPartition, OffsetAndMetadata | None],
) -> None:
    """Go on where the group has committed."""
    for tp, version in awaited.items():
        offset = found.get(tp)
        if offset is None:
            fetcher.start(tp, version, None, NO_EPOCH)
        else:
            fetcher.start(tp, version, offset.offset, offset.leader_epoch)


def start_failed(fetcher: Fetcher, awaited: Mapping[TopicPartition, int], error: HeadraceError) -> None:
    """The user has to hear why they do not start."""
    for tp in still_awaiting(fetcher, awaited):
        fetcher.states[tp].error = error


def still_awaiting(fetcher: Fetcher, awaited: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Those that nobody has given up or sought elsewhere."""
    states = fetcher.states
    return {
        tp: version
        for tp, version in awaited.items()
        if tp in states and states[tp].version == version and states[tp].awaits_start
    }
