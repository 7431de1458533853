"""Optional libraries of the package's extras: the error if one is missing. Pure."""

from __future__ import annotations


class MissingExtraError(ImportError):
    """Created by `missing_extra`; its cause is the original ImportError."""

    def __init__(self, text: str, name: str, extra: str) -> None:
        super().__init__(text, name=name)
        self.extra = extra


def missing_extra(error: ImportError, purpose: str, extra: str) -> ImportError:
    """The ImportError to raise instead of `error`: the feature that needs the library, and the pip command.

    `purpose` is the subject of the message, such as "Arrow tables"; `extra` is a key of
    `optional-dependencies` in pyproject.toml. An error about a headrace module is returned unchanged, and so
    is one that names this extra already; one that names another extra occurred on the way to `purpose`.
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
