"""Libraries that come with an extra of the package: what users read when one of them is missing. Pure."""

from __future__ import annotations


class MissingExtraError(ImportError):
    """Made by `missing_extra`; its cause is what Python raised."""

    def __init__(self, text: str, name: str, extra: str) -> None:
        super().__init__(text, name=name)
        self.extra = extra


def missing_extra(error: ImportError, purpose: str, extra: str) -> ImportError:
    """The error to raise in the place of `error`: what needs the library, and what to install.

    `purpose` is the subject of the message, such as "Arrow tables"; `extra` is a key of
    `optional-dependencies` in pyproject.toml. An error about a module of our own is returned as it is, and so
    is one that names this extra already; one that names another extra was met on the way to `purpose`.
    """
    if isinstance(error, MissingExtraError):
        if error.extra == extra:
            return error
        error = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    name = error.name or ""
    if name.partition(".")[0] == "headrace":
        return error
    is_missing = isinstance(error, ModuleNotFoundError)
    what = f"{name} is not installed here" if is_missing else str(error)
    return MissingExtraError(f"{purpose}: {what}: pip install 'headrace[{extra}]'", name, extra)
