"""The Ray Data client, a process of its own: one Ray, one order and one report per line, as spark_side.

python -m headrace.benchmarks.spark.ray_side CPUS
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from headrace.benchmarks.spark.usage_io import Cpu, Memory
from headrace.runtime.waiting_io import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable

# A read may fill half of the store. Every topic of the memory measurement is larger than that.
STORE_BYTES, BLOCK_BYTES = 256 << 20, 4 << 20
# the store counts as full when it has not grown for this many samples
SAMPLE_S, STABLE_SAMPLES = 0.05, 20


def main(cpus: str) -> None:
    """Serve orders until stdin ends."""
    import ray

    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ray.init(
        num_cpus=int(cpus), include_dashboard=False, log_to_driver=False, object_store_memory=STORE_BYTES
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    about = {"ray": ray.__version__, "store_mb": STORE_BYTES / 1e6, "block_mb": BLOCK_BYTES / 1e6}
    print(json.dumps(about), file=output, flush=True)
    store_bytes = _store()
    for line in sys.stdin:
        print(json.dumps(measured(json.loads(line), store_bytes)), file=output, flush=True)
    ray.shutdown()


def measured(order: dict[str, Any], store_bytes: Callable[[], int]) -> dict[str, Any]:
    """As in spark_side."""
    usage: Memory | Cpu = Memory(store_bytes) if order["is_memory"] else Cpu()
    with usage:
        started_s = time.monotonic()
        found = _streamed(order, store_bytes) if order["is_memory"] else _summed(order)
        seconds = time.monotonic() - started_s
    return {"seconds": seconds, **found, **usage.figures()}


def _dataset(order: dict[str, Any]) -> Any:
    if order["system"] == "kafka":
        import ray

        return ray.data.read_kafka(order["topic"], bootstrap_servers=order["bootstrap"])
    import headrace

    return headrace.ray_data.read(order["topic"], bootstrap_servers=order["bootstrap"])


def _summed(order: dict[str, Any]) -> dict[str, Any]:
    """In Ray tasks: rows and bytes of each block."""
    sums = _dataset(order).map_batches(_sums, batch_format="pyarrow", batch_size=None).take_all()
    return {name: sum(row[name] for row in sums) for name in ("rows", "bytes")}


def _streamed(order: dict[str, Any], store_bytes: Callable[[], int]) -> dict[str, Any]:
    """Through the store to this process, which keeps no block.

    After the first block it pauses until tasks have filled the store as far as they may: a reader that keeps
    up finds a random number of blocks there, whose maximum grows with the duration.
    """
    import ray

    context = ray.data.DataContext.get_current()
    before, context.target_max_block_size = context.target_max_block_size, BLOCK_BYTES
    found = {"rows": 0, "bytes": 0}
    try:
        for batch in _dataset(order).iter_batches(batch_format="pyarrow", batch_size=None):
            if not found["rows"]:
                _wait_until_full(store_bytes)
            for name, value in _sums(batch).to_pydict().items():
                found[name] += value[0]
    finally:
        context.target_max_block_size = before
    return found


def _wait_until_full(store_bytes: Callable[[], int]) -> None:
    most, stable = 0, 0
    while stable < STABLE_SAMPLES:
        now = store_bytes()
        most, stable = (now, 0) if now > most else (most, stable + 1)
        let_pass(SAMPLE_S)


def _sums(table: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    size = pc.sum(pc.binary_length(table["value"])).as_py() or 0
    return pa.table({"rows": [table.num_rows], "bytes": [size]})


def _store() -> Callable[[], int]:
    """A function that returns the bytes of referenced blocks in Ray's object store.

    Unreferenced blocks stay there until the space is needed; Ray's own figures are a second old.
    """
    import ray
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import node_manager_pb2, node_manager_pb2_grpc

    node = ray.nodes()[0]  # type: ignore[no-untyped-call]
    channel = init_grpc_channel(f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}")
    stub = node_manager_pb2_grpc.NodeManagerServiceStub(channel)
    request = node_manager_pb2.FormatGlobalMemoryInfoRequest(include_memory_info=False)

    def referenced() -> int:
        return int(stub.FormatGlobalMemoryInfo(request).store_stats.object_store_bytes_primary_copy)

    return referenced


if __name__ == "__main__":
    main(*sys.argv[1:])
