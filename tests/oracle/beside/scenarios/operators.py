"""What operators set for clients: quotas, metrics to be pushed, feature levels; by hand and tools."""

from collections.abc import Iterable
from typing import Any

from ..asking import Asking, batch
from ..scene import Scene, scenario
from .java_tools import CONFIGS, TOOLS, call, play

METRICS, FEATURES = f"{TOOLS}.ClientMetricsCommand", f"{TOOLS}.FeatureCommand"
SET, DELETE = 0, 1
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
CLIENT_METRICS = 16


def entity(**names: str | None) -> list[dict[str, Any]]:
    return [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in names.items()]


def altered(
    asking: Asking, label: str, target: list[dict[str, Any]], *, version: int = 1, **values: Any
) -> None:
    """Quotas of an entity; None removes. The order of entities differs between the systems."""
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
    fields = {"entries": [{"entity": target, "ops": ops}], "validate_only": False}
    found = asking.ask("", "alter_client_quotas", version, **fields)
    asking.scene.note(label, _in_order(found))


def described(asking: Asking, label: str, *components: tuple[str, int, str | None], **more: Any) -> None:
    wanted = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]

    def ask() -> Any:
        fields = {"components": wanted, "strict": more.get("strict", False)}
        return _in_order(asking.ask("", "describe_client_quotas", more.get("version", 1), **fields))

    asking.scene.note(label, asking.scene.until(ask, more.get("awaits", "")))


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_order(each) for name, each in value.items()}
    return sorted(map(_in_order, value), key=str) if isinstance(value, list) else value


@scenario("raw", "client quotas")
def quotas(scene: Scene) -> None:
    """Every kind of entity; what cannot be set; filters; and gone again."""
    user, client = scene.topic, f"{scene.topic}-c"
    with Asking(scene) as asking:
        good: Iterable[tuple[str, list[dict[str, Any]], dict[str, float]]] = (
            ("user", entity(user=user), {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}),
            ("client", entity(client_id=client), {"request_percentage": 12.5}),
            ("both", entity(user=user, client_id=client), {"controller_mutation_rate": 3.5}),
            ("default of a user", entity(user=user, client_id=None), {"producer_byte_rate": 5e6}),
            ("ip", entity(ip="10.1.2.3"), {"connection_creation_rate": 50.0}),
        )
        for number, (label, target, values) in enumerate(good):
            altered(asking, f"set {label}", target, version=number % 2, **values)
        altered(asking, "set again", entity(user=user), producer_byte_rate=1e6)
        altered(asking, "unset what is not", entity(user=user), request_percentage=None)
        for label, target, values in (
            ("no entity", [], {"producer_byte_rate": 1.0}),
            ("a group", entity(group="g"), {"producer_byte_rate": 1.0}),
            ("ip and user", entity(ip="10.1.2.3", user=user), {"producer_byte_rate": 1.0}),
            ("empty name", entity(user=""), {"producer_byte_rate": 1.0}),
            ("bad ip", entity(ip="no.such.host.invalid"), {"connection_creation_rate": 1.0}),
            ("bytes of an ip", entity(ip="10.1.2.3"), {"producer_byte_rate": 1.0}),
            ("connections of a user", entity(user=user), {"connection_creation_rate": 1.0}),
            ("unknown", entity(user=user), {"no_such_quota": 1.0}),
            ("negative", entity(user=user), {"producer_byte_rate": -1.0}),
            ("a fraction", entity(user=user), {"producer_byte_rate": 1.5}),
        ):
            altered(asking, f"refused: {label}", target, **values)
        described(asking, "of the user", ("user", EXACT, user), awaits="5000000")
        described(asking, "of the user alone", ("user", EXACT, user), strict=True)
        described(asking, "of the client", ("client-id", EXACT, client), version=0)
        described(asking, "of both", ("user", EXACT, user), ("client-id", SPECIFIED, None), strict=True)
        described(asking, "of defaults", ("user", EXACT, user), ("client-id", DEFAULT, None))
        described(asking, "of ips", ("ip", EXACT, "10.1.2.3"))
        for label, component in (
            ("no type", ("", EXACT, "x")),
            ("a group", ("group", EXACT, "g")),
            ("match type", ("user", 9, None)),
            ("no name", ("user", EXACT, None)),
            ("a name", ("user", DEFAULT, "u")),
        ):
            described(asking, f"filter: {label}", component)
        described(asking, "filter: twice", ("user", DEFAULT, None), ("user", SPECIFIED, None))
        described(asking, "filter: ip and user", ("ip", DEFAULT, None), ("user", SPECIFIED, None))
        for label, target, values in good:
            altered(asking, f"unset {label}", target, **dict.fromkeys(values))


@scenario("raw", "throttled by quotas")
def throttled(scene: Scene) -> None:
    """Answers say that their client is to wait, and a fetch above the quota is empty; not how long."""
    with Asking(scene) as asking:
        asking.create()
        # what others have sent in the last seconds counts, too
        name = asking.wire.client_id = scene.topic
        large, small = batch(90, key=b"k" * 85), batch(30, key=b"k" * 85)
        # the first of each is just below what the windows hold, the next one just above it
        quotas = {"producer_byte_rate": 1_000.0, "consumer_byte_rate": 1_000.0}
        assert 7_500 < len(large) < 9_500, len(large)
        assert 10_200 < len(large) + len(small) < 13_000, len(small)
        altered(asking, "set", entity(client_id=name), **quotas)
        described(asking, "is set", ("client-id", EXACT, name), awaits="1000")
        try:
            _be_throttled(asking, large, small)
        finally:
            altered(asking, "unset", entity(client_id=name), **dict.fromkeys(quotas))


def _be_throttled(asking: Asking, large: bytes, small: bytes) -> None:
    scene, waits = asking.scene, []
    for data in (large, small):
        parts = [{"name": scene.topic, "partition_data": [{"index": 0, "records": data}]}]
        found = asking.ask("", "produce", 9, acks=-1, timeout=10_000, topic_data=parts)
        waits.append(found["throttle_time"] > 0)
    scene.note("produce waits", waits)
    wanted = ((0, large), (90, small))
    response = [asking.fetch("", offset=offset, max_bytes=len(data)) for offset, data in wanted]
    scene.note("fetch waits", [each["throttle_time"] > 0 for each in response])
    scene.note("fetch tells", [len(each["responses"]) for each in response])


@scenario("raw", "client metrics subscriptions")
def subscriptions(scene: Scene) -> None:
    """Configs of type client metrics: set, refused, listed, described, gone."""
    with Asking(scene) as asking:

        def alter(label: str, name: str = scene.topic, operation: int = SET, **values: str | None) -> None:
            changes = [
                {"name": key.replace("_", "."), "config_operation": operation, "value": value}
                for key, value in values.items()
            ]
            resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": changes}
            asking.ask(label, "incremental_alter_configs", 1, resources=[resource], validate_only=False)

        alter("set", interval_ms="5000", metrics="org.apache.kafka.a,org.apache.kafka.b")
        alter("matched", match="client_id=a.*,client_software_name=.*")
        alter("too often", interval_ms="99")
        alter("too seldom", interval_ms="3600001")
        alter("no number", interval_ms="soon")
        alter("no such fact", match="client_age=7")
        alter("no expression", match="client_id")
        alter("bad expression", match="client_id=(")
        alter("no such key", retention_ms="1")
        alter("no name", name="", metrics="a")

        def listed() -> Any:
            found = asking.ask("", "list_config_resources", 0)
            return [each for each in found["config_resources"] if each["resource_name"] == scene.topic]

        scene.note("listed", scene.until(listed, scene.topic))
        for label, name in (("described", scene.topic), ("unknown", f"{scene.topic}-no"), ("nameless", "")):
            wanted = {"resource_type": CLIENT_METRICS, "resource_name": name, "configuration_keys": None}
            more = {"include_synonyms": True, "include_documentation": False}
            found = asking.ask("", "describe_configs", 4, resources=[wanted], **more)
            (result,) = found["results"]
            result["configs"] = {each["name"]: each for each in result["configs"]}
            scene.note(label, result)
        gone = {"interval_ms": None, "metrics": None, "match": None}
        alter("gone", operation=DELETE, **gone)
        scene.until(lambda: "left" if listed() else "gone", "gone")
        scene.note("not listed", listed())


@scenario("raw", "feature levels")
def features(scene: Scene) -> None:
    """What cannot be, and what may be; nothing is changed in the end."""
    with Asking(scene) as asking:
        for label, name, level, kind in (
            ("same", "transaction.version", 2, 1),
            ("down without saying so", "transaction.version", 1, 1),
            ("down", "transaction.version", 1, 2),
            ("too high", "transaction.version", 9, 1),
            ("negative", "transaction.version", -1, 2),
            ("no such type", "transaction.version", 2, 9),
            ("no such feature", "no.such.feature", 1, 1),
            ("no such feature, level 0", "no.such.feature", 0, 3),
        ):
            for version in (1, 2):
                update = {"feature": name, "max_version_level": level, "upgrade_type": kind}
                fields = {"feature_updates": [update], "validate_only": True, "timeout": 10_000}
                asking.ask(f"{label} v{version}", "update_features", version, **fields)


@scenario("raw", "credentials of unknown users")
def credentials(scene: Scene) -> None:
    """Kafka's tool asks for them with a user's quotas."""
    with Asking(scene) as asking:
        for label, names in (("one", ["u"]), ("two", ["u", "v"]), ("twice", ["u", "u"]), ("none", [])):
            users = [{"name": name} for name in names]
            asking.ask(label, "describe_user_scram_credentials", 0, users=users)


SCRIPTS = {
    "kafka-configs for users, clients and ips": [
        call("user", CONFIGS, "--alter --entity-type users --entity-name {topic} --add-config"
             " producer_byte_rate=1000000,consumer_byte_rate=2000000"),
        call("describe user", CONFIGS, "--describe --entity-type users --entity-name {topic}",
             awaits="rate="),
        call("both", CONFIGS, "--alter --entity-type users --entity-name {topic} --entity-type clients"
             " --entity-default --add-config request_percentage=150.5"),
        call("describe both", CONFIGS, "--describe --entity-type users --entity-name {topic} --entity-type"
             " clients --entity-default", awaits="percentage="),
        call("ip", CONFIGS, "--alter --entity-type ips --entity-name 127.0.0.9 --add-config"
             " connection_creation_rate=50"),
        call("describe ip", CONFIGS, "--describe --entity-type ips --entity-name 127.0.0.9", awaits="rate="),
        call("bad", CONFIGS, "--alter --entity-type users --entity-name {topic} --add-config"
             " producer_byte_rate=-5"),
        call("user back", CONFIGS, "--alter --entity-type users --entity-name {topic} --delete-config"
             " producer_byte_rate,consumer_byte_rate"),
        call("both back", CONFIGS, "--alter --entity-type users --entity-name {topic} --entity-type clients"
             " --entity-default --delete-config request_percentage"),
        call("ip back", CONFIGS, "--alter --entity-type ips --entity-name 127.0.0.9 --delete-config"
             " connection_creation_rate"),
    ],
    "kafka-client-metrics": [
        call("alter", METRICS, "--alter --name {topic} --metrics org.apache.kafka.producer. --interval 30000"
             " --match client_id=a.*"),
        call("describe", METRICS, "--describe --name {topic}", awaits="interval"),
        call("too often", METRICS, "--alter --name {topic} --interval 5"),
        call("describe unknown", METRICS, "--describe --name no-such-subscription"),
        call("delete", METRICS, "--delete --name {topic}"),
    ],
    "kafka-features": [
        call("down", FEATURES, "downgrade --feature transaction.version=1 --dry-run"),
        call("too high", FEATURES, "upgrade --feature transaction.version=9"),
        call("unknown", FEATURES, "upgrade --feature no.such.feature=1"),
        call("disable", FEATURES, "disable --feature group.version --dry-run"),
    ],
}  # fmt: skip


def _add(title: str) -> None:
    scenario("java tools", title)(lambda scene: play(scene, SCRIPTS[title]))


for _title in SCRIPTS:
    _add(_title)
