"""Lazy attributes of a package (PEP 562), which keep its import cheap."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    modules: Mapping[str, str] | None = None,
    extras: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The package's `__getattr__` and `__dir__`.

    `homes`: the module of each name, relative to the package; `modules`: names that are modules themselves.
    Both include all public names, also those that need an extra and are not in `__all__`. `extras`: the extra
    with the libraries that a module of `homes` imports; if one is missing, the ImportError names the extra.
    """
    known, needed = modules or {}, extras or {}

    def get(name: str) -> Any:
        if name in known:
            value: Any = import_module(known[name], package)
        elif name in homes:
            try:
                home = import_module(homes[name], package)
            except ImportError as error:
                if homes[name] not in needed:
                    raise
                public = package.replace(".clients.", ".")  # the public name of the package
                raise missing_extra(error, f"{public}.{name}", needed[homes[name]]) from error
            value = getattr(home, name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *known})

    return get, names
