"""The Ray Data side, a process of its own: one Ray, an order a line, a report a line; as spark_side.

python -m headrace.benchmarks.spark.ray_side CPUS
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from headrace.benchmarks.spark.usage_io import Usage


def main(cpus: str) -> None:
    """Serve orders until stdin ends."""
    import ray

    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ray.init(num_cpus=int(cpus), include_dashboard=False, log_to_driver=False, object_store_memory=1 << 30)
    ray.data.DataContext.get_current().enable_progress_bars = False
    print(json.dumps({"ray": ray.__version__}), file=talk, flush=True)
    for line in sys.stdin:
        print(json.dumps(measured(json.loads(line))), file=talk, flush=True)
    ray.shutdown()


def measured(order: dict[str, Any]) -> dict[str, Any]:
    """As that of spark_side."""
    with Usage() as usage:
        started_s = time.monotonic()
        found = _read(order)
        seconds = time.monotonic() - started_s
    return {"seconds": seconds, **found, **usage.told()}


def _read(order: dict[str, Any]) -> dict[str, Any]:
    """In tasks of Ray: what the values of each block add up to."""
    import ray

    if order["system"] == "kafka":
        found = ray.data.read_kafka(order["topic"], bootstrap_servers=order["bootstrap"])
    else:
        import headrace

        found = headrace.ray_data.read(order["topic"], bootstrap_servers=order["bootstrap"])
    sums = found.map_batches(_sums, batch_format="pyarrow", batch_size=None).take_all()
    return {name: sum(row[name] for row in sums) for name in ("rows", "bytes")}


def _sums(table: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    size = pc.sum(pc.binary_length(table["value"])).as_py() or 0
    return pa.table({"rows": [table.num_rows], "bytes": [size]})


if __name__ == "__main__":
    main(*sys.argv[1:])
