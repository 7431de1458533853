"""Sessions and top pages of an access log, on Spark 3.5 that runs on Ray: topic to topic, exactly once.

Run: examples/pipelines/run.py raydp
"""

from __future__ import annotations

from typing import Any

import common
import headrace
from access_log import GAP_MINUTES, TOP, Session
from pyspark.sql import Window
from pyspark.sql import functions as f
from spark_columns import as_records, hits_of, is_page, session_of

READ_COMMITTED = {"kafka.isolation.level": "read_committed"}


def sessions_of(hits: Any) -> Any:
    """client, start, end, hits, size of each session."""
    of_client = Window.partitionBy("client").orderBy("time")
    pause_s = f.unix_seconds("time") - f.lag(f.unix_seconds("time")).over(of_client)
    begins = f.coalesce(pause_s >= GAP_MINUTES * 60, f.lit(True)).cast("int")
    numbered = hits.withColumn("begins", begins).withColumn("number", f.sum("begins").over(of_client))
    return numbered.groupBy("client", "number").agg(
        f.min("time").alias("start"),
        f.max("time").alias("end"),
        f.count("*").alias("hits"),
        f.sum("size").alias("size"),
    )


def top_pages(hits: Any) -> Any:
    """path and visits of the first ones."""
    visits = hits.where(is_page()).groupBy("path").agg(f.count("*").alias("visits"))
    return visits.orderBy(f.desc("visits"), "path").limit(TOP)


def run(spark: Any, bootstrap: str) -> list[bool]:
    """What each `write_batch` says. Once more changes nothing: both are the batch 0 of their queries."""
    at = {"kafka.bootstrap.servers": bootstrap}
    hits = hits_of(headrace.spark.read(spark, columns=["value"], subscribe=common.LINES, **at))
    pages = top_pages(hits).select(
        f.col("path").cast("binary").alias("key"), f.col("visits").cast("string").alias("value")
    )
    outputs = {common.SESSIONS: as_records(sessions_of(hits)), common.PAGES: pages}
    return [
        headrace.spark.write_batch(rows, 0, query=topic, topic=topic, **at) for topic, rows in outputs.items()
    ]


def found(spark: Any, bootstrap: str) -> tuple[list[Session], list[tuple[str, int]]]:
    """What lies in the two topics."""
    at = {"kafka.bootstrap.servers": bootstrap, **READ_COMMITTED}
    rows = headrace.spark.read(spark, columns=["key", "value"], subscribe=common.SESSIONS, **at).collect()
    tops = headrace.spark.read(spark, columns=["key", "value"], subscribe=common.PAGES, **at).collect()
    pages = [(bytes(row.key).decode(), int(row.value)) for row in tops]
    return list(map(session_of, rows)), sorted(pages, key=lambda entry: (-entry[1], entry[0]))


def main() -> None:
    """A cluster, Spark on Ray, the log through both."""
    options = common.arguments(__doc__)
    with headrace.local() as cluster:
        common.create(cluster, common.LINES, common.SESSIONS, common.PAGES)
        common.send_log(cluster.bootstrap, options.lines)
        configs = {"spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR"}
        with headrace.spark.session("sessions", executor_cores=2, configs=configs) as spark:
            run(spark, cluster.bootstrap)
            sessions, pages = found(spark, cluster.bootstrap)
    common.show_sessions(sessions, pages)
    common.save_sessions(options.out, "Spark 3.5 on Ray", sessions, pages)


if __name__ == "__main__":
    main()
