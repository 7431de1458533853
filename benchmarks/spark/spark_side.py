"""The Spark client, a process in a Spark environment: one warm session, one order and one report per line.

    python -m headrace.benchmarks.spark.spark_side MASTER JARS

Order: {"operation", "system", "bootstrap", "topic", "rows", "producer", "is_memory"}; report: see
`measured`.
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

    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark's own output goes to stderr
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": HEAP,
        # all of it from the start: growth is outside of the heap then, and no job waits for heap growth
        "spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch",
        "spark.python.daemon.module": "headrace.clients.spark.worker_daemon_io",  # as headrace's sessions
        "spark.python.unix.domain.socket.enabled": "true",  # as headrace's sessions
        "spark.driver.extraClassPath": jars,
        # cached producers of settings that are no longer tried are closed, with their buffers
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
    print(json.dumps({"spark": spark.version, "heap": HEAP}), file=output, flush=True)
    for line in sys.stdin:
        print(json.dumps(measured(spark, json.loads(line))), file=output, flush=True)
    spark.stop()


def measured(spark: Any, order: dict[str, Any]) -> dict[str, Any]:
    """Seconds, rows, bytes of values (reads); and CPU seconds of all processes, or peak memory."""
    run = _OPERATIONS[order["operation"]]
    usage: Memory | Cpu = Memory() if order["is_memory"] else Cpu()
    with usage:
        started_s = time.monotonic()
        found = run(spark, order)
        seconds = time.monotonic() - started_s
    return {"seconds": seconds, **found, **usage.figures()}


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
        observation = Observation()
        counted = found.observe(
            observation, f.count(f.lit(1)).alias("rows"), f.sum(f.length("value")).alias("bytes")
        )
        counted.write.format("noop").mode("overwrite").save()
        totals: dict[str, Any] = observation.get
        return totals

    return run


def _of_headrace(spark: Any, options: dict[str, str], columns: list[str] | None) -> Any:
    """By the fastest API of this version of Spark."""
    if spark.version.startswith("3."):
        import headrace

        return headrace.spark.read(spark, columns=columns, **options)
    reader = spark.read.format("headrace").options(**options)
    if columns:  # others are not decoded
        reader = reader.schema(", ".join(f"{name} binary" for name in columns))
    return reader.load()


def _write(spark: Any, order: dict[str, Any]) -> dict[str, Any]:
    rows = order["rows"]
    # one value for all rows: generating different ones takes longer than writing them
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


_OPERATIONS = {"read value": _read(["value"]), "read all": _read(None), "write": _write}

if __name__ == "__main__":
    main(*sys.argv[1:])
