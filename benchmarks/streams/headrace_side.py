"""The applications of `make bench-streams` in headrace.stream, by orders on stdin as `StreamsBench.java`."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from headrace import bytes_, int64, stream, utf8
from headrace.stream.garbage_io import rare_collections
from headrace.stream.worker.states import InstanceState

if TYPE_CHECKING:
    from collections.abc import Mapping

START_TIMEOUT_S = 300.0


def application(order: Mapping[str, str]) -> stream.App:
    """The application of an order."""
    app = stream.App(
        order["application"],
        key=utf8,
        value=int64,
        config={
            "state.dir": order["state"],
            "processing.guarantee": order["guarantee"],
            "commit.interval.ms": int(order["commit"]),
            "consumer.auto.offset.reset": "earliest",
            **_configs(order),
        },
    )
    workload, output = order["workload"], order["output"]
    if workload in ("restore", "latest"):
        values: Any = app.stream(order["input"], value=bytes_)
        latest = values.group_by_key(value=bytes_).reduce(lambda _old, new: new, store="latest")
        if workload == "latest":
            latest.to_stream().to(output, value=bytes_)
        return app
    records: Any = app.stream(order["input"])
    if workload == "filter-map":
        records.filter(lambda _key, value: value % 10 != 0).map_values(lambda value: value * 2).to(output)
    elif workload == "count":
        records.group_by_key().count(store="counts").to_stream().to(output)
    elif workload == "moves":
        instance = order["instance"]
        counts = records.group_by_key().count(store="counts")
        counts.to_stream().map_values(lambda _count: instance).to(output, value=utf8)
    elif workload == "named":
        row = {"n": stream.Count(), "total": stream.Sum(), "high": stream.Max()}
        records.group_by_key().aggregate(store="totals", **row).to_stream().to(output)
    elif workload == "arrow":
        records.arrow(kept_and_doubled).to(output)
    elif workload == "windowed-sum":
        windows = records.group_by_key().windowed_by(stream.tumbling(300_000))
        windows.reduce(lambda old, new: old + new, store="sums").to_stream().to(
            output, key=stream.time_windowed(utf8, 300_000)
        )
    elif workload == "join":
        table = app.table(order["table"], store="rows")
        records.join(table, lambda value, row: value + row).to(output)
    else:
        raise ValueError(workload)
    return app


def _configs(order: Mapping[str, str]) -> dict[str, str]:
    """Settings of an order: names with "config.", and "standbys"."""
    found = {name.removeprefix("config."): value for name, value in order.items() if "config." in name}
    return {**found, "num.standby.replicas": order["standbys"]} if "standbys" in order else found


def kept_and_doubled(batch: Any) -> Any:
    """The filter and map of "filter-map", by column."""
    import pyarrow.compute as pc

    value = batch.column("value")
    used = batch.select(["key", "timestamp", "value"])
    kept = used.filter(pc.not_equal(value, pc.multiply(pc.divide(value, 10), 10)))
    return kept.set_column(2, "value", pc.multiply(kept.column("value"), 2))


def end(error: BaseException) -> str:
    """The error that ended the application, to the end of the process."""
    logging.error("the application failed", exc_info=error)
    os._exit(1)


def main() -> None:
    """Serve orders until stdin ends."""
    logging.basicConfig(level=logging.WARNING)
    print("ready", flush=True)
    with rare_collections():  # as App.run
        for line in sys.stdin:
            serve(dict(word.split("=", 1) for word in line.split()))


def serve(order: Mapping[str, str]) -> None:
    """Run one application until the line "stop". "tasks": print the numbers of active and standby tasks;
    "resume": process records, where the order has "paused"."""
    with application(order).instance(order["bootstrap"], on_uncaught=end) as instance:
        if "paused" in order:
            instance.pause()
        if not instance.wait_for(InstanceState.RUNNING, InstanceState.ERROR, timeout_s=START_TIMEOUT_S):
            raise TimeoutError(f"{order['application']} is not running after {START_TIMEOUT_S:.0f} s")
        print("running", flush=True)
        while (line := sys.stdin.readline().strip()) in ("tasks", "resume"):
            if line == "resume":
                instance.resume()
                print("resumed", flush=True)
            else:
                print(tasks(instance), flush=True)
    print("stopped", flush=True)


def tasks(instance: Any) -> str:
    """The numbers of active and of standby tasks."""
    threads = instance.threads
    return f"{sum(len(one.tasks) for one in threads)} {sum(len(one.standby_tasks) for one in threads)}"


if __name__ == "__main__":
    main()
