"""References in config values to variables and files: `${env:NAME}`, `${file:PATH:KEY}`, `${dir:PATH:FILE}`.

A secret then lies in none of the configs themselves, which are stored in the file of the cluster and are
sent to workers. The process that uses a config resolves it, once, when it starts. Values that come over the
network are not resolved: a client could read files of the server with them. Pure; `config_references_io`
reads.

Source: KIP-297, KIP-421, KIP-887; Kafka ConfigTransformer.java, FileConfigProvider.java,
DirectoryConfigProvider.java, EnvVarConfigProvider.java. Unlike there, the three providers need no
declaration, and a reference to something that does not exist is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Protocol

from ..protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

PROVIDERS = "config.providers"
_ENV_PATTERN = f"{PROVIDERS}.env.param.allowlist.pattern"
_FILE_PATHS = f"{PROVIDERS}.file.param.allowed.paths"
_DIR_PATHS = f"{PROVIDERS}.dir.param.allowed.paths"
_NAMES = ("env", "file", "dir")
KEYS = frozenset(
    (PROVIDERS, _ENV_PATTERN, _FILE_PATHS, _DIR_PATHS, *(f"{PROVIDERS}.{name}.class" for name in _NAMES))
)
_REFERENCE = re.compile(r"\$\{(env|file|dir):(?:([^}]*):)?([^}]*)\}")
_SEPARATOR = re.compile(r"(?<!\\)\s*[=:]\s*|(?<!\\)\s+")


def has_reference(value: Any) -> bool:
    """Whether the value of a key has to be resolved."""
    return isinstance(value, str) and _REFERENCE.search(value) is not None


class Source(Protocol):
    """Variables and files of the process. Errors of its methods: ConfigError."""

    def variable(self, name: str) -> str:
        """The value of an environment variable."""

    def real_path(self, path: str) -> PurePath:
        """The path without links and `..`."""

    def text(self, path: PurePath) -> str:
        """The text of a file."""


def resolve_from(source: Source, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without the keys of `config.providers`, each reference in a text replaced by its value.

    Errors: ConfigError with key and reference, never a value, for an absent variable, file or key, one that
    the parameters of its provider do not allow, and an unknown provider key.
    """
    given = {name.replace("_", "."): value for name, value in values.items() if is_provider_key(name)}
    providers = _Providers.of(given, source)
    return {
        name: providers.resolve(name, value) if isinstance(value, str) else value
        for name, value in values.items()
        if not is_provider_key(name)
    }


def is_provider_key(name: str) -> bool:
    """Whether it is a key of `config.providers`, dotted or underscored."""
    return name.replace("_", ".").startswith(PROVIDERS)


@dataclass(frozen=True, slots=True)
class _Providers:
    """What references may read: the providers, the variables whose whole name matches, the folders."""

    source: Source
    names: frozenset[str]
    variables: re.Pattern[str] | None
    file_paths: tuple[PurePath, ...] | None
    dir_paths: tuple[PurePath, ...] | None

    @classmethod
    def of(cls, given: Mapping[str, str], source: Source) -> _Providers:
        unknown = sorted(given.keys() - KEYS)
        if unknown:
            raise ConfigError(f"unknown config key {unknown[0]!r}; there are {', '.join(sorted(KEYS))}")
        names = frozenset(_items(given.get(PROVIDERS, ",".join(_NAMES))))
        if names - set(_NAMES):
            raise ConfigError(
                f"{PROVIDERS} has {sorted(names - set(_NAMES))[0]!r}: there are env, file and dir"
            )
        try:
            pattern = re.compile(given[_ENV_PATTERN]) if _ENV_PATTERN in given else None
        except re.error as error:
            raise ConfigError(f"{_ENV_PATTERN} is no regular expression: {error}") from None
        file_paths, dir_paths = (
            tuple(source.real_path(item) for item in _items(given[key])) if key in given else None
            for key in (_FILE_PATHS, _DIR_PATHS)
        )
        return cls(source, names, pattern, file_paths, dir_paths)

    def resolve(self, key: str, value: str) -> str:
        """The value of a key; references to providers that are not enabled stay, as in Kafka."""
        return _REFERENCE.sub(lambda match: self._value(key, match), value)

    def _value(self, key: str, match: re.Match[str]) -> str:
        reference, (provider, path, name) = match.group(0), match.groups()
        if provider not in self.names:
            return reference
        try:
            return self._read(provider, path, name)
        except ConfigError as error:
            raise ConfigError(f"{key}: {reference} cannot be resolved: {error}") from None

    def _read(self, provider: str, path: str | None, name: str) -> str:
        if provider == "env":
            return self._variable(name)
        if not path:
            raise ConfigError(f"it has no path: write ${{{provider}:path:{name}}}")
        if provider == "file":
            return _property(self._text(path, self.file_paths), name)
        if PurePath(name).name != name:
            raise ConfigError(f"{name!r} is not the name of a file")
        return self._text(f"{path}/{name}", self.dir_paths)

    def _variable(self, name: str) -> str:
        if self.variables is not None and not self.variables.fullmatch(name):
            raise ConfigError(f"{_ENV_PATTERN} does not allow this variable")
        return self.source.variable(name)

    def _text(self, path: str, folders: tuple[PurePath, ...] | None) -> str:
        real = self.source.real_path(path)
        if folders is not None and not any(real.is_relative_to(folder) for folder in folders):
            raise ConfigError("allowed.paths of its provider does not include this file")
        return self.source.text(real)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _property(text: str, name: str) -> str:
    """The value of a key in a properties file: `key=value`, `key: value`, comments with # and !."""
    lines = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text).splitlines()
    for line in lines:
        entry = line.strip()
        if entry and entry[0] not in "#!":
            key, *value = _SEPARATOR.split(entry, maxsplit=1)
            if _unescaped(key) == name:
                return _unescaped(value[0] if value else "")
    raise ConfigError(f"the file has no key {name!r}")


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", character, text)
