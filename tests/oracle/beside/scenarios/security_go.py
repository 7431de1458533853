"""franz-go on secured listeners, where Go is installed."""

import fcntl
import json
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

from headrace.benchmarks.servers.kafka_io import cache_home

from ..scene import Scene, scenario
from ..secured_io import BOB
from ..secured_users import WAYS, Login, prepare

CLIENT = "security of franz-go"
SOURCES = Path(__file__).parents[1] / "go"
BUILD_TIMEOUT_S, TIMEOUT_S = 600, 150


def program() -> Path:
    """The program, built once for each text of its sources; safe in concurrent processes."""
    text = zlib.crc32(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir())))
    made = cache_home() / f"oracle-go-{text:08x}"
    made.mkdir(parents=True, exist_ok=True)
    with (made / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "secured").exists():
            command = ["go", "build", "-buildvcs=false", "-o", str(made / "secured"), "."]
            subprocess.run(command, cwd=SOURCES, check=True, timeout=BUILD_TIMEOUT_S, capture_output=True)
    return made / "secured"


def _line(scene: Scene, login: Login) -> str:
    way, files = login.way, scene.system.files
    assert files is not None
    found: dict[str, Any] = {
        "Address": scene.system.address_of(way.listener),
        "Topic": scene.topic,
        "Group": scene.topic,
        "Mechanism": way.mechanism,
        "IsWrong": login.is_wrong,
    }
    if way.has_tls:
        found["CA"] = files.path("ca.pem")
    if way.has_password:
        found |= {"User": login.user, "Password": login.password}
    elif way.mechanism:
        found["Token"] = login.token(scene)
    else:
        found |= {"Certificate": files.path(f"{login.certificate}.pem")}
        found |= {"Key": files.path(f"{login.certificate}.key")}
    return json.dumps(found)


if shutil.which("go"):

    @scenario(CLIENT, "produces and consumes by every mechanism", is_secured=True)
    def by_franz_go(scene: Scene) -> None:
        prepare(scene)
        logins = {
            f"{way.label}/{label}": Login(way, *more)
            for way in WAYS
            for label, more in (("right", ()), ("without rights", (BOB,)), ("wrong", ("alice", True)))
        }
        lines = "".join(f"{_line(scene, login)}\n" for login in logins.values())
        done = subprocess.run(
            [program()], input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        for label, line in zip(logins, done.stdout.splitlines(), strict=True):
            scene.note(label, json.loads(line))
