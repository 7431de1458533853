"""A node with users in a process of its own, to be flooded: prints its addresses as a line of JSON, and after
each line of its input its counters. Its log is on stderr."""

import json
import logging
import sys
from typing import Any

import headrace
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER

USER, PASSWORD, TOPIC = "bob", "right-pa55word", "events"
_JAAS = f'm required user_alice="{PASSWORD}" user_{USER}="{PASSWORD}";'
CONFIG: dict[str, Any] = {
    "listeners": "SASL://127.0.0.1:0",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": _JAAS,
    "listener.name.native.plain.sasl.jaas.config": _JAAS,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:admin;User:{USER}",
}


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    users = headrace.Security(users=dict.fromkeys(("alice", USER), PASSWORD))
    with headrace.local(nodes=1, security=users, **CONFIG) as cluster:
        with cluster.admin() as admin:
            admin.create_topics(headrace.NewTopic(TOPIC)).raise_for_errors()
        config = {name: str(value) for name, value in cluster.client_config(USER, PASSWORD).items()}
        key = cluster.server_public_key
        _say({"native": cluster.bootstrap, "kafka": cluster.kafka_bootstrap, "config": config, "key": key})
        for _ in sys.stdin:
            (node,) = cluster.status()["nodes"]
            _say(
                {
                    "kafka": node["kafka"]["failed_authentications"],
                    "native": node["native"]["authentications_failed"],
                }
            )


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
