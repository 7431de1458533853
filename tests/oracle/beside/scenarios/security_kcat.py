"""kcat on secured listeners, where it is installed."""

import re
import shutil
import subprocess
from typing import Any

from ..scene import Scene, scenario
from ..secured_io import BOB, OAUTHBEARER, OPEN
from ..secured_users import WAYS, Login, librdkafka, prepare

CLIENT = "security of kcat"
TIMEOUT_S = 60
# of OAUTHBEARER it makes unsecured tokens itself
KCAT_WAYS = [way for way in WAYS if way.mechanism != OAUTHBEARER or way.listener == OPEN]
_ERROR = re.compile(r"(?:ERROR|FAIL)\b.*?: (?:[\w+]+://\S+: )?(.*?)(?: \(after \d+ms.*)?$", re.MULTILINE)
_VARIABLE = re.compile(r"\d+ms|\d{4,}|%\d\|[\d.]+\||\[thrd:[^]]*\]: ")


def kcat(scene: Scene, login: Login, *arguments: str, given: str = "") -> dict[str, Any]:
    """Its exit status, what it printed, and what it said of errors."""
    config = librdkafka(scene, login)
    if login.way.mechanism == OAUTHBEARER:
        config |= {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={login.user} lifeSeconds={2 if login.is_wrong else 3600}",
        }
    options = [part for name, value in config.items() for part in ("-X", f"{name}={value}")]
    command = ["kcat", *options, "-m", "6", *arguments]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    said = list(dict.fromkeys(_VARIABLE.sub("<>", each) for each in _ERROR.findall(done.stderr)))
    return {"status": done.returncode, "out": done.stdout.splitlines(), "said": said}


if shutil.which("kcat"):

    @scenario(CLIENT, "produces, consumes and lists by every mechanism", is_secured=True)
    def by_kcat(scene: Scene) -> None:
        prepare(scene)
        topic = ("-t", scene.topic)
        short = ("-X", "message.timeout.ms=5000")
        for way in KCAT_WAYS:
            for user, label in ((None, "right"), (BOB, "without rights")):
                login = Login(way) if user is None else Login(way, user)
                note = f"{way.label}/{label}"
                scene.note(f"{note} sent", kcat(scene, login, "-P", *topic, *short, given="x\ny\n"))
                scene.note(f"{note} read", kcat(scene, login, "-C", *topic, "-o", "0", "-c", "2", "-e"))
            if way.mechanism != OAUTHBEARER:
                listed = kcat(scene, Login(way, is_wrong=True), "-L", *topic)
                scene.note(f"{way.label}/wrong", listed)
