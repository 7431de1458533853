"""Takes records from a fetch collector, without the consumer's engine and lock."""

from typing import Any

from headrace.clients.consumer.fetch_collector import FetchCollector


def taken(collector: FetchCollector, most: int) -> list[Any]:
    """Up to `most` returned records; an error after some is left for the next call."""
    records: list[Any] = []
    while (batch := collector.take(records, most)) is not None:
        try:
            collector.prepare(batch)
        except Exception:
            if not records:
                raise
            break
    collector.returned(len(records))
    return records
