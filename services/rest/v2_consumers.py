"""Version 2: consumer instances, which belong to the user who created them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from ...clients.group.group_metadata import OffsetAndMetadata
from ...protocol.errors import ConfigError, HeadraceError
from ...protocol.model import TopicPartition
from ..web.calls_io import Reply, decoded, encode
from ..web.problems import Problem, text_of_error
from ..web.routes import JSON, Route, integer
from .formats import BINARY, no_registry
from .formats import JSON as JSON_FORMAT
from .v2_topics import OF_REGISTRY, RETURNED, V2, V2_BINARY, V2_JSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from ...clients.aio.consumer_io import AsyncConsumer
    from ...clients.records import Record
    from ..web.calls_io import Call
    from ..web.client_pool_io import ClientPool, UserClients
    from .restrictions import Restrictions
    from .settings import RestConfig

log = logging.getLogger("headrace.web")
NOT_FOUND, FORMAT_DIFFERS, EXISTS, EXCLUSIVE, BAD_CONFIG = 40403, 40601, 40902, 40903, 42204
_TAG = "v2 Consumers"
_ACCEPTS = (V2, JSON)
_POLL_RECORDS = 500
_GATHER_S = 0.02
_MAX_NAME = 255


class NewInstance(msgspec.Struct, rename=lambda name: name.replace("_", ".")):
    """A consumer instance to create."""

    name: str | None = None
    id: str | None = None
    format: str = "binary"
    auto_offset_reset: str | None = None
    auto_commit_enable: bool | str | None = None
    enable_auto_commit: bool | str | None = None
    fetch_min_bytes: int | str | None = None
    consumer_request_timeout_ms: int | str | None = None
    isolation_level: str | None = None


class CreatedInstance(msgspec.Struct):
    """The name of an instance, and the address of its resources."""

    instance_id: str
    base_uri: str


class Subscription(msgspec.Struct):
    """Topics, or a pattern that matches their whole names."""

    topics: list[str] | None = None
    topic_pattern: str | None = None


class Topics(msgspec.Struct):
    """The topics of a subscription."""

    topics: list[str]


class Partition(msgspec.Struct):
    """A partition of a topic."""

    topic: str
    partition: int


class Partitions(msgspec.Struct):
    """Partitions of topics."""

    partitions: list[Partition]


class Offset(msgspec.Struct):
    """The offset of the next record of a partition."""

    topic: str
    partition: int
    offset: int
    metadata: str | None = None


class Offsets(msgspec.Struct):
    """Offsets of partitions."""

    offsets: list[Offset]


class ConsumedRecord(msgspec.Struct):
    """A record; key and value are JSON, or base64 text, by the format of the instance."""

    topic: str
    key: Any
    value: Any
    partition: int
    offset: int


class Instance:
    """A consumer instance."""

    def __init__(
        self, clients: UserClients, consumer: AsyncConsumer, content_type: str, wait_ms: int, now_s: float
    ) -> None:
        self.clients, self.consumer = clients, consumer
        self.content_type, self.wait_ms = content_type, wait_ms
        self.lock, self.used_at_s = asyncio.Lock(), now_s
        self.is_closed = False


class Consumers:
    """The consumer instances of the server."""

    def __init__(self, pool: ClientPool, config: RestConfig) -> None:
        self._pool, self._config = pool, config
        self._instances: dict[tuple[str, str], Instance] = {}
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def default_wait_ms(self) -> int:
        """consumer.request.timeout.ms."""
        return self._config.consumer_request_timeout_ms

    def add(self, group: str, name: str, instance: Instance) -> None:
        """Register a new instance; its clients stay open. Errors: Problem 409, 503."""
        self.check_free(group, name)
        self._pool.keep(instance.clients)
        self._instances[group, name] = instance
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    def check_free(self, group: str, name: str) -> None:
        """Errors: Problem 409 if the instance exists, 503 if there are too many."""
        if (group, name) in self._instances:
            raise Problem(409, f"consumer instance {name!r} of group {group!r} exists", EXISTS)
        if len(self._instances) >= self._config.max_consumer_instances:
            count = len(self._instances)
            raise Problem(503, f"{count} consumer instances exist, which is max.consumer.instances", 50301)

    @contextlib.asynccontextmanager
    async def use(self, call: Call) -> AsyncIterator[Instance]:
        """The instance in the path, for one request at a time. Errors: Problem 404."""
        instance = self._find(call)
        async with instance.lock:
            if instance.is_closed:
                raise self._missing(call)
            try:
                yield instance
            finally:
                instance.used_at_s = asyncio.get_running_loop().time()

    async def remove(self, call: Call) -> None:
        """Close an instance: it commits the records that it has returned, with auto-commit."""
        instance = self._find(call)
        async with instance.lock:
            if instance.is_closed:
                raise self._missing(call)
            if instance.consumer.config.enable_auto_commit:
                try:
                    await instance.consumer.commit()
                except HeadraceError as error:
                    log.warning("the last commit of a consumer instance failed: %s", error)
            await self._close(call.params["group"], call.params["instance"], instance)

    async def close(self) -> None:
        """Close all instances."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        open_ones = list(self._instances.items())
        await asyncio.gather(*(self._close(*key, instance) for key, instance in open_ones))

    def _find(self, call: Call) -> Instance:
        found = self._instances.get((call.params["group"], call.params["instance"]))
        if found is None or found.clients.credentials != call.clients.credentials:
            raise self._missing(call)
        return found

    @staticmethod
    def _missing(call: Call) -> Problem:
        name, group = call.params["instance"], call.params["group"]
        return Problem(404, f"consumer instance {name!r} of group {group!r} is not found", NOT_FOUND)

    async def _close(self, group: str, name: str, instance: Instance) -> None:
        if instance.is_closed:
            return
        instance.is_closed = True
        self._instances.pop((group, name), None)
        try:
            await instance.consumer.close()
        except HeadraceError as error:
            log.warning("consumer instance %s of group %s was closed with an error: %s", name, group, error)
        finally:
            self._pool.release(instance.clients)

    async def _sweep(self) -> None:
        idle_s = self._config.consumer_instance_timeout_ms / 1000
        while True:
            await asyncio.sleep(idle_s / 4)
            oldest = asyncio.get_running_loop().time() - idle_s
            for key, instance in list(self._instances.items()):
                if instance.used_at_s < oldest and not instance.lock.locked():
                    log.info("consumer instance %s of group %s is idle: closing it", key[1], key[0])
                    await self._close(*key, instance)


class ConsumerRoutes:
    """The routes of consumer instances."""

    def __init__(self, consumers: Consumers, restrictions: Restrictions) -> None:
        self._consumers, self._restrictions = consumers, restrictions
        group = "/consumers/{group}"
        one = f"{group}/instances/{{instance}}"

        def route(method: str, path: str, handler: Any, summary: str, **more: Any) -> Route:
            types: dict[str, Any] = {
                "accepts": _ACCEPTS,
                "returns": RETURNED,
                "status": 200 if "response" in more else 204,
            }
            return Route(method, path, handler, summary, _TAG, **types, **more)

        self.ROUTES = (
            route("POST", group, self._create, "Create an instance", request=NewInstance,
                  response=CreatedInstance),
            route("DELETE", one, self._delete, "Delete an instance"),
            route("POST", f"{one}/subscription", self._subscribe, "Subscribe", request=Subscription),
            route("GET", f"{one}/subscription", self._subscription, "Get the subscription", response=Topics),
            route("DELETE", f"{one}/subscription", self._unsubscribe, "Unsubscribe"),
            route("POST", f"{one}/assignments", self._assign, "Assign partitions", request=Partitions),
            route("GET", f"{one}/assignments", self._assignments, "Get the assignment", response=Partitions),
            route("POST", f"{one}/positions", self._seek, "Set positions", request=Offsets),
            route("POST", f"{one}/positions/beginning", self._seek_to_beginning, "Set positions to the first"
                  " records", request=Partitions),
            route("POST", f"{one}/positions/end", self._seek_to_end, "Set positions to the end",
                  request=Partitions),
            route("POST", f"{one}/offsets", self._commit, "Commit offsets", request=Offsets),
            route("GET", f"{one}/offsets", self._committed, "Get committed offsets", request=Partitions,
                  response=Offsets),
            Route("GET", f"{one}/records", self._records, "Fetch records", _TAG, None, list[ConsumedRecord],
                  params=(integer("timeout", "Longest time to collect records, in ms."),
                          integer("max_bytes", "Most bytes of keys and values.")),
                  returns=(V2_JSON, V2_BINARY)),
        )  # fmt: skip

    async def _create(self, call: Call) -> CreatedInstance:
        wanted = await call.json(NewInstance)
        group, name = call.params["group"], wanted.name or wanted.id or f"rest-{secrets.token_hex(8)}"
        if len(name) > _MAX_NAME or not name.isprintable():
            raise Problem(422, f"the name has more than {_MAX_NAME} or unprintable characters", BAD_CONFIG)
        content_type = _content_type(wanted.format)
        self._consumers.check_free(group, name)
        options, wait_ms = _options(wanted, group), self._consumers.default_wait_ms
        if wanted.consumer_request_timeout_ms is not None:
            wait_ms = _whole_number("consumer.request.timeout.ms", wanted.consumer_request_timeout_ms)
        try:
            consumer = call.clients.cluster.consumer(config=options)
        except ConfigError as error:
            raise Problem(422, text_of_error(error), BAD_CONFIG) from None
        now_s = asyncio.get_running_loop().time()
        self._consumers.add(group, name, Instance(call.clients, consumer, content_type, wait_ms, now_s))
        return CreatedInstance(name, call.url("consumers", group, "instances", name))

    async def _delete(self, call: Call) -> None:
        await self._consumers.remove(call)

    async def _subscribe(self, call: Call) -> None:
        wanted = await call.json(Subscription)
        if (wanted.topics is None) == (wanted.topic_pattern is None):
            raise Problem(422, "give either topics or topic_pattern")
        async with self._consumers.use(call) as instance:
            with _exclusive():
                await instance.consumer.subscribe(wanted.topics or (), pattern=wanted.topic_pattern)

    async def _subscription(self, call: Call) -> Topics:
        async with self._consumers.use(call) as instance:
            return Topics(list(instance.consumer.subscription()))

    async def _unsubscribe(self, call: Call) -> None:
        async with self._consumers.use(call) as instance:
            await instance.consumer.unsubscribe()

    async def _assign(self, call: Call) -> None:
        wanted = await call.json(Partitions)
        async with self._consumers.use(call) as instance:
            with _exclusive():
                await instance.consumer.assign(_named(wanted.partitions))

    async def _assignments(self, call: Call) -> Partitions:
        async with self._consumers.use(call) as instance:
            found = await instance.consumer.assignment()
            return Partitions([Partition(tp.topic, tp.partition) for tp in found])

    async def _seek(self, call: Call) -> None:
        wanted = await call.json(Offsets)
        if any(each.offset < 0 for each in wanted.offsets):
            raise Problem(422, "offsets are not negative")
        async with self._consumers.use(call) as instance:
            with _bad_request():
                for each in wanted.offsets:
                    await instance.consumer.seek(TopicPartition(each.topic, each.partition), each.offset)

    async def _seek_to_beginning(self, call: Call) -> None:
        wanted = await call.json(Partitions)
        async with self._consumers.use(call) as instance:
            with _bad_request():
                await instance.consumer.seek_to_beginning(*_named(wanted.partitions))

    async def _seek_to_end(self, call: Call) -> None:
        wanted = await call.json(Partitions)
        async with self._consumers.use(call) as instance:
            with _bad_request():
                await instance.consumer.seek_to_end(*_named(wanted.partitions))

    async def _commit(self, call: Call) -> None:
        call.check_content_type()
        body = await call.body()
        wanted = decoded(body, Offsets) if body.strip() else None
        async with self._consumers.use(call) as instance:
            if wanted is None:
                await instance.consumer.commit()
                return
            offsets = {
                TopicPartition(each.topic, each.partition): OffsetAndMetadata(
                    each.offset, each.metadata or ""
                )
                for each in wanted.offsets
            }
            await instance.consumer.commit(offsets)

    async def _committed(self, call: Call) -> Offsets:
        wanted = await call.json(Partitions)
        async with self._consumers.use(call) as instance:
            found = await instance.consumer.committed(*_named(wanted.partitions))
        return Offsets(
            [
                Offset(tp.topic, tp.partition, committed.offset, committed.metadata)
                for tp, committed in found.items()
                if committed is not None
            ]
        )

    async def _records(self, call: Call) -> Reply:
        async with self._consumers.use(call) as instance:
            if not {instance.content_type, V2, JSON, "*/*", "application/*"} & set(call.accepted):
                raise Problem(406, f"the format of the instance is {instance.content_type}", FORMAT_DIFFERS)
            wait_ms = call.number("timeout", instance.wait_ms, most=30_000)
            most = call.number("max_bytes", call.web.max_response_bytes, most=call.web.max_response_bytes)
            assert wait_ms is not None
            assert most is not None
            records = await _fetched(instance.consumer, wait_ms / 1000, most)
            try:
                shown = [self._document(record, instance.content_type) for record in records]
            except Problem:
                await _rewind(instance.consumer, records)
                raise
        return Reply(encode(shown), 200, instance.content_type)

    def _document(self, record: Record[bytes, bytes], content_type: str) -> ConsumedRecord:
        masked = self._restrictions.of_topic(record.topic)
        is_json = content_type == V2_JSON
        convert = _embedded if is_json else _base64
        try:
            key, value = (
                masked.embedded(root, data, JSON_FORMAT if is_json else BINARY)
                if masked.hides(root)
                else convert(data)
                for root, data in (("key", record.key), ("value", record.value))
            )
        except ValueError:
            place = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise Problem(
                422,
                f"the record of {place} is neither JSON nor text: skip it by /positions, or use format"
                " binary",
            ) from None
        return ConsumedRecord(record.topic, key, value, record.partition, record.offset)


async def _fetched(consumer: AsyncConsumer, wait_s: float, most: int) -> list[Record[bytes, bytes]]:
    """Records, as soon as there are some, up to `most` bytes; the record that exceeds it is the last."""
    clock = asyncio.get_running_loop().time
    ends_at = clock() + wait_s
    records: list[Record[bytes, bytes]] = []
    while most > 0:
        left = ends_at - clock()
        batch = await consumer.poll(max(min(left, _GATHER_S) if records else left, 0), _POLL_RECORDS)
        if not batch:
            break
        for number, record in enumerate(batch):
            if most <= 0:
                await _rewind(consumer, batch[number:])
                break
            records.append(record)
            most -= len(record.key or b"") + len(record.value or b"") + 1
    return records


async def _rewind(consumer: AsyncConsumer, records: Iterable[Record[bytes, bytes]]) -> None:
    """Return these records again."""
    first: dict[TopicPartition, int] = {}
    for record in records:
        first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
    for tp, offset in first.items():
        with contextlib.suppress(ConfigError):  # the partition was revoked meanwhile
            await consumer.seek(tp, offset)


def _embedded(value: bytes | None) -> Any:
    """A JSON value, or else text. Errors: ValueError."""
    if value is None:
        return None
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return value.decode()
    return msgspec.Raw(value)


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _content_type(name: str) -> str:
    wanted = name.lower()
    if wanted in ("avro", "protobuf", "jsonschema"):
        raise no_registry(OF_REGISTRY[0].replace("avro", wanted))
    if wanted not in ("json", "binary"):
        raise Problem(422, f"format must be json or binary, not {name!r}", BAD_CONFIG)
    return V2_JSON if wanted == "json" else V2_BINARY


def _options(wanted: NewInstance, group: str) -> dict[str, Any]:
    commits = wanted.auto_commit_enable if wanted.enable_auto_commit is None else wanted.enable_auto_commit
    given = {
        "group.id": group,
        "auto.offset.reset": wanted.auto_offset_reset,
        "enable.auto.commit": commits,
        "fetch.min.bytes": wanted.fetch_min_bytes if str(wanted.fetch_min_bytes) != "-1" else None,
        "isolation.level": wanted.isolation_level,
    }
    return {name: value for name, value in given.items() if value is not None}


def _whole_number(name: str, value: int | str) -> int:
    try:
        found = int(value)
    except ValueError:
        found = -1
    if not 0 <= found <= 30_000:
        raise Problem(422, f"{name} must be 0 to 30000", BAD_CONFIG)
    return found


def _named(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]


@contextlib.contextmanager
def _exclusive() -> Any:
    """Subscriptions and assignments exclude each other."""
    try:
        yield
    except ConfigError as error:
        raise Problem(409, text_of_error(error), EXCLUSIVE) from None


@contextlib.contextmanager
def _bad_request() -> Any:
    """A position of a partition that is not assigned."""
    try:
        yield
    except ConfigError as error:
        raise Problem(400, text_of_error(error), 40002) from None
