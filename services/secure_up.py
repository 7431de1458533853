"""`headrace up --secure`: the config of a cluster with encryption, users and rules, and client files. Pure.

Both planes are encrypted and authenticated: native listeners by CURVE, those for Kafka clients by TLS with
certificates of the cluster's own authority. Every operation needs a rule that allows it, except those of the
user `admin`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.server_security_config import SASL_SSL
from .local_security import ADMIN
from .secured_files import CA_FILE, FOLDER, JAVA_FILE, LIBRDKAFKA_FILE, SERVER_FILE, properties

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SCRAM = "SCRAM-SHA-512"
_JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'


def secure_config(given: Mapping[str, Any], data_dir: str) -> dict[str, Any]:
    """The config of a secured cluster; given keys have precedence.

    Kafka clients get one SASL_SSL listener on a free port, unless `listeners` is given.
    """
    names = {name.replace("_", ".") for name in given}
    defaults = {
        "native.security.protocol": SASL_SSL,
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "listeners": f"{SASL_SSL}://:0",
        "sasl.enabled.mechanisms": f"{SCRAM},SCRAM-SHA-256",
        "ssl.keystore.location": str(Path(data_dir) / FOLDER / SERVER_FILE),
    }
    return {**{name: value for name, value in defaults.items() if name not in names}, **given}


def kafka_client_files(folder: str, password: str) -> dict[str, str]:
    """The texts of client files of the user `admin` by name: for Kafka's Java clients and tools
    (`--command-config`), and for librdkafka (`kcat -F`, confluent-kafka)."""
    ca_file = str(Path(folder) / CA_FILE)
    java = {
        "security.protocol": SASL_SSL,
        "sasl.mechanism": SCRAM,
        "sasl.jaas.config": _JAAS.format(ADMIN, password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca_file,
    }
    librdkafka = {
        "security.protocol": SASL_SSL,
        "sasl.mechanisms": SCRAM,
        "sasl.username": ADMIN,
        "sasl.password": password,
        "ssl.ca.location": ca_file,
    }
    return {JAVA_FILE: properties(java), LIBRDKAFKA_FILE: properties(librdkafka)}
