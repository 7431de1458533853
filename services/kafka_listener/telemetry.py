"""Client metrics (KIP-714): subscriptions of clients, and the metrics that they pushed. Pure.

A client asks what to push and gets the union of all matching subscriptions, under an id that changes with
them; it pushes under this id at the interval of the response. A client that disconnects, or is silent for
three intervals, is dropped with its metrics. Source: Kafka ClientMetricsManager.java,
ClientMetricsInstance.java.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from crc32c import crc32c

from ...protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidRequestError,
    KafkaError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from ...protocol.metadata.image import CLIENT_METRICS_RESOURCE
from ...protocol.records.compression import decompress
from ...protocol.records.header import Compression
from ...storage_node.configs.client_metrics_config import DEFAULT_INTERVAL_MS, ClientMetricsConfig
from .otlp import Point, points_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...runtime.regex import Regex

    Configs = Mapping[tuple[int, str], Mapping[str, str]]

# Bound: known clients; the least recently used are dropped first, as in Kafka.
MAX_CLIENTS = 16_384
# Bound: metrics of one client and of all; more are counted and dropped.
MAX_POINTS_PER_CLIENT, MAX_POINTS = 1_000, 100_000
# Bound: clients, and metrics of all of them, in the status; the newest pushes first.
SHOWN_CLIENTS, SHOWN_POINTS = 50, 2_000
MIN_EXPIRY_MS = 60_000
# In order of preference.
COMPRESSIONS = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
RESERVED_IDS = frozenset((bytes(16), bytes(15) + b"\x01"))
_ALL = "*"
_ASK_AGAIN = (UnknownSubscriptionIdError.code, UnsupportedCompressionTypeError.code)


class Client(NamedTuple):
    """The attributes of a client that subscriptions match."""

    instance_id: bytes
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: str

    @property
    def facts(self) -> dict[str, str]:
        """By their names in `match`."""
        return {
            "client_instance_id": text_of_id(self.instance_id),
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.address,
            "client_source_port": self.port,
        }


class SubscribedMetrics(NamedTuple):
    """The metrics that a client is to push."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class _Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: dict[str, Regex]

    def matches_client(self, facts: Mapping[str, str]) -> bool:
        return all(regex.matches_one(facts[name]) for name, regex in self.patterns.items())


@dataclass(slots=True, eq=False)
class _ClientState:
    """A client, its subscription, and the metrics that it pushed."""

    client: Client
    session: int
    subscribed: SubscribedMetrics
    version: int  # the configs that `subscribed` was derived from
    seen_ms: int
    asked_ms: int | None = None  # of the last request
    pushed_ms: int | None = None
    has_new_subscription: bool = True  # no push since the last subscription
    last_error: int = 0
    is_terminating: bool = False
    points: dict[str, float] = field(default_factory=dict)
    pushes: int = 0
    throttled: int = 0
    errors: int = 0

    @property
    def expires_ms(self) -> int:
        return self.seen_ms + max(MIN_EXPIRY_MS, 3 * self.subscribed.interval_ms)

    def may_get(self, now_ms: int) -> bool:
        """Once per interval, and after an error that asks for it."""
        is_due = self.asked_ms is None or now_ms - self.asked_ms >= self.subscribed.interval_ms
        if is_due or self.last_error in (
            UnknownSubscriptionIdError.code,
            UnsupportedCompressionTypeError.code,
        ):
            self.asked_ms, self.has_new_subscription = now_ms, True
            return True
        return False

    def may_push(self, now_ms: int) -> bool:
        """Once per interval, and at once after a new subscription: clients spread their first pushes."""
        if self.has_new_subscription or now_ms - (self.pushed_ms or 0) >= self.subscribed.interval_ms:
            self.asked_ms = self.pushed_ms = now_ms
            self.has_new_subscription = False
            return True
        return False


class ClientTelemetry:
    """All clients of one node that push metrics or asked for a subscription.

    Invariant: `_points` is the number of points of all clients.
    """

    def __init__(self) -> None:
        self._clients: dict[bytes, _ClientState] = {}  # most recently used last
        self._by_session: dict[int, bytes] = {}
        self._configs: Configs = {}
        self._own: dict[tuple[int, str], Mapping[str, str]] = {}
        self._subscriptions: list[_Subscription] = []
        self._version = 0
        self._points = 0
        self._unknown_subscriptions = self._dropped_points = 0

    def __len__(self) -> int:
        return len(self._clients)

    def is_known(self, instance_id: bytes) -> bool:
        """Whether a client has this id."""
        return instance_id in self._clients

    def get(self, configs: Configs, client: Client, session: int, now_ms: int) -> SubscribedMetrics:
        """The subscription of a client. Errors: ThrottlingQuotaExceededError before its interval is over."""
        known = self._client(configs, client, session, now_ms)
        if not known.may_get(now_ms):
            known.throttled += 1
            raise ThrottlingQuotaExceededError("GetTelemetrySubscriptions before the push interval was over")
        known.last_error = 0
        return known.subscribed

    def push(
        self, configs: Configs, client: Client, session: int, body: Any, max_bytes: int, now_ms: int
    ) -> None:
        """Store the metrics of a client; `body` is a PushTelemetry request. Errors: KafkaError."""
        if client.instance_id in RESERVED_IDS:
            raise InvalidRequestError("invalid client instance id")
        known = self._client(configs, client, session, now_ms)
        try:
            try:
                self._check(known, body, max_bytes, now_ms)
            finally:
                known.is_terminating = body.terminating
            self._take(known, read_points(body.compression_type, body.metrics, max_bytes))
        except KafkaError as error:
            known.last_error = error.code
            known.errors += 1
            raise
        known.last_error = 0

    def connection_gone(self, session: int) -> None:
        """Drop the clients that were first seen on this connection."""
        instance_id = self._by_session.pop(session, None)
        if instance_id is not None:
            self._forget(instance_id)

    def expire(self, now_ms: int) -> None:
        """Drop clients that have been silent for too long."""
        for instance_id in [key for key, known in self._clients.items() if known.expires_ms <= now_ms]:
            self._forget(instance_id)

    def status(self) -> dict[str, Any]:
        """JSON-able, under Kafka's names where it has some; `clients` are those that pushed last."""
        pushed = sorted(
            (known for known in self._clients.values() if known.pushed_ms is not None),
            key=lambda known: known.pushed_ms or 0,
            reverse=True,
        )
        left, shown = SHOWN_POINTS, {}
        for known in pushed[:SHOWN_CLIENTS]:
            points = dict(list(known.points.items())[:left])
            left -= len(points)
            shown[text_of_id(known.client.instance_id)] = {
                **known.client.facts,
                "push_interval_ms": known.subscribed.interval_ms,
                "plugin-export": known.pushes,
                "throttle": known.throttled,
                "plugin-error": known.errors,
                "metrics": points,
            }
        return {
            "instance-count": len(self._clients),
            "unknown-subscription-request": self._unknown_subscriptions,
            "metric-count": self._points,
            "dropped-metrics": self._dropped_points,
            "clients": shown,
        }

    # --- inside ------------------------------------------------------------------------------------------

    def _client(self, configs: Configs, client: Client, session: int, now_ms: int) -> _ClientState:
        self._follow(configs)
        known = self._clients.pop(client.instance_id, None)
        if known is None:
            while len(self._clients) >= MAX_CLIENTS:
                self._forget(next(iter(self._clients)))
            known = _ClientState(client, session, self._subscribed(client), self._version, now_ms)
        elif known.version != self._version:
            subscribed = self._subscribed(known.client)
            if subscribed != known.subscribed:  # it may ask, and push, at once
                known.asked_ms, known.has_new_subscription = None, True
                known.last_error, known.is_terminating = 0, False
            known.subscribed, known.version = subscribed, self._version
        if known.session != session:  # the client reconnected
            self._by_session.pop(known.session, None)
            known.session = session
        self._own_session(session, client.instance_id)
        known.seen_ms = now_ms
        self._clients[client.instance_id] = known
        return known

    def _own_session(self, session: int, instance_id: bytes) -> None:
        """One client per connection; a connection that uses several ids has the last."""
        before = self._by_session.get(session)
        if before is not None and before != instance_id:
            self._forget(before)
        self._by_session[session] = instance_id

    def _forget(self, instance_id: bytes) -> None:
        known = self._clients.pop(instance_id, None)
        if known is not None:
            self._points -= len(known.points)
            if self._by_session.get(known.session) == instance_id:
                del self._by_session[known.session]

    def _follow(self, configs: Configs) -> None:
        """Update the subscriptions, if the configs changed."""
        if configs is self._configs:
            return
        self._configs = configs
        own = {key: value for key, value in configs.items() if key[0] == CLIENT_METRICS_RESOURCE}
        if own != self._own:
            self._own, self._version = own, self._version + 1
            self._subscriptions = [_subscription(own[key]) for key in sorted(own)]

    def _subscribed(self, client: Client) -> SubscribedMetrics:
        facts = client.facts
        matching = [each for each in self._subscriptions if each.matches_client(facts)]
        metrics = {name for each in matching for name in each.metrics}
        names = (_ALL,) if _ALL in metrics else tuple(sorted(metrics))
        interval_ms = min((each.interval_ms for each in matching), default=DEFAULT_INTERVAL_MS)
        interval_ms = min(interval_ms, DEFAULT_INTERVAL_MS)
        return SubscribedMetrics(subscription_id(names, interval_ms, client.instance_id), names, interval_ms)

    def _check(self, known: _ClientState, body: Any, max_bytes: int, now_ms: int) -> None:
        if known.is_terminating:
            raise InvalidRequestError("the client has sent its terminating push already")
        if not known.may_push(now_ms) and not body.terminating:
            known.throttled += 1
            raise ThrottlingQuotaExceededError("PushTelemetry before the push interval was over")
        if body.subscription_id != known.subscribed.subscription_id:
            self._unknown_subscriptions += 1
            raise UnknownSubscriptionIdError(f"unknown subscription id {body.subscription_id}")
        if body.compression_type not in (Compression.NONE, *COMPRESSIONS):
            raise UnsupportedCompressionTypeError(f"unsupported compression type {body.compression_type}")
        if len(body.metrics) > max_bytes:
            raise TelemetryTooLargeError(
                f"push of {len(body.metrics)} bytes, telemetry.max.bytes is {max_bytes}"
            )

    def _take(self, known: _ClientState, points: list[Point]) -> None:
        known.pushes += 1
        for point in points:
            if point.name in known.points:
                before = known.points[point.name] if point.is_delta else 0.0
                known.points[point.name] = before + point.value
            elif len(known.points) >= MAX_POINTS_PER_CLIENT or self._points >= MAX_POINTS:
                self._dropped_points += 1
            else:
                known.points[point.name] = point.value
                self._points += 1


def read_points(compression: int, data: bytes, max_bytes: int) -> list[Point]:
    """Errors: TelemetryTooLargeError, InvalidRecordError."""
    if not data:
        return []
    try:
        plain = decompress(compression, data, max_bytes)
    except InvalidRecordError:
        raise TelemetryTooLargeError(f"decompressed metrics exceed {max_bytes} bytes") from None
    except CorruptMessageError as error:
        raise InvalidRecordError(str(error)) from None
    return points_of(bytes(plain))


def subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: bytes) -> int:
    """A hash of the subscription's contents."""
    crc = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    high, low = (int.from_bytes(instance_id[at : at + 8], "big") for at in (0, 8))
    both = high ^ low
    found = (crc ^ (both >> 32) ^ both) & 0xFFFF_FFFF
    return found - (1 << 32) if found >= 1 << 31 else found


def text_of_id(instance_id: bytes) -> str:
    """Base64 without padding, as Kafka writes ids."""
    return base64.urlsafe_b64encode(instance_id).decode().rstrip("=")


def _subscription(values: Mapping[str, str]) -> _Subscription:
    known = ClientMetricsConfig.keys()
    config = ClientMetricsConfig.of({name: value for name, value in values.items() if name in known})
    return _Subscription(config.metrics, config.interval_ms, config.patterns())
