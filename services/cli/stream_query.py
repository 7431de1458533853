"""`headrace stream query`: ask a running application for a key, or for the rows of a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ...clients import serdes
from ...protocol.errors import ConfigError, HeadraceError
from .common import (
    Settings,
    bootstrap_option,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .completion import group_names
from .output import note, print_value, write_line

if TYPE_CHECKING:
    from ...clients.serdes import Serde

_SERDES: dict[str, Serde[Any]] = {
    "bytes": serdes.bytes_,
    "utf8": serdes.utf8,
    "int64": serdes.int64,
    "json": serdes.json,
    "msgpack": serdes.msgpack,
}
_serde = click.Choice(sorted(_SERDES))


@click.command()
@click.argument("application_id", metavar="ID", shell_complete=group_names)
@click.argument("store")
@click.argument("key", required=False)
@click.option("--key-serde", type=_serde, default="utf8", show_default=True, help="Serde of the keys.")
@click.option("--value-serde", type=_serde, default="json", show_default=True, help="Serde of the values.")
@click.option("--from", "lower", metavar="KEY", help="Only rows from this key on (inclusive).")
@click.option("--to", "upper", metavar="KEY", help="Only rows up to this key (inclusive).")
@click.option(
    "--allow-stale",
    type=click.IntRange(min=0),
    help="Let standbys answer that lag by at most this many records.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds to wait for the result.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def query(
    settings: Settings,
    *,
    application_id: str,
    store: str,
    key: str | None,
    key_serde: str,
    value_serde: str,
    lower: str | None,
    upper: str | None,
    allow_stale: int | None,
    timeout: float,
) -> None:
    """Print the value of KEY in STORE of application ID as JSON; without KEY, all rows of the store.

    The instances of the application need the config application.server. KEY is the text of the key, or its
    JSON. A key without a value prints null. Windows and sessions of a KEY are printed as rows.
    """
    from ...stream import connect_queries
    from ...stream.query.json_forms import json_form, key_from_text

    serde = _SERDES[key_serde]

    def typed(text: str | None) -> Any:
        try:
            return None if text is None else key_from_text(text, "auto", serde.dumps)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    with connect_queries(
        application_id,
        settings.addresses(),
        key=serde,
        value=_SERDES[value_serde],
        timeout_s=timeout,
        config=settings.client_config(),
    ) as queries:
        asked = _query_of(queries.stores().get(store), typed(key), typed(lower), typed(upper))
        try:
            found = queries.query(store, asked, allow_stale=allow_stale)
        except ValueError as error:
            if isinstance(error, HeadraceError):
                raise
            raise ConfigError(
                f"store {store} has other formats than --key-serde {key_serde} and --value-serde"
                f" {value_serde}: {error}"
            ) from error
    results = [found.global_result] if found.global_result is not None else list(found.partitions.values())
    rows = [
        json_form(row)
        for result in results
        for row in (result.value if isinstance(result.value, list) else [result.value])
    ]
    if settings.is_text or settings.form == "jsonl":
        for row in rows:
            write_line(json.dumps(row))
    else:
        is_value = len(results) == 1 and not isinstance(results[0].value, list)
        print_value(rows[0] if is_value else rows, settings.form)


@click.command()
@click.argument("application_id", metavar="ID", shell_complete=group_names)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8088",
    show_default=True,
    help="Address to listen at; port 0 takes a free port.",
)
@click.option(
    "--token-file", metavar="FILE", help="Require a bearer token of this file, which has one per line."
)
@click.option(
    "--tls-file", metavar="FILE", help="Serve HTTPS with the key and the certificates of this PEM file."
)
@click.option("--key-serde", type=_serde, default="utf8", show_default=True, help="Serde of the keys.")
@click.option("--value-serde", type=_serde, default="json", show_default=True, help="Serde of the values.")
@reading_command(bootstrap_option, cluster_option, config_option)
def serve(
    settings: Settings,
    *,
    application_id: str,
    listen: str,
    token_file: str | None,
    tls_file: str | None,
    key_serde: str,
    value_serde: str,
) -> None:
    """Serve the stores of application ID over HTTP as JSON, until Ctrl-C.

    The instances of the application need the config application.server. If they have a secret for queries
    (-X query.secret.file=FILE), --token-file is required.
    """
    from ...stream import connect_queries, serve_http

    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdecimal():
        raise click.UsageError(f"--listen {listen!r} is not HOST:PORT")
    with connect_queries(
        application_id,
        settings.addresses(),
        key=_SERDES[key_serde],
        value=_SERDES[value_serde],
        config=settings.client_config(),
    ) as queries:
        queries.hosts()  # an application that does not run is an error at once
        options = {"token_file": token_file, "tls_file": tls_file}
        with serve_http(queries, host.strip("[]"), int(port), **options) as server:
            place = f"{'https' if tls_file else 'http'}://{host}:{server.port}"
            note(f"queries about {application_id} are answered at {place}; Ctrl-C ends it")
            server.wait()


def _query_of(description: Any, key: Any, lower: Any, upper: Any) -> Any:
    from ...stream import KeyQuery, RangeQuery, VersionedKeyQuery, WindowKeyQuery, WindowRangeQuery

    kind = "" if description is None else description.kind
    if key is None:
        return WindowRangeQuery() if "window" in kind else RangeQuery(lower, upper)
    if "window" in kind:
        return WindowKeyQuery(key)
    if "session" in kind:
        return WindowRangeQuery(key)
    return VersionedKeyQuery(key) if "versioned" in kind else KeyQuery(key)
