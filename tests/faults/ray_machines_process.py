"""A Ray cluster of several machines on this host, each one raylet, controlled by commands on standard input.

    ray_machines_process.py PORT   (the GCS's; the files of Ray go to RAY_TMPDIR)

First it prints the address of the Ray cluster. Then each line of JSON on standard input gets one line:
["add", name, {resource: 1}] starts a machine, with a GPU that Ray only counts, and prints the pid of its
raylet; ["settle"] waits until all machines have joined; ["kill", name] kills one with SIGKILL; ["kill_gcs"];
["start_gcs"]. All processes end with the input.
"""

import json
import os
import sys
from typing import Any

from ray.cluster_utils import Cluster

SETTLE_S = 400.0
MACHINE = {"num_cpus": 1, "object_store_memory": 80_000_000}


class Machines:
    """The head, which has the GCS, and the other machines by name."""

    def __init__(self, port: int) -> None:
        head = {
            **MACHINE,
            "gcs_server_port": port,
            "include_dashboard": False,
            "resources": {"headrace-disk-0": 1},
        }
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes: dict[str, Any] = {}
        self.address = str(self._cluster.address)

    def add(self, name: str, resources: dict[str, float]) -> int:
        node = self._cluster.add_node(wait=False, **MACHINE, num_gpus=1, resources=resources)
        self._nodes[name] = node
        return int(node.all_processes["raylet"][0].process.pid)

    def settle(self) -> None:
        self._cluster.wait_for_nodes(timeout=SETTLE_S)

    def kill(self, name: str) -> None:
        self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)

    def kill_gcs(self) -> None:
        self._cluster.head_node.kill_gcs_server()

    def start_gcs(self) -> None:
        self._cluster.head_node.start_gcs_server()

    def close(self) -> None:
        for node in self._cluster.list_all_nodes():
            node.kill_all_processes(check_alive=False, allow_graceful=False)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Ray writes a lot to standard output
    machines = Machines(int(sys.argv[1]))
    print(json.dumps(machines.address), file=answers)
    try:
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            print(json.dumps(getattr(machines, name)(*arguments)), file=answers)
    finally:
        machines.close()


if __name__ == "__main__":
    main()
