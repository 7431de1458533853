"""The state of a streams application in its cluster, for the message of a test that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import headrace
from headrace import TopicPartition
from headrace.protocol.errors import HeadraceError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence


def missing_counts(sent: Counter[str], found: Mapping[str, Sequence[int]]) -> str:
    """A line for each word whose counts are not 1, 2, 3, ... up to the number of times that it was sent.

    A count that comes twice means that a store lost an update, or that a record was counted twice; an end
    below the number sent alone means that the application is behind.
    """
    lines = []
    for word, total in sorted(sent.items()):
        counts = found.get(word, ())
        wrong = [
            f"{count} follows {before}"
            for before, count in zip((0, *counts), counts, strict=False)
            if count != before + 1
        ]
        last = counts[-1] if counts else 0
        if wrong or last != total:
            lines.append(f"{word}: sent {total}, last count {last}; {', '.join(wrong[:5]) or 'no gap'}")
    return "\n".join(lines) or "all counts are there"


def state_of_application(bootstrap: Any, group: str) -> str:
    """Members, lag, the ends of all topics with and without open transactions, and the transactions."""
    with headrace.Admin(bootstrap) as admin:
        parts: list[Callable[[], str]] = [
            lambda: _group(admin, group),
            lambda: _ends(bootstrap, admin),
            lambda: _transactions(admin),
        ]
        return "\n".join(_or_error(part) for part in parts)


def _or_error(part: Callable[[], str]) -> str:
    try:
        return part()
    except HeadraceError as error:
        return f"unknown: {error!r}"


def _group(admin: headrace.Admin, group: str) -> str:
    description = admin.describe_groups(group)[group]
    lines = [f"group {group}: {description.state}, {len(description.members)} members"]
    lines += [f"  {member}" for member in description.members]
    for tp, lag in sorted(admin.consumer_group_lag(group)[group].partitions.items()):
        lines.append(f"  {tp}: committed {lag.committed}, end {lag.end}, {lag.records} records")
    return "\n".join(lines)


def _ends(bootstrap: Any, admin: headrace.Admin) -> str:
    tps = [
        TopicPartition(topic.name, number)
        for topic in admin.list_topics()
        for number in range(topic.partitions)
    ]
    ends: dict[str, dict[TopicPartition, int]] = {}
    for isolation in ("read_committed", "read_uncommitted"):
        with headrace.Consumer(bootstrap=bootstrap, isolation_level=isolation) as consumer:
            ends[isolation] = consumer.end_offsets(*tps)
    stable, high = ends["read_committed"], ends["read_uncommitted"]
    lines = [
        f"  {tp}: last stable offset {stable[tp]}, high watermark {high[tp]}"
        for tp in tps
        if stable[tp] != high[tp]
    ]
    return "\n".join(["partitions with open transactions:", *lines])


def _transactions(admin: headrace.Admin) -> str:
    ids = [listing.transactional_id for listing in admin.list_transactions()]
    return "\n".join(["transactions:", *(f"  {each}" for each in admin.describe_transactions(*ids).values())])
