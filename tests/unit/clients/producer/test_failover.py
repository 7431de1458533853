"""The delay of a producer after its leader has failed, in virtual time."""

import asyncio
from typing import Any

import pytest
from fake_cluster import Ask, Fault
from headrace.protocol import errors

# one metadata refresh: the interval between two, 20 % longer by chance, and some round trips
REFRESH_S = 0.12 + 0.02


@pytest.mark.parametrize("election_s", [0.0, 0.05, 0.4, 1.5, 4.0])
@pytest.mark.parametrize("shows_none", [False, True])
@pytest.mark.fake_cluster(nodes=3)
async def test_a_failover_costs_the_election_and_one_refresh(
    fake: Any, cluster: Any, election_s: float, shows_none: bool
) -> None:
    """Whether the metadata has the dead leader meanwhile, or none."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0)
    await producer.send("t", b"before")
    loop = asyncio.get_running_loop()
    killed = loop.time()
    if shows_none:
        fake.stop_node(0)
    else:
        is_dead = lambda ask: Fault(lost_request=True) if ask.node_id == 0 else None  # noqa: E731
        fake.rules.append(lambda ask: is_dead(ask) if ask.api == "Produce" else None)
    loop.call_later(election_s, fake.move_leader, "t", 0, 1)
    await producer.send("t", b"after")
    assert loop.time() - killed <= election_s + REFRESH_S
    asked = len(fake.requests("Metadata"))
    assert asked <= 4 + (election_s / 0.08), "too many requests"


@pytest.mark.fake_cluster(nodes=2)
async def test_a_hint_is_used_at_once(fake: Any, cluster: Any) -> None:
    """One round trip to the old leader, one to the new one, without a metadata refresh."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0)
    await producer.send("t", b"before")
    fake.rules.append(lambda ask: Fault(delay_ms=500) if ask.api == "Metadata" else None)
    fake.move_leader("t", 0, 1)
    loop = asyncio.get_running_loop()
    before = loop.time()
    await producer.send("t", b"after")
    assert loop.time() - before < 0.02


@pytest.mark.parametrize(
    "code", [errors.NotEnoughReplicasError.code, errors.NotEnoughReplicasAfterAppendError.code]
)
async def test_not_enough_replicas_is_retried_in_order(fake: Any, cluster: Any, code: int) -> None:
    """For seconds; the order of the records stays."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0, batch_size=1)
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + 5

    def rule(ask: Ask) -> Fault | None:
        is_short = ask.api == "Produce" and loop.time() < ends_at
        return Fault(partition_error=code) if is_short else None

    fake.rules.append(rule)
    futures = [producer.send("t", b"%d" % number) for number in range(4)]
    await producer.flush()
    assert [(await future).offset for future in futures] == [0, 1, 2, 3]
    assert loop.time() - ends_at < 1.2
    assert fake.values("t") == [b"0", b"1", b"2", b"3"]
    assert len(fake.requests("Produce")) < 15


async def test_not_enough_replicas_until_the_delivery_timeout(fake: Any, cluster: Any) -> None:
    """DeliveryTimeoutError, with the cause."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0, delivery_timeout_ms=3000, request_timeout_ms=1000)
    short = Fault(partition_error=errors.NotEnoughReplicasError.code)
    fake.rules.append(lambda ask: short if ask.api == "Produce" else None)
    with pytest.raises(errors.DeliveryTimeoutError) as caught:
        await producer.send("t", b"x")
    assert isinstance(caught.value.__cause__, errors.NotEnoughReplicasError)


@pytest.mark.parametrize("code", [errors.FencedLeaderEpochError.code, errors.UnknownLeaderEpochError.code])
async def test_wrong_leader_epoch_refreshes_the_metadata(fake: Any, cluster: Any, code: int) -> None:
    """The batch is retried."""
    fake.create("t")
    producer = cluster.producer(linger_ms=0)
    await producer.send("t", b"before")
    asked = len(fake.requests("Metadata"))
    fake.fail_next("Produce", Fault(partition_error=code))
    await producer.send("t", b"after")
    assert len(fake.requests("Metadata")) > asked
    assert fake.values("t") == [b"before", b"after"]
