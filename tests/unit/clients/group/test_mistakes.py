"""Frequent mistakes of users: each raises an error at once, with the call or key that helps."""

from typing import Any

import pytest
from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol import errors


class Misspelt:
    def on_assign(self, _consumer: Any, _tps: Any) -> None: ...


class Awaited:
    async def on_assigned(self, _consumer: Any, _tps: Any) -> None: ...


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"group": ""}, r"group\.id must not be empty"),
        ({"group": " "}, r"group\.id must not be empty"),
        ({"group": "g", "listener": Misspelt()}, "methods on_assigned, on_revoked, on_lost"),
        ({"group": "g", "listener": Awaited()}, "on_assigned is a coroutine function"),
        ({"group": "g", "group_protocol": "consumer", "assignors": ["range"]}, "the coordinator assigns"),
        ({"group": "g", "group_remote_assignor": "range"}, "needs group.protocol=consumer"),
        (
            {
                "group": "g",
                "group_protocol": "consumer",
                "config": {"partition.assignment.strategy": "sticky"},
            },
            r"see group\.remote\.assignor",
        ),
    ],
)
def test_invalid_consumer_arguments_are_errors(cluster: Cluster, options: dict[str, Any], why: str) -> None:
    """The constructor raises."""
    with pytest.raises(errors.ConfigError, match=why):
        cluster.consumer("t", **options)


def test_group_none_means_no_group(cluster: Cluster) -> None:
    """For programs with an optional group."""
    assert cluster.consumer("t", group=None).config.group == ""
    assert cluster.producer(transactional_id=None).config.transactional_id is None
    with pytest.raises(errors.ConfigError, match=r"transactional\.id must not be empty"):
        cluster.producer(transactional_id="")


def test_consumer_without_topics_names_the_missing_call(fake: FakeCluster, cluster: Cluster) -> None:
    """A closed consumer raises ClosedError instead."""
    alone, member = cluster.consumer(), cluster.consumer(group="g")
    for consumer, why in ((alone, r"topics, or call assign\(\)"), (member, r"subscribe\(\) or assign\(\)")):
        with pytest.raises(errors.ConfigError, match=why):
            consumer.poll()
        with pytest.raises(errors.ConfigError, match=why):
            next(iter(consumer))
        consumer.close()
        for call in (consumer.poll, consumer.paused):
            with pytest.raises(errors.ClosedError, match="consumer was closed"):
                call()


async def test_coroutine_callbacks_need_an_asyncio_consumer(fake: Any, cluster: Any) -> None:
    """An asyncio consumer awaits them."""
    fake.create("t")
    consumer = cluster.consumer("t", group="g", listener=Awaited())
    with pytest.raises(errors.ConfigError, match="methods on_assigned"):
        await consumer.subscribe("t", listener=Misspelt())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_missing_topic_is_logged_once(
    fake: Any, cluster: Any, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be created later."""
    fake.create("t")
    consumer = cluster.consumer("t", "tt", group="g", group_protocol=protocol)
    for _ in range(5):
        await consumer.poll(1)
        consumer._engine._hub.metadata.refresh_soon()
    assert [record.getMessage() for record in caplog.records] == [
        "group 'g' waits for topic 'tt', which does not exist"
    ]
    await consumer.close()


@pytest.mark.parametrize(
    ("protocol", "error", "why"),
    [
        ("classic", errors.FencedInstanceIdError, "group.instance.id 'a' now belongs to another consumer"),
        ("consumer", errors.UnreleasedInstanceIdError, "close that member"),
    ],
)
async def test_duplicate_instance_id_is_an_error(
    fake: Any, cluster: Any, protocol: str, error: type[Exception], why: str
) -> None:
    """The protocol decides which of the two is fenced; both errors name the key."""
    fake.create("t")
    options = {"group": "g", "group_instance_id": "a", "group_protocol": protocol}
    first, second = cluster.consumer("t", **options), cluster.consumer("t", **options)

    async def both() -> None:
        for _ in range(20):
            await first.poll(5)
            await second.poll(5)

    with pytest.raises(error, match=why):
        await both()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda producer: producer.send("t", b""), "records are sent in transactions"),
        (lambda producer: producer.commit_transaction(), "there is nothing to commit"),
        (lambda producer: producer.abort_transaction(), "there is nothing to abort"),
    ],
)
def test_transaction_calls_in_the_wrong_state_are_errors(cluster: Cluster, call: Any, why: str) -> None:
    """The message names the call that is missing."""
    producer = cluster.producer(transactional_id="me")
    with pytest.raises(errors.InvalidTxnStateError, match=f"{why}: .*call begin_transaction first"):
        call(producer)
    producer.begin_transaction()
    with pytest.raises(errors.InvalidTxnStateError, match="commit or abort it first"):
        producer.begin_transaction()
