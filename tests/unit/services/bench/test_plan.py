"""Shares of workers, and when sending ends."""

from dataclasses import replace

import pytest
from headrace.services.bench.payloads import Payload
from headrace.services.bench.plan import ReadPlan, SendPlan, Target, share

SEND = SendPlan(target=Target(bootstrap=None), payload=Payload())


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("total", [0, 1, 6, 7, 1000])
def test_shares_count_the_records_of_each_worker(total: int, workers: int) -> None:
    """Worker i has the records i, i + workers, ..."""
    shares = [share(total, index, workers) for index in range(workers)]
    assert shares == [len(range(index, total, workers)) for index in range(workers)]


def test_records_of_a_worker() -> None:
    """Limited by `records`, and at a fixed rate by the duration; otherwise the clock ends the run."""
    assert replace(SEND, records=10).count(0) == 10
    assert replace(SEND, records=None, duration_s=1.0).count(0) is None
    assert replace(SEND, records=10, duration_s=1.0).count(0) == 10
    assert replace(SEND, records=None, duration_s=2.0, throughput=100.0).count(0) == 200
    assert replace(SEND, records=50, duration_s=2.0, throughput=100.0).count(0) == 50
    assert replace(SEND, records=None, duration_s=0.001, throughput=1.0).count(0) == 1
    parts = replace(SEND, records=11, workers=3)
    assert [parts.count(index) for index in range(3)] == [4, 4, 3]


def test_every_partition_has_one_reader() -> None:
    """Round-robin."""
    plan = ReadPlan(target=Target(bootstrap=None), partitions=5, workers=2)
    assert [list(plan.partitions_of(index)) for index in range(2)] == [[0, 2, 4], [1, 3]]
