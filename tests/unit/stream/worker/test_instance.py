"""An instance before it runs: configs of its clients, topics, stores and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import utf8
from headrace.protocol.errors import ConfigError
from headrace.stream import App, TopologyError, tumbling
from headrace.stream.errors import InternalTopicError
from headrace.stream.worker.instance_io import AppInstance
from stream_clients import FakeStreamsCluster
from worker_rig import counting_app

if TYPE_CHECKING:
    from pathlib import Path


class Prepared:
    """The plan of an application over topics that exist."""

    def __init__(
        self, app: App, folder: Path, clients: dict[str, dict[str, Any]] | None = None, **topics: int
    ) -> None:
        self.cluster = FakeStreamsCluster(**topics)
        config = app.config.merged({"state.dir": str(folder)})
        self.instance = AppInstance(
            app.topology(),
            config,
            app.settings,
            clients=self.cluster,
            client_configs=clients,
            open_engine=lambda _folder, _store: None,
        )
        self.plan = self.instance.prepare()

    def close(self) -> None:
        self.instance.close()


def test_configs_of_clients_by_prefix(tmp_path: Path) -> None:
    """A longer prefix wins; what the guarantee needs is not to be changed; defaults are Kafka Streams'."""
    given = {
        "consumer": {
            "max.poll.records": 5,
            "fetch.min.bytes": 7,
            "enable.auto.commit": True,
            "group.instance.id": "pod",
        },
        "main.consumer": {"max.poll.records": 6, "group.id": "mine"},
        "restore.consumer": {"fetch.min.bytes": 8},
        "global.consumer": {"max.poll.records": 9},
        "producer": {"linger.ms": 1},
        "admin": {"request.timeout.ms": 5},
    }
    app = counting_app(guarantee="exactly_once_v2")
    prepared = Prepared(app, tmp_path, given, words=2)
    found = prepared.plan.client_configs
    main = found["main.consumer"]
    assert (main["max.poll.records"], main["fetch.min.bytes"]) == (6, 7)
    assert (main["group.id"], main["enable.auto.commit"]) == ("app", False)
    static = [name for name, config in found.items() if "group.instance.id" in config]
    assert static == ["main.consumer"], "the other consumers have no group"
    assert (main["isolation.level"], main["auto.offset.reset"]) == ("read_committed", "earliest")
    assert (found["restore.consumer"]["max.poll.records"], found["restore.consumer"]["fetch.min.bytes"]) == (
        5,
        8,
    )
    assert found["global.consumer"]["max.poll.records"] == 9
    assert found["producer"] == {"linger.ms": 1}
    assert prepared.cluster.admin_config == found["admin"] == {"request.timeout.ms": 5}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("session.timeout.ms", "set streams.session.timeout.ms of the group"),
        ("group.protocol", "its protocol is that of streams groups"),
    ],
)
@pytest.mark.parametrize("prefix", ["consumer", "main.consumer"])
def test_keys_that_members_of_streams_groups_do_not_have(
    tmp_path: Path, prefix: str, key: str, said: str
) -> None:
    """The error names the key and what to do instead; consumers without a group may have it."""
    with pytest.raises(ConfigError, match=f"{prefix}.{key}: .*{said}"):
        Prepared(counting_app(), tmp_path, {prefix: {key: "1"}}, words=2)
    Prepared(counting_app(), tmp_path, {"restore.consumer": {"session.timeout.ms": 7000}}, words=2)


def test_server_and_tags_of_an_instance(tmp_path: Path) -> None:
    """application.server and client.tag.*, which its members send."""
    app = counting_app(application_server="[::1]:8080", config={"client.tag.zone": "a"})
    prepared = Prepared(app, tmp_path, app.client_configs, words=2)
    assert prepared.plan.client_tags == {"zone": "a"}
    assert app.config.endpoint == ("::1", 8080)
    assert counting_app().config.endpoint is None
    for wrong in ("host", "host:", ":1", "host:-1", "host:65536", "host:x"):
        with pytest.raises(ConfigError, match=r"application\.server .* is not host:port"):
            counting_app(application_server=wrong)


def test_internal_topics_are_sent_with_the_configs_of_the_application(tmp_path: Path) -> None:
    """replication.factor, windowstore.changelog.additional.retention.ms and `topic.`."""
    app = App(
        "app",
        key=utf8,
        value=utf8,
        replication_factor=3,
        window_store_additional_retention_ms=1000,
    )
    windows = app.stream("words").group_by_key().windowed_by(tumbling(100_000))
    windows.count(store="store").to_stream().foreach(print)
    prepared = Prepared(app, tmp_path, {"topic": {"segment.bytes": 7}}, words=2)
    (topic,) = prepared.plan.group_topology.subtopologies[0].state_changelog_topics
    assert (topic.name, topic.partitions, topic.replication_factor) == ("app-store-changelog", 0, 3)
    configs = dict(topic.topic_configs)
    assert (configs["retention.ms"], configs["segment.bytes"]) == (str(100_000 + 1000), "7")
    assert prepared.cluster.created == [], "the coordinator creates it"


@pytest.mark.parametrize("cache_bytes", [0, 1000])
def test_without_room_for_a_cache_stores_have_none(tmp_path: Path, cache_bytes: int) -> None:
    """statestore.cache.max.bytes=0."""
    app = App("app", key=utf8, value=utf8, cache_bytes=cache_bytes)
    app.stream("words").group_by_key().count(store="store").to_stream().foreach(print)
    prepared = Prepared(app, tmp_path, words=2)
    (store,) = prepared.plan.sub_topologies[0].stores
    assert store.is_cached == (cache_bytes > 0)


def test_threads_share_the_cache(tmp_path: Path) -> None:
    """statestore.cache.max.bytes is for all threads that there are: also for those that are added."""
    prepared = Prepared(counting_app(cache_bytes=1000), tmp_path, words=2)
    instance, shares = prepared.instance, []
    for _ in range(4):
        instance._threads.append(instance._new_thread(prepared.plan))
        shares.append(instance._threads[0]._cache_share)
    instance._threads.pop()
    assert [*shares, instance._threads[0]._cache_share] == [1000, 500, 333, 250, 333]


def test_an_application_that_reads_nothing_is_refused(tmp_path: Path) -> None:
    """A topology with global tables alone is none."""
    with pytest.raises(TopologyError, match="the topology has no source"):
        Prepared(App("app"), tmp_path, words=2)


@pytest.mark.parametrize(("max_age_ms", "is_deleted"), [(-1, False), (10**9, False), (0, True)])
def test_old_store_folders_are_deleted_at_the_start(
    tmp_path: Path, max_age_ms: int, is_deleted: bool
) -> None:
    """state.cleanup.dir.max.age.ms."""
    folder = tmp_path / "app" / "0_1"
    folder.mkdir(parents=True)
    Prepared(counting_app(state_max_age_ms=max_age_ms), tmp_path, words=2)
    assert folder.exists() != is_deleted


def test_a_missing_topic_of_a_global_table_is_named(tmp_path: Path) -> None:
    """Before anything is opened."""
    app = App("app", key=utf8, value=utf8)
    table = app.global_table("rates")
    app.stream("words").join(table, lambda word, rate: rate, key=lambda key, word: word).to("out")
    with pytest.raises(InternalTopicError, match="topic rates of a global store does not exist"):
        Prepared(app, tmp_path, words=2)
