"""Plain technical English: the worst words in docstrings, comments, messages and names; changelog fragments.

A word list is a help, not the goal: sentences whose subject is a thing with a name rarely need these words.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from source_trees import BODIES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
# Where the sentences are done; the list grows.
ROOMS = (
    "*.py",
    "benchmarks/**/*.py",
    "changelog.d/*.py",
    "clients/**/*.py",
    "controller/**/*.py",
    "coordinators/**/*.py",
    "examples/**/*.py",
    "protocol/**/*.py",
    "runtime/**/*.py",
    "services/**/*.py",
    "storage_node/**/*.py",
    "stream/**/*.py",
    "tests/**/*.py",
)
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/adr/*.md",
    "protocol/**/*.px?",
    "tests/**/*.md",
    "tests/**/*.java",
    "tests/**/*.toml",
)
WORDS = (
    r"who(?:m)?ever|(?:no|some|any|every)body|anew|shall|heard|hears|tells of|gives? way|is away"
    r"|bur(?:y|ie[sd])|told"
)
# As the subject of a sentence or in a name; a user who reads is one.
PEOPLE = ("user", "users", "operator", "anyone", "newcomer", "those", "all", "alice,", "Operators")
WHO = "".join(rf"(?<!\b{person} )" for person in PEOPLE) + "who"
WORST = re.compile(rf"\b({WORDS}|{WHO})\b", re.I)
# In a name, and in a string that is written in pieces: "gives " f"way".
ANYWHERE = re.compile(
    WORDS.replace(" ", r"[\W_]*(?:[bfru]+[\"'])?") + r"|(?<![a-z])who(?![a-z])|(?<=[a-z])Who(?![a-z])", re.I
)


def words_of_name(name: str) -> str:
    """`test who lags` of `test_who_lags`, `Who Lags` of `WhoLags`."""
    return re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", name)


def texts(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every comment, every name, and every string with a space (docstrings, messages)."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
        elif token.type == tokenize.NAME:
            yield token.start[0], words_of_name(token.string)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def worst_words(source: str) -> list[tuple[int, str]]:
    if not ANYWHERE.search(source):  # most files; a file takes 10 ms to parse
        return []
    return [(line, found[0]) for line, text in texts(source) for found in WORST.finditer(text)]


@pytest.mark.parametrize("room", ROOMS)
def test_finished_rooms_have_none_of_the_worst_words(room: str) -> None:
    """A sentence with one of these words hides its subject: name the member, the leader, the client."""
    assert {
        str(path.relative_to(ROOT)): words
        for path in sorted(ROOT.glob(room))
        if path != Path(__file__) and (words := worst_words(path.read_text()))
    } == {}


@pytest.mark.parametrize("pages", PAGES)
def test_pages_and_compiled_modules_have_none_of_the_worst_words(pages: str) -> None:
    """Their whole text is prose, or is read as if it were."""
    lines = [
        (str(path.relative_to(ROOT)), number, found[0])
        for path in sorted(ROOT.glob(pages))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for found in WORST.finditer(line)
    ]
    assert lines == []


def test_planted_sentences_and_names_are_found() -> None:
    """A docstring, a comment, a message; a variable, a class, a function and its parameter, an attribute."""
    source = '"""Whoever waits."""\n\nx = 1  # begins anew\nraise ValueError(f"{x} shall wait")\n'
    assert sorted(word for _, word in worst_words(source)) == ["Whoever", "anew", "shall"]
    source = "class IsHeard:\n    def test_whoever_lags(self, nobody): self.givesWay = EVERYBODY\n"
    found = ["EVERYBODY", "Heard", "gives Way", "nobody", "whoever"]
    assert sorted(word for _, word in worst_words(source)) == found


def test_who_is_refused_as_a_subject_and_in_names() -> None:
    """Not in a clause about people."""
    source = '"""The log: who lags is told."""\nwho_leads = isWhoAsks = 1\n'
    assert sorted(word for _, word in worst_words(source)) == ["Who", "told", "who", "who"]
    assert worst_words('"""Of users who may read, and of the user who owns it."""\n') == []


@pytest.mark.parametrize("words", ["nobody", "tells of", "gives way", "is away"])
def test_words_in_pieces_of_a_string_are_found(words: str) -> None:
    """The pieces end between words, also at the end of a line."""
    for between in (" ", "\n    ", " f"):
        pieces = between.join(f'"{piece} "' for piece in words.split())
        assert [word for _, word in worst_words(f"text = ({pieces})\n")] == [words]


# Words that add nothing to a name.
_FILLERS = {"a", "all", "an", "and", "as", "by", "current", "each", "every", "for", "in", "is", "its", "now"}
_FILLERS |= {"of", "on", "one", "or", "that", "the", "their", "this", "to", "with"}


def _stems(text: str) -> set[str]:
    """The words of a name or a sentence, without fillers and endings."""
    found = re.findall(r"[a-z]+", words_of_name(text).lower())
    return {re.sub(r"(?<=\w{3})(?:ies|es|ed|ing|e|s)$", "", word) for word in found if word not in _FILLERS}


def echoes(source: str) -> list[str]:
    """Functions and classes whose docstring has up to four words, all of which their names have."""
    found: list[str] = []
    pending: list[tuple[ast.AST, str]] = [(ast.parse(source), "")]
    while pending:
        node, owner = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            doc = ast.get_docstring(node) or ""
            if doc and len(doc.split()) <= 4 and _stems(doc) <= _stems(f"{owner} {node.name}"):
                found.append(f"{node.name}: {doc}")
        owner = node.name if isinstance(node, ast.ClassDef) else owner
        pending += [(child, owner) for field in BODIES for child in getattr(node, field, ())]
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_no_short_docstring_repeats_its_name(room: str) -> None:
    """A docstring says something that the name does not, or it is not there."""
    found = {str(path.relative_to(ROOT)): echoes(path.read_text()) for path in sorted(ROOT.glob(room))}
    assert {path: each for path, each in found.items() if each} == {}


def test_planted_echoes_are_found() -> None:
    """Of a class, and of a method by the words of its class."""
    source = '''
class LogReader:
    """A log reader."""
    def epoch(self):
        """The current epoch."""
    def close(self):
        """Close the reader."""
    def end(self):
        """Exclusive."""
'''
    assert sorted(each.partition(":")[0] for each in echoes(source)) == ["LogReader", "close", "epoch"]


@pytest.fixture(scope="module")
def assemble() -> Any:
    spec = importlib.util.spec_from_file_location("assemble", ROOT / "changelog.d" / "assemble.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_changelog_fragments_are_named_by_their_kind(assemble: Any, tmp_path: Path) -> None:
    """The fragments of the repository are valid, and their areas have a heading; other names are refused."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert all(f"\n### {area}\n" in changelog for area in assemble.AREAS)
    assert all(sentence for *_, sentence in assemble.fragments())
    (tmp_path / "x.improved.md").write_text("Servers: nodes are faster.")
    with pytest.raises(ValueError, match=r"x\.improved\.md: name it"):
        assemble.fragments(tmp_path)


def test_changelog_entries_are_added_under_area_and_kind(assemble: Any) -> None:
    """At the end of an existing kind; a missing kind gets a heading at the end of its area."""
    before = "# Changelog\n\n### Servers\n\n#### Added\n- One.\n\n### Clients\n\n#### Fixed\n- Two.\n"
    after = assemble.with_entry(before, "Servers", "added", "Three.")
    after = assemble.with_entry(after, "Clients", "format", "Four.")
    assert after == (
        "# Changelog\n\n### Servers\n\n#### Added\n- One.\n- Three.\n\n### Clients\n\n#### Fixed\n- Two.\n\n"
        "#### Format\n- Four.\n"
    )
