"""Machines for `ray up` on this host: network, process and mount namespaces, and a minimal ssh.

Run as a program by `COMMAND`, with a folder and the name of a configuration for `ray up` in it. It makes a
machine of every address of the configuration, runs `ray up` beside them, and has the head write
`headrace status` into the folder. It is the first process of a process namespace: all other processes of the
namespace end with it, and `ray stop` affects only them.
"""

import os
import socketserver
import subprocess
import sys
from pathlib import Path

import yaml

NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
COMMAND = (*NAMESPACES, "--user", "--map-root-user", sys.executable, __file__)
SSH_PORT = 2222
PLACE = Path("/mnt")  # where every machine sees the folder; each has a /tmp of its own
END = b"\0exit "
STATUS = "status.json"

SSH = """#!{python} -I
import socket, sys
words = sys.argv[1:]
at = next(index for index, word in enumerate(words) if "@" in word and "=" not in word)
with socket.create_connection((words[at].partition("@")[2], {port})) as stream:
    stream.sendall(" ".join(words[at + 1 :]).encode())
    stream.shutdown(socket.SHUT_WR)
    output = b"".join(iter(lambda: stream.recv(65536), b""))
text, _, code = output.rpartition({end!r})
sys.stdout.buffer.write(text)
sys.exit(int(code or 255))
"""
# All machines share the home directories.
RSYNC = """#!{python} -I
import pathlib, shutil, sys
source, target = sys.argv[-2:]
host, _, path = target.partition("@")[2].partition(":")
to = pathlib.Path({place!r}, "home-" + host, path.replace("~/", "", 1).lstrip("/"))
to.parent.mkdir(parents=True, exist_ok=True)
source = pathlib.Path(source).expanduser()
shutil.copytree(source, to, dirs_exist_ok=True) if source.is_dir() else shutil.copy(source, to)
"""


class Shell(socketserver.StreamRequestHandler):
    """One command: the request is its text up to the end of the stream; the response is output and exit
    code."""

    def handle(self) -> None:
        """Run it in bash."""
        done = subprocess.run(
            ["bash", "-c", self.rfile.read().decode()],
            stdin=subprocess.DEVNULL,
            stdout=self.connection,
            stderr=self.connection,
            check=False,
        )
        self.wfile.write(END + str(done.returncode).encode())


def serve(address: str) -> None:
    """The ssh server of a machine."""
    with socketserver.ThreadingTCPServer((address, SSH_PORT), Shell) as server:
        sys.stdout.write("serving\n")
        sys.stdout.flush()
        server.serve_forever()


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def environment(address: str) -> dict[str, str]:
    path = f"{PLACE / 'bin'}:{os.environ['PATH']}"
    return {"HOME": str(PLACE / f"home-{address}"), "PATH": path, "PYTHONWARNINGS": "ignore"}


def start_machine(address: str, gateway: str, index: int) -> None:
    """A machine with this address, where headrace is installed already."""
    home = PLACE / f"home-{address}"
    (home / "headrace").mkdir(parents=True)
    (home / "headrace" / "venv").symlink_to(sys.prefix)
    (home / ".bashrc").write_text(f"export PATH={PLACE / 'bin'}:$PATH\n")  # a login shell sets another PATH
    steps = (
        "mount -t tmpfs tmpfs /tmp",
        "ip link set lo up",
        "echo made",
        "read connected",
        f"ip addr add {address}/24 dev eth0",
        "ip link set eth0 up",
        f"ip route add default via {gateway}",
        f"exec {sys.executable} {__file__} {address}",
    )
    machine = subprocess.Popen(
        [*NAMESPACES, "bash", "-c", " && ".join(steps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(address),
        cwd="/",
        text=True,
    )
    assert machine.stdin is not None
    assert machine.stdout is not None
    assert machine.stdout.readline() == "made\n"
    (inside,) = Path(f"/proc/{machine.pid}/task/{machine.pid}/children").read_text().split()
    run("ip", "link", "add", f"m{index}", "type", "veth", "peer", "name", "eth0", "netns", inside)
    run("ip", "link", "set", f"m{index}", "master", "lan", "up")
    machine.stdin.write("connected\n")
    machine.stdin.close()
    assert machine.stdout.readline() == "serving\n"


def main(folder: str, name: str) -> None:
    """Make the machines, and run `ray up` on the configuration `name` in the folder."""
    run("mount", "--bind", folder, str(PLACE))
    run("mount", "-t", "tmpfs", "tmpfs", "/tmp")
    (PLACE / "bin").mkdir()
    for program, text in (("ssh", SSH), ("rsync", RSYNC)):
        file = PLACE / "bin" / program
        file.write_text(text.format(python=sys.executable, port=SSH_PORT, end=END, place=str(PLACE)))
        file.chmod(0o755)
    provider = yaml.safe_load((PLACE / name).read_text())["provider"]
    gateway = provider["head_ip"].rpartition(".")[0] + ".254"
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "lan", "type", "bridge")
    run("ip", "addr", "add", f"{gateway}/24", "dev", "lan")
    run("ip", "link", "set", "lan", "up")
    for index, address in enumerate((provider["head_ip"], *provider["worker_ips"])):
        start_machine(address, gateway, index)
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    ask = f"~/headrace/venv/bin/headrace status -o json > {PLACE / STATUS}"
    for words in (["up", "--yes", name], ["exec", name, ask]):
        subprocess.run([*ray, *words], env=environment("operator"), cwd=PLACE, check=True)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        main(sys.argv[1], sys.argv[2])
