"""Rows about consumer lag, and its trend between two looks. Pure; seconds are monotonic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..clients.admin.lag_types import ConsumerGroupLag, ConsumerLag
    from ..protocol.model import TopicPartition

GROUP_COLUMNS = ("group", "type", "state", "members", "partitions", "lag", "seconds")
PARTITION_COLUMNS = ("topic", "partition", "committed", "end", "lag", "seconds", "member", "client", "host")
TREND_COLUMNS = ("consumed_s", "produced_s", "trend_s", "catch_up")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


class _Look(NamedTuple):
    """What a partition had at a time; `lag` is None if it is unknown."""

    at_s: float
    committed: int
    end: int
    lag: int


class Trends:
    """The change of each partition of each group since the last look.

    `consumed_s` and `produced_s` are offsets per second, transaction markers included; `trend_s` is the
    change of the lag in records per second, negative if it falls.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[str, TopicPartition], _Look] = {}

    def rows_of(self, lags: Iterable[ConsumerGroupLag], now_s: float) -> list[dict[str, Any]]:
        """As `group_row`, with the trend of each partition and of the group."""
        after: dict[tuple[str, TopicPartition], _Look] = {}
        rows = []
        for found in lags:
            row = group_row(found)
            total, known = [0.0, 0.0, 0.0], False
            for part, (tp, lag) in zip(row["partitions"], sorted(found.partitions.items()), strict=True):
                key = (found.group.group_id, tp)
                rates = None
                if lag.committed is not None and lag.end is not None and lag.records is not None:
                    after[key] = look = _Look(now_s, lag.committed, lag.end, lag.records)
                    rates = _rates(self._before.get(key), look)
                if rates is not None:
                    known = True
                    total = [one + other for one, other in zip(total, rates, strict=True)]
                part |= _trend(rates, lag.records)
            row |= _trend(total if known else None, found.records)
            rows.append(row)
        self._before = after
        return rows


def group_row(found: ConsumerGroupLag) -> dict[str, Any]:
    """A group with its partitions, for output as JSON."""
    group = found.group
    return {
        "group": group.group_id,
        "type": group.group_type.value,
        "state": group.state.value,
        "members": len(group.members),
        "lag": found.records,
        "seconds": found.seconds,
        "partitions": [_partition_row(tp, lag) for tp, lag in sorted(found.partitions.items())],
    }


def _partition_row(tp: TopicPartition, lag: ConsumerLag) -> dict[str, Any]:
    member = lag.member
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "committed": lag.committed,
        "start": lag.start,
        "end": lag.end,
        "lag": lag.records,
        "seconds": lag.seconds,
        "member": None if member is None else member.member_id,
        "instance": None if member is None else member.group_instance_id,
        "client": None if member is None else member.client_id,
        "host": None if member is None else member.host,
        "error": None if lag.error is None else str(lag.error),
    }


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """One line of text about a group."""
    return _text({**row, "partitions": len(row["partitions"])})


def partition_lines(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines of text about its partitions."""
    return [_text(part) for part in row["partitions"]]


def duration_text(seconds: float) -> str:
    """In one unit: 3.2 s, 5 min, 2.0 h."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _text(row: dict[str, Any]) -> dict[str, Any]:
    for name in ("seconds", "catch_up"):
        if row.get(name) is not None:
            row = {**row, name: duration_text(row[name])}
    return row


def _rates(before: _Look | None, now: _Look) -> list[float] | None:
    """Per second: offsets consumed, offsets produced, change of the lag."""
    if before is None or now.at_s <= before.at_s:
        return None
    passed = now.at_s - before.at_s
    changes = (now.committed - before.committed, now.end - before.end, now.lag - before.lag)
    return [change / passed for change in changes]


def _trend(rates: list[float] | None, records: int | None) -> dict[str, Any]:
    """`catch_up`: seconds until there is no lag, if it goes on so; None if it does not fall."""
    if rates is None:
        return dict.fromkeys(TREND_COLUMNS)
    catch_up = None
    if not records:
        catch_up = 0.0
    elif rates[2] < 0:
        catch_up = round(records / -rates[2], 1)
    return {
        **dict(zip(TREND_COLUMNS, (round(rate, 1) for rate in rates), strict=False)),
        "catch_up": catch_up,
    }
