"""The errors of spans. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Status, StatusCode

if TYPE_CHECKING:
    from opentelemetry.trace import Span


def fail(span: Span, error: BaseException, attributes: dict[str, Any]) -> None:
    """Mark a span as failed."""
    span.set_attributes(attributes)
    span.set_status(Status(StatusCode.ERROR, str(error)))
