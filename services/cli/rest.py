"""`headrace rest`: the REST server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...clients.config import ClientConfigs
from .common import Settings, bootstrap_option, changing_command, cluster_option, config_option
from .interrupts import interrupts
from .output import note

if TYPE_CHECKING:
    from ..web.settings import WebConfig

_POLL_S = 1.0


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on [default: 127.0.0.1].")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 is a free one [default: 8082]."
)
@changing_command(bootstrap_option, cluster_option, config_option)
def rest(settings: Settings, *, host: str | None, port: int | None) -> None:
    """Serve topics over HTTP, with the paths of Confluent's REST proxy, until Ctrl-C.

    -X sets keys of the web server (docs/CONFIG.md) and of its clients. If the cluster has users, requests
    need the credentials of one; -X authentication.method=none lets all requests act as the server's user.
    """
    from ..rest.application import rest_server

    web, client_config = web_config(settings, host, port)
    with (
        interrupts(),
        rest_server(web, bootstrap=settings.addresses(), client_config=client_config) as server,
    ):
        note(f"REST is at {server.url}")
        while not server.wait(_POLL_S):
            pass


def web_config(settings: Settings, host: str | None, port: int | None) -> tuple[WebConfig, dict[str, str]]:
    """(config of the web server, config of its clients), from the options and the -X pairs. Errors:
    ConfigError."""
    from ..web.settings import WebConfig

    mine = {name: value for name, value in settings.config.items() if _is_of_server(name)}
    given: dict[str, object] = {"host": host, "port": port}
    web = WebConfig.of({**mine, **{name: value for name, value in given.items() if value is not None}})
    others = {name: value for name, value in settings.config.items() if name not in mine}
    return web, {**settings.client_config_without_pairs(), **others}


def _is_of_server(name: str) -> bool:
    """Whether a key is one of the web server and not of clients."""
    from ..web.settings import WebConfig

    dotted = name.replace("_", ".")
    return dotted in WebConfig.keys() and not any(dotted in each.keys() for each in ClientConfigs)  # noqa: SIM118
