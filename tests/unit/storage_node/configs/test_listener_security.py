"""Security of listeners: shared keys, those of one listener, and what is refused at start."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.protocol.errors import ConfigError
from headrace.storage_node.configs.gateway_config import security_of
from headrace.storage_node.configs.listener_security import SecurityProtocol
from headrace.storage_node.configs.node_config import NodeConfig

JAAS = 'm.PlainLoginModule required user_a="secret,1=2";'


def config(**values: Any) -> NodeConfig:
    """Names with double underscores for dots."""
    return NodeConfig.of({"log.dirs": "/d", **{name.replace("__", "."): v for name, v in values.items()}})


def test_listeners_of_one_node_have_their_own_protocols_and_keys() -> None:
    made = config(
        listeners="SSL://h:1,inner://h:2,PLAINTEXT://h:3",
        listener__security__protocol__map="INNER:sasl_ssl,PLAINTEXT:PLAINTEXT",
        ssl__keystore__location="/shared",
        listener__name__inner__ssl__keystore__location="/inner",
        listener__name__inner__sasl__enabled__mechanisms="PLAIN,SCRAM-SHA-256",
        listener__name__inner__plain__sasl__jaas__config=JAAS,
        connections__max__reauth__ms=5,
        **{"listener__name__inner__scram-sha-256__connections__max__reauth__ms": "7"},
    )
    outer, inner = security_of(made, "SSL"), security_of(made, "INNER")
    assert (outer.protocol, inner.protocol) == (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
    assert [outer.protocol.has_sasl, inner.protocol.has_sasl] == [False, True]
    assert outer.config.ssl_keystore_location == "/shared"
    assert inner.config.ssl_keystore_location == "/inner"
    assert inner.jaas("PLAIN") == JAAS
    assert [inner.max_reauth_ms("PLAIN"), inner.max_reauth_ms("SCRAM-SHA-256")] == [5, 7]
    assert security_of(made, "PLAINTEXT").protocol is SecurityProtocol.PLAINTEXT
    assert NodeConfig.of(made.to_mapping()) == made
    assert "secret" not in f"{made!r}{inner!r}"


def test_ssl_client_auth_of_sasl_listeners_needs_the_listener_prefix() -> None:
    """KIP-684: the shared ssl.client.auth does not count there."""
    values = {
        "listeners": "SASL_SSL://h:1",
        "ssl__keystore__location": "/s",
        "ssl__truststore__location": "/t",
        "sasl__enabled__mechanisms": "SCRAM-SHA-512",
        "ssl__client__auth": "required",
    }
    assert security_of(config(**values), "SASL_SSL").client_auth == "none"
    own = {"listener__name__sasl_ssl__ssl__client__auth": "requested"}
    assert security_of(config(**values, **own), "SASL_SSL").client_auth == "requested"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"listeners": "SSL://h:1"}, "needs ssl.keystore"),
        (
            {"listeners": "SSL://h:1", "ssl__keystore__location": "/s", "ssl__client__auth": "required"},
            "truststore",
        ),
        ({"listeners": "SSL://h:1", "ssl__keystore__location": "/s", "ssl__keystore__type": "JKS"}, "JKS"),
        ({"listeners": "SASL_PLAINTEXT://h:1"}, "needs sasl.enabled.mechanisms"),
        ({"listeners": "SASL_PLAINTEXT://h:1", "sasl__enabled__mechanisms": "PLANE"}, "PLANE"),
        (
            {"listeners": "SASL_PLAINTEXT://h:1", "sasl__enabled__mechanisms": "PLAIN"},
            "plain.sasl.jaas.config",
        ),
        (
            {"listeners": "SASL_PLAINTEXT://h:1", "sasl__enabled__mechanisms": "OAUTHBEARER"},
            "jwks.endpoint.url",
        ),
        (
            {
                "listeners": "SASL_PLAINTEXT://h:1",
                "sasl__enabled__mechanisms": "OAUTHBEARER",
                "sasl__oauthbearer__jwks__endpoint__url": "ftp://h",
            },
            "https, http or file",
        ),
        (
            {
                "listeners": "SASL_PLAINTEXT://h:1",
                "sasl__enabled__mechanisms": "PLAIN",
                "listener__name__sasl_plaintext__plain__sasl__jaas__config": "m secret;",
            },
            "control flag",
        ),
        ({"listeners": "A://h:1", "listener__security__protocol__map": "B:SSL"}, "lacks the listener A"),
        ({"listeners": "A://h:1", "listener__security__protocol__map": "A:TLS"}, "NAME:PROTOCOL"),
        ({"listeners": "A://h:1", "listener__security__protocol__map": "A:SSL,a:SSL"}, "twice"),
        ({"listeners": "A://h:1", "listener__name__b__ssl__client__auth": "none"}, "listeners lacks"),
        ({"listeners": "A://h:1", "listener__name__a__ssl__client__aut": "none"}, "unknown config key"),
        (
            {"listeners": "A://h:1", "listener__name__a__ssl__client__auth": "never"},
            "none, requested, required",
        ),
        ({"listeners": "A://h:1", "ssl__principal__mapping__rules": "RULE:x"}, "mapping.rules"),
    ],
)
def test_refused_at_start(values: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        config(**values)
    assert "secret" not in str(raised.value).replace("listener", "")
