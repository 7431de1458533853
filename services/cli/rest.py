"""`headrace rest`: the REST server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...runtime.files.files_io import raise_descriptor_limit
from .common import Settings, bootstrap_option, changing_command, cluster_option, config_option
from .interrupts import interrupts
from .output import note

if TYPE_CHECKING:
    from ..rest.settings import RestConfig
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

    raise_descriptor_limit()  # of which each connection needs one
    rest_config, web, client_config = web_configs(settings, host, port)
    target = settings.addresses()
    with (
        interrupts(),
        rest_server(web, rest_config, bootstrap=target, client_config=client_config) as server,
    ):
        note(f"REST is at {server.url}, its description at {server.url}/docs")
        while not server.wait(_POLL_S):
            pass


def web_configs(
    settings: Settings, host: str | None, port: int | None
) -> tuple[RestConfig, WebConfig, dict[str, str]]:
    """Configs of REST, of the web server and of its clients, from the options and the -X pairs. Errors:
    ConfigError."""
    from ..rest.settings import RestConfig
    from ..web.settings import WebConfig, split_config

    (rest_pairs, web_pairs), pairs = split_config(settings.config, RestConfig, WebConfig)
    given = {"host": host, "port": None if port is None else str(port)}
    web_pairs |= {name: value for name, value in given.items() if value is not None}
    client_config = {**settings.client_config_without_pairs(), **pairs}
    return RestConfig.of(rest_pairs), WebConfig.of(web_pairs), client_config
