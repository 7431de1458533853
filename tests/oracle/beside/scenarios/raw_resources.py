"""Requests made by hand: which resources have configs, and the cluster-wide min.insync.replicas."""

from typing import Any

from ..asking import Asking
from ..scene import Scene, scenario

CLIENT = "raw"
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
MIN_ISR = "min.insync.replicas"
SET, DELETE, APPEND = 0, 1, 2


def _change(asking: Asking, label: str, kind: int, name: str, *changes: tuple[str, int, str | None]) -> None:
    configs = [{"name": key, "config_operation": what, "value": value} for key, what, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    asking.ask(label, "incremental_alter_configs", 1, resources=[resource])


@scenario(CLIENT, "config resources listed by type")
def resources(scene: Scene) -> None:
    """Topics, brokers and loggers with or without configs; groups and subscriptions that have some; other
    types. Resources of other scenarios are left out."""
    own = (scene.topic, f"{scene.topic}-set", "1")
    with Asking(scene) as asking:
        asking.create()
        asking.create(f"{scene.topic}-set", retention_ms="3600000")
        _change(asking, "group", GROUP, scene.topic, ("consumer.session.timeout.ms", SET, "50000"))
        _change(asking, "subscription", CLIENT_METRICS, scene.topic, ("interval.ms", SET, "5000"))

        def listed(version: int, *types: int) -> Any:
            found = asking.ask("", "list_config_resources", version, resource_types=types)
            rows = [each for each in found["config_resources"] if each["resource_name"] in own]
            rows.sort(key=lambda row: (row.get("resource_type"), row["resource_name"]))
            return {**found, "config_resources": rows}

        # a broker learns of the group's config a little after the controller
        scene.until(lambda: listed(1, GROUP), scene.topic)
        scene.until(lambda: listed(0), scene.topic)
        for types in ((), (TOPIC,), (BROKER,), (LOGGER,), (CLIENT_METRICS,), (GROUP,), (TOPIC, BROKER)):
            scene.note(f"types {types} v1", listed(1, *types))
        for types in ((0,), (1,), (99,), (TOPIC, 99)):
            scene.note(f"types {types} v1", listed(1, *types))
        scene.note("v0", listed(0))
        _change(asking, "", GROUP, scene.topic, ("consumer.session.timeout.ms", DELETE, None))
        _change(asking, "", CLIENT_METRICS, scene.topic, ("interval.ms", DELETE, None))


@scenario(CLIENT, "log levels of a broker")
def loggers(scene: Scene) -> None:
    """KIP-412, with the root logger only: other loggers have different names in each system."""
    with Asking(scene) as asking:

        def described(label: str, name: str) -> None:
            wanted = {"resource_type": LOGGER, "resource_name": name, "configuration_keys": None}
            more = {"include_synonyms": True, "include_documentation": False}
            found = asking.ask("", "describe_configs", 4, resources=[wanted], **more)
            (result,) = found["results"]
            result["configs"] = [each for each in result["configs"] if each["name"] == "root"]
            scene.note(label, found)

        def change(label: str, what: int, value: str | None, name: str = "root", node: str = "1") -> None:
            _change(asking, label, LOGGER, node, (name, what, value))

        change("set", SET, "ERROR")
        for label, node in (("described", "1"), ("another node", "2"), ("no node", ""), ("no number", "x")):
            described(label, node)
        change("raised", SET, "FATAL")
        described("described with another level", "1")
        change("no such level", SET, "LOUD")
        change("no such logger", SET, "DEBUG", name="no.such.logger")
        change("root deleted", DELETE, None)
        change("appended", APPEND, "DEBUG")
        change("of another node", SET, "DEBUG", node="2")
        change("set back", SET, "ERROR")


@scenario(CLIENT, "the cluster-wide min.insync.replicas")
def min_isr(scene: Scene) -> None:
    """Set from the start, shown through topics and brokers, changed and never removed; none of a broker."""

    def described(label: str) -> None:
        asked = [(BROKER, "", None), (BROKER, "1", [MIN_ISR]), (TOPIC, scene.topic, [MIN_ISR])]
        wanted = [
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
            for kind, name, keys in asked
        ]

        def ask() -> Any:
            fields = {"resources": wanted, "include_synonyms": True, "include_documentation": False}
            return asking.ask("", "describe_configs", 4, **fields)

        value = f"'value': '{label.rsplit(maxsplit=1)[-1]}', 'read_only'"
        scene.note(label, scene.until(ask, value, times=len(asked)))

    with Asking(scene) as asking:
        asking.create()
        described("described with 1")
        _change(asking, "of a broker", BROKER, "1", (MIN_ISR, SET, "2"))
        _change(asking, "of a broker, removed", BROKER, "1", (MIN_ISR, DELETE, None))
        _change(asking, "removed", BROKER, "", (MIN_ISR, DELETE, None))
        _change(asking, "appended", BROKER, "", (MIN_ISR, APPEND, "1"))
        empty = {"resource_type": BROKER, "resource_name": "", "configs": []}
        asking.ask("replaced by nothing", "alter_configs", 2, resources=[empty])
        _change(asking, "changed", BROKER, "", (MIN_ISR, SET, "2"))
        described("described with 2")
        _change(asking, "changed back", BROKER, "", (MIN_ISR, SET, "1"))
        described("described again with 1")
