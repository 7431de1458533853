"""All mistakes of a config file are found at once, and the commands that are printed correct them."""

import subprocess
from pathlib import Path

import pytest
from headrace.services.server.config_file import CONTROLLER, NODE
from headrace.services.server.config_mistakes import (
    FILE,
    KEY,
    LINE,
    MISSING,
    TWICE,
    VALUE,
    Mistake,
    has_secret,
    mistakes_of,
)

NODE_TEXT = """\
process.roles=broker
node.id=1
log.dirs=/data/a
controller.quorum.bootstrap.servers=c1:9090
"""
CONTROLLER_TEXT = """\
process.roles=controller
node.id=100
metadata.log.dir=/data/m
listener.port=9090
controller.quorum.bootstrap.servers=c1:9090
"""
MISTAKES = [
    (NODE_TEXT + "no/n[sense.*$\n", LINE, ""),
    (NODE_TEXT + "num.partition=3\n", KEY, "num.partition"),
    (NODE_TEXT + "colour.of.the.node=red\n", KEY, "colour.of.the.node"),
    (NODE_TEXT + "metadata.log.dir=/m\n", KEY, "metadata.log.dir"),
    (CONTROLLER_TEXT + "advertised.listeners=P://h:1\n", KEY, "advertised.listeners"),
    (NODE_TEXT + "max.connections=many\n", VALUE, "max.connections"),
    (NODE_TEXT + "ssl.protocol=TLSv1.1\n", VALUE, "ssl.protocol"),
    (NODE_TEXT + "broker.rack=${env:HEADRACE_NO_SUCH}\n", VALUE, "broker.rack"),
    (NODE_TEXT.replace("=broker", "=broker,controller"), VALUE, "process.roles"),
    (NODE_TEXT.replace("log.dirs", "#"), MISSING, "log.dirs"),
    (NODE_TEXT.replace("controller.q", "#"), MISSING, "controller.quorum.bootstrap.servers"),
    (CONTROLLER_TEXT.replace("metadata.log.dir", "#"), MISSING, "metadata.log.dir"),
    (NODE_TEXT + "node.id = 1\n", TWICE, "node.id"),
    (CONTROLLER_TEXT + "listener.host=0.0.0.0\n", FILE, ""),
]


def resolve(values: object) -> dict[str, object]:
    from headrace.runtime.config_references_io import resolve_references

    return resolve_references(values)  # type: ignore[arg-type]


def run(mistake: Mistake) -> None:
    """Its command, as the owner of the file."""
    command = mistake.fix.replace("sudo ", "").replace("hostname -f", "echo c1").replace("HOST", "c1")
    subprocess.run(["sh", "-c", command], check=True, stdout=subprocess.DEVNULL)


def test_sound_files_have_no_mistake() -> None:
    """And describe a server."""
    for text, role, name in ((NODE_TEXT, NODE, "node-1"), (CONTROLLER_TEXT, CONTROLLER, "controller-100")):
        found, mistakes, server = mistakes_of("x", text, {})
        assert (found, mistakes) == (role, [])
        assert server is not None
        assert server.name == name


@pytest.mark.parametrize(("text", "kind", "key"), MISTAKES)
def test_command_corrects_the_mistake(text: str, kind: str, key: str, tmp_path: Path) -> None:
    """It is the only one in the file; a shell runs the command, and then the file has none."""
    file = tmp_path / "a b.properties"
    file.write_text(text)
    _, (mistake,), _ = mistakes_of(str(file), text, {}, resolve)
    assert (mistake.kind, mistake.key) == (kind, key)
    assert key in mistake.problem
    run(mistake)
    _, mistakes, server = mistakes_of(str(file), file.read_text(), {}, resolve)
    assert mistakes == []
    assert server is not None


def test_commands_of_several_mistakes_are_run_in_order(tmp_path: Path) -> None:
    """A command that removes a line by its number removes none that has moved there."""
    file = tmp_path / "node.properties"
    file.write_text(
        "nonsense/[a]*\nnode.id=7\ncolour=red\nmax.connections=x\nmore | & nonsense\n" + NODE_TEXT
    )
    for _ in range(2):
        for mistake in mistakes_of(str(file), file.read_text(), {})[1]:
            run(mistake)
    _, mistakes, server = mistakes_of(str(file), file.read_text(), {})
    assert mistakes == []
    assert server is not None
    assert (server.name, server.directory) == ("node-1", "/data/a")


def test_all_mistakes_are_found_at_once() -> None:
    """Those of keys hide neither each other nor the rest of the server; the nearest key is proposed."""
    text = NODE_TEXT + "num.partition=3\nmax.conections=3\nmax.connections=many\nnonsense\nbroker.rack=r1\n"
    _, mistakes, server = mistakes_of("x", text, {})
    assert sorted(each.kind for each in mistakes) == [KEY, KEY, LINE, VALUE]
    problems = " ".join(each.problem for each in mistakes)
    assert "max.conections; did you mean 'max.connections'?" in problems
    assert "'num.partitions' is a key of a controller" in problems
    assert server is not None
    assert server.config.to_mapping()["broker.rack"] == "r1"


def test_values_of_secrets_are_not_shown() -> None:
    """A secret of the wrong form."""
    text = NODE_TEXT + "metrics.listener=h:1\nmetrics.basic.auth=hunter2-without-colon\n"
    _, (mistake,), _ = mistakes_of("x", text, {})
    assert "hunter2" not in mistake.problem + mistake.fix


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ssl.key.password=hunter2", True),
        ("listener.name.x.ssl.key.password=hunter2", True),
        ("ssl.key.password=${file:/x:y}", False),
        ("ssl.key.password=", False),
        ("broker.rack=r1\nunknown.password=x", False),
    ],
)
def test_secrets_in_the_file_itself_are_noticed(line: str, *, expected: bool) -> None:
    assert has_secret(NODE, NODE_TEXT + line) is expected
