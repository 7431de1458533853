"""Starts the console as an application of the web server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime.extras import missing_extra
from ...stream.query.security_config import split_query_security
from ..web.server_io import WebServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..rest.settings import RestConfig
    from ..web.client_pool_io import ClientPool
    from ..web.server_io import Application
    from ..web.settings import WebConfig
    from .masking import MaskRule

PURPOSE = "The console"
MOST_TAILS = 1_000


def console_server(
    web: WebConfig,
    *,
    bootstrap: str | Iterable[str] | None,
    client_config: Mapping[str, Any] | None = None,
    is_read_only: bool = False,
    masks: tuple[MaskRule, ...] = (),
    name: str = "",
    most_tails: int = MOST_TAILS,
    rest: RestConfig | None = None,
) -> WebServer:
    """A web server with the console, and with REST if it has a config, to be started. Errors: ImportError
    with the pip command if a library is missing."""
    try:
        import jinja2  # noqa: F401 - of the pages
        import python_multipart  # noqa: F401 - of the forms
        import starlette  # noqa: F401 - of the application
    except ImportError as error:
        raise missing_extra(error, PURPOSE, "console") from error
    from ..rest.application import RestApplication
    from ..rest.restrictions import Restrictions
    from .application import Console
    from .beside_rest import ConsoleBesideRest
    from .shared import ConsoleSettings

    queries, config = split_query_security(client_config or {})
    settings = ConsoleSettings(
        is_read_only, masks, name, most_tails, most_form_bytes=web.max_request_bytes, queries=queries
    )

    def make(pool: ClientPool) -> Application:
        console = Console(pool, settings)
        if rest is None:
            return console
        restrictions = Restrictions(is_read_only, masks)
        return ConsoleBesideRest(console, RestApplication(pool, web, rest, restrictions))

    return WebServer({"": make}, web, bootstrap=bootstrap, client_config=config, purpose=PURPOSE)
