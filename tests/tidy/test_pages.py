"""The pages name what exists: files, make targets, commands with their options, keys and functions."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pages
from headrace.benchmarks.plan import GROUPS
from headrace.clients.config import ENVIRONMENT_PREFIX, ClientConfigs
from headrace.runtime.telemetry.table import ALL_METRICS, BY_PROMETHEUS_NAME, series_names
from headrace.services.cli.main import cli
from pages import ROOT, SHELL, blocks, joined_lines, text_of, without_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGES = [*pages.PAGES, "benchmarks/PROFILES.md"]
CODE = (
    "protocol",
    "runtime",
    "storage_node",
    "stream",
    "controller",
    "coordinators",
    "clients",
    "services",
    "benchmarks",
    "examples",
    "release",
    "tests",
)
# Written by a run of something else, in the words of that.
FOREIGN_PAGES = {"docs/CLI.md", "docs/COMPATIBILITY.md"}
# What is not ours and is spelled nowhere in the code.
FOREIGN = {
    "reset_index", "memmove", "zmq_msg_t", "area", "src", "name.tmp", "FastAPI", "lifespan", "post_fork",
    "NAME.json", "NAME", "DEBUG", "session_latest",
    "generate_latest",  # of prometheus-client
    # of OpenTelemetry
    "OTEL_RESOURCE_ATTRIBUTES",
    # of Ray
    "RAY_USE_TLS", "worker_process_setup_hook",
    "dashboard-agent-grpc-port", "dashboard-host", "dashboard-port", "max-worker-port",
    "metrics-export-port", "min-worker-port", "node-ip-address", "node-manager-port", "object-manager-port",
    "runtime-env-agent-port", "no-restart",
    "gcsFaultToleranceOptions",  # of KubeRay
}  # fmt: skip
MIGRATING = "docs/MIGRATING.md"
CLIENT_PACKAGES = {"kafka-python": "kafka", "confluent-kafka": "confluent_kafka", "aiokafka": "aiokafka"}
# Variables of the examples in its tables.
PLACEHOLDERS = {"f", "t", "tp", "table"}

CELLS = {cell.name for group in GROUPS for cell in group.cells}


@functools.cache
def code() -> str:
    """All code and build files, where a name that a page gives must stand."""
    paths = [path for folder in CODE for path in (ROOT / folder).rglob("*.p*") if path.suffix != ".pyc"]
    paths += [ROOT / name for name in ("Makefile", "pyproject.toml", "__init__.py", "aio.py", ".ci/run")]
    this = Path(__file__)
    names = [str(path.relative_to(ROOT)) for path in paths]
    return "\n".join([*names, *(path.read_text() for path in paths if path != this)])


@functools.cache
def is_in_code(word: str) -> bool:
    """Whether a word, or the last part of a dotted one, stands in the code."""
    return word in code() or word.rpartition(".")[2] in code()


def spans(page: str) -> list[str]:
    """What a page sets as code inside its prose."""
    return re.findall(r"`([^`\n]+)`", without_blocks(text_of(page)))


def command_lines(page: str, program: str) -> list[str]:
    """The calls of a program that a page shows, in its code blocks and in its prose."""
    shown = [block.text for block in blocks(text_of(page)) if block.language == SHELL]
    lines = [line for text in shown for line in joined_lines(text)] + spans(page)
    found = (re.match(rf"(?:[A-Z_]+=\S+ |.*\| )*{program} (.*)", line) for line in lines)
    return [match[1] for match in found if match]


@functools.cache
def client_code(client: str) -> str:
    """The code of another Kafka client as it is installed, librdkafka's binary included: its config keys."""
    package = CLIENT_PACKAGES[client]
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    libraries = folder.parent.glob(f"{package}.libs/librdkafka*")
    files = [*folder.rglob("*.py"), *folder.rglob("*.so*"), *libraries]
    return "\n".join([package, *(path.read_bytes().decode("latin-1") for path in files)])


def words_of(text: str) -> set[str]:
    """Names in the code spans of a text, each part of a dotted attribute by itself; config keys are whole."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"\"[^\"`]*\"", "", text))
    return {word for span in spans for word in re.findall(r"[A-Za-z_](?:[\w.\-]*\w)?", span)}


def migration_names() -> list[tuple[str, str]]:
    """(client, name): what the tables of MIGRATING.md say that a client has."""
    found, header = [], []
    for line in text_of(MIGRATING).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            header = []
        elif not header:
            header = cells
        else:
            found += [
                (client, word)
                for title, cell in zip(header, cells, strict=True)
                for client in title.split(", ")
                for word in words_of(cell)
                if client in (*CLIENT_PACKAGES, "headrace")
            ]
    return sorted(set(found))


def test_names_in_client_tables_exist_in_these_clients() -> None:
    """Constructors, keys, methods and errors stand in the code of the client in whose column they are."""
    names = migration_names()
    assert len(names) >= 200
    of = {client: {name for column, name in names if column == client} for client in CLIENT_PACKAGES}
    shared = of["kafka-python"] & of["aiokafka"]  # of a column of both: one of them has it
    missing = [
        (client, name)
        for client, names_of_client in of.items()
        for name in names_of_client
        if name.rpartition(".")[2] not in client_code(client) and name not in client_code(client)
        if not (name in shared and any(name in client_code(each) for each in ("kafka-python", "aiokafka")))
        if name not in PLACEHOLDERS
    ]
    assert not missing
    ours = [name for client, name in names if client == "headrace" and name not in PLACEHOLDERS]
    assert not [name for name in ours if not is_in_code(name)]


def test_every_name_exists() -> None:
    """Each word of a page that is set as code stands in the code: keys, options, fields, functions."""
    known = FOREIGN | {group.id for group in GROUPS} | series_names() | set(BY_PROMETHEUS_NAME)
    known |= {name for metric in ALL_METRICS for name in (metric.otel, metric.name)}
    missing = {
        (page, word)
        for page in PAGES
        if page not in {*FOREIGN_PAGES, MIGRATING}
        for span in spans(page)
        for word in re.findall(r"[A-Za-z_](?:[\w.\-]*\w)?", span)
        if word not in known and not is_in_code(word)
    }
    assert not missing


def anchors(path: Path) -> set[str]:
    """What the headings of a page are linked by, as GitHub makes it of their text."""
    titles = re.findall(r"^#+ (.+)$", without_blocks(path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_link_leads_somewhere() -> None:
    """Relative links lead to files, their anchors to headings."""
    for page in PAGES:
        targets = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", without_blocks(text_of(page)))
        folder = (ROOT / page).parent
        local = [(folder / to if to else ROOT / page, anchor) for to, anchor in targets if "://" not in to]
        assert not [path for path, _ in local if not path.exists()], page
        missing = [(path.name, anchor) for path, anchor in local if anchor and anchor not in anchors(path)]
        assert not missing, page


def test_every_make_target_exists() -> None:
    """And the variables that it is given."""
    makefile = (ROOT / "Makefile").read_text()
    for call in (call for page in PAGES for call in command_lines(page, "make")):
        for word in shlex.split(call, comments=True):
            name, is_variable, _ = word.partition("=")
            if is_variable:
                assert f"$({name})" in makefile or f"$(value {name})" in makefile, call
            else:
                assert re.search(rf"^{re.escape(name)}:", makefile, re.MULTILINE), call


def _names(parameter: click.Parameter) -> list[str]:
    """The names of an option, also of --no-… or the like."""
    return [*parameter.opts, *parameter.secondary_opts]


def test_shown_commands_and_options_exist() -> None:
    """`headrace …`: the command and its long options."""
    for call in (call for page in PAGES for call in command_lines(page, "headrace")):
        if f"headrace {call}" in CELLS or call in ("…", "..."):
            continue
        words = shlex.split(call, comments=True)
        command: Any = cli
        options = {name for parameter in command.params for name in _names(parameter)}
        while words and isinstance(command, click.Group) and words[0] in command.commands:
            command = command.commands[words.pop(0)]
            options |= {name for parameter in command.params for name in _names(parameter)}
        assert command is not cli, call
        if not command.context_settings.get(
            "allow_interspersed_args", True
        ):  # the rest is a command line of another program
            words = list(takewhile(lambda word: word.startswith("-"), words))
        assert not [word for word in words if word.startswith("--") and word not in options], call


def variables_read(folders: Iterable[str]) -> set[str]:
    """The environment variables that Python files below these folders read or set: named where they are, or
    by a constant of the same file; and everything else that is called HEADRACE_..."""
    found: set[str] = set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        found.update(re.findall(r"environ(?:ment)?(?:\.\w+\(|\[)\s*\"(\w+)\"", text))
        found.update(re.findall(r"\"(\w+)\" (?:not )?in os\.environ", text))
        found.update(re.findall(r"\"(HEADRACE_[A-Z_]*[A-Z])\"", text))
        for constant in re.findall(r"environ(?:ment)?(?:\.\w+\(|\[)\s*([A-Z_]+)\b", text):
            found.update(re.findall(rf"^{constant} = \"(\w+)\"", text, re.MULTILINE))
    return found


def test_every_environment_variable_is_documented() -> None:
    """What the package, the benchmarks and the examples read, and all of headrace's own that tests read."""
    shown = {name for span in spans("docs/ENVIRONMENT.md") for name in re.findall(r"\b\w+\b", span)}
    of_keys = {
        ENVIRONMENT_PREFIX + key.replace(".", "_").upper()
        for schema in ClientConfigs
        for key in schema.keys()  # noqa: SIM118 - a classmethod of Config
    }
    read = variables_read(folder for folder in CODE if folder != "tests")
    assert {"HEADRACE_HOME", "HEADRACE_CLUSTER", "HEADRACE_BOOTSTRAP", "NO_COLOR", "RAY_ADDRESS"} <= read
    undocumented = read - shown - of_keys
    assert not undocumented
    of_tests = {name for name in variables_read(["tests"]) if name.startswith("HEADRACE_")}
    assert {"HEADRACE_REQUIRE_KAFKA", "HEADRACE_FAULT_SEEDS"} <= of_tests
    undocumented = of_tests - shown - of_keys - {"HEADRACE_TEST_MARK"}
    assert not undocumented


def test_every_logger_is_documented() -> None:
    """docs/ENVIRONMENT.md has the loggers of the packages, but those named after a module, and no others."""
    named = {
        name
        for folder in CODE[:8]
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r'getLogger\("(headrace[.\w]*)"\)', path.read_text())
    }
    section = text_of("docs/ENVIRONMENT.md").partition("| logger | content |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    assert sorted(re.findall(r"`([^`]+)`", " ".join(rows))) == sorted(named)


def test_the_pages_show_calls() -> None:
    """The patterns that find them still do."""
    assert len(command_lines("docs/BENCH.md", "headrace")) >= 8
    assert len(command_lines("README.md", "headrace")) >= 7
    assert len(command_lines("README.md", "make")) >= 4


def test_answers_to_where_questions_exist() -> None:
    """docs/TESTING.md names the file that answers each question of a newcomer."""
    section = text_of("docs/TESTING.md").partition("## Where is ...?")[2]
    answers = re.findall(r"^\| Where [^|]*\? \| `([^`|]+)` \|$", section, re.MULTILINE)
    assert len(answers) == 11
    assert not [answer for answer in answers if not (ROOT / answer).is_file()]


def test_operators_find_the_log_lines_that_servers_write() -> None:
    """docs/OPERATIONS.md: the reasons of fencings, and the lines in its prose."""
    section = text_of("docs/OPERATIONS.md").partition("### What moved leadership")[0]
    lines = [line for line in re.findall(r"`([^`]+)`", section) if line.count(" ") > 2]
    shown = [re.sub(r"\d+", "N", line).strip("; ") for line in lines]
    assert len(shown) > 8
    sources = [
        path for folder in ("controller", "storage_node", "runtime") for path in (ROOT / folder).rglob("*.py")
    ]
    written = re.sub(r'"\s+f?"', "", "\n".join(path.read_text() for path in sources))
    written = re.sub(r"\{[^{}]*\}|%[dsg]", "N", written).replace("N:N", "HOST:PORT")
    assert not [line for line in shown if line not in written]
