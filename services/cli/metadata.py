"""`headrace metadata …`: browses the metadata on the disk of a controller, as Kafka's metadata shell does."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import HeadraceError
from .common import Settings, form_option, reading_command
from .output import note, print_rows, print_stream, print_value, write_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..metadata_tree import Folder, Leaf

_dir_argument = click.argument("source", metavar="DIR", type=click.Path(exists=True, path_type=Path))
_path_argument = click.argument("path", default="/")
_ENTRY = ("path", "kind", "value")
_HELP = "ls [PATH]  cat PATH  tree [PATH]  find [PATH]  cd [PATH]  pwd  help  exit"


@click.group()
def metadata() -> None:
    """Browse the metadata log and snapshots of a controller, running or stopped.

    DIR is the data dir of a cluster or of a controller, its folder __cluster_metadata-0, or a .checkpoint
    file. The tree includes the end of the log, which may not be committed.
    """


@metadata.command("ls")
@_dir_argument
@_path_argument
@reading_command(form_option)
def list_entries(settings: Settings, *, source: Path, path: str) -> None:
    """List the entries at PATH."""
    _Browser(source).ls(path, settings)


@metadata.command()
@_dir_argument
@_path_argument
@reading_command(form_option)
def cat(settings: Settings, *, source: Path, path: str) -> None:
    """Print the value at PATH, or all values below it, as JSON."""
    _Browser(source).cat(path, settings)


@metadata.command()
@_dir_argument
@_path_argument
@reading_command(form_option)
def tree(settings: Settings, *, source: Path, path: str) -> None:
    """Print the tree below PATH, with values."""
    _Browser(source).tree(path, settings)


@metadata.command()
@_dir_argument
@_path_argument
@reading_command(form_option)
def find(settings: Settings, *, source: Path, path: str) -> None:
    """Print the paths of all entries below PATH."""
    _Browser(source).find(path, settings)


@metadata.command()
@_dir_argument
@reading_command()
def shell(settings: Settings, *, source: Path) -> None:
    """Run the commands of standard input on the tree: ls, cat, tree, find, cd, pwd; `help` lists them."""
    browser = _Browser(source)
    note(f"{browser.origin}; {_HELP}")
    while True:
        if sys.stdin.isatty():
            sys.stderr.write(f"{browser.place}> ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return
        try:
            if not browser.run(shlex.split(line), settings):
                return
        except (HeadraceError, ValueError) as error:
            note(f"headrace: {error}")


@metadata.command()
@_dir_argument
@reading_command(form_option)
def log(settings: Settings, *, source: Path) -> None:
    """Print the records of the metadata log, one by one, without secrets."""
    from ..metadata_files_io import log_rows, metadata_folder

    rows = log_rows(metadata_folder(source))
    print_stream(rows, "jsonl" if settings.is_text else settings.form)


class _Browser:
    """The tree, and the current folder of the shell."""

    def __init__(self, source: Path) -> None:
        from ..metadata_files_io import read_image, shown_keys
        from ..metadata_tree import tree_of

        image, self.origin = read_image(source)
        self._root = tree_of(image, shown_keys())
        self._base: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The path of the current folder."""
        return "/" + "/".join(self._base)

    def run(self, words: list[str], settings: Settings) -> bool:
        """Run one line of the shell; False to end it. Errors: HeadraceError."""
        if not words:
            return True
        name, *arguments = words
        if name in ("exit", "quit"):
            return False
        commands: dict[str, Callable[[str, Settings], None]] = {
            "ls": self.ls,
            "cat": self.cat,
            "tree": self.tree,
            "find": self.find,
            "cd": self.cd,
            "pwd": lambda _path, _settings: write_line(self.place),
            "help": lambda _path, _settings: note(_HELP),
        }
        if name not in commands:
            raise HeadraceError(f"no command {name!r}: {_HELP}")
        for argument in arguments or ("/" if name == "cd" else ".",):
            commands[name](argument, settings)
        sys.stdout.flush()
        return True

    def cd(self, text: str, _settings: Settings) -> None:
        """Change the current folder."""
        from ..metadata_tree import Leaf, parts_of

        path, node = self._at(text)
        if isinstance(node, Leaf):
            raise HeadraceError(f"{path} is a value, not a folder")
        self._base = parts_of(path)

    def ls(self, text: str, settings: Settings) -> None:
        """Entries of a folder, or the value itself."""
        from ..metadata_tree import Leaf

        path, node = self._at(text)
        if isinstance(node, Leaf):
            rows = [_entry(path, node)]
        else:
            rows = [_entry(f"{path.rstrip('/')}/{name}", each) for name, each in node.items()]
        if not settings.is_text:
            print_rows(rows, _ENTRY, settings.form)
            return
        for row in rows:
            write_line(row["path"].rpartition("/")[2] + ("/" if row["kind"] == "folder" else ""))

    def cat(self, text: str, settings: Settings) -> None:
        """Values as JSON."""
        print_value(_values(self._at(text)[1]), "json" if settings.is_text else settings.form)

    def tree(self, text: str, settings: Settings) -> None:
        """Folders and values, indented."""
        from ..metadata_tree import Leaf, walk

        path, node = self._at(text)
        if not settings.is_text:
            print_rows([_entry(*each) for each in walk(node, path)], _ENTRY, settings.form)
            return
        depth = len([part for part in path.split("/") if part])
        for each, found in walk(node, path):
            parts = [part for part in each.split("/") if part]
            name = parts[-1] if parts else "/"
            shown = f": {json.dumps(found.value)}" if isinstance(found, Leaf) else ""
            write_line("  " * (len(parts) - depth) + name + shown)

    def find(self, text: str, settings: Settings) -> None:
        """Paths."""
        from ..metadata_tree import walk

        path, node = self._at(text)
        rows = [_entry(*each) for each in walk(node, path)]
        if not settings.is_text:
            print_rows(rows, _ENTRY, settings.form)
            return
        for row in rows:
            write_line(row["path"])

    def _at(self, text: str) -> tuple[str, Folder | Leaf]:
        from ..metadata_tree import find, parts_of

        path = "/" + "/".join(parts_of(text, self._base))
        return path, find(self._root, path)


def _entry(path: str, node: Folder | Leaf) -> dict[str, Any]:
    from ..metadata_tree import Leaf

    if isinstance(node, Leaf):
        return {"path": path, "kind": "value", "value": node.value}
    return {"path": path, "kind": "folder", "value": None}


def _values(node: Folder | Leaf) -> Any:
    from ..metadata_tree import Leaf

    return node.value if isinstance(node, Leaf) else {name: _values(each) for name, each in node.items()}
