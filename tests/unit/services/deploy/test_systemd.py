"""The systemd units: complete, hardened, and those of the repository."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import CommandLine
from headrace.services.deploy.systemd import NODE_UNIT, UnitOptions, config_files, unit_files
from headrace.services.server.config_file import CONTROLLER, NODE, server_file

FOLDER = Path(__file__).parents[4] / "deploy" / "systemd"
MAX_EXPOSURE = 2.0  # of 10, by `systemd-analyze security`


def test_files_of_the_repository_are_those_of_the_command() -> None:
    """`headrace deploy systemd --program /opt/headrace/venv/bin/headrace --write deploy/systemd`."""
    expected = {**unit_files(UnitOptions()), **config_files(UnitOptions())}
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == expected


def test_config_files_are_what_the_servers_accept() -> None:
    """The unit of a controller and of node 1 starts with them."""
    controller, node = config_files(UnitOptions()).values()
    assert server_file(CONTROLLER, controller, {}).directory == "/var/lib/headrace/controller"
    assert server_file(NODE, node, {}).name == "node-1"


def test_options_reach_the_units(command_line: CommandLine, tmp_path: Path) -> None:
    """Paths and the user; files that exist are kept."""
    arguments = (
        "--user",
        "log",
        "--data-dir",
        "/disks/a",
        "--config-dir",
        "/etc/h",
        "--program",
        "/p/h",
    )
    code, out, _ = command_line("deploy", "systemd", *arguments)
    assert code == 0
    for text in (
        "User=log",
        "ReadWritePaths=/disks/a",
        "/p/h server node --config /etc/h/node-%i.p",
    ):
        assert text in out
    assert "log.dirs=/disks/a/node-1" in out
    assert command_line("deploy", "systemd", "--write", str(tmp_path / "u"))[0] == 0
    code, _, err = command_line("deploy", "systemd", "--write", str(tmp_path / "u"))
    assert (code, "nothing was written" in err) == (2, True)
    assert command_line("deploy", "systemd", "--data-dir", "relative")[0] == 2
    assert command_line("deploy", "systemd", "--data-dir", "/a b")[0] == 2


def analyze(*words: str, folder: Path) -> str:
    done = subprocess.run(
        ["systemd-analyze", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
        env={**os.environ, "SYSTEMD_COLORS": "0"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_accepts_the_units_and_their_hardening(tmp_path: Path) -> None:
    """`verify` prints nothing, `security` a low exposure; a unit with a wrong key is reported."""
    if shutil.which("systemd-analyze") is None:
        assert "HEADRACE_REQUIRE_KAFKA" not in os.environ, "systemd-analyze is missing"
        pytest.skip("no systemd-analyze")
    for name, text in unit_files(UnitOptions(program="/bin/true")).items():
        unit = name.replace("@", "@1")
        (tmp_path / unit).write_text(text)
        assert analyze("verify", "--man=false", f"./{unit}", folder=tmp_path) == ""
        shown = analyze("security", "--offline=true", f"./{unit}", folder=tmp_path)
        exposure = re.search(r"Overall exposure level.*: ([0-9.]+)", shown)
        assert exposure is not None
        assert float(exposure[1]) < MAX_EXPOSURE
    text = unit_files(UnitOptions(program="/bin/true"))[NODE_UNIT].replace("ProtectHome=", "ProtectHose=")
    (tmp_path / "bad.service").write_text(text)
    assert "ProtectHose" in analyze("verify", "--man=false", "./bad.service", folder=tmp_path)
