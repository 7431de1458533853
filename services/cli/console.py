"""`headrace console`: the web console."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ConfigError
from ...runtime.files.files_io import raise_descriptor_limit
from .common import Settings, bootstrap_option, changing_command, cluster_option, config_option
from .interrupts import interrupts
from .output import note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..console.masking import MaskRule
    from ..rest.settings import RestConfig
    from ..web.settings import WebConfig

PORT = 8080
rest_option = click.option(
    "--rest",
    "has_rest",
    is_flag=True,
    help="Serve REST as well, at the same address, as `headrace rest`.",
)
_POLL_S = 1.0


def console_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the console."""
    for option in (
        click.option(
            "--mask-file",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False),
            help="File with masks, one a line.",
        ),
        click.option(
            "--mask",
            "masks",
            metavar="TOPIC:FIELD",
            multiple=True,
            help="Mask a field of records, such as orders-*:value.card.number; repeatable.",
        ),
        click.option("--read-only", "is_read_only", is_flag=True, help="Refuse every change."),
        rest_option,
    ):
        command = option(command)
    return command


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on [default: 127.0.0.1].")
@click.option(
    "--port", type=click.IntRange(0, 65535), help=f"Port to listen on; 0 is a free one [default: {PORT}]."
)
@console_options
@changing_command(bootstrap_option, cluster_option, config_option)
def console(settings: Settings, *, host: str | None, port: int | None, **options: Any) -> None:
    """Serve the web console of a cluster, until Ctrl-C.

    Users of the cluster sign in with their passwords, if it has users. -X sets keys of the web server
    (docs/CONFIG.md) and of its clients.
    """
    serve_console(
        settings.addresses(),
        {**settings.client_config_without_pairs(), **settings.config},
        {"host": host, "port": PORT if port is None else port},
        name="" if settings.bootstrap else settings.cluster_name,
        **options,
    )


def serve_console(
    bootstrap: str | None,
    config: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    name: str,
    is_read_only: bool = False,
    masks: tuple[str, ...] = (),
    mask_file: str | None = None,
    has_rest: bool = False,
) -> None:
    """Serve the console, and REST, until an interrupt. `config` has keys of the web server, of REST and of
    clients. Errors: ConfigError; OSError if the address is in use."""
    from ..console.server import console_server

    raise_descriptor_limit()  # each tail has a connection
    web, rest, client_config = _split(config, given, has_rest=has_rest)
    rules = _mask_rules(masks, mask_file)
    with (
        interrupts(),
        console_server(
            web,
            bootstrap=bootstrap,
            client_config=client_config,
            is_read_only=is_read_only,
            masks=rules,
            name=name,
            rest=rest,
        ) as server,
    ):
        note(f"the console is at {server.url}" + (" (read-only)" if is_read_only else ""))
        if has_rest:
            note(f"REST is at {server.url}, its description at {server.url}/docs")
        while not server.wait(_POLL_S):
            pass


def _split(
    config: Mapping[str, Any], given: Mapping[str, Any], *, has_rest: bool
) -> tuple[WebConfig, RestConfig | None, dict[str, Any]]:
    """(config of the web server, that of REST if it is served, config of the clients of both)."""
    from ..rest.settings import RestConfig
    from ..web.settings import WebConfig, split_config

    (web, *rest), pairs = split_config(config, WebConfig, *((RestConfig,) if has_rest else ()))
    web |= {name: str(value) for name, value in given.items() if value is not None}
    return WebConfig.of(web), RestConfig.of(rest[0]) if has_rest else None, pairs


def _mask_rules(masks: tuple[str, ...], mask_file: str | None) -> tuple[MaskRule, ...]:
    """Errors: ConfigError."""
    from ..console.masking import mask_rule, mask_rules

    rules = tuple(mask_rule(text) for text in masks)
    if mask_file is None:
        return rules
    try:
        return (*rules, *mask_rules(Path(mask_file).read_text()))
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{mask_file}: {error}") from error
