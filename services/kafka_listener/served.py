"""All apis that Kafka's clients are served: one table, made of the families'. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cluster import CLUSTER_APIS
from .records import RECORD_APIS

if TYPE_CHECKING:
    from .calls import KafkaApi

SERVED: dict[int, KafkaApi] = {api.key: api for api in (*RECORD_APIS, *CLUSTER_APIS)}
