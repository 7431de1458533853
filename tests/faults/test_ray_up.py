"""`ray up` with ray_cluster.yaml, on three machines that are namespaces of this host."""

import json
import secrets
import subprocess
from pathlib import Path

import pytest
import yaml
from ray_up_machines import COMMAND, STATUS

pytestmark = [pytest.mark.ray, pytest.mark.faults]

FILE = Path(__file__).parents[2] / "ray_cluster.yaml"
CAN_MAKE_MACHINES = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "true")


def can_make_machines() -> bool:
    try:
        return subprocess.run(CAN_MAKE_MACHINES, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_ray_up_makes_a_cluster_of_all_machines(tmp_path: Path) -> None:
    """`ray up` with the file of the repository, except for the installation: one node and one controller on
    each of three machines, Kafka listeners with the expected ports, and `headrace status` without environment
    variables."""
    if not can_make_machines():
        pytest.skip("no network namespaces: they need Linux, util-linux and user namespaces")
    config = yaml.safe_load(FILE.read_text())
    config["setup_commands"] = config["setup_commands"][:1]
    (tmp_path / "ray_cluster.yaml").write_text(yaml.safe_dump(config))
    for path in (".ray", ".ssh"):
        (tmp_path / "home-operator" / path).mkdir(parents=True)
    (tmp_path / "home-operator" / ".ray" / "auth_token").write_text(secrets.token_hex(32))
    (tmp_path / "home-operator" / ".ssh" / "id_ed25519").write_text("nothing reads this key")
    (tmp_path / "dist").mkdir()
    done = subprocess.run(
        [*COMMAND, str(tmp_path), "ray_cluster.yaml"],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    status = json.loads((tmp_path / STATUS).read_text())
    assert status["state"] == "running"
    machines = [config["provider"]["head_ip"], *config["provider"]["worker_ips"]]
    for servers in (status["nodes"], status["controllers"]):
        assert [server["endpoint"].partition(":")[0] for server in servers] == machines
    listeners = [node["kafka"]["listeners"]["PLAINTEXT"] for node in status["nodes"]]
    assert listeners == [f"{machine}:{9092 + index}" for index, machine in enumerate(machines)]
