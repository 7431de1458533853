"""Client quotas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ....clients.admin.quotas_io import quota_entity
from ....protocol.errors import ConfigError, HeadraceError
from ....protocol.metadata.quotas import (
    CONNECTION_RATE,
    CONSUMER_RATE,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    sorted_entities,
)
from ..page import Page
from .cluster import first_error

if TYPE_CHECKING:
    from starlette.responses import Response

    from ....protocol.metadata.quotas import Entity
    from ..visit import Visit

NAMES = (PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE, MUTATION_RATE, CONNECTION_RATE)
_KINDS = {"user": "user", "client-id": "client_id", "ip": "ip"}


async def quotas(visit: Visit, error: str = "", status: int = 200) -> Response:
    """All quotas, and the form to set one."""
    found = await visit.admin.describe_client_quotas()
    rows = [
        (entity, name, found[entity][name])
        for entity in sorted_entities(found)
        for name in sorted(found[entity])
    ]
    form = visit.form if status != 200 else {}
    return visit.render("quotas.html", status, list=visit.paged(rows), names=NAMES, form=form, error=error)


async def alter(visit: Visit) -> Response:
    """Set or delete one quota."""
    target = ""
    try:
        entity, name = _entity(visit), visit.field("name")
        target = f"{name} of {entity_text(entity)}"
        value = None if visit.field("delete") else _value(visit.field("value"))
        (await visit.admin.alter_client_quotas({entity: {name: value}})).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await quotas(visit, visit.failed("alter quota", target, first_error(failure)), 400)
    visit.did("delete quota" if value is None else "set quota", target)
    return visit.see("/quotas", f"{target} is {'deleted' if value is None else 'set'}")


def _entity(visit: Visit) -> Entity:
    """The entity of the form: `kind` fields that are present, each with a name or the default. Errors:
    ConfigError."""
    parts: dict[str, str | None] = {}
    for kind, argument in _KINDS.items():
        if visit.field(f"has-{kind}"):
            is_default = bool(visit.field(f"default-{kind}"))
            name = visit.raw_field(kind)
            if not is_default and not name:
                raise ConfigError(f"name the {kind}, or choose the default")
            parts[argument] = None if is_default else name
    if not parts:
        raise ConfigError("a quota is of a user, a client id, both, or an IP address")
    return quota_entity(**parts)


def entity_text(entity: Entity) -> str:
    """An entity in one text."""
    return ", ".join(f"{kind} {'default' if name is None else name}" for kind, name in entity)


def _value(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ConfigError(f"{text[:40]!r} is not a number from 0")
    return value


PAGES = (Page("GET", "/quotas", quotas), Page("POST", "/quotas", alter))
