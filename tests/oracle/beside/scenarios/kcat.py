"""kcat, where it is installed."""

import json
import shutil
import subprocess
from typing import Any

from ..asking import Asking
from ..scene import Scene, scenario

CLIENT = "kcat"


def kcat(scene: Scene, *arguments: str, given: str = "") -> dict[str, Any]:
    """What it printed, and its exit status."""
    command = ["kcat", "-b", scene.bootstrap, "-m", "10", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=500, check=False)
    return {"status": done.returncode, "out": done.stdout.splitlines()}


if shutil.which("kcat"):

    @scenario(CLIENT, "produces, consumes and lists")
    def round_trip(scene: Scene) -> None:
        with Asking(scene) as asking:
            asking.create(partitions=2)
        lines = "".join(f"k{number}:v{number}\n" for number in range(10))
        for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
            arguments = ("-P", "-t", scene.topic, "-K", ":", "-z", compression, "-H", "a=b")
            scene.note(f"sent {compression}", kcat(scene, *arguments, given=lines))
        for partition in ("0", "1"):
            arguments = ("-C", "-t", scene.topic, "-p", partition, "-e", "-f", "%p %o %k %s %h\\n")
            scene.note(f"read {partition}", kcat(scene, *arguments))
        scene.note(
            "last", kcat(scene, "-C", "-t", scene.topic, "-p", "0", "-o", "-3", "-e", "-f", "%o %s\\n")
        )
        listed = json.loads("".join(kcat(scene, "-L", "-J", "-t", scene.topic)["out"]))
        scene.note("listed", listed)
        scene.note("query", kcat(scene, "-Q", "-t", f"{scene.topic}:0:-1"))
        scene.note("query first", kcat(scene, "-Q", "-t", f"{scene.topic}:0:-2"))
        scene.note("no topic", kcat(scene, "-C", "-t", "no-such-topic", "-p", "3", "-e"))

    @scenario(CLIENT, "a group and a transaction")
    def group(scene: Scene) -> None:
        with Asking(scene) as asking:
            asking.create()
        lines = "".join(f"v{number}\n" for number in range(10))
        more = ("-X", f"transactional.id={scene.topic}")
        scene.note("sent", kcat(scene, "-P", "-t", scene.topic, *more, given=lines))
        arguments = ("-G", scene.topic, "-e", "-f", "%o %s\\n", scene.topic)
        scene.note("read", kcat(scene, "-X", "auto.offset.reset=earliest", *arguments))
        scene.note("sent again", kcat(scene, "-P", "-t", scene.topic, given="later\n"))
        scene.note("read again", kcat(scene, *arguments))
