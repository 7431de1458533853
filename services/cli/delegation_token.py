"""`headrace token …`: delegation tokens."""

from __future__ import annotations

import binascii
import datetime
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import click

from .acl_options import principal_text
from .admin import open_admin
from .common import (
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
    list_form_option,
    reading_command,
)
from .output import note, print_object, print_rows
from .watch import watchable

if TYPE_CHECKING:
    from ...clients.admin.security_types import IssuedToken

_COLUMNS = ("id", "owner", "requester", "renewers", "issued", "expires", "latest", "hmac")


@click.group()
def token() -> None:
    """Create, renew, expire and list delegation tokens."""


def _hmac(_context: click.Context, _argument: click.Parameter, text: str) -> bytes:
    """Errors: click.BadParameter."""
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise click.BadParameter("the HMAC of a token is base64; see `headrace token list`") from None


_hmac_argument = click.argument("hmac", callback=_hmac)


@token.command()
@click.option(
    "--owner",
    default="",
    help="Owner: user, or principal such as User:alice [default: the user of the connection].",
)
@click.option(
    "--renewer", "renewers", multiple=True, help="User that may renew and expire the token; repeatable."
)
@click.option(
    "--max-lifetime-ms",
    default=-1,
    help="Maximum lifetime in ms [default: delegation.token.max.lifetime.ms].",
)
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def create(settings: Settings, *, owner: str, renewers: tuple[str, ...], max_lifetime_ms: int) -> None:
    """Create a delegation token. Clients log in by SCRAM: user name = token id, password = HMAC."""
    with open_admin(settings, settings.client_config()) as admin:
        made = admin.create_delegation_token(
            renewers=[principal_text(each) for each in renewers],
            owner=principal_text(owner) if owner else "",
            max_lifetime_ms=max_lifetime_ms,
        )
    print_object(_row(made), settings.form)


@token.command()
@_hmac_argument
@click.option(
    "--period-ms",
    default=-1,
    help="Time until it expires, from now, in ms [default: delegation.token.expiry.time.ms].",
)
@changing_command(bootstrap_option, cluster_option, config_option)
def renew(settings: Settings, *, hmac: bytes, period_ms: int) -> None:
    """Extend the expiry time of a token."""
    with open_admin(settings, settings.client_config()) as admin:
        note(f"expires: {_time(admin.renew_delegation_token(hmac, period_ms=period_ms))}")


@token.command()
@_hmac_argument
@click.option("--period-ms", default=-1, help="Time until it expires, from now, in ms [default: expire now].")
@changing_command(bootstrap_option, cluster_option, config_option)
def expire(settings: Settings, *, hmac: bytes, period_ms: int) -> None:
    """Expire a token now, or after --period-ms."""
    with open_admin(settings, settings.client_config()) as admin:
        note(f"expires: {_time(admin.expire_delegation_token(hmac, period_ms=period_ms))}")


@token.command("list")
@click.option("--owner", "owners", multiple=True, help="Only tokens of this owner; repeatable.")
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_tokens(settings: Settings, *, owners: tuple[str, ...]) -> None:
    """List the delegation tokens that the user may describe, with their HMACs."""
    asked = [principal_text(each) for each in owners] or None
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_delegation_tokens(asked)
    if found or not settings.is_text:
        print_rows([_row(each) for each in found], _COLUMNS, settings.form)
    else:
        note("no tokens match")


def _row(issued: IssuedToken) -> dict[str, Any]:
    known = issued.token
    return {
        "id": known.token_id,
        "owner": known.owner,
        "requester": known.requester,
        "renewers": ", ".join(known.renewers),
        "issued": _time(known.issue_ms),
        "expires": _time(known.expiry_ms),
        "latest": _time(known.max_ms),
        "hmac": b64encode(issued.hmac).decode(),
    }


def _time(wall_ms: int) -> str:
    return datetime.datetime.fromtimestamp(wall_ms / 1000, datetime.UTC).isoformat(timespec="seconds")
