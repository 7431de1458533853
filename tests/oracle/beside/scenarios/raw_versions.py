"""Requests made by hand: every API that clients use, in every version."""

from typing import Any

from headrace.protocol.records.header import Compression

from ..asking import NOT_SERVED, NOW, Asking, batch
from ..scene import Scene, scenario

CLIENT = "raw"


@scenario(CLIENT, "api versions")
def api_versions(scene: Scene) -> None:
    """The ranges themselves; what is not served, or in fewer versions, is seen here."""
    with Asking(scene) as asking:
        me = {"client_software_name": "raw", "client_software_version": "1"}
        for version in range(5):
            found = asking.ask("", "api_versions", version, **me)
            features = ("supported_features", "finalized_features")
            named = {name: {each.pop("name"): each for each in found.get(name, ())} for name in features}
            keys = {
                str(each["api_key"]): [each["min_version"], each["max_version"]] for each in found["api_keys"]
            }
            if version == 4:
                scene.note("apis", keys)
            scene.note(f"v{version}", {**found, **named, "api_keys": len(keys) == len(asking.ranges)})


@scenario(CLIENT, "produce and fetch in every version")
def produce_and_fetch(scene: Scene) -> None:
    """Every compression through every version; fetch answers hold the bytes."""
    with Asking(scene) as asking:
        topic_id = asking.create()
        for version in range(3, 14):
            if version == 7 or version > 9:
                data = batch(compression=Compression.ZSTD)
            else:
                data = batch(compression=list(Compression)[version % 4])
            more: Any = {}
            if version == 13:
                part = {"index": 0, "records": data}
                more = {"topic_data": [{"topic_id": topic_id, "partition_data": [part]}]}
                asking.ask("produce v13", "produce", 13, acks=-1, timeout=10_000, **more)
            else:
                asking.produce(f"produce v{version}", data, version=version)
        for version in range(4, 13):
            asking.fetch(f"fetch v{version}", version=version)
        for version in range(13, 19):
            part = {"partition": 0, "fetch_offset": 30, "partition_max_bytes": 1 << 20}
            topics = [{"topic_id": topic_id, "partitions": [part]}]
            asking.fetch(f"fetch v{version}", version=version, topics=topics)


@scenario(CLIENT, "offsets in every version")
def offsets(scene: Scene) -> None:
    """By time, and the special ones; offsets of leader epochs; records deleted."""
    with Asking(scene) as asking:
        asking.create()
        for number in range(4):
            asking.produce("", batch(timestamp=NOW + 1000 * number))
        for moment in (-1, -2, -3, -4, -5, -6, NOW + 1001, NOW + 999_999):
            for version in range(1, 12):
                part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": moment}
                topics = [{"name": scene.topic, "partitions": [part]}]
                fields = {"replica_id": -1, "isolation_level": 0, "topics": topics}
                asking.ask(f"list {moment} v{version}", "list_offsets", version, **fields)
        for version in range(2, 5):
            part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
            topics = [{"topic": scene.topic, "partitions": [part]}]
            asking.ask(f"epoch v{version}", "offset_for_leader_epoch", version, replica_id=-1, topics=topics)
        for version in range(3):
            part = {"partition_index": 0, "offset": 3 * version + 1}
            topics = [{"name": scene.topic, "partitions": [part]}]
            asking.ask(f"delete v{version}", "delete_records", version, topics=topics, timeout=10_000)


@scenario(CLIENT, "metadata in every version")
def metadata(scene: Scene) -> None:
    """Of one topic by name and by id, of an unknown one, and the description of the cluster."""
    with Asking(scene) as asking:
        topic_id = asking.create(partitions=2)
        for version in range(14):
            topics = [{"name": scene.topic}, {"name": "no-such-topic"}]
            more = {"allow_auto_topic_creation": False} if version >= 4 else {}
            if version < 4:
                topics = topics[:1]  # these create what is unknown
            asking.ask(f"v{version}", "metadata", version, topics=topics, **more)
        for version in (12, 13):
            for label, wanted in (("id", topic_id), ("unknown id", "0d5c8e9a-6b0f-4a4e-9f43-0123456789ab")):
                for way, name in (("", None), (" beside no name", ""), (" beside a name", "no-such-topic")):
                    topics = [{"topic_id": wanted, "name": name}]
                    asking.ask(f"{label}{way} v{version}", "metadata", version, topics=topics)
        asking.ask("no topics", "metadata", 1, topics=[])
        for version in range(3):
            more = {"include_cluster_authorized_operations": True}
            asking.ask(f"cluster v{version}", "describe_cluster", version, endpoint_type=1, **more)
        fields = {"topics": [{"name": scene.topic}], "response_partition_limit": 10, "cursor": None}
        asking.ask("partitions", "describe_topic_partitions", 0, **fields)
        fields["cursor"] = {"topic_name": scene.topic, "partition_index": 1}
        asking.ask("partitions from 1", "describe_topic_partitions", 0, **fields)
        for version in range(3):
            topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
            found = asking.ask("", "describe_quorum", version, topics=topics)
            scene.note(f"quorum v{version}", _shape(found) or NOT_SERVED)


@scenario(CLIENT, "topics in every version")
def topics(scene: Scene) -> None:
    """Created, given partitions, deleted; by name and by id."""
    with Asking(scene) as asking:
        for version in range(2, 8):
            name = f"{scene.topic}-{version}"
            topic = {
                "name": name,
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": [{"name": "retention.ms", "value": "3600000"}],
            }
            for label, more in (("check", {"validate_only": True}), ("make", {}), ("again", {})):
                found = asking.ask("", "create_topics", version, topics=[topic], timeout=10_000, **more)
                for made in found["topics"]:
                    made["configs"] = {each["name"]: each for each in made.get("configs", ())}
                scene.note(f"{label} v{version}", found)
        for version in range(4):
            wanted = [{"name": f"{scene.topic}-2", "count": version + 2, "assignments": None}]
            asking.ask(f"partitions v{version}", "create_partitions", version, topics=wanted, timeout=10_000)
        for version in range(1, 6):
            fields = {"topic_names": [f"{scene.topic}-{version + 1}"], "timeout": 10_000}
            asking.ask(f"delete v{version}", "delete_topics", version, **fields)
        topic_id = asking.create(f"{scene.topic}-id")
        gone = {
            "topics": [{"name": None, "topic_id": topic_id}, {"name": f"{scene.topic}-2"}],
            "timeout": 10_000,
        }
        asking.ask("delete v6", "delete_topics", 6, **gone)


@scenario(CLIENT, "configs in every version")
def configs(scene: Scene) -> None:
    """Of a topic: changed and described."""
    with Asking(scene) as asking:
        asking.create(retention_ms="3600000")
        topic = {"resource_type": 2, "resource_name": scene.topic}
        for version in range(1, 5):
            for label, keys in (("one", ["retention.ms", "no.such.config"]), ("all", None)):
                resources = [{**topic, "configuration_keys": keys}]
                more = {"include_synonyms": True, "include_documentation": False}
                found = asking.ask("", "describe_configs", version, resources=resources, **more)
                for result in found.get("results", ()):
                    result["configs"] = {each["name"]: each for each in result["configs"]}
                scene.note(f"describe {label} v{version}", found or NOT_SERVED)
        for version in range(3):
            change = {**topic, "configs": [{"name": "retention.bytes", "value": str(version)}]}
            asking.ask(f"alter v{version}", "alter_configs", version, resources=[change])
        for version in range(2):
            change = {
                **topic,
                "configs": [{"name": "cleanup.policy", "config_operation": 2, "value": "compact"}],
            }
            asking.ask(f"append v{version}", "incremental_alter_configs", version, resources=[change])
        resources = [{**topic, "configuration_keys": ["retention.ms", "retention.bytes", "cleanup.policy"]}]
        asking.ask("after", "describe_configs", 1, resources=resources)
        for version in range(2):
            found = asking.ask("", "list_config_resources", version)["config_resources"]
            scene.note(
                f"resources v{version}", [each for each in found if each["resource_name"] == scene.topic]
            )


@scenario(CLIENT, "operations in every version")
def operations(scene: Scene) -> None:
    """What operators' tools ask: log dirs, elections, reassignments, producers, quotas, telemetry."""
    with Asking(scene) as asking:
        asking.create()
        asking.produce("", batch())
        for version in range(1, 6):
            wanted = [{"topic": scene.topic, "partitions": [0]}]
            asking.ask(f"log dirs v{version}", "describe_log_dirs", version, topics=wanted)
        for version in range(3):
            parts = [{"topic": scene.topic, "partitions": [0]}]
            asking.ask(f"elect v{version}", "elect_leaders", version, topic_partitions=parts, timeout=10_000)
        for version in range(2):
            parts = [{"partition_index": 0, "replicas": [1]}]
            wanted = [{"name": scene.topic, "partitions": parts}]
            asking.ask(
                f"reassign v{version}",
                "alter_partition_reassignments",
                version,
                topics=wanted,
                timeout=10_000,
            )
        asking.ask("reassignments", "list_partition_reassignments", 0, topics=None, timeout=10_000)
        wanted = [{"name": scene.topic, "partition_indexes": [0, 9]}]
        asking.ask("producers", "describe_producers", 0, topics=wanted)
        for version in range(2):
            asking.ask(f"quotas v{version}", "describe_client_quotas", version, components=[], strict=False)
        asking.ask("telemetry", "get_telemetry_subscriptions", 0)
        asking.ask("scram", "describe_user_scram_credentials", 0, users=None)
        for version in range(1, 4):
            fields = {
                "resource_type_filter": 1,
                "resource_name_filter": None,
                "pattern_type_filter": 1,
                "principal_filter": None,
                "host_filter": None,
                "operation": 1,
                "permission_type": 1,
            }
            asking.ask(f"acls v{version}", "describe_acls", version, **fields)
        for version in range(3):
            update = {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}
            fields = {"feature_updates": [update], "validate_only": True, "timeout": 10_000}
            asking.ask(f"features v{version}", "update_features", version, **fields)


def _shape(value: Any) -> Any:
    """Numbers that grow by themselves are noted by their type alone."""
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return "a number" if isinstance(value, int) and value > 1 else value
