"""kafka-python on secured listeners, by every mechanism: the right password, a wrong one, and a user without
rights. GSSAPI: tests/integration/test_kerberos.py."""

import warnings
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from ..scene import Scene, scenario
from ..secured_io import BOB, OAUTHBEARER
from ..secured_users import WAYS, Login, kafka_python, prepare
from .security_clients import logins

CLIENT = "security"
TIMEOUT_MS, TIMEOUT_S = 20_000, 20.0
# of a connection that is refused again and again
BOOTSTRAP_MS = 4_000

warnings.filterwarnings("ignore", module="kafka")


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    """Returns the same token each time."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def token(self) -> str:
        """As kafka-python calls it."""
        return self._text


def _config(scene: Scene, login: Login) -> dict[str, Any]:
    found = kafka_python(scene, login)
    found["bootstrap_timeout_ms"] = BOOTSTRAP_MS if login.is_wrong else TIMEOUT_MS
    if login.way.mechanism == OAUTHBEARER:
        found["sasl_oauth_token_provider"] = _Token(login.token(scene))
    return found


def _outcome(call: Callable[[], Any]) -> Any:
    """What a call gave, or the error that it raised."""
    try:
        return call()
    except KafkaError as error:
        return type(error).__name__


def _produced(scene: Scene, login: Login) -> Any:
    producer = KafkaProducer(**_config(scene, login), max_block_ms=TIMEOUT_MS, enable_idempotence=False)
    try:
        return type(producer.send(scene.topic, b"x").get(TIMEOUT_S)).__name__
    finally:
        producer.close(TIMEOUT_S)


def _consumed(scene: Scene, login: Login) -> Any:
    """The first two records, by assignment, and what a member of the group gets."""
    found: dict[str, Any] = {}
    for kind in ("assigned", "subscribed"):
        reader = KafkaConsumer(
            **_config(scene, login),
            group_id=scene.topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=TIMEOUT_MS if login.user != BOB else 3_000,
        )
        if kind == "assigned":
            part = TopicPartition(scene.topic, 0)
            reader.assign([part])
            reader.seek(part, 0)
        else:
            reader.subscribe([scene.topic])
        found[kind] = _outcome(lambda reader=reader: [next(reader).value for _ in range(2)])
        reader.close(autocommit=False)
    return found


def _listed(scene: Scene, login: Login) -> Any:
    admin = KafkaAdminClient(**_config(scene, login))
    try:
        return scene.topic in admin.list_topics()
    finally:
        admin.close()


@scenario(CLIENT, "kafka-python", is_secured=True)
def by_kafka_python(scene: Scene) -> None:
    prepare(scene)
    for way in WAYS:
        for label, login in logins(way).items():
            calls = {"listed": _listed, "written": _produced, "read": _consumed}
            for name, call in calls.items():
                if name == "listed" or not login.is_wrong:  # a producer would try until its timeout
                    scene.note(f"{label}/{name}", _outcome(lambda call=call, login=login: call(scene, login)))
