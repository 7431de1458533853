"""Arrow tables: send a table of readings to a topic, read it back as batches, and average by sensor.

Needs pyarrow (pip install 'headrace[arrow]'). Run: python examples/arrow_roundtrip.py
"""

from __future__ import annotations

import headrace
import pyarrow as pa
import pyarrow.compute as pc

ROWS = 100_000
SENSORS = {"cold": 4.0, "hot": 32.0, "mild": 18.0}


def readings() -> pa.Table:
    """One row per reading: the sensor is the key, the temperature the value."""
    names = sorted(SENSORS)
    return pa.table(
        {
            "sensor": [names[number % 3] for number in range(ROWS)],
            "celsius": [f"{SENSORS[names[number % 3]] - number % 5 * 0.005:.3f}" for number in range(ROWS)],
        }
    )


def main() -> None:
    """Send the table, read it back as Arrow batches, group it."""
    with headrace.local() as cluster:
        cluster.admin().create_topics(headrace.NewTopic("readings", 3)).raise_for_errors()
        outcomes = cluster.producer().send_arrow("readings", readings(), key="sensor", value="celsius")
        outcomes.raise_for_errors(timeout=120)

        consumer = cluster.consumer("readings", auto_offset_reset="earliest", iter_timeout=3.0)
        batches = list(consumer.arrow_batches(timeout=0.2, columns=["key", "value"]))
    table = pa.Table.from_batches(batches)
    text = {name: table[name].cast(pa.string()) for name in table.column_names}
    averages = (
        pa.table({"sensor": text["key"], "celsius": pc.cast(text["value"], pa.float64())})
        .group_by("sensor")
        .aggregate([("celsius", "mean")])
        .sort_by([("celsius_mean", "descending")])
    )
    print("rows", table.num_rows)
    for row in averages.to_pylist():
        print(f"{row['sensor']:6} {row['celsius_mean']:6.2f}")


if __name__ == "__main__":
    main()
