"""`headrace schema`: the JSON schema of what a command prints with -o json."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from .common import NotFoundError, Settings, reading_command
from .output import write_line
from .schema_table import TABLE

_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]*|\.\.\.|[\[\]{}:,|?*])")
_TYPES = {"str": "string", "int": "integer", "num": "number", "bool": "boolean"}


def schema_of(command: str) -> dict[str, Any]:
    """The JSON schema of a command's output. Errors: NotFoundError if it has none."""
    if command not in TABLE:
        raise NotFoundError(f"`headrace {command}` has no -o json; `headrace schema` lists the commands")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"headrace {command} -o json",
        **_Notation(TABLE[command]).schema(),
    }


class _Notation:
    """A recursive-descent reader of the notation of `TABLE`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = _TOKEN.findall(text)
        if "".join(self._words) != re.sub(r"\s", "", text):
            raise ValueError(f"not the notation of schemas: {text!r}")
        self._at = 0

    def schema(self) -> dict[str, Any]:
        """The schema of the whole text. Errors: ValueError."""
        found = self._either()
        if self._at != len(self._words):
            raise ValueError(f"{self._text!r}: unexpected {self._words[self._at]!r}")
        return found

    def _either(self) -> dict[str, Any]:
        options = [self._nullable()]
        while self._takes("|"):
            options.append(self._nullable())
        return options[0] if len(options) == 1 else {"anyOf": options}

    def _nullable(self) -> dict[str, Any]:
        found = self._plain()
        if not self._takes("?"):
            return found
        return {"anyOf": [found, {"type": "null"}]}

    def _plain(self) -> dict[str, Any]:
        word = self._next()
        if word == "[":
            items = self._either()
            self._expect("]")
            return {"type": "array", "items": items}
        if word == "{":
            return self._object()
        if word == "any":
            return {}
        if word not in _TYPES:
            raise ValueError(f"{self._text!r}: {word!r} is no type")
        return {"type": _TYPES[word]}

    def _object(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        others: Any = False
        while not self._takes("}"):
            name = self._next()
            if name == "...":
                others = True
            elif name == "*":
                self._expect(":")
                others = self._either()
            else:
                if not self._takes("?"):
                    required.append(name)
                self._expect(":")
                properties[name] = self._either()
            if not self._takes(","):
                self._expect("}")
                break
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": others,
        }

    def _next(self) -> str:
        if self._at == len(self._words):
            raise ValueError(f"{self._text!r} ends too early")
        self._at += 1
        return str(self._words[self._at - 1])

    def _takes(self, word: str) -> bool:
        if self._at < len(self._words) and self._words[self._at] == word:
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        found = self._next()
        if found != word:
            raise ValueError(f"{self._text!r}: {found!r} in place of {word!r}")


def _commands(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return sorted({word for name in TABLE for word in name.split() if word.startswith(incomplete)})


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND…]", shell_complete=_commands)
@reading_command()
def schema(_settings: Settings, *, words: tuple[str, ...]) -> None:
    """Print the JSON schema of the output of COMMAND with -o json, such as `headrace schema topic list`.

    Without COMMAND, lists the commands. With -o jsonl, each line of a list is one of its items.
    """
    if words:
        write_line(json.dumps(schema_of(" ".join(words)), indent=2))
        return
    for name in TABLE:
        write_line(name)
