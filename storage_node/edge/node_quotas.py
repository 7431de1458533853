"""The client quotas of a node, for both of its listeners: clients that share a quota share its meter.
Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime.client_quotas import ClientQuotas, Windows
from ...runtime.telemetry.process_table import QUOTA_METERS, THROTTLED

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.metadata.image import MetadataImage
    from ...runtime.client_quotas import ApplicableQuota
    from ...runtime.telemetry.samples import Samples
    from ..configs.node_config import NodeConfig

# The share of the memory for requests that requests of muted connections may use.
_WAITING_SHARE = 4


class NodeQuotas:
    """All meters of a node. `config` and `image` return the current ones."""

    def __init__(self, config: Callable[[], NodeConfig], image: Callable[[], MetadataImage]) -> None:
        self.meters = ClientQuotas()
        self._config, self._image = config, image
        self._throttled: dict[str, int] = {}
        self._seen: object = None

    @property
    def is_active(self) -> bool:
        """Whether there is any quota. Read once per request: without quotas nothing more is done."""
        quotas = self._image().client_quotas
        if quotas is not self._seen:
            self._seen = quotas
            self.meters.follow(quotas)
        return bool(quotas)

    @property
    def windows(self) -> Windows:
        """The sample windows of rates."""
        config = self._config()
        return Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)

    @property
    def max_waiting_bytes(self) -> int:
        """The bound of requests of muted connections, over all connections."""
        return self._config().queued_max_request_bytes // _WAITING_SHARE

    def record(self, key: str, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count `value` for a client with such a quota; its throttle time in ms."""
        held = self.meters.of_client(key, user, client_id)
        return 0 if held is None else self.record_held(key, held, value, now_ms)

    def record_held(self, key: str, held: ApplicableQuota, value: float, now_ms: int) -> int:
        """As `record`, for a known quota."""
        wait_ms = self.meters.record(held, value, now_ms, self.windows)
        if wait_ms:
            self.count(key)
        return wait_ms

    def count(self, key: str) -> None:
        """Count a client that was throttled by such a quota."""
        self._throttled[key] = self._throttled.get(key, 0) + 1

    def measure(self, samples: Samples) -> None:
        """Add the values of the quotas' metrics."""
        samples.set(QUOTA_METERS, len(self.meters))
        samples.series(THROTTLED)
        for key, count in self._throttled.items():
            samples.set(THROTTLED, count, key)

    def status(self) -> dict[str, Any]:
        """JSON-able: how often each kind of quota throttled a client."""
        return {"meters": len(self.meters), "throttled": dict(self._throttled)}
