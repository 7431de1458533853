"""librdkafka and aiokafka on secured listeners, by every mechanism: the right password, a wrong
one, and a user without rights."""

import asyncio
import re
import ssl
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from headrace.benchmarks.servers.topics_io import silent

from ..scene import Scene, scenario
from ..secured_io import BOB, OAUTHBEARER
from ..secured_users import WAYS, Login, Way, librdkafka, prepare

CLIENT = "security"
TIMEOUT_S = 20.0
# an idempotent producer of a user without rights asks again and again for its id
PRODUCER = {"acks": "all", "enable.idempotence": False, "message.timeout.ms": 10_000}
_TIMING = re.compile(r"( \(after \d+ms in state \w+\)|, \d+ identical error\(s\) suppressed|\[[^]]*\]: )")


def logins(way: Way) -> dict[str, Login]:
    """By what is noted."""
    return {
        f"{way.label}/right": Login(way),
        f"{way.label}/wrong": Login(way, is_wrong=True),
        f"{way.label}/without rights": Login(way, BOB),
    }


# --- librdkafka -------------------------------------------------------------------------------------------


def _confluent(scene: Scene, login: Login, **more: Any) -> dict[str, Any]:
    found = {**librdkafka(scene, login), **more}
    if login.way.mechanism == OAUTHBEARER:
        found["oauth_cb"] = lambda _: (login.token(scene), time.time() + 600)
    return found


def _first_error(scene: Scene, login: Login) -> str:
    """What a client with wrong credentials reports: the text has the server's own."""
    errors: list[Any] = []
    config = _confluent(scene, login, error_cb=errors.append)
    producer = Producer(config, logger=silent())
    deadline = time.monotonic() + TIMEOUT_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    return _TIMING.sub("", f"{errors[0].name()} {errors[0].str()}") if errors else "no error"


def _produced(scene: Scene, login: Login) -> Any:
    producer = Producer(_confluent(scene, login, **PRODUCER), logger=silent())
    reports: list[Any] = []
    for each in range(2):
        producer.produce(scene.topic, b"%d" % each, on_delivery=lambda error, _: reports.append(error))
    producer.flush(TIMEOUT_S)
    return [error and error.name() for error in reports]


def _consumed(scene: Scene, login: Login) -> Any:
    """The first two records, by assignment, and what a member of the group gets."""
    base = {"group.id": scene.topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    found: dict[str, Any] = {}
    for kind in ("assigned", "subscribed"):
        reader = Consumer(_confluent(scene, login, **base), logger=silent())
        if kind == "assigned":
            reader.assign([TopicPartition(scene.topic, 0, OFFSET_BEGINNING)])
        else:
            reader.subscribe([scene.topic])
        first = [reader.poll(TIMEOUT_S) for _ in range(2 if login.user != BOB else 1)]
        found[kind] = [each and (each.error().name() if each.error() else each.value()) for each in first]
        reader.close()
    return found


@scenario(CLIENT, "librdkafka", is_secured=True)
def by_librdkafka(scene: Scene) -> None:
    prepare(scene)
    for way in WAYS:
        for label, login in logins(way).items():
            if login.is_wrong:
                scene.note(label, _first_error(scene, login))
            else:
                scene.note(label, [_produced(scene, login), _consumed(scene, login)])


# --- aiokafka ----------------------------------------------------------------------------------------


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    async def token(self) -> str:
        """As aiokafka awaits it."""
        return self._text


def _aiokafka(scene: Scene, login: Login) -> dict[str, Any]:
    way, files = login.way, scene.system.files
    assert files is not None
    found: dict[str, Any] = {
        "bootstrap_servers": scene.system.address_of(way.listener),
        "security_protocol": way.listener,
    }
    if way.has_tls:
        found["ssl_context"] = context = ssl.create_default_context(cafile=files.path("ca.pem"))
        if not way.mechanism:
            context.load_cert_chain(*(files.path(f"{login.certificate}.{kind}") for kind in ("pem", "key")))
    if way.mechanism:
        found["sasl_mechanism"] = way.mechanism
    if way.has_password:
        found |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    if way.mechanism == OAUTHBEARER:
        found["sasl_oauth_token_provider"] = _Token(login.token(scene))
    return found


async def _by_aiokafka(scene: Scene, login: Login) -> list[Any]:
    config = _aiokafka(scene, login)
    found: list[Any] = []
    writer = AIOKafkaProducer(**config, request_timeout_ms=3_000)
    try:
        await writer.start()
        found.append(type(await writer.send_and_wait(scene.topic, b"x")).__name__)
    except KafkaError as error:
        found.append(type(error).__name__)
    finally:
        await writer.stop()
    if login.is_wrong:
        return found
    reader = AIOKafkaConsumer(**config, group_id=scene.topic, enable_auto_commit=False)
    try:
        await reader.start()
        part = AioPartition(scene.topic, 0)
        reader.assign([part])
        reader.seek(part, 0)
        found += [(await asyncio.wait_for(reader.getone(), TIMEOUT_S)).value for _ in range(2)]
    except (KafkaError, TimeoutError) as error:
        found.append(type(error).__name__)
    finally:
        await reader.stop()
    return found


@scenario(CLIENT, "aiokafka", is_secured=True)
def by_aiokafka(scene: Scene) -> None:
    prepare(scene)

    async def play() -> None:
        for way in WAYS:
            for label, login in logins(way).items():
                scene.note(label, await _by_aiokafka(scene, login))

    asyncio.run(play())
