"""The Spark side, a process in an environment of Spark's: one warm session, an order a line, a report a line.

    python -m headrace.benchmarks.spark.spark_side MASTER JARS

Order: {"face", "system", "bootstrap", "topic", "rows", "producer", "is_memory"}; report: what
`measured` gives.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from headrace.benchmarks.spark.usage_io import Cpu, Memory

if TYPE_CHECKING:
    from collections.abc import Callable

TASKS = 4
SIZE = 100
HEAP = "1g"


def main(master: str, jars: str) -> None:
    """Serve orders until stdin ends."""
    from pyspark.sql import SparkSession

    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints is not for who reads our reports
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": HEAP,
        # all of it from the start: what grows is outside of it then, and nobody waits for it to grow
        "spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch",
        "spark.python.daemon.module": "headrace.clients.spark.worker_daemon_io",  # as headrace's sessions
        "spark.python.unix.domain.socket.enabled": "true",  # as headrace's sessions
        "spark.driver.extraClassPath": jars,
        # producers of settings that were tried go, with their buffers; the one in use stays
        "spark.kafka.producer.cache.timeout": "30s",
        "spark.kafka.producer.cache.evictorThreadRunInterval": "5s",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if not spark.version.startswith("3."):
        from headrace.clients.spark import register

        register(spark)
    print(json.dumps({"spark": spark.version, "heap": HEAP}), file=talk, flush=True)
    for line in sys.stdin:
        print(json.dumps(measured(spark, json.loads(line))), file=talk, flush=True)
    spark.stop()


def measured(spark: Any, order: dict[str, Any]) -> dict[str, Any]:
    """Seconds, rows, bytes of values (reads); and CPU seconds of all processes, or the most memory."""
    run = _FACES[order["face"]]
    usage: Memory | Cpu = Memory() if order["is_memory"] else Cpu()
    with usage:
        started_s = time.monotonic()
        found = run(spark, order)
        seconds = time.monotonic() - started_s
    return {"seconds": seconds, **found, **usage.told()}


def _read(columns: list[str] | None) -> Callable[[Any, dict[str, Any]], dict[str, Any]]:
    def run(spark: Any, order: dict[str, Any]) -> dict[str, Any]:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        options = {"kafka.bootstrap.servers": order["bootstrap"], "subscribe": order["topic"]}
        if order["system"] == "kafka":
            found = spark.read.format("kafka").options(**options, startingOffsets="earliest").load()
            found = found.select(*columns) if columns else found
        else:
            found = _of_headrace(spark, options, columns)
        seen = Observation()
        counted = found.observe(
            seen, f.count(f.lit(1)).alias("rows"), f.sum(f.length("value")).alias("bytes")
        )
        counted.write.format("noop").mode("overwrite").save()
        told: dict[str, Any] = seen.get
        return told

    return run


def _of_headrace(spark: Any, options: dict[str, str], columns: list[str] | None) -> Any:
    """As its line of Spark reads best."""
    if spark.version.startswith("3."):
        import headrace

        return headrace.spark.read(spark, columns=columns, **options)
    reader = spark.read.format("headrace").options(**options)
    if columns:  # others are not decoded
        reader = reader.schema(", ".join(f"{name} binary" for name in columns))
    return reader.load()


def _write(spark: Any, order: dict[str, Any]) -> dict[str, Any]:
    rows = order["rows"]
    # one value for all: to make different ones takes longer than to write them
    made = spark.range(0, rows, 1, TASKS).selectExpr(f"cast('{'x' * SIZE}' as binary) as value")
    options = {"kafka.bootstrap.servers": order["bootstrap"], "topic": order["topic"], **order["producer"]}
    if order["system"] == "kafka":
        made.write.format("kafka").options(**options).save()
    else:
        _into_headrace(made, options)
    return {"rows": rows}


def _into_headrace(made: Any, options: dict[str, str]) -> None:
    if made.sparkSession.version.startswith("3."):
        import headrace

        headrace.spark.write(made, **options)
    else:
        made.write.format("headrace").options(**options, exactlyOnce="false").mode("append").save()


_FACES = {"read value": _read(["value"]), "read all": _read(None), "write": _write}

if __name__ == "__main__":
    main(*sys.argv[1:])
