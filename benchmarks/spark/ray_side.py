"""The Ray Data side, a process of its own: one Ray, an order a line, a report a line; as spark_side.

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

# Of the store a read may fill a half. So small that every topic whose memory is looked at is larger.
STORE_BYTES, BLOCK_BYTES = 256 << 20, 4 << 20
# What the store holds is taken for all that it gets when it has not grown for so many looks.
LOOK_S, STILL_LOOKS = 0.05, 20


def main(cpus: str) -> None:
    """Serve orders until stdin ends."""
    import ray

    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ray.init(
        num_cpus=int(cpus), include_dashboard=False, log_to_driver=False, object_store_memory=STORE_BYTES
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    about = {"ray": ray.__version__, "store_mb": STORE_BYTES / 1e6, "block_mb": BLOCK_BYTES / 1e6}
    print(json.dumps(about), file=talk, flush=True)
    store_bytes = _store()
    for line in sys.stdin:
        print(json.dumps(measured(json.loads(line), store_bytes)), file=talk, flush=True)
    ray.shutdown()


def measured(order: dict[str, Any], store_bytes: Callable[[], int]) -> dict[str, Any]:
    """As that of spark_side."""
    usage: Memory | Cpu = Memory(store_bytes) if order["is_memory"] else Cpu()
    with usage:
        started_s = time.monotonic()
        found = _passed(order, store_bytes) if order["is_memory"] else _summed(order)
        seconds = time.monotonic() - started_s
    return {"seconds": seconds, **found, **usage.told()}


def _dataset(order: dict[str, Any]) -> Any:
    if order["system"] == "kafka":
        import ray

        return ray.data.read_kafka(order["topic"], bootstrap_servers=order["bootstrap"])
    import headrace

    return headrace.ray_data.read(order["topic"], bootstrap_servers=order["bootstrap"])


def _summed(order: dict[str, Any]) -> dict[str, Any]:
    """In tasks of Ray: what the values of each block add up to."""
    sums = _dataset(order).map_batches(_sums, batch_format="pyarrow", batch_size=None).take_all()
    return {name: sum(row[name] for row in sums) for name in ("rows", "bytes")}


def _passed(order: dict[str, Any], store_bytes: Callable[[], int]) -> dict[str, Any]:
    """Through the store to this process, which keeps nothing.

    After its first block it stands until the store is as full as tasks may make it. How much waits there
    while it keeps up with them is chance, a few blocks more or less, and the most of more seconds is more.
    """
    import ray

    context = ray.data.DataContext.get_current()
    before, context.target_max_block_size = context.target_max_block_size, BLOCK_BYTES
    found = {"rows": 0, "bytes": 0}
    try:
        for batch in _dataset(order).iter_batches(batch_format="pyarrow", batch_size=None):
            if not found["rows"]:
                _stand(store_bytes)
            for name, value in _sums(batch).to_pydict().items():
                found[name] += value[0]
    finally:
        context.target_max_block_size = before
    return found


def _stand(store_bytes: Callable[[], int]) -> None:
    """Until the store does not grow any more."""
    most, still = 0, 0
    while still < STILL_LOOKS:
        now = store_bytes()
        most, still = (now, 0) if now > most else (most, still + 1)
        let_pass(LOOK_S)


def _sums(table: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    size = pc.sum(pc.binary_length(table["value"])).as_py() or 0
    return pa.table({"rows": [table.num_rows], "bytes": [size]})


def _store() -> Callable[[], int]:
    """What tells how many bytes of blocks somebody still needs lie in Ray's object store. Blocks that nobody
    needs stay there until their room is wanted; Ray's own figures are a second old."""
    import ray
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import node_manager_pb2, node_manager_pb2_grpc

    node = ray.nodes()[0]  # type: ignore[no-untyped-call]
    channel = init_grpc_channel(f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}")
    stub = node_manager_pb2_grpc.NodeManagerServiceStub(channel)
    asked = node_manager_pb2.FormatGlobalMemoryInfoRequest(include_memory_info=False)

    def needed() -> int:
        return int(stub.FormatGlobalMemoryInfo(asked).store_stats.object_store_bytes_primary_copy)

    return needed


if __name__ == "__main__":
    main(*sys.argv[1:])
