"""Outliers of sensors, found by column: a section of the application works on batches of pyarrow.

What takes Python a call per record takes one call of numpy or pyarrow per batch.

Run: python examples/streams/arrow_outliers.py
"""

from __future__ import annotations

import random

import common
import pyarrow as pa
import pyarrow.compute as pc
from headrace import int64, json, stream, utf8

RECORDS = 60_000
USUAL = (180, 240)  # tenths of a degree
OUTLIERS = 25


def outliers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows out of the usual range. Columns: topic, partition, offset, timestamp, key, value, headers."""
    value = batch.column("value")
    return batch.filter(pc.or_(pc.less(value, USUAL[0]), pc.greater(value, USUAL[1])))


def app() -> stream.App:
    """The application: before and behind the section there are the usual operators."""
    made = stream.App("arrow-outliers", key=utf8, value=int64, commit_interval_ms=200)
    rows = made.stream("temperatures").arrow(outliers, batch=10_000, max_wait=200)
    rows.map_values(lambda tenths: tenths / 10).to("outliers", value=json)
    return made


def temperatures() -> list[tuple[str, int]]:
    """Sensor and temperature of each record, always the same."""
    rng = random.Random(1)
    usual = [(f"sensor-{rng.randrange(20)}", rng.randint(*USUAL)) for _ in range(RECORDS - OUTLIERS)]
    found = [*usual, *((f"sensor-{number % 20}", 400 + number) for number in range(OUTLIERS))]
    rng.shuffle(found)
    return found


def main() -> None:
    """The outliers of all sensors."""
    with common.cluster("temperatures", "outliers") as cluster:
        with cluster.producer(key=utf8, value=int64) as producer:
            for sensor, tenths in temperatures():
                producer.send("temperatures", tenths, key=sensor)
        with common.run(app(), cluster) as running:
            found = common.read(
                running, "outliers", lambda records: len(records) == OUTLIERS, key=utf8, value=json
            )
    warmest = sorted(found, key=lambda record: -record.value)
    for record in warmest[:3]:
        print(f"{record.key:9} {record.value:5.1f}")
    print(f"{len(found)} outliers of {RECORDS:,} records, sum {sum(record.value for record in found):.1f}")


if __name__ == "__main__":
    main()
