"""Secrets in the forms in which they occur in configs and logs; each form has a value of its own."""

from __future__ import annotations

import base64
from itertools import count

from headrace.clients.config import ClientConfigs
from headrace.controller.config import ControllerConfig
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.stream.query.security_config import QuerySecurityConfig

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm5hMTIzNDUifQ.c2lnbmF0dXJlLW9mLWFubmE"
# (what the line says, the part that must not be left)
FORMS: tuple[tuple[str, str], ...] = (
    ("ssl.keystore.password=hunter2-a", "hunter2-a"),
    ("ssl.key.password = hunter2-b", "hunter2-b"),
    ("sasl.password: hunter2-c", "hunter2-c"),
    ('{"password": "hunter2 d \\" e", "user": "ann"}', "hunter2 d"),
    ("{'client_secret': 'hunter2-f'}", "hunter2-f"),
    ("Config(sasl_password='hunter2-g', acks='all')", "hunter2-g"),
    (
        "listener.name.x.plain.sasl.jaas.config=org.apache.PlainLoginModule required "
        'username="ann" password="hunter2-h" user_bob="hunter2-i";',
        "hunter2-i",
    ),
    (
        'KafkaClient { com.x.ScramLoginModule required\n  username="a"\n  password="hunter2-j"; };',
        "hunter2-j",
    ),
    ("proxy http://ann:hunter2-k@proxy.example.com:8080/x", "hunter2-k"),
    ("connecting to postgresql://ann:hunter2%2Fl@db/x failed", "hunter2%2Fl"),
    ("Authorization: Basic YW5uOmh1bnRlcjItbQ==", "YW5uOmh1bnRlcjItbQ"),
    ("curl -H 'Authorization: Bearer hunter2-n-0123456789'", "hunter2-n"),
    (f"token refused {JWT} for ann", "c2lnbmF0dXJl"),
    ("headrace user create ann --password hunter2-o", "hunter2-o"),
    ("['python', '--api-key', 'hunter2-p', 'x.py']", "hunter2-p"),
    ("sasl.oauthbearer.client.credentials.client.secret=hunter2-q", "hunter2-q"),
    ("AWS_SECRET_ACCESS_KEY=hunter2/r+s aws_access_key_id=AKIAABCDEFGHIJKLMNOP", "hunter2/r"),
    ("AWS_ACCESS_KEY=AKIAABCDEFGHIJKLMNOQ", "AKIAABCDEFGHIJKLMNOQ"),
    ("RAY_AUTH_TOKEN=hunter2-t", "hunter2-t"),
    ("delegation.token.secret.key=hunter2-u", "hunter2-u"),
    ("tokenHmac: " + base64.b64encode(b"hunter2-v-hmac").decode(), base64.b64encode(b"hunter2-v").decode()),
    (
        "-----BEGIN PRIVATE KEY-----\nMIGHunter2wAgEAMBMGByqGSM49\nAgEGCCqGSM49\n-----END PRIVATE KEY-----",
        "MIGHunter2w",
    ),
    ("ssl.keystore.key=-----BEGIN ENCRYPTED PRIVATE KEY----- MIGHunter2x", "MIGHunter2x"),
    ("password=123456", "123456"),
)
TEXT = "\n".join(line for line, _ in FORMS) + "\n"
SECRETS = tuple(secret for _, secret in FORMS)
# What a maintainer needs to see.
HARMLESS = (
    "delegation.token.expiry.check.interval.ms=3600000",
    "delegation.token.max.lifetime.ms=604800000",
    "2026-11-29 16:00:00,000 INFO headrace.controller: leader is controller 2 in quorum epoch 5 (elected)",
    "RAY_AUTH_MODE=token",
    "advertised.listeners=SASL_SSL://node-1.example.com:9092",
    "security.inter.broker.protocol=SASL_SSL",
    "log.dirs=/var/lib/headrace/node-1",
    "group.id=tokenizers topic orders-3 offset 17",
    "max.connections=10000",
    '  File "/x/services/cluster_secret_io.py", line 12, in make_secret',
)


def sensitive_keys() -> list[str]:
    """Every config key that is declared as sensitive, and each of those for a listener of its own."""
    found = {
        name: None
        for kind in (NodeConfig, ControllerConfig, *ClientConfigs, QuerySecurityConfig)
        for name, declaration in kind.keys().items()
        if declaration.is_sensitive and not name.endswith(".*")
    }
    listener = [f"listener.name.internal.{name}" for name in found if name.startswith(("ssl.", "sasl."))]
    return [*found, *listener, "listener.name.internal.plain.sasl.jaas.config"]


def planted_in_keys(prefix: str) -> list[tuple[str, str]]:
    """A line and its secret for every sensitive key in every form in which configs are written."""
    numbers, found = count(), list[tuple[str, str]]()
    for key in sensitive_keys():
        underscored = key.replace(".", "_")
        for form in (
            f"{key}=%s",
            f"{key} = %s",
            f"{key}: '%s'",
            f'{{"{key}": "%s"}}',
            f"Config({underscored}='%s', acks='all')",
            f"HEADRACE_{underscored.upper()}=%s",
            f"headrace server node -X {key}=%s --config x",
            f'{{"name": "{key}", "value": "%s"}}',
        ):
            secret = f"{prefix}-{next(numbers):04d}-of-a-key"
            found.append((form % secret, secret))
    return found
