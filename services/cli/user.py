"""`headrace user …`: users with passwords (SCRAM credentials)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ResourceNotFoundError
from ...protocol.security.scram import MAXIMUM_ITERATIONS, MINIMUM_ITERATIONS, SCRAM_MECHANISMS
from .admin import open_admin, raise_first
from .common import (
    NotFoundError,
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    list_form_option,
    reading_command,
)
from .completion import user_names
from .output import note, print_rows
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.sync.admin_io import Admin
    from ...protocol.security.scram import ScramMechanism

_COLUMNS = ("user", "mechanism", "iterations")
_MECHANISM = click.Choice(list(SCRAM_MECHANISMS), case_sensitive=False)


@click.group()
def user() -> None:
    """Create, list and delete users, and set their passwords (SCRAM)."""


def _password_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.argument("name", shell_complete=user_names),
        click.option("--password-stdin", is_flag=True, help="Read the password from standard input."),
        click.option(
            "--mechanism",
            "mechanisms",
            multiple=True,
            type=_MECHANISM,
            help="SCRAM mechanism; repeatable [default: both].",
        ),
        click.option(
            "--iterations",
            default=MINIMUM_ITERATIONS,
            show_default=True,
            type=click.IntRange(MINIMUM_ITERATIONS, MAXIMUM_ITERATIONS),
            help="Iterations of the password hash.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@user.command()
@_password_options
@changing_command(bootstrap_option, cluster_option, config_option)
def create(settings: Settings, *, name: str, **given: Any) -> None:
    """Create a user. Prompts for the password."""
    _check_source(**given)
    with open_admin(settings, settings.client_config()) as admin:
        if _mechanisms_of(admin, name):
            raise click.UsageError(f"there is a user {name!r}: `headrace user passwd` changes the password")
        _set_password(admin, name, **given)
    note(f"created: {name}")


@user.command()
@_password_options
@changing_command(bootstrap_option, cluster_option, config_option)
def passwd(settings: Settings, *, name: str, **given: Any) -> None:
    """Change the password of a user. Prompts for it; open connections stay open."""
    _check_source(**given)
    with open_admin(settings, settings.client_config()) as admin:
        if not _mechanisms_of(admin, name):
            raise NotFoundError(f"there is no user {name!r}")
        _set_password(admin, name, **given)
    note(f"changed: {name}")


@user.command()
@click.argument("name", shell_complete=user_names)
@click.option(
    "--mechanism", type=_MECHANISM, help="Delete only the password of this SCRAM mechanism [default: all]."
)
@changing_command(bootstrap_option, cluster_option, config_option)
def delete(settings: Settings, *, name: str, mechanism: str | None) -> None:
    """Delete a user: its passwords of all mechanisms, or of one."""
    with open_admin(settings, settings.client_config()) as admin:
        found = _mechanisms_of(admin, name)
        chosen = [each for each in found if mechanism is None or each.sasl_name == mechanism]
        if not chosen:
            raise NotFoundError(f"user {name!r} has no password of {mechanism or 'any mechanism'}")
        for each in chosen:
            raise_first(admin.delete_passwords({name: each}).errors, 1, "users")
    note(f"deleted: {name}")


@user.command("list")
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_users(settings: Settings) -> None:
    """List users and their SCRAM mechanisms."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_users()
    rows = [
        {"user": name, "mechanism": each.mechanism.sasl_name, "iterations": each.iterations}
        for name in sorted(found)
        for each in found[name]
    ]
    if rows or not settings.is_text:
        print_rows(rows, _COLUMNS, settings.form)
    else:
        note("there are no users")


def _mechanisms_of(admin: Admin, name: str) -> list[ScramMechanism]:
    found = admin.describe_users(name)
    error = found.errors.get(name)
    if error is not None and not isinstance(error, ResourceNotFoundError):
        raise error
    return [] if error else [each.mechanism for each in found[name]]


def _check_source(*, password_stdin: bool, **_others: Any) -> None:
    """Errors: click.UsageError without a terminal to ask at."""
    if not password_stdin and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask for the password: use --password-stdin")


def _set_password(
    admin: Admin, name: str, *, password_stdin: bool, mechanisms: tuple[str, ...], iterations: int
) -> None:
    from ...clients.admin.security_types import ScramPassword

    if password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = str(click.prompt("password", hide_input=True, confirmation_prompt=True, err=True))
    for mechanism in dict.fromkeys(mechanisms) or SCRAM_MECHANISMS:
        given = ScramPassword(password, SCRAM_MECHANISMS[mechanism], iterations)
        raise_first(admin.set_passwords({name: given}).errors, 1, "users")
