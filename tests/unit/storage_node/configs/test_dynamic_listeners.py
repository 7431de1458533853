"""Changes of the key stores of a node's listeners, before the controller has them."""

from __future__ import annotations

import pytest
from headrace.protocol.errors import ConfigError, InvalidConfigError, InvalidRequestError
from headrace.protocol.messages.control import AlterConfigs, ConfigChange, ConfigResource, ItemError
from headrace.protocol.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from headrace.storage_node.configs.dynamic_listeners import (
    is_secret,
    listener_key,
    names_listeners,
    refusal_of,
)
from headrace.storage_node.configs.live_config import LiveConfig
from headrace.storage_node.configs.node_config import NodeConfig

NODE = "1"
OWN = NodeConfig.of(
    {
        "log.dirs": "d",
        "listeners": "SSL://h:1",
        "ssl.keystore.location": "/static.pem",
        "listener.name.ssl.ssl.keystore.type": "PEM",
    }
)
LOCATION, TYPE = "listener.name.ssl.ssl.keystore.location", "listener.name.ssl.ssl.keystore.type"


def alter(*changes: tuple[str, int, str], kind: int = BROKER_RESOURCE, name: str = NODE) -> AlterConfigs:
    return AlterConfigs(ConfigResource(kind, name), tuple(ConfigChange(*each) for each in changes))


def refused(
    *changes: tuple[str, int, str], current: dict[str, str] | None = None, name: str = NODE
) -> tuple[ItemError | None, list[NodeConfig]]:
    """The refusal, and the configurations whose stores were loaded."""
    seen: list[NodeConfig] = []

    def check(config: NodeConfig) -> None:
        seen.append(config)
        if any("/gone" in each for each in config.listener_name):
            raise ConfigError("listener SSL: /gone")

    return refusal_of(1, alter(*changes, name=name), current or {}, OWN, check), seen


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("listener.name.SASL_SSL.ssl.keystore.location", "listener.name.sasl_ssl.ssl.keystore.location"),
        ("listener.name.a.b.ssl.key.password", "listener.name.a.b.ssl.key.password"),
        ("listener.name.native.ssl.keystore.location", ""),
        ("listener.name.a.ssl.client.auth", ""),
        ("listener.name.a.plain.sasl.jaas.config", ""),
        ("ssl.keystore.location", ""),
    ],
)
def test_stores_of_listeners_are_dynamic(name: str, canonical: str) -> None:
    assert listener_key(name) == canonical


def test_passwords_and_keys_are_secret() -> None:
    """The rest can be described."""
    prefix = "listener.name.a.ssl."
    secret = ("keystore.password", "keystore.key", "key.password", "truststore.password")
    shown = ("keystore.location", "keystore.certificate.chain", "truststore.certificates")
    assert all(is_secret(prefix + name) for name in secret)
    assert not any(is_secret(prefix + name) for name in shown)


def test_only_changes_of_a_nodes_listeners_concern_the_node() -> None:
    assert names_listeners(alter(("log.roll.ms", 0, "1"), (LOCATION, 0, "/a.pem")))
    assert not names_listeners(alter(("log.roll.ms", 0, "1")))
    assert not names_listeners(alter((LOCATION, 0, "/a.pem"), kind=TOPIC_RESOURCE))


def test_the_stores_of_all_changes_together_are_loaded() -> None:
    """With what was set before; a deletion brings the value of the file back."""
    refusal, (config,) = refused((LOCATION, 0, "/new.pem"), (TYPE, 1, ""), current={TYPE: "PKCS12"})
    assert refusal is None
    assert config.listener_name == ("ssl.ssl.keystore.type=PEM", "ssl.ssl.keystore.location=/new.pem")


def test_a_refusal_has_the_error_of_its_cause() -> None:
    """Files that cannot be loaded, a listener or a value that the node does not know, and another node."""
    refusal, _ = refused((LOCATION, 0, "/gone"))
    assert refusal == ItemError(NODE, InvalidConfigError.code, "listener SSL: /gone")
    for changed in (("listener.name.other.ssl.keystore.location", 0, "/a.pem"), (TYPE, 0, "JKS")):
        refusal, seen = refused(changed)
        assert refusal is not None
        assert (refusal.error_code, seen) == (InvalidConfigError.code, [])
    refusal, seen = refused((LOCATION, 0, "/a.pem"), name="2")
    assert refusal is not None
    assert (refusal.error_code, seen) == (InvalidRequestError.code, [])


def test_the_node_follows_its_own_listener_keys() -> None:
    """Not those of the cluster or of another node; a listener that it lacks is a fault, beside which the rest
    applies."""
    live = LiveConfig(OWN)
    prefix = "listener.name.other.ssl.keystore.location"
    configs = {
        (BROKER_RESOURCE, ""): {LOCATION: "/all.pem"},
        (BROKER_RESOURCE, "2"): {LOCATION: "/two.pem"},
        (BROKER_RESOURCE, NODE): {LOCATION: "/one.pem"},
    }
    assert live.follow(configs, 1) == ()
    assert "ssl.ssl.keystore.location=/one.pem" in live.now.listener_name
    (fault,) = live.follow({(BROKER_RESOURCE, NODE): {LOCATION: "/one.pem", prefix: "/x.pem"}}, 1)
    assert prefix in fault
    assert "ssl.ssl.keystore.location=/one.pem" in live.now.listener_name
    applied = live.applied({(BROKER_RESOURCE, NODE): {LOCATION: "/one.pem", prefix: "/x.pem"}}, 1)
    assert applied[BROKER_RESOURCE, NODE] == {LOCATION: "/one.pem"}
    assert live.follow({}, 1) == ()
    assert live.now.listener_name == OWN.listener_name
