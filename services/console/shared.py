"""What all requests of the console share."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from ..web.problems import Problem
from .action_log import ActionLog
from .formats import FILTERS
from .instances_io import Instances
from .sessions import Sessions
from .snapshots_io import Snapshots
from .tails_io import Tails

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ...stream.query.security_config import QuerySecurityConfig
    from ..web.client_pool_io import ClientPool
    from .masking import MaskRule

MOST_SEARCHES = 8  # Bound: each holds some MB of records
FOLDER = Path(__file__).parent
STATIC = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The options of a console. `name` is the cluster's, for the title; `queries` has the secret of streams
    applications, without which their instances may refuse to report."""

    is_read_only: bool
    masks: tuple[MaskRule, ...]
    name: str
    most_tails: int
    most_form_bytes: int
    queries: QuerySecurityConfig


class Shared:
    """The pool of clients, the readings of the cluster, sessions, templates and static files."""

    def __init__(self, pool: ClientPool, settings: ConsoleSettings) -> None:
        self.pool, self.settings = pool, settings
        self.snapshots = Snapshots(pool)
        self.instances = Instances(settings.queries)
        self.sessions, self.actions = Sessions(), ActionLog()
        self._searches = 0
        self.static = {name: (FOLDER / "static" / name).read_bytes() for name in STATIC}
        self.versions = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in self.static.items()}
        self.templates = self._environment()
        self.tails = Tails(pool, self.templates.get_template("tail_rows.html"), settings.most_tails)

    @contextlib.asynccontextmanager
    async def searching(self) -> AsyncIterator[None]:
        """Around a search of records. Errors: Problem 503 if too many are running."""
        if self._searches >= MOST_SEARCHES:
            raise Problem(503, f"{MOST_SEARCHES} searches are running", headers={"retry-after": "2"})
        self._searches += 1
        try:
            yield
        finally:
            self._searches -= 1

    def asset(self, name: str) -> str:
        """The address of a static file; it changes with the file."""
        return f"/static/{name}?v={self.versions[name]}"

    def _environment(self) -> jinja2.Environment:
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters.update(FILTERS)
        further: dict[str, Any] = {"asset": self.asset, "settings": self.settings, "method": self.pool.method}
        environment.globals.update(further)
        return environment
