"""The table of all served apis of Kafka. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cluster import CLUSTER_APIS
from .groups import GROUP_APIS
from .offsets import OFFSET_APIS
from .operations import OPERATION_APIS
from .quota_apis import QUOTA_APIS
from .records import RECORD_APIS
from .security_apis import SECURITY_APIS
from .streams_groups import STREAMS_GROUP_APIS
from .telemetry_apis import TELEMETRY_APIS
from .topic_admin import TOPIC_ADMIN_APIS
from .transactions import TRANSACTION_APIS

if TYPE_CHECKING:
    from .calls import KafkaApi

_FAMILIES = (
    RECORD_APIS,
    CLUSTER_APIS,
    GROUP_APIS,
    STREAMS_GROUP_APIS,
    OFFSET_APIS,
    TRANSACTION_APIS,
    TOPIC_ADMIN_APIS,
    OPERATION_APIS,
    TELEMETRY_APIS,
    QUOTA_APIS,
    SECURITY_APIS,
)
SERVED: dict[int, KafkaApi] = {api.key: api for family in _FAMILIES for api in family}
