"""How clients reach a secured system, and what exists there before they do."""

import hashlib
from typing import Any, NamedTuple

from headrace.protocol.security.acls import AclOperation, ResourceType

from .asking import Asking, batch
from .rules import add_rules, rule
from .scene import Scene
from .secured_io import (
    ALICE,
    MUTUAL,
    OAUTHBEARER,
    OPEN,
    PASSWORD,
    PLAIN,
    SCRAM_256,
    SCRAM_512,
    SEALED,
    unsigned_token,
)

ITERATIONS = 4_096
_SALT = b"salt of the oracle"
_SCRAM = {1: "sha256", 2: "sha512"}


class Way(NamedTuple):
    """A listener and how to authenticate there; without a mechanism by a certificate."""

    listener: str
    mechanism: str = ""

    @property
    def label(self) -> str:
        """For notes."""
        return f"{self.listener} {self.mechanism or 'certificate'}"

    @property
    def has_tls(self) -> bool:
        """Whether the listener is encrypted."""
        return self.listener != OPEN

    @property
    def has_password(self) -> bool:
        """Whether users have a name and a password."""
        return self.mechanism in (PLAIN, SCRAM_256, SCRAM_512)


WAYS = (
    Way(OPEN, PLAIN),
    Way(SEALED, PLAIN),
    Way(SEALED, SCRAM_256),
    Way(SEALED, SCRAM_512),
    Way(OPEN, OAUTHBEARER),
    Way(SEALED, OAUTHBEARER),
    Way(MUTUAL),
)


class Login(NamedTuple):
    """A user of a client. `is_wrong`: with a wrong password, a token of the past or of another issuer, or a
    certificate of another CA."""

    way: Way
    user: str = ALICE
    is_wrong: bool = False

    @property
    def password(self) -> str:
        """Of a mechanism that has one."""
        return "wrong" if self.is_wrong else PASSWORD[self.user]

    @property
    def certificate(self) -> str:
        """The name of the files of the certificate and its key."""
        return "untrusted" if self.is_wrong else self.user

    def token(self, scene: Scene) -> str:
        """Of OAUTHBEARER."""
        assert scene.system.files is not None
        if self.way.listener == OPEN:
            return unsigned_token(self.user, **({"exp": 1_000, "iat": 1} if self.is_wrong else {}))
        return scene.system.files.signed_token(self.user, **({"iss": "another"} if self.is_wrong else {}))


def librdkafka(scene: Scene, login: Login) -> dict[str, Any]:
    """Its configuration, but for tokens."""
    way, files = login.way, scene.system.files
    assert files is not None
    found: dict[str, Any] = {
        "bootstrap.servers": scene.system.address_of(way.listener),
        "security.protocol": way.listener,
    }
    if way.has_tls:
        found["ssl.ca.location"] = files.path("ca.pem")
    if not way.mechanism:
        found["ssl.certificate.location"] = files.path(f"{login.certificate}.pem")
        found["ssl.key.location"] = files.path(f"{login.certificate}.key")
    else:
        found["sasl.mechanism"] = way.mechanism
    if way.has_password:
        found |= {"sasl.username": login.user, "sasl.password": login.password}
    return found


_OF_PYTHON = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


def kafka_python(scene: Scene, login: Login) -> dict[str, Any]:
    """The same under kafka-python's names."""
    return {_OF_PYTHON[name]: value for name, value in librdkafka(scene, login).items()}


def prepare(scene: Scene) -> None:
    """A topic of alice with two records, her group, and SCRAM credentials of all users."""
    with Asking(scene) as asking:
        asking.create()
        asking.produce("", batch(2))
        add_scram_users(asking, PASSWORD)
        topic, group = ResourceType.TOPIC.value, ResourceType.GROUP.value
        rules = [
            rule(ALICE, operation, topic, scene.topic)
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ]
        add_rules(asking, [*rules, rule(ALICE, AclOperation.READ, group, scene.topic)])


def add_scram_users(asking: Asking, passwords: dict[str, str]) -> None:
    """Until the node knows them."""
    for number, hash_name in _SCRAM.items():
        made = [
            {
                "name": name,
                "mechanism": number,
                "iterations": ITERATIONS,
                "salt": _SALT,
                "salted_password": hashlib.pbkdf2_hmac(hash_name, password.encode(), _SALT, ITERATIONS),
            }
            for name, password in passwords.items()
        ]
        done = asking.ask("", "alter_user_scram_credentials", 0, deletions=[], upsertions=made)
        assert {each["error_code"] for each in done["results"]} == {"none"}, done
    users = [{"name": name} for name in passwords]
    asking.scene.until(
        lambda: asking.ask("", "describe_user_scram_credentials", 0, users=users),
        "'mechanism': 2",
        len(users),
    )
