"""`listeners` and `advertised.listeners`: bound, advertised and refused addresses."""

from typing import Any

import pytest
from headrace.protocol.errors import ConfigError
from headrace.storage_node.configs.gateway_config import advertised, configured_listeners
from headrace.storage_node.configs.node_config import NodeConfig


def config(**values: Any) -> NodeConfig:
    """Of a node."""
    return NodeConfig.of({"log.dirs": "/d", **{name.replace("_", "."): v for name, v in values.items()}})


def test_no_listener_without_listeners_config() -> None:
    assert configured_listeners(config(), "own") == []


def test_bound_and_advertised_addresses() -> None:
    """Names in capitals, missing hosts and ports filled in, IPv6 in brackets."""
    made = config(
        listeners="plaintext://:9092,INNER://[::1]:0,OUTER://0.0.0.0:9094",
        advertised_listeners="OUTER://outside.example:19094",
    )
    wanted = configured_listeners(made, "own")
    assert wanted == [("PLAINTEXT", "own", 9092), ("INNER", "::1", 0), ("OUTER", "0.0.0.0", 9094)]
    assert advertised(made, "PLAINTEXT", 9092, "me") == ("PLAINTEXT", "me", 9092)
    assert advertised(made, "INNER", 40_000, "me") == ("INNER", "::1", 40_000)
    assert advertised(made, "OUTER", 9094, "me") == ("OUTER", "outside.example", 19_094)


def test_inter_broker_listener_is_one_of_the_listeners() -> None:
    """In any case of its letters, as other keys name listeners."""
    config(listeners="PLAINTEXT://h:1", inter_broker_listener_name="plaintext")
    with pytest.raises(ConfigError, match=r"inter\.broker\.listener\.name is 'OTHER'"):
        config(listeners="PLAINTEXT://h:1", inter_broker_listener_name="OTHER")


@pytest.mark.parametrize(
    ("listeners", "response", "words"),
    [
        ("9092", "", "NAME://host:port"),
        ("PLAINTEXT://h:99999", "", "NAME://host:port"),
        ("PLAINTEXT://h:1,plaintext://h:2", "", "twice"),
        ("PLAINTEXT://0.0.0.0:9092", "", "advertised.listeners"),
        ("PLAINTEXT://h:1", "OTHER://h:1", "OTHER"),
        ("PLAINTEXT://h:1", "PLAINTEXT://0.0.0.0:1", "advertised.listeners"),
        (",".join(f"L{number}://h:{number}" for number in range(1, 18)), "", "16"),
    ],
)
def test_invalid_listeners_are_refused(listeners: str, response: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config(listeners=listeners, advertised_listeners=response)
