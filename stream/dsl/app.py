"""An application: its topology, its id and its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .builder import Builder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class App(Builder):
    """A builder with the id and configuration of the application.

    `application_id` is the group id, and the prefix of internal topics. `key` and `value`: serdes where an
    operator names none. `config`: of StreamsConfig and the clients.
    """

    def __init__(
        self,
        application_id: str,
        *,
        key: Any = None,
        value: Any = None,
        guarantee: str = "at_least_once",
        optimization: str | Iterable[str] = "none",
        persistent: bool = True,
        require_names: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(optimization=optimization, persistent=persistent, require_names=require_names)
        self.application_id = application_id
        self.key = key
        self.value = value
        self.guarantee = guarantee
        self.config = dict(config or {})
