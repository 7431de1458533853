"""Sequences of config changes against a model of dictionaries: accepted and refused changes, effective values
on every node, and descriptions."""

from typing import Any

from controller_kit import Driver
from headrace.protocol.messages import control
from headrace.storage_node.configs.config_answers import answer_configs
from headrace.storage_node.configs.live_config import LiveConfig
from headrace.storage_node.configs.logger_levels_io import ProcessLoggers
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.log.log_defaults import effective_log_config
from hypothesis import given, settings
from hypothesis import strategies as st

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPICS, NODES = ("s", "t"), ("1", "2")
CLUSTER = (4, "")
RESOURCES = [CLUSTER, *((4, node) for node in NODES), *((2, topic) for topic in TOPICS)]
# Broker name, topic name, default.
MILLIS = ("log.roll.ms", "segment.ms", 7 * 24 * 3_600_000)
JITTER = ("log.roll.jitter.ms", "segment.jitter.ms", 0)
POLICY = ("log.cleanup.policy", "cleanup.policy", "delete")
THREADS = "background.threads"
KEYS = [*MILLIS[:2], *JITTER[:2], *POLICY[:2], THREADS, "node.id", "no.such.key"]

numbers = st.sampled_from(["1", "5", "9", "10", "11", "20", " 7 ", "0", "-1", "x", ""])
lists = st.sampled_from(["delete", "compact", "delete,compact", "compact, delete", "", "neither"])
changes = st.tuples(
    st.sampled_from(KEYS), st.sampled_from([SET, SET, SET, DELETE, APPEND, SUBTRACT]), numbers | lists
)
alters = st.tuples(
    st.sampled_from(RESOURCES), st.lists(changes, min_size=1, max_size=3, unique_by=lambda each: each[0])
)


class Model:
    """All configs by resource."""

    def __init__(self) -> None:
        self.configs: dict[tuple[int, str], dict[str, str]] = {CLUSTER: {"min.insync.replicas": "1"}}

    def alter(self, resource: tuple[int, str], wanted: list[tuple[str, int, str]]) -> bool:
        """Apply all changes, or none and return False."""
        before = self.configs
        try:
            values = dict(before.get(resource, {}))
            for key, operation, value in wanted:
                self._change(resource, values, key, operation, value)
            self.configs = {**before, resource: values}
            if not values:
                del self.configs[resource]
            self._check()
        except ValueError:
            self.configs = before
            return False
        return True

    def _change(self, resource: Any, values: dict[str, str], key: str, operation: int, value: str) -> None:
        names = [pair[resource[0] == 2] for pair in (MILLIS, JITTER, POLICY)]
        if key not in names and (key != THREADS or resource[0] == 2):
            raise ValueError(key)
        items = [item.strip() for item in value.split(",") if item.strip()]
        if operation == DELETE:
            values.pop(key, None)
        elif key in POLICY[:2]:
            held = [item for item in values.get(key, "delete").split(",") if item]
            if operation == APPEND:
                items = held + [item for item in items if item not in held]
            elif operation == SUBTRACT:
                items = [item for item in held if item not in items]
            if not {*items} <= {"delete", "compact"}:
                raise ValueError(value)
            values[key] = ",".join(items)
        elif operation != SET:
            raise ValueError(operation)
        else:
            number = int(value)
            if number < (0 if key in JITTER[:2] else 1):
                raise ValueError(value)
            values[key] = str(number)

    def _check(self) -> None:
        for node in ("", *NODES):
            for topic in ("", *TOPICS):
                if int(self.value(node, topic, JITTER)) > int(self.value(node, topic, MILLIS)):
                    raise ValueError((node, topic))

    def value(self, node: str, topic: str, names: tuple[str, str, Any]) -> str:
        """The effective value for a topic on a node."""
        broker, own, default = names
        levels = (((2, topic), own), ((4, node), broker), (CLUSTER, broker))
        held = [self.configs.get(resource, {}).get(name) for resource, name in levels]
        return next((value for value in held if value is not None), str(default))


@settings(max_examples=60)
@given(st.lists(alters, max_size=12), st.booleans())
def test_controller_and_nodes_agree_with_the_model(steps: list[Any], is_restarted: bool) -> None:
    """Each step is accepted or refused alike; every topic on every node has the model's configs."""
    driver, model = Driver(), Model()
    driver.join(1, 2)
    for topic in TOPICS:
        driver.place(topic, (1,))
    nodes = {node: LiveConfig(NodeConfig.of({"log.dirs": "/d"})) for node in NODES}
    for resource, wanted in steps:
        change = control.AlterConfigs(
            control.ConfigResource(*resource), tuple(control.ConfigChange(*each) for each in wanted)
        )
        checked = driver.ask(control.IncrementalAlterConfigsRequest((change,), validate_only=True)).results[0]
        assert driver.image.configs == model.configs
        answer = driver.ask(control.IncrementalAlterConfigsRequest((change,))).results[0]
        assert answer.error_code == checked.error_code
        assert (not answer.error_code) == model.alter(resource, wanted), (resource, wanted, answer)
        assert driver.image.configs == model.configs
        for node, live in nodes.items():
            assert live.follow(driver.image.configs, int(node)) == ()
    if is_restarted:
        driver.restart()
        nodes = {node: LiveConfig(NodeConfig.of({"log.dirs": "/d"})) for node in NODES}
    for node, live in nodes.items():
        assert live.follow(driver.image.configs, int(node)) == ()
        _check_node(driver, model, node, live)


def _check_node(driver: Driver, model: Model, node: str, live: LiveConfig) -> None:
    configs = driver.image.configs
    threads = [configs.get(resource, {}).get(THREADS) for resource in ((4, node), CLUSTER)]
    assert live.now.background_threads == int(next((value for value in threads if value), "4"))
    resources = tuple(control.ConfigResource(2, topic) for topic in TOPICS)
    request = control.DescribeConfigsRequest(resources, include_synonyms=True)
    response = answer_configs(
        driver.image, live, int(node), request, control.DescribeConfigsResponse(()), ProcessLoggers()
    )
    for topic, described in zip(TOPICS, response.results, strict=True):
        defaults = live.topic_defaults(configs, int(node))
        config, faults = effective_log_config(defaults, configs.get((2, topic), {}))
        assert not faults
        values = (str(config.segment_ms), str(config.segment_jitter_ms), ",".join(config.cleanup_policy))
        assert values == tuple(model.value(node, topic, names) for names in (MILLIS, JITTER, POLICY))
        entries = {entry.name: entry for entry in described.entries}
        for names, value in zip((MILLIS, JITTER, POLICY), values, strict=True):
            entry = entries[names[1]]
            assert entry.value == value
            assert [each.source for each in entry.synonyms] == [
                source
                for source, resource, name in (
                    (1, (2, topic), names[1]),
                    (2, (4, node), names[0]),
                    (3, CLUSTER, names[0]),
                )
                if name in configs.get(resource, {})
            ] + ([5] if names is POLICY else [])  # Kafka derives the other defaults
            assert entry.is_default == (names[1] not in configs.get((2, topic), {}))
