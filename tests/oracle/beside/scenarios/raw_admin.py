"""What operators ask of groups, log dirs and the quorum, by hand, and what is refused."""

from typing import Any

from headrace.runtime.waiting_io import until

from ..asking import Asking
from ..scene import Scene, scenario
from ..three import CHANGE_S, Nodes
from .raw_cluster import described, leave_only
from .raw_groups import assignment, find_coordinator, subscription, until_topic_is_known

CLIENT = "raw"
NO_ID = "0d5c8e9a-6b0f-4a4e-9f43-0123456789ab"


def classic_member(asking: Asking, group: str) -> dict[str, Any]:
    """The only member of a stable group that reads the scenario's topic."""
    join = {
        "group_id": group,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(asking.scene.topic)}],
    }
    joined = asking.settled("", "join_group", 3, **join)
    me = {"group_id": group, "generation_id": joined["generation_id"], "member_id": joined["member_id"]}
    assignments = [{"member_id": joined["member_id"], "assignment": assignment(asking.scene.topic, 0)}]
    asking.ask("", "sync_group", 3, **me, assignments=assignments)
    return me


def consumer_member(asking: Asking, group: str) -> dict[str, Any]:
    """The only member of a group of the new protocol."""
    me: dict[str, Any] = {"group_id": group, "member_id": "m"}
    beat = {
        **me,
        "member_epoch": 0,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": [asking.scene.topic],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    until_topic_is_known(asking, beat, 0)
    asking.ask("", "consumer_group_heartbeat", 0, **beat)
    return me


@scenario(CLIENT, "groups listed, described, deleted")
def groups(scene: Scene) -> None:
    with Asking(scene) as asking:
        asking.create()
        find_coordinator(asking, scene.topic)
        classic, new, empty = (f"{scene.topic}-{kind}" for kind in ("classic", "new", "empty"))
        old = classic_member(asking, classic)
        consumer_member(asking, new)
        part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topics = [{"name": scene.topic, "partitions": [part]}]
        at = {"generation_id_or_member_epoch": -1, "member_id": ""}
        for version in range(2, 10):
            asking.ask(
                f"simple commit v{version}", "offset_commit", version, group_id=empty, topics=topics, **at
            )
        _listed(asking)
        named = [classic, new, empty, "no-such-group", ""]
        for version in range(7):
            asking.ask(f"described v{version}", "describe_groups", version, groups=named)
        for version in range(2):
            fields = {"group_ids": named, "include_authorized_operations": False}
            asking.ask(f"new described v{version}", "consumer_group_describe", version, **fields)
        for version in range(1, 10):
            _fetched(asking, version, classic, empty)
        for group in named:
            gone = [{"name": scene.topic, "partitions": [{"partition_index": 0}]}, {"name": "no-such-topic"}]
            asking.ask(f"offsets deleted {group or 'empty'}", "offset_delete", 0, group_id=group, topics=gone)
        for version in range(3):
            asking.ask(f"deleted v{version}", "delete_groups", version, groups_names=named)
        leaving = {"group_id": classic, "member_id": old["member_id"]}
        asking.ask("left", "leave_group", 2, **leaving)
        asking.ask("deleted at last", "delete_groups", 2, groups_names=[classic, classic])


def _listed(asking: Asking) -> None:
    def listed(label: str, version: int, **fields: Any) -> None:
        found = asking.ask("", "list_groups", version, **fields)
        mine = [each for each in found.get("groups", ()) if asking.scene.topic in each["group_id"]]
        mine = [each for each in mine if not each["group_id"].endswith("-first")]
        asking.scene.note(label, {**found, "groups": mine})

    for version in range(6):
        listed(f"listed v{version}", version)
    for version in (4, 5):
        for states in (["Stable"], ["stable"], ["Empty", "Dead"], ["NoSuchState"], ["Reconciling"], [""]):
            listed(f"listed {states} v{version}", version, states_filter=states)
    for types in (["classic"], ["Consumer"], ["share"], ["no-such-type"], ["classic", "consumer"]):
        listed(f"listed {types}", 5, states_filter=[], types_filter=types)
    listed("listed both", 5, states_filter=["Empty"], types_filter=["classic"])


def _fetched(asking: Asking, version: int, *groups: str) -> None:
    """With and without topics, of groups that have offsets or none."""
    topic = asking.scene.topic
    for label, wanted in (("one", [{"name": topic, "partition_indexes": [0, 7]}]), ("all", None)):
        if version < 8:
            for group in (*groups, "no-such-group", ""):
                fields = {"group_id": group, "topics": wanted}
                if wanted is not None or version > 1:
                    asking.ask(f"fetched {label} {group} v{version}", "offset_fetch", version, **fields)
        else:
            asked = [
                {"group_id": group, "member_id": None, "member_epoch": -1, "topics": wanted}
                for group in (*groups, "no-such-group", "")
            ]
            asking.ask(f"fetched {label} v{version}", "offset_fetch", version, groups=asked)


@scenario(CLIENT, "missing log dirs, voters and nodes")
def nowhere(scene: Scene) -> None:
    with Asking(scene) as asking:
        asking.create()
        topics = [{"name": scene.topic, "partitions": [0, 9]}, {"name": "no-such-topic", "partitions": [0]}]
        own = str(scene.system.log_dir)
        for version in (1, 2):
            for label, path in (("own", own), ("other", "/no/such/dir"), ("empty", ""), ("relative", "x")):
                dirs = [{"path": path, "topics": topics}]
                asking.ask(f"to {label} v{version}", "alter_replica_log_dirs", version, dirs=dirs)
            asking.ask(f"to none v{version}", "alter_replica_log_dirs", version, dirs=[])
        asking.ask("unregistered", "unregister_broker", 0, broker_id=99)
        for version in range(3):
            for topic, index in (("__cluster_metadata", 7), ("no-such-topic", 0)):
                wanted = [{"topic_name": topic, "partitions": [{"partition_index": index}]}]
                asking.ask(f"quorum of {topic} {index} v{version}", "describe_quorum", version, topics=wanted)
        cluster = asking.ask("", "describe_cluster", 0)["cluster_id"]
        listener = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
        voter = {"voter_id": 1, "voter_directory_id": NO_ID}
        for label, name, listeners in (
            ("other cluster", "other", listener),
            ("nowhere", cluster, []),
            ("there already", cluster, listener),
        ):
            fields = {"cluster_id": name, "timeout": 5000, "listeners": listeners, **voter}
            asking.ask(f"added {label}", "add_raft_voter", 0, **fields)
        for label, name, number in (
            ("other cluster", "other", 1),
            ("other id", cluster, 99),
            ("directory", cluster, 1),
        ):
            fields = {"cluster_id": name, "voter_id": number, "voter_directory_id": NO_ID}
            asking.ask(f"removed {label}", "remove_raft_voter", 0, **fields)


@scenario(CLIENT, "a node is unregistered", nodes=3)
def unregistered(scene: Scene) -> None:
    """What nodes say of one that is to come no more, and that does come."""
    with Nodes(scene) as nodes:
        nodes.create(scene.topic, (1, 3), (3, 2))
        leave_only(nodes, 1, 2)
        nodes.until_placed(scene.topic, (1, (1,)), (2, (2,)))
        response = nodes[1].ask("gone", "unregister_broker", 0, broker_id=3)
        wanted = 2 if response["error_code"] == "none" else 3

        def is_known() -> bool:
            fields = {"endpoint_type": 1, "include_fenced_brokers": True}
            return len(nodes[1].ask("", "describe_cluster", 2, **fields)["brokers"]) == wanted

        assert until(is_known, CHANGE_S)
        described(nodes[1], "without", scene.topic)
        nodes[1].ask("gone again", "unregister_broker", 0, broker_id=3)
        nodes.back()
        nodes.until_placed(scene.topic, (1, (1, 3)), (2, (2, 3)))
        described(nodes[2], "with", scene.topic)
