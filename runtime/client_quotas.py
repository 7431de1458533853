"""Quotas of clients as servers hold them to: which one holds for a client, and how long it is to wait. Pure.

The most specific quota holds, and who shares it shares its meter: all clients of a user have a quota of that
user together, while a default for client ids is each client id's own. Rates are sums over sampled windows;
who is above its quota waits until it would be at it. Changes of the metadata are a token bucket: a single
large one would hold a rate up until its window is over.
Source: Kafka ClientQuotaManager.java, Rate.java, TokenBucket.java; KIP-13, 55, 124, 599, 612.
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

# Bound: meters of a node, those that were not used longest go first; clients choose their client ids.
MAX_METERS = 20_000
EXPIRY_MS = 3_600_000
_MAX_THROTTLE_MS = 2**31 - 1
_ONE_WINDOW = (REQUEST_PERCENTAGE, CONNECTION_RATE)  # is what these keep a client waiting at most


class Windows(NamedTuple):
    """How rates are sampled."""

    number: int
    window_ms: int


class Rate:
    """A sum per second over the last windows."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[list[float]] = deque()  # start, time of the last value, sum

    def record(self, value: float, now_ms: int, windows: Windows) -> None:
        """Count it in."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= windows.window_ms:
            samples.append([now_ms, now_ms, 0.0])
            while len(samples) > windows.number + 1:
                samples.popleft()
        samples[-1][1] = now_ms
        samples[-1][2] += value

    def measure(self, now_ms: int, windows: Windows) -> tuple[float, float]:
        """Per second, and over how many ms that is; windows that have not begun yet count as empty."""
        samples = self._samples
        while samples and now_ms - samples[0][1] >= windows.number * windows.window_ms:
            samples.popleft()
        elapsed_ms = now_ms - samples[0][0] if samples else 0
        missing = windows.number - 1 - elapsed_ms // windows.window_ms
        elapsed_ms = max(elapsed_ms + max(missing, 0) * windows.window_ms, windows.window_ms)
        return sum(sample[2] for sample in samples) * 1000 / elapsed_ms, elapsed_ms

    def throttle_ms(self, bound: float, now_ms: int, windows: Windows) -> int:
        """How long until it is at `bound` again, if nothing more comes."""
        rate, elapsed_ms = self.measure(now_ms, windows)
        return 0 if rate <= bound else min(round((rate - bound) / bound * elapsed_ms), _MAX_THROTTLE_MS)


class TokenBucket:
    """Tokens come at the quota's rate and are spent; full, it has those of all windows."""

    __slots__ = ("_at_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens: float | None = None  # full
        self._at_ms = 0

    def record(self, value: float, bound: float, now_ms: int, windows: Windows) -> None:
        """Spend so many, also more than there are."""
        self._tokens = self._refilled(bound, now_ms, windows) - value
        self._at_ms = now_ms

    def throttle_ms(self, bound: float, now_ms: int, windows: Windows) -> int:
        """How long until there is none missing."""
        tokens = self._refilled(bound, now_ms, windows)
        return 0 if tokens >= 0 else min(round(-tokens / bound * 1000), _MAX_THROTTLE_MS)

    def _refilled(self, bound: float, now_ms: int, windows: Windows) -> float:
        full = bound * windows.number * windows.window_ms / 1000
        if self._tokens is None:
            return full
        return min(full, self._tokens + bound * (now_ms - self._at_ms) / 1000)


class Held(NamedTuple):
    """The quota that holds for a client, and who has it together."""

    bound: float
    meter: tuple[str, str, str]  # key, user or address, client id


class ClientQuotas:
    """All quotas, as one server measures them, and the meters of those that have some.

    Invariant: the meter that was used last comes last.
    """

    def __init__(self) -> None:
        self._quotas: Quotas = {}
        self._keys: frozenset[str] = frozenset()
        self._meters: dict[tuple[str, str, str], tuple[Rate | TokenBucket, int]] = {}

    def __len__(self) -> int:
        return len(self._meters)

    def follow(self, quotas: Quotas) -> None:
        """What the metadata has now. Meters stay: a rate knows no quota."""
        self._quotas = {_plain(entity): values for entity, values in quotas.items()}
        self._keys = frozenset(key for values in quotas.values() for key in values)

    def has(self, key: str) -> bool:
        """Whether anybody has such a quota."""
        return key in self._keys

    def of_client(self, key: str, user: str, client_id: str) -> Held | None:
        """The most specific one."""
        if key not in self._keys:
            return None
        for user_name in (user, None):
            for client_name in (client_id, None):
                bound = self._bound(((CLIENT_ID, client_name), (USER, user_name)), key)
                if bound is not None:
                    return Held(bound, (key, user, client_id))
            bound = self._bound(((USER, user_name),), key)
            if bound is not None:
                return Held(bound, (key, user, ""))
        for client_name in (client_id, None):
            bound = self._bound(((CLIENT_ID, client_name),), key)
            if bound is not None:
                return Held(bound, (key, "", client_id))
        return None

    def of_address(self, address: str) -> Held | None:
        """Of connections from there."""
        address = _plain_address(address)
        for name in (address, None):
            bound = self._bound(((IP, name),), CONNECTION_RATE)
            if bound is not None:
                return Held(bound, (CONNECTION_RATE, address, ""))
        return None

    def record(self, held: Held, value: float, now_ms: int, windows: Windows) -> int:
        """Count `value`, which may be below 0, and how many ms the client is to wait now."""
        meter = self._meter(held.meter, now_ms)
        if isinstance(meter, TokenBucket):
            meter.record(value, held.bound, now_ms, windows)
        else:
            meter.record(value, now_ms, windows)
        return self.throttle_ms(held, now_ms, windows)

    def throttle_ms(self, held: Held, now_ms: int, windows: Windows) -> int:
        """How many ms the client is to wait. For the node's time, and to connect, one window at most."""
        wait_ms = self._meter(held.meter, now_ms).throttle_ms(held.bound, now_ms, windows)
        return min(wait_ms, windows.window_ms) if held.meter[0] in _ONE_WINDOW else wait_ms

    def expire(self, now_ms: int) -> None:
        """Forget meters that nobody has used for an hour."""
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
    """With an address as connections have it."""
    ((kind, name), *_) = entity
    return ((IP, _plain_address(name)),) if kind == IP and name is not None else entity


def _plain_address(text: str) -> str:
    """As the system writes it, whichever link it came by. One of IPv4 is that, also behind both families."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def largest(held: Held, windows: Windows) -> float:
    """What may come at once: anything above is throttled even if nothing came before."""
    return held.bound * max(windows.number - 1, 1) * windows.window_ms / 1000
