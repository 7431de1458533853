"""Client quotas as servers enforce them: the applicable quota of a client, and its throttle time. Pure.

The most specific quota applies, and the clients that share it share its meter: all clients of a user count
against the quota of that user, while a default for client ids applies to each client id separately. Rates are
sums over sampled windows; a client above its quota is throttled until its rate would be at the quota.
Metadata mutations use a token bucket: a single large one would otherwise keep a rate up until its window has
passed. Source: Kafka ClientQuotaManager.java, Rate.java, TokenBucket.java; KIP-13, 55, 124, 599, 612.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.metadata.quotas import CLIENT_ID, CONNECTION_RATE, IP, MUTATION_RATE, REQUEST_PERCENTAGE, USER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..protocol.metadata.quotas import Entity

    Quotas = Mapping[Entity, Mapping[str, float]]

# Bound: meters of a node, evicted least recently used first; clients choose their client ids.
MAX_METERS = 20_000
EXPIRY_MS = 3_600_000
_MAX_THROTTLE_MS = 2**31 - 1
_ONE_WINDOW = (REQUEST_PERCENTAGE, CONNECTION_RATE)  # quotas with a throttle time of at most one window


class Windows(NamedTuple):
    """The number and length of the sampled windows."""

    number: int
    window_ms: int


class Rate:
    """The rate per second over the last windows."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[list[float]] = deque()  # start, time of the last value, sum

    def record(self, value: float, now_ms: int, windows: Windows) -> None:
        """Add a value at `now_ms`."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= windows.window_ms:
            samples.append([now_ms, now_ms, 0.0])
            while len(samples) > windows.number + 1:
                samples.popleft()
        samples[-1][1] = now_ms
        samples[-1][2] += value

    def measure(self, now_ms: int, windows: Windows) -> tuple[float, float]:
        """The rate per second, and the ms that it covers; windows that have not started count as empty."""
        samples = self._samples
        while samples and now_ms - samples[0][1] >= windows.number * windows.window_ms:
            samples.popleft()
        elapsed_ms = now_ms - samples[0][0] if samples else 0
        missing = windows.number - 1 - elapsed_ms // windows.window_ms
        elapsed_ms = max(elapsed_ms + max(missing, 0) * windows.window_ms, windows.window_ms)
        return sum(sample[2] for sample in samples) * 1000 / elapsed_ms, elapsed_ms

    def throttle_ms(self, bound: float, now_ms: int, windows: Windows) -> int:
        """The time until the rate has fallen to `bound`, without further values."""
        rate, elapsed_ms = self.measure(now_ms, windows)
        return 0 if rate <= bound else min(round((rate - bound) / bound * elapsed_ms), _MAX_THROTTLE_MS)


class TokenBucket:
    """Tokens accrue at the quota's rate; a full bucket has those of all windows."""

    __slots__ = ("_at_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens: float | None = None  # None: full
        self._at_ms = 0

    def record(self, value: float, bound: float, now_ms: int, windows: Windows) -> None:
        """Take tokens; the balance may become negative."""
        self._tokens = self._refilled(bound, now_ms, windows) - value
        self._at_ms = now_ms

    def throttle_ms(self, bound: float, now_ms: int, windows: Windows) -> int:
        """The time until the balance is not negative."""
        tokens = self._refilled(bound, now_ms, windows)
        return 0 if tokens >= 0 else min(round(-tokens / bound * 1000), _MAX_THROTTLE_MS)

    def _refilled(self, bound: float, now_ms: int, windows: Windows) -> float:
        full = bound * windows.number * windows.window_ms / 1000
        if self._tokens is None:
            return full
        return min(full, self._tokens + bound * (now_ms - self._at_ms) / 1000)


class ApplicableQuota(NamedTuple):
    """The quota that applies to a client, and the meter that it shares."""

    bound: float
    meter: tuple[str, str, str]  # key, user or address, client id


class ClientQuotas:
    """All quotas of a server, and their meters.

    Invariant: meters are ordered by their last use.
    """

    def __init__(self) -> None:
        self._quotas: Quotas = {}
        self._keys: frozenset[str] = frozenset()
        self._meters: dict[tuple[str, str, str], tuple[Rate | TokenBucket, int]] = {}

    def __len__(self) -> int:
        return len(self._meters)

    def follow(self, quotas: Quotas) -> None:
        """Use the quotas of the current metadata. Meters are kept: they do not depend on the quota's
        value."""
        self._quotas = {_plain(entity): values for entity, values in quotas.items()}
        self._keys = frozenset(key for values in quotas.values() for key in values)

    def has(self, key: str) -> bool:
        """Whether any entity has a quota of this kind."""
        return key in self._keys

    def of_client(self, key: str, user: str, client_id: str) -> ApplicableQuota | None:
        """The most specific quota of a client; None without one."""
        if key not in self._keys:
            return None
        for user_name in (user, None):
            for client_name in (client_id, None):
                bound = self._bound(((CLIENT_ID, client_name), (USER, user_name)), key)
                if bound is not None:
                    return ApplicableQuota(bound, (key, user, client_id))
            bound = self._bound(((USER, user_name),), key)
            if bound is not None:
                return ApplicableQuota(bound, (key, user, ""))
        for client_name in (client_id, None):
            bound = self._bound(((CLIENT_ID, client_name),), key)
            if bound is not None:
                return ApplicableQuota(bound, (key, "", client_id))
        return None

    def of_address(self, address: str) -> ApplicableQuota | None:
        """The connection rate quota of an address; None without one."""
        address = _plain_address(address)
        for name in (address, None):
            bound = self._bound(((IP, name),), CONNECTION_RATE)
            if bound is not None:
                return ApplicableQuota(bound, (CONNECTION_RATE, address, ""))
        return None

    def record(self, quota: ApplicableQuota, value: float, now_ms: int, windows: Windows) -> int:
        """Add `value`, which may be negative; returns the throttle time in ms."""
        meter = self._meter(quota.meter, now_ms)
        if isinstance(meter, TokenBucket):
            meter.record(value, quota.bound, now_ms, windows)
        else:
            meter.record(value, now_ms, windows)
        return self.throttle_ms(quota, now_ms, windows)

    def throttle_ms(self, quota: ApplicableQuota, now_ms: int, windows: Windows) -> int:
        """The throttle time in ms; for request time and connections at most one window."""
        wait_ms = self._meter(quota.meter, now_ms).throttle_ms(quota.bound, now_ms, windows)
        return min(wait_ms, windows.window_ms) if quota.meter[0] in _ONE_WINDOW else wait_ms

    def expire(self, now_ms: int) -> None:
        """Drop meters that were unused for an hour."""
        while self._meters:
            key, (_, used_ms) = next(iter(self._meters.items()))
            if now_ms - used_ms < EXPIRY_MS:
                return
            del self._meters[key]

    def _bound(self, entity: Entity, key: str) -> float | None:
        return self._quotas.get(entity, {}).get(key)

    def _meter(self, key: tuple[str, str, str], now_ms: int) -> Rate | TokenBucket:
        meter, _ = self._meters.pop(key, (None, 0))
        if meter is None:
            if len(self._meters) >= MAX_METERS:
                del self._meters[next(iter(self._meters))]
            meter = TokenBucket() if key[0] == MUTATION_RATE else Rate()
        self._meters[key] = meter, now_ms
        return meter


def _plain(entity: Entity) -> Entity:
    """The entity with its address in canonical form."""
    ((kind, name), *_) = entity
    return ((IP, _plain_address(name)),) if kind == IP and name is not None else entity


def _plain_address(text: str) -> str:
    """The canonical form of an address without scope; an IPv4-mapped IPv6 address becomes IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def largest(quota: ApplicableQuota, windows: Windows) -> float:
    """The largest value at once without throttling."""
    return quota.bound * max(windows.number - 1, 1) * windows.window_ms / 1000
