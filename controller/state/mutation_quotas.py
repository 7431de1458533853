"""Quotas of controller_mutation_rate: partitions that clients create and delete, enforced here for the whole
cluster. Pure.

A change is charged by its number of partitions when it would be made; one change may exceed the remaining
quota. A client without any is refused, or only throttled if it does not know the error. Charges are not in
the metadata: a new active controller starts with unused quotas, as Kafka's does. Source: Kafka
ControllerMutationQuotaManager.java, ReplicationControlManager.java; KIP-599.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ThrottlingQuotaExceededError
from ...protocol.metadata.quotas import MUTATION_RATE
from ...runtime.client_quotas import ClientQuotas, Windows

if TYPE_CHECKING:
    from ...protocol.messages.control import (
        CreatePartitionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
    )
    from ...protocol.metadata.image import MetadataImage
    from ...runtime.client_quotas import ApplicableQuota
    from ..config import ControllerConfig

    Changes = CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest


class MutationQuotas:
    """The quotas of all clients."""

    def __init__(self, config: ControllerConfig) -> None:
        size_ms = config.controller_quota_window_size_seconds * 1000
        self._windows = Windows(config.controller_quota_window_num, size_ms)
        self._quotas = ClientQuotas()
        self._seen: object = None

    def charge(self, image: MetadataImage, request: Changes, now_ms: int) -> Charge:
        """The account of one request."""
        if image.client_quotas is not self._seen:
            self._seen = image.client_quotas
            self._quotas.follow(image.client_quotas)
        self._quotas.expire(now_ms)
        held = (
            self._quotas.of_client(MUTATION_RATE, request.user, request.client_id) if request.user else None
        )
        return Charge(self._quotas, held, self._windows, now_ms, is_lenient=request.is_lenient)


class Charge:
    """The account of one request."""

    def __init__(
        self,
        quotas: ClientQuotas,
        held: ApplicableQuota | None,
        windows: Windows,
        now_ms: int,
        *,
        is_lenient: bool,
    ) -> None:
        self._quotas, self._held, self._windows, self._now_ms = quotas, held, windows, now_ms
        self._is_lenient = is_lenient

    def take(self, partitions: int) -> None:
        """Charge so many partitions. Errors: ThrottlingQuotaExceededError, and nothing is charged."""
        if self._held is None:
            return
        if self.throttle_ms and not self._is_lenient:
            raise ThrottlingQuotaExceededError("controller_mutation_rate of this client is exceeded")
        self._quotas.record(self._held, partitions, self._now_ms, self._windows)

    @property
    def throttle_ms(self) -> int:
        """The throttle time of the client."""
        if self._held is None:
            return 0
        return self._quotas.throttle_ms(self._held, self._now_ms, self._windows)


FREE = Charge(ClientQuotas(), None, Windows(1, 1), 0, is_lenient=True)
