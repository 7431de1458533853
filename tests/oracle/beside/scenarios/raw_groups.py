"""Groups and transactions, spoken by hand in every version."""

import struct
from typing import Any

from headrace.runtime.waiting_io import until

from ..asking import Asking, batch
from ..scene import Scene, scenario
from ..wire import KEYS

CLIENT = "raw"


def subscription(topic: str) -> bytes:
    """A member's subscription in the consumer protocol; Kafka does not answer an invalid one."""
    name = topic.encode()
    return struct.pack(">hih", 1, 1, len(name)) + name + struct.pack(">ii", -1, 0)


def assignment(topic: str, *partitions: int) -> bytes:
    """What its leader gives to a member."""
    name, count = topic.encode(), len(partitions)
    parts = struct.pack(f">i{count}i", count, *partitions)
    return struct.pack(">hih", 1, 1, len(name)) + name + parts + struct.pack(">i", -1)


def find_coordinator(asking: Asking, key: str, kind: int = 0) -> None:
    """Until there is one: the first request creates its topic."""
    asking.settled("", "find_coordinator", 2, key=key, key_type=kind)


@scenario(CLIENT, "coordinators in every version")
def coordinators(scene: Scene) -> None:
    with Asking(scene) as asking:
        find_coordinator(asking, scene.topic)
        find_coordinator(asking, scene.topic, 1)
        for version in range(4):
            for kind in (0, 1) if version else (0,):
                fields = {"key": scene.topic, "key_type": kind} if version else {"key": scene.topic}
                asking.ask(f"v{version} {kind}", "find_coordinator", version, **fields)
        for version in range(4, 7):
            for kind in (0, 1, 2, 9):
                fields = {"coordinator_keys": [scene.topic, "other"], "key_type": kind}
                if kind != 2:
                    asking.ask(f"v{version} {kind}", "find_coordinator", version, **fields)


@scenario(CLIENT, "a classic group in every version")
def classic_group(scene: Scene) -> None:
    """One member joins, syncs, beats, commits, is described, leaves; each step in each version of its API."""
    with Asking(scene) as asking:
        asking.create(partitions=2)
        find_coordinator(asking, scene.topic)
        for version in range(10):
            _one_life(asking, f"{scene.topic}-{version}", version)
        for version in range(3):
            fields = {"groups_names": [f"{scene.topic}-{version}", "no-such-group"]}
            asking.ask(f"delete v{version}", "delete_groups", version, **fields)


def _one_life(asking: Asking, group: str, version: int) -> None:
    """Versions of the other APIs go up with JoinGroup's, as far as they have them."""

    def step(api: str, highest: int, lowest: int = 0, **fields: Any) -> dict[str, Any]:
        number = max(lowest, min(version, highest))
        return asking.ask(f"join v{version} {api} v{number}", api, number, **fields)

    join = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(asking.scene.topic)}],
    }
    joined = step("join_group", 9, **join)
    if joined.get("error_code") == "member_id_required":
        joined = asking.ask(
            f"join v{version} again", "join_group", version, **join | {"member_id": joined["member_id"]}
        )
    member, generation = joined.get("member_id", ""), joined.get("generation_id", -1)
    me = {"group_id": group, "generation_id": generation, "member_id": member}
    assignments = [{"member_id": member, "assignment": assignment(asking.scene.topic, 0, 1)}]
    kinds = {"protocol_type": "consumer", "protocol_name": "range"}
    step("sync_group", 5, **me, **kinds, assignments=assignments)
    step("heartbeat", 4, **me)
    topic = asking.scene.topic
    part = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_metadata": "m",
        "committed_leader_epoch": 0,
    }
    topics = [{"name": topic, "partitions": [part, {**part, "partition_index": 7}]}]
    me_at = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member}
    step("offset_commit", 9, 2, **me_at, retention_time_ms=-1, topics=topics)
    if version < 8:
        wanted = [{"name": topic, "partition_indexes": [0, 1]}]
        step("offset_fetch", 7, 1, group_id=group, topics=wanted, require_stable=False)
    else:
        wanted = [{"name": topic, "partition_indexes": [0, 1]}]
        groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": wanted}]
        step("offset_fetch", 9, groups=groups, require_stable=True)
    step("describe_groups", 6, groups=[group], include_authorized_operations=False)
    listed = asking.ask("", "list_groups", min(version, 5))
    mine = [each for each in listed.get("groups", ()) if each["group_id"] == group]
    asking.scene.note(f"join v{version} list_groups v{min(version, 5)}", mine)
    asking.ask("", "delete_groups", 1, groups_names=[group])
    step(
        "leave_group",
        5,
        group_id=group,
        member_id=member,
        members=[{"member_id": member, "group_instance_id": None}],
    )
    removed = {"topics": [{"name": topic, "partitions": [{"partition_index": 0}, {"partition_index": 7}]}]}
    asking.ask(f"join v{version} offset_delete", "offset_delete", 0, group_id=group, **removed)


@scenario(CLIENT, "errors of classic groups")
def refused(scene: Scene) -> None:
    with Asking(scene) as asking:
        asking.create()
        find_coordinator(asking, scene.topic)
        join = {
            "group_id": scene.topic,
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(asking.scene.topic)}],
        }
        for label, change in (
            ("empty group", {"group_id": ""}),
            ("short session", {"session_timeout": 1}),
            ("long session", {"session_timeout": 2_000_000_000}),
            ("unknown member", {"member_id": "absent"}),
            ("no protocols", {"protocols": []}),
            ("no type", {"protocol_type": ""}),
        ):
            asking.ask(label, "join_group", 3, **join | change)
        joined = asking.ask("joined", "join_group", 3, **join)
        me = {"group_id": scene.topic, "member_id": joined["member_id"], "generation_id": 1}
        asking.ask("beat before sync", "heartbeat", 2, **me)
        asking.ask("sync", "sync_group", 2, **me, assignments=[])
        asking.ask("beat", "heartbeat", 2, **me)
        for label, change in (
            ("old generation", {"generation_id": 0}),
            ("next generation", {"generation_id": 2}),
            ("unknown member", {"member_id": "absent"}),
            ("no group", {"group_id": "no-such-group"}),
            ("empty", {"group_id": ""}),
        ):
            asking.ask(f"beat: {label}", "heartbeat", 2, **me | change)
            asking.ask(f"sync: {label}", "sync_group", 2, **me | change, assignments=[])
            at = {**me, **change}
            at["generation_id_or_member_epoch"] = at.pop("generation_id")
            part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
            topics = [{"name": scene.topic, "partitions": [part]}]
            asking.ask(f"commit: {label}", "offset_commit", 5, **at, topics=topics)
            gone = {name: value for name, value in (me | change).items() if name != "generation_id"}
            if "generation_id" not in change:
                asking.ask(f"leave: {label}", "leave_group", 1, **gone)
        other = [{"name": "sticky", "metadata": b""}]
        asking.ask("other protocol", "join_group", 3, **join | {"protocols": other})
        asking.ask("other type", "join_group", 3, **join | {"protocol_type": "connect"})
        part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "x" * 5000}
        topics = [{"name": scene.topic, "partitions": [part]}]
        fields = {"group_id": scene.topic, "member_id": me["member_id"], "generation_id_or_member_epoch": 1}
        asking.ask("long metadata", "offset_commit", 5, **fields, topics=topics)
        part = {"partition_index": 0, "committed_offset": -2, "committed_metadata": ""}
        topics = [{"name": scene.topic, "partitions": [part]}]
        asking.ask("negative offset", "offset_commit", 5, **fields, topics=topics)
        asking.ask("negative offset fetched", "offset_fetch", 5, group_id=scene.topic, topics=None)
        asking.ask("not empty", "delete_groups", 1, groups_names=[scene.topic])
        asking.ask("simple", "offset_fetch", 5, group_id="no-such-group", topics=None)


@scenario(CLIENT, "a group of the new protocol")
def new_group(scene: Scene) -> None:
    """KIP-848 by hand: joins, is given partitions, beats, commits, leaves."""
    with Asking(scene) as asking:
        topic_id = asking.create(partitions=2)
        find_coordinator(asking, scene.topic)
        for version in (0, 1):
            member = f"member-{version}"
            me: dict[str, Any] = {"group_id": f"{scene.topic}-{version}", "member_id": member}
            beat = {
                **me,
                "member_epoch": 0,
                "rebalance_timeout": 30_000,
                "subscribed_topic_names": [scene.topic],
                "subscribed_topic_regex": None,
                "server_assignor": None,
                "topic_partitions": [],
            }
            until_topic_is_known(asking, beat, version)
            joined = asking.ask(f"join v{version}", "consumer_group_heartbeat", version, **beat)
            epoch = joined["member_epoch"]
            later = {**me, "member_epoch": epoch, "rebalance_timeout": -1, "subscribed_topic_names": None}
            held = [{"topic_id": topic_id, "partitions": [0, 1]}]
            asking.ask(
                f"beat v{version}", "consumer_group_heartbeat", version, **later, topic_partitions=held
            )
            for label, change in (
                ("old epoch", {"member_epoch": 7}),
                ("unknown member", {"member_id": "absent"}),
                ("no group", {"group_id": ""}),
            ):
                fields = {**later, **change, "topic_partitions": None}
                asking.ask(f"{label} v{version}", "consumer_group_heartbeat", version, **fields)
            idle = {**beat, "group_id": f"{scene.topic}-idle-{version}", "subscribed_topic_names": []}
            asking.ask(f"join for nothing v{version}", "consumer_group_heartbeat", version, **idle)
            for label, change in (
                ("names", {"subscribed_topic_names": [scene.topic]}),
                ("leave", {"member_epoch": -1}),
            ):
                fields = {**idle, "member_epoch": 1, "topic_partitions": None, **change}
                asking.ask(f"idle, {label} v{version}", "consumer_group_heartbeat", version, **fields)
            neither = {**idle, "subscribed_topic_names": None}
            asking.ask(f"join without v{version}", "consumer_group_heartbeat", version, **neither)
            bad = {**beat, "member_id": "other", "server_assignor": "no-such-assignor"}
            asking.ask(f"assignor v{version}", "consumer_group_heartbeat", version, **bad)
            part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
            topics = [{"name": scene.topic, "partitions": [part]}]
            at = {**me, "generation_id_or_member_epoch": epoch}
            asking.ask(f"commit v{version}", "offset_commit", 9, **at, topics=topics)
            at["generation_id_or_member_epoch"] = 9
            asking.ask(f"commit late v{version}", "offset_commit", 9, **at, topics=topics)
            groups = {"group_ids": [me["group_id"], "no-such-group"]}
            asking.ask(f"describe v{version}", "consumer_group_describe", version, **groups)
            asking.ask(f"classic v{version}", "describe_groups", 5, groups=[me["group_id"]])
            leave = {**later, "member_epoch": -1, "topic_partitions": None}
            asking.ask(f"leave v{version}", "consumer_group_heartbeat", version, **leave)


def until_topic_is_known(asking: Asking, beat: dict[str, Any], version: int) -> None:
    """A coordinator learns of a topic later than its creator: poll with heartbeats to another group."""
    other = {**beat, "group_id": f"{beat['group_id']}-first"}

    def is_known() -> bool:
        other["member_id"] += "x"
        found = asking.ask("", "consumer_group_heartbeat", version, **other)
        asking.ask("", "consumer_group_heartbeat", version, **{**other, "member_epoch": -1})
        return bool((found.get("assignment") or {}).get("topic_partitions"))

    if version in asking.ranges.get(KEYS["consumer_group_heartbeat"], ()):
        assert until(is_known, 300)


def _init(asking: Asking, label: str, version: int, txn: str) -> tuple[int, int]:
    fields = {"transactional_id": txn, "transaction_timeout": 30_000, "producer_id": -1, "producer_epoch": -1}
    found = asking.settled(label, "init_producer_id", version, **fields)
    return found["producer_id"], found["producer_epoch"]


@scenario(CLIENT, "transactions in every version")
def transactions(scene: Scene) -> None:
    """Each version up to 4, where partitions are added by the client: one committed, one aborted."""
    with Asking(scene) as asking:
        asking.create()
        find_coordinator(asking, scene.topic)
        for version in range(4):
            txn = f"{scene.topic}-{version}"
            find_coordinator(asking, txn, 1)
            producer, epoch = _init(asking, f"init v{version}", version, txn)
            mine = {"transactional_id": txn, "producer_id": producer, "producer_epoch": epoch}
            for sequence, committed in ((0, True), (3, False)):
                way = f"v{version} {'commit' if committed else 'abort'}"
                _add(asking, f"{way} partitions", version, mine, scene.topic)
                data = batch(
                    producer_id=producer, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
                )
                asking.produce(f"{way} produce", data, version=8, transactional_id=txn)
                state = asking.ask("", "describe_transactions", 0, transactional_ids=[txn])
                scene.note(f"{way} described", state)
                group = {"group_id": f"{scene.topic}-group"}
                asking.ask(f"{way} offsets", "add_offsets_to_txn", version, **mine, **group)
                part = {"partition_index": 0, "committed_offset": 9, "committed_metadata": ""}
                topics = [{"name": scene.topic, "partitions": [part]}]
                asking.ask(f"{way} commit", "txn_offset_commit", version, **mine, **group, topics=topics)
                asking.settled(f"{way} end", "end_txn", version, **mine, committed=committed)
            asking.settled(f"v{version} end again", "end_txn", version, **mine, committed=True)
            asking.settled(f"v{version} end otherwise", "end_txn", version, **mine, committed=False)
        asking.until_stable()
        asking.all_committed("committed")


def _add(asking: Asking, label: str, version: int, mine: dict[str, Any], *topics: str) -> None:
    """Partition 0 of these topics to a transaction."""
    parts = {"topics": [{"name": topic, "partitions": [0]} for topic in topics]}
    fields = {f"v3_and_below_{name}": value for name, value in {**mine, **parts}.items()}
    asking.settled(label, "add_partitions_to_txn", version, **fields)


@scenario(CLIENT, "errors of transactions")
def refused_transactions(scene: Scene) -> None:
    """Fenced epochs, producers that are not known, states that do not fit, partitions that were not added."""
    with Asking(scene) as asking:
        asking.create()
        find_coordinator(asking, scene.topic, 1)
        asking.ask("empty id", "init_producer_id", 2, transactional_id="", transaction_timeout=1000)
        asking.ask(
            "long", "init_producer_id", 2, transactional_id=scene.topic, transaction_timeout=2_000_000_000
        )
        asking.ask("no time", "init_producer_id", 2, transactional_id=scene.topic, transaction_timeout=0)
        producer, epoch = _init(asking, "first", 3, scene.topic)
        mine = {"transactional_id": scene.topic, "producer_id": producer, "producer_epoch": epoch}
        asking.ask("end of none", "end_txn", 3, **mine, committed=True)
        asking.ask("abort of none", "end_txn", 3, **mine, committed=False)
        _add(asking, "unknown topic", 3, mine, "no-such-topic", scene.topic)
        data = batch(producer_id=producer, producer_epoch=epoch, base_sequence=0, is_transactional=True)
        asking.produce("not added", data, version=8, transactional_id=scene.topic)
        _add(asking, "added", 3, mine, scene.topic)
        asking.produce("without id", data, version=8)
        asking.produce("with other id", data, version=8, transactional_id="other")
        asking.produce("produced", data, version=8, transactional_id=scene.topic)
        _, newer = _init(asking, "second", 3, scene.topic)
        for label, change in (
            ("old epoch", {}),
            ("newer epoch", {"producer_epoch": newer + 1}),
            ("other producer", {"producer_id": producer + 1000, "producer_epoch": newer}),
            ("other id", {"transactional_id": "no-such-id"}),
        ):
            _add(asking, f"{label} adds", 3, mine | change, scene.topic)
            asking.settled(f"{label} ends", "end_txn", 3, **mine | change, committed=True)
        late = batch(producer_id=producer, producer_epoch=epoch, base_sequence=3, is_transactional=True)
        asking.produce("old epoch produces", late, version=8, transactional_id=scene.topic)
        asking.until_stable()
        asking.all_committed("what is left")
