"""Sessions and top pages of an access log as a stream on PySpark 4: topic to topic by `format("headrace")`,
exactly once over restarts.

Run: examples/pipelines/run.py stream
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import access_log
import common
import headrace
from access_log import GAP_MINUTES, TOP, Session
from headrace.clients.spark import register
from pyspark.sql import functions as f
from spark_columns import as_records, hits_of, is_page, session_of

# Hits are this late at most: partitions are read side by side, one may be hours of the log behind another.
LATE = "12 hours"
PER_BATCH = 3000
AFTER_S = 2 * 86_400


def end_of_log(lines: list[bytes]) -> bytes:
    """A request two days later, which ends all other sessions. Its own session stays open and is not
    emitted."""
    at_s = max(hit.at for hit in access_log.hits_of(lines)) // 1000 + AFTER_S
    time = access_log.time_text(at_s)
    return f'end-of-log - - [{time}] "GET / HTTP/1.1" 200 0 "-" "-"'.encode()


def sessions_of(hits: Any) -> Any:
    """client, start, end, hits, size, and the pages that were seen, of each session that is over."""
    window = f.session_window("time", f"{GAP_MINUTES} minutes")
    grouped = hits.withWatermark("time", LATE).groupBy("client", window)
    return grouped.agg(
        f.min("time").alias("start"),
        f.max("time").alias("end"),
        f.count("*").alias("hits"),
        f.sum("size").alias("size"),
        f.collect_list(f.when(is_page(), f.col("path"))).alias("pages"),
    )


def run(spark: Any, bootstrap: str, checkpoint: str) -> list[dict[str, Any]]:
    """All that is new, in batches; once more goes on where this ended. The progress of each batch."""
    at = {"kafka.bootstrap.servers": bootstrap}
    given = {"subscribe": common.LINES, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(PER_BATCH)}
    records = spark.readStream.format("headrace").options(**at, **given).load()
    writer = as_records(sessions_of(hits_of(records)), "pages").writeStream.format("headrace")
    writer = writer.options(**at, topic=common.SESSIONS, checkpointLocation=checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return list(query.recentProgress)


def found(spark: Any, bootstrap: str) -> tuple[list[Session], list[tuple[str, int]]]:
    """The sessions in the topic, and the top of their pages."""
    reader = spark.read.format("headrace").option("subscribe", common.SESSIONS)
    reader = reader.options(
        **{"kafka.bootstrap.servers": bootstrap, "kafka.isolation.level": "read_committed"}
    )
    records = reader.schema("key binary, value binary").load()
    pages = records.select(
        f.explode(f.from_json(f.col("value").cast("string"), "pages array<string>").pages).alias("path")
    )
    visits = pages.groupBy("path").agg(f.count("*").alias("visits"))
    top = visits.orderBy(f.desc("visits"), "path").limit(TOP).collect()
    return list(map(session_of, records.collect())), [(row.path, row.visits) for row in top]


def main() -> None:
    """A cluster and a Spark, the first half of the log, the rest after a restart of the query."""
    options = common.arguments(__doc__)
    lines = [*options.lines, end_of_log(options.lines)]
    half = len(lines) // 2
    configs = {"spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR"}
    with (
        headrace.local() as cluster,
        tempfile.TemporaryDirectory() as checkpoint,
        headrace.spark.session("sessions", master="local[2]", configs=configs) as spark,
    ):
        register(spark)
        common.create(cluster, common.LINES, common.SESSIONS)
        for part in (lines[:half], lines[half:]):
            common.send_log(cluster.bootstrap, part)
            batches = run(spark, cluster.bootstrap, checkpoint)
            rows = [each["numInputRows"] for each in batches]
            print(f"a run of {len(rows)} batches: {rows} rows", file=sys.stderr)
        sessions, pages = found(spark, cluster.bootstrap)
    common.show_sessions(sessions, pages)
    common.save_sessions(options.out, "Structured streaming on PySpark 4", sessions, pages)


if __name__ == "__main__":
    main()
