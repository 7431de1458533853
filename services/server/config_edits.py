"""Commands for a shell that edit a config file of `key=value` lines. Pure."""

from __future__ import annotations

import re
import shlex

KEYS = "headrace config keys"  # prints the reference


def set_key(path: str, name: str, value: str) -> str:
    """Give a key a value, whether the file has it or not."""
    line = shlex.quote(f"{name}={value}")
    return f"{_sed(path, _delete(name))} && echo {line} | sudo tee -a {shlex.quote(path)}"


def set_to_output(path: str, name: str, command: str) -> str:
    """Give a key the output of a command."""
    line = f'"{name}=$({command})"'
    return f"{_sed(path, _delete(name))} && echo {line} | sudo tee -a {shlex.quote(path)}"


def rename_key(path: str, name: str, by: str) -> str:
    """Correct the name of a key."""
    return _sed(path, f"s|{_start(name)}|{by}=|")


def remove_key(path: str, name: str) -> str:
    """Remove the lines of a key."""
    return f"{_sed(path, _delete(name))}  # the keys: {KEYS}"


def remove_line(path: str, number: int, line: str) -> str:
    """Remove a line by its number, from 1, unless another command has moved it since."""
    return _sed(path, rf"{number}{{\|^{_escaped(line)}$|d}}")


def replace_port(path: str, name: str, port: int, by: int) -> str:
    """Replace a port in the value of a key."""
    return _sed(path, rf"/{_start(name)}/s|\b{port}\b|{by}|")


def _delete(name: str) -> str:
    return f"/{_start(name)}/d"


def _start(name: str) -> str:
    """Matches the key at the beginning of its line."""
    return rf"^\s*{_escaped(name)}\s*="


def _escaped(text: str) -> str:
    """Matches itself in sed's basic expressions."""
    return re.sub(r"([]\\/$*.^|[])", r"\\\1", text)


def _sed(path: str, script: str) -> str:
    return f"sudo sed -i {shlex.quote(script)} {shlex.quote(path)}"
