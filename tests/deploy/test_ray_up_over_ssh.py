"""`ray up ray_cluster.yaml` over OpenSSH on three machines with own disks: a host is killed and comes back,
the package is upgraded host by host, a host is drained and replaced; all under load, without an error.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ssh_machines import DISK, Site
from waiting import wait_for

pytestmark = [pytest.mark.ray, pytest.mark.deploy, pytest.mark.timeout(3000)]

ROOT = Path(__file__).parents[2]
FILE = ROOT / "ray_cluster.yaml"
LOAD = ROOT / "tests" / "fakes" / "steady_load.py"
WHEEL = "HEADRACE_WHEEL_DIR"  # of a wheel of this source; without it the test builds one, in minutes
PATIENCE_S = 400.0
MAX_SLOW_STARTS = 5
UPGRADED = "9.9.9"
HEADRACE = "RAY_AUTH_MODE=token ~/headrace/venv/bin/headrace"
SSH = "ssh -o StrictHostKeyChecking=no -o BatchMode=yes -i ~/.ssh/id_ed25519"


def wheel(folder: Path) -> Path:
    """The wheel of this source."""
    given = os.environ.get(WHEEL)
    where = Path(given) if given else folder
    if not given and not list(folder.glob("headrace-*.whl")):
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--wheel-dir",
            str(folder),
            sources(folder),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2400)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (found,) = where.glob("headrace-*.whl")
    return found


def sources(folder: Path) -> str:
    """A copy of the sources: pip builds in their folder, and leaves files that later builds take."""
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():  # neither a link, nor deleted since
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / "source" / name)
    return str(folder / "source")


def with_version(source: Path, target: Path, version: str) -> Path:
    """The same wheel as another release."""
    name, old, rest = source.name.split("-", 2)
    result = target / f"{name}-{version}-{rest}"
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as written:
        for entry in read.infolist():
            data = read.read(entry)
            if entry.filename.endswith(("/METADATA", "/RECORD")):
                data = re.sub(rf"(?m)^Version: {old}$".encode(), f"Version: {version}".encode(), data)
                data = data.replace(f"-{old}.dist-info".encode(), f"-{version}.dist-info".encode())
            written.writestr(entry.filename.replace(f"-{old}.dist-info", f"-{version}.dist-info"), data)
    return result


class Cluster:
    """The machines, the configuration for `ray up`, and the load."""

    def __init__(self, site: Site, wheels: Path) -> None:
        self.site, self.wheels = site, wheels
        config = yaml.safe_load(FILE.read_text().replace("~/headrace/data", f"{DISK}/data"))
        self.head = config["provider"]["head_ip"]
        self.machines = [self.head, *config["provider"]["worker_ips"]]
        home = site.home(Site.OPERATOR)
        (home / "ray_cluster.yaml").write_text(yaml.safe_dump(config, width=1000))
        (home / ".ray").mkdir()
        (home / ".ray" / "auth_token").write_text(secrets.token_hex(32))
        (home / ".ray" / "auth_token").chmod(0o600)
        (home / "dist").mkdir()
        for machine in (Site.OPERATOR, *self.machines):
            self.install_image(machine)
        self.release(wheel(wheels))
        self.on(Site.OPERATOR, "~/headrace/venv/bin/python -m pip install -q --no-deps dist/*.whl")

    def install_image(self, machine: str) -> None:
        """What an image of a machine has: an environment with the libraries, without headrace."""
        environment = self.site.home(machine) / "headrace" / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
        (site_packages,) = environment.glob("lib/python3*/site-packages")
        (site_packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
        program = environment / "bin" / "ray"
        program.write_text(
            "#!/home/ubuntu/headrace/venv/bin/python\nfrom ray.scripts.scripts import main\nmain()\n"
        )
        program.chmod(0o755)

    def release(self, file: Path) -> None:
        """Make this wheel the one that `ray up` distributes."""
        folder = self.site.home(Site.OPERATOR) / "dist"
        for old in folder.iterdir():
            old.unlink()
        (folder / file.name).write_bytes(file.read_bytes())

    def on(self, machine: str, command: str, code: int | None = 0) -> str:
        """The output of a command."""
        found, output = self.site.run(command, machine, PATIENCE_S)
        assert code is None or found == code, f"{command}: {found}\n{output[-4000:]}"
        return output

    def up(self) -> None:
        """`ray up`, again if the head was too slow: `ray start` gives up after 30 seconds, a fixed time."""
        command = "~/headrace/venv/bin/ray up --yes ray_cluster.yaml"
        code, output = 1, "timed out during startup"
        for _ in range(MAX_SLOW_STARTS):
            if code and "timed out during startup" in output:
                code, output = self.site.run(command, Site.OPERATOR, PATIENCE_S)
        assert code == 0, output[-4000:]

    def by_ssh(self, machine: str, command: str) -> str:
        """The same from the operator's machine, as an operator would."""
        return self.on(Site.OPERATOR, f"{SSH} ubuntu@{machine} {json.dumps(command)}")

    def json(self, command: str, code: int | None = 0) -> Any:
        """The JSON that a headrace command prints on the head."""
        output = self.on(self.head, f"{HEADRACE} {command} -o json 2>/dev/null", code)
        return json.loads(output[output.index("{") :])

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json("status", code=None)
        return found

    def wait_until_whole(self, what: str) -> dict[str, Any]:
        """Wait until all servers run and all replicas are in sync."""
        found: dict[str, Any] = {}

        def is_whole() -> bool:
            found.update(self.status())
            nodes = found["nodes"]
            behind = sum(node.get("metrics", {}).get("UnderReplicatedPartitions", 1) for node in nodes)
            voters = [len(each.get("quorum", {}).get("voters", ())) for each in found["controllers"]]
            return found["state"] == "running" and len(nodes) == 3 and not behind and voters == [3, 3, 3]

        wait_for(is_whole, what, PATIENCE_S, lambda: json.dumps(found, default=str)[:6000])
        return found


class Load:
    """`steady_load.py` on the operator's machine."""

    def __init__(self, cluster: Cluster, bootstrap: str) -> None:
        self._cluster = cluster
        command = f"~/headrace/venv/bin/python {LOAD} {bootstrap} steady ~/stop"
        self._output = cluster.site.spawn(command, "load.jsonl")

    def _last(self) -> dict[str, Any]:
        lines = self._output.read_text().splitlines()
        return json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}

    def must_go_on(self, what: str) -> None:
        """Wait for further acknowledgements."""
        before = self._last().get("acknowledged", 0)

        def is_more() -> bool:
            found = self._last()
            assert not found.get("errors"), found
            return bool(found.get("acknowledged", 0) > before + 20)

        wait_for(is_more, what, PATIENCE_S, self._output.read_text)

    def stop(self) -> dict[str, Any]:
        (self._cluster.site.home(Site.OPERATOR) / "stop").touch()
        wait_for(lambda: "consumed" in self._last(), "the load ends", PATIENCE_S, self._output.read_text)
        return self._last()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists():
        pytest.skip("needs root (namespaces, loop devices) and Debian's sshd")
    folder = tmp_path_factory.mktemp("site")
    provider = yaml.safe_load(FILE.read_text())["provider"]
    site = Site(folder, [provider["head_ip"], *provider["worker_ips"]])
    try:
        yield Cluster(site, tmp_path_factory.mktemp("wheels"))
    finally:
        site.close()


def test_cluster_survives_kills_upgrades_and_a_replaced_host(
    cluster: Cluster, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """One scenario: each step begins with a whole cluster, and the load runs through all of them."""
    cluster.up()
    found = cluster.wait_until_whole("`ray up` starts all servers")
    hosts = [node["endpoint"].partition(":")[0] for node in found["nodes"]]
    assert hosts == cluster.machines
    first = found["nodes"][0]["version"]
    cluster.on(cluster.head, f"{HEADRACE} topic create steady -p 6")
    load = Load(cluster, ",".join(found["bootstrap"]))
    load.must_go_on("the load runs")
    check_doctor_and_bundle(cluster)

    third = cluster.machines[2]
    cluster.site.kill(third)
    load.must_go_on("two hosts acknowledge")
    report = cluster.json("doctor", code=1)
    assert "fenced" in {each["check"] for each in report["findings"]}
    cluster.site.start(third)
    cluster.wait_until_whole("the host that was killed has come back")
    load.must_go_on("three hosts acknowledge")

    cluster.release(with_version(wheel(cluster.wheels), tmp_path, UPGRADED))
    for number, machine in enumerate(cluster.machines, 1):
        upgrade(cluster, machine, number)
        versions = {each["name"]: each["version"] for each in cluster.status()["nodes"]}
        assert versions == {f"node-{i}": UPGRADED if i <= number else first for i in (1, 2, 3)}
        load.must_go_on(f"{machine} is upgraded")

    cluster.on(cluster.head, f"{HEADRACE} node drain 3 --wait")
    cluster.site.kill(third)
    cluster.site.wipe(third)
    cluster.install_image(third)
    cluster.site.start(third)
    set_up(cluster, third)
    cluster.wait_until_whole("the replaced host has all replicas")
    cluster.on(cluster.head, f"{HEADRACE} node drain 3 --cancel")

    outcome = load.stop()
    record_property("load", outcome)
    assert (outcome["errors"], outcome["missing"]) == ([], 0)
    assert outcome["acknowledged"] > 200


def install(cluster: Cluster, machine: str) -> None:
    copy = f"rsync -a --delete -e '{SSH}' dist/ ubuntu@{machine}:headrace/dist/"
    cluster.on(Site.OPERATOR, copy)
    cluster.by_ssh(machine, "~/headrace/venv/bin/python -m pip install -q --upgrade ~/headrace/dist/*.whl")


def set_up(cluster: Cluster, machine: str) -> None:
    """What the setup commands do: Ray has done so at this address, and does not again."""
    cluster.on(Site.OPERATOR, "rm ~/.ssh/known_hosts")  # another machine with the same address
    cluster.by_ssh(machine, "mkdir -p ~/headrace/data ~/headrace/gcs ~/.ray")
    cluster.on(Site.OPERATOR, f"rsync -a -e '{SSH}' ~/.ray/auth_token ubuntu@{machine}:.ray/")
    install(cluster, machine)


def upgrade(cluster: Cluster, machine: str, number: int) -> None:
    """The steps of docs/DEPLOY.md for one host."""
    install(cluster, machine)
    cluster.by_ssh(cluster.head, f"{HEADRACE} restart controller-{number} node-{number}")


def check_doctor_and_bundle(cluster: Cluster) -> None:
    """All machines through Ray: own disks, everything reachable, equal versions; an archive of all."""
    report = cluster.json("doctor --all", code=None)
    assert sorted(each["address"] for each in report["machines"]) == cluster.machines
    errors = [each for each in report["findings"] if each["severity"] == "error"]
    assert errors == []
    for machine in report["machines"]:
        (disk,) = machine["disks"]
        assert (disk["mount_point"], disk["kind"]) == (str(DISK), "ext4")
        assert len(machine["reach"]) == 6
        assert {each["error"] for each in machine["reach"]} == {""}
        assert abs(machine["clock"]["skew_s"]) < 1
    unwanted = {"versions", "ray-head", "ray-token"}
    if os.nice(0) == 0:  # else the test runs under `nice`, and the machines with it
        unwanted.add("ray-niceness")
    assert not unwanted & {each["check"] for each in report["findings"]}
    facts = cluster.json("debug bundle -f /tmp/bundle.tar.gz")
    assert facts["missing"] == []
    names = cluster.on(cluster.head, "tar tzf /tmp/bundle.tar.gz").splitlines()
    for machine in cluster.machines:
        assert any(f"/machines/{machine}/logs/ray/" in name for name in names), machine
    token = (cluster.site.home(Site.OPERATOR) / ".ray" / "auth_token").read_text()
    cluster.on(cluster.head, f"! tar xzOf /tmp/bundle.tar.gz | grep -q {token}")
