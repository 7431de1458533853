"""Configs of a client metrics subscription, under Kafka's names. Source: Kafka ClientMetricsConfigs.java;
KIP-714."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError, InvalidRegularExpressionError, InvalidRequestError
from ...runtime.config import HOUR, MAX_INT, MINUTE, Config, key
from ...runtime.regex import compile_regex

if TYPE_CHECKING:
    from ...runtime.regex import Regex

MAX_SUBSCRIPTION_NAME_LENGTH = 249  # Bound: as for topic names
MIN_INTERVAL_MS, MAX_INTERVAL_MS = 100, HOUR
DEFAULT_INTERVAL_MS = 5 * MINUTE
# The attributes of a client, by their names in `match`.
CLIENT_FACTS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


@dataclass(frozen=True, kw_only=True)
class ClientMetricsConfig(Config):
    """The keys of one subscription."""

    metrics: tuple[str, ...] = key(
        "metrics",
        (),
        live=True,
        doc="Prefixes of the names of the metrics to push; * for all, empty for none.",
    )
    interval_ms: int = key(
        "interval.ms",
        DEFAULT_INTERVAL_MS,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Push interval, 100 to 3600000; with several subscriptions a client uses the shortest.",
    )
    match: tuple[str, ...] = key(
        "match",
        (),
        live=True,
        doc=f"Clients, as attribute=expression, all of which must match the whole attribute; empty for"
        f" all clients. Attributes: {', '.join(CLIENT_FACTS)}.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not MIN_INTERVAL_MS <= self.interval_ms <= MAX_INTERVAL_MS:  # Kafka's error code for it
            raise InvalidRequestError(
                f"interval.ms must be {MIN_INTERVAL_MS} to {MAX_INTERVAL_MS}, not {self.interval_ms}"
            )
        self.patterns()

    def patterns(self) -> dict[str, Regex]:
        """By the client attribute that they match. Errors: ConfigError."""
        found = {}
        for pattern in self.match:
            name, _, expression = (part.strip() for part in pattern.partition("="))
            if name not in CLIENT_FACTS or not expression or "=" in expression:
                raise ConfigError(f"match has {pattern[:200]!r}, expected fact=expression")
            try:
                found[name] = compile_regex(expression)
            except InvalidRegularExpressionError as error:
                raise ConfigError(f"match has {pattern[:200]!r}: {error}") from None
        return found
