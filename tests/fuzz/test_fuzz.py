"""A small share of `make fuzz`, always the same one."""

from collections.abc import Iterator

import pytest
import wild
from fuzzing import LOT, Fuzzer, fuzzed_cluster
from headrace import LocalCluster
from hostile_rig import attack
from logins import LOGIN_KINDS, LoginFuzzer, probe_of, secured_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with fuzzed_cluster() as made:
        yield made


@pytest.mark.parametrize("kind", ["valid", "frames", "requests", "own", "batches"])
async def test_a_share_of_each_kind(cluster: LocalCluster, kind: str) -> None:
    """Two lots, which have every version of every api; the law is in fuzzing.py."""
    assert len(wild.VERSIONS) <= 2 * LOT
    async with attack(cluster) as probe:
        fuzzer = Fuzzer(cluster, probe)
        assert kind in fuzzer.kinds
        await fuzzer.prepare()
        for first in (0, LOT):
            await fuzzer.lot(kind, 1, first)


@pytest.fixture(scope="module")
def secured() -> Iterator[LocalCluster]:
    with secured_cluster() as made:
        yield made


@pytest.mark.parametrize("kind", LOGIN_KINDS)
async def test_a_share_of_each_kind_at_listeners_with_users(secured: LocalCluster, kind: str) -> None:
    """One lot; the laws are in logins.py."""
    async with attack(secured, probe_of) as probe:
        fuzzer = LoginFuzzer(secured, probe)
        await fuzzer.prepare()
        await fuzzer.lot(kind, 1, 0)
