"""Shell completion as bash does it: click's script is sourced, and its function completes words."""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import headrace
import pytest
from command_line import CommandLine
from headrace.services.cli.completion import SHELLS
from headrace.services.cluster_files_io import ClusterFile, write_cluster_file
from headrace.services.local_io import LocalCluster

# What bash does when the tab key is pressed: the function of `complete -p headrace` fills COMPREPLY.
TAB = """
. {script}
complete -p headrace >&2
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_headrace_completion headrace
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A cluster with two topics and a group, which is the default one of this machine."""
    with headrace.local() as running:
        topics = (headrace.NewTopic("orders"), headrace.NewTopic("other"))
        running.admin().create_topics(*topics).raise_for_errors()
        with running.producer() as producer:
            producer.send("orders", b"x").result(timeout=60)
        with running.consumer("orders", group="billing", auto_offset_reset="earliest") as consumer:
            assert consumer.poll(timeout=60)
            consumer.commit()
        yield running


BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command prints for bash."""
    path = tmp_path_factory.mktemp("completion") / "headrace.bash"
    with path.open("wb") as file:
        subprocess.run([BIN / "headrace", "completion", "bash"], stdout=file, timeout=120, check=True)
    return path


@pytest.fixture
def tab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: Path) -> Callable[..., list[str]]:
    """Completions of the last word in a real bash; it may be empty."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))

    def tab(*words: str) -> list[str]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("HEADRACE_BOOTSTRAP", "HEADRACE_CLUSTER")
        }
        environment |= {"PATH": f"{BIN}:{environment['PATH']}", "PYTHONWARNINGS": "ignore"}
        quoted = " ".join(shlex.quote(word) for word in ("headrace", *words))
        done = subprocess.run(
            ["bash", "--norc", "-c", TAB.format(words=quoted, script=shlex.quote(str(script)))],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert done.stderr.strip() == "complete -o nosort -F _headrace_completion headrace"
        return done.stdout.split()

    return tab


def test_commands_and_options_are_completed(tab: Callable[..., list[str]]) -> None:
    """Without a cluster: commands, their options, and values of options."""
    assert tab("comp") == ["completion"]
    assert tab("topic", "de") == ["delete", "delete-records", "describe"]
    assert tab("topic", "create", "--replicat") == ["--replication-factor"]
    assert tab("topic", "list", "-o", "js") == ["json", "jsonl"]
    assert tab("completion", "") == list(SHELLS)


def test_names_of_the_cluster_are_completed(tab: Callable[..., list[str]], cluster: LocalCluster) -> None:
    """Topics and groups of the default cluster, and clusters themselves."""
    write_cluster_file(ClusterFile("default", "h:1", tuple(cluster.bootstrap.split(",")), 1, "/data"))
    assert tab("topic", "delete", "o") == ["orders", "other"]
    assert tab("consume", "orders", "ot") == ["other"]
    assert tab("config", "describe", "--topic", "ord") == ["orders"]
    assert tab("consume", "__c") == ["__consumer_offsets"]
    assert tab("group", "describe", "") == ["billing"]
    assert tab("topic", "list", "--cluster", "d") == ["default"]


def test_names_of_the_given_cluster_are_completed(
    tab: Callable[..., list[str]], cluster: LocalCluster
) -> None:
    """-b and --cluster, before the command's name or after it."""
    write_cluster_file(ClusterFile("two", "h:1", tuple(cluster.bootstrap.split(",")), 1, "/data"))
    assert tab("--cluster", "two", "topic", "delete", "or") == ["orders"]
    assert tab("topic", "delete", "-b", cluster.bootstrap, "or") == ["orders"]
    assert tab("topic", "describe", "or") == ["orders"]  # a reading command takes the only cluster
    assert tab("topic", "delete", "or") == []  # a changing one does not


def test_unreachable_cluster_completes_nothing(tab: Callable[..., list[str]]) -> None:
    """Neither one that does not respond, nor one that is down: no names, and no message."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_cluster_file(ClusterFile("default", "h:1", (f"127.0.0.1:{silent.getsockname()[1]}",), 1, "/d"))
        assert tab("topic", "delete", "o") == []
    assert tab("topic", "delete", "o") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell: str, command_line: CommandLine) -> None:
    """It asks `headrace` with the variable that `main` reads."""
    code, out, _ = command_line("completion", shell)
    assert (code, f"_HEADRACE_COMPLETE={shell}_complete" in out) == (0, True)
