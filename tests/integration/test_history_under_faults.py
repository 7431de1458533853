"""Random faults on a real cluster, and an independent check of the history of its clients."""

import os

import headrace
import pytest
from random_workload import LocalCluster, RandomWorkload

# HEADRACE_FAULT_SEEDS=20 runs twenty seeds, HEADRACE_FAULT_SECONDS is the duration of the faults.
SEEDS = int(os.environ.get("HEADRACE_FAULT_SEEDS", "1"))
FAULT_S = float(os.environ.get("HEADRACE_FAULT_SECONDS", "4"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_anomaly_under_random_faults(seed: int) -> None:
    """Nodes are killed, restarted and fenced, the controller restarts, partitions are added, a topic is
    recreated; the history of 7 producers and 4 consumers of both kinds has no anomaly."""
    with headrace.local(nodes=3) as local, headrace.connect(local.bootstrap) as clients:
        workload = RandomWorkload(LocalCluster(local, clients), seed).start()
        workload.make_trouble(FAULT_S)
        workload.finish()
        assert workload.acked > 100
