"""The environment of the process and files of secrets, which clients read here only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from ...runtime.config import Config
from ...runtime.config_references_io import resolve_references
from ..config import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

C = TypeVar("C", bound=Config)


def resolved(schema: type[C], values: Mapping[str, Any]) -> C:
    """One client's config from given values, the environment, and what they refer to. Errors: ConfigError."""
    return resolve(schema, resolve_references(values), environment())


def environment() -> Mapping[str, str]:
    """The variables of this process as they are now."""
    return os.environ
