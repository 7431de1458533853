"""Machines on this host that are reached over OpenSSH, for `ray up`: each is a set of namespaces (network,
mounts, processes, host name) with a home, a /tmp and a disk of its own, and Debian's sshd.

Run as a program by `Site`, as root: it is the first process of its own namespaces, takes one JSON request per
line, and all machines end with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
PLACE = Path("/mnt")  # where machines see the folder of the site; each has a /tmp of its own
USER, HOME = "ubuntu", Path("/home/ubuntu")
DISK = Path("/srv/disk")  # where a machine sees its disk
DISK_MIB = 1024
GATEWAY = "254"
# What a machine needs of this host, also where its own /tmp and /home hide it: the sources, the environment
# of the test with its libraries, and the Python of that.
SHARED = (Path(__file__).parents[2], Path(sys.prefix), Path(sys.base_prefix))
READY = "serving"
# The user has the rights of root: a machine needs a mount namespace, and no other user of this host.
# The first one of its number: ssh looks for its keys in the home of this user.
PASSWD = f"""\
{USER}:x:0:0:user:{HOME}:/bin/bash
root:x:0:0:root:/root:/bin/bash
sshd:x:106:65534::/run/sshd:/bin/false
"""
SSHD_CONFIG = """\
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
MaxStartups 100
AcceptEnv LANG
"""


class Site:
    """The machines of a test. `run` starts a command on one of them, or on the operator's."""

    OPERATOR = "operator"

    def __init__(self, folder: Path, addresses: list[str]) -> None:
        """Machines with these addresses of one network, each with an empty disk."""
        self.folder = folder
        command = [*NAMESPACES, sys.executable, __file__, str(folder), *addresses]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._read()

    def home(self, address: str) -> Path:
        """The home of the user of a machine, as this process sees it."""
        return self.folder / f"home-{address}"

    def start(self, address: str) -> None:
        """Start a machine that was killed, with its disk."""
        self._ask(do="start", on=address)

    def kill(self, address: str) -> None:
        """Cut the power of a machine."""
        self._ask(do="kill", on=address)

    def wipe(self, address: str) -> None:
        """Replace the disk and the home of a killed machine by empty ones."""
        self._ask(do="wipe", on=address)

    def spawn(self, command: str, output: str, on: str = OPERATOR) -> Path:
        """Start a command in the background; its output goes into a file of this name in the folder."""
        self._ask(do="spawn", on=on, command=command, output=output)
        return self.folder / output

    def run(self, command: str, on: str = OPERATOR, timeout_s: float = 300.0) -> tuple[int, str]:
        """Exit code and output of a command; 124 after the timeout."""
        answer = self._ask(do="run", on=on, command=command, timeout_s=timeout_s)
        return answer["code"], answer["output"]

    def close(self) -> None:
        """End all machines."""
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()
        assert self._child.stdout is not None
        self._child.stdout.close()
        try:
            self._child.wait(30)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line, "the program of the machines has ended"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer
        return answer


def sh(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)


class Machine:
    """One machine. The operator's has neither a disk nor a server."""

    def __init__(self, folder: Path, address: str, index: int, *, has_server: bool) -> None:
        self.address, self.index, self.has_server = address, index, has_server
        self.home, self.etc = folder / f"home-{address}", folder / f"etc-{address}"
        self.disk = folder / f"disk-{address}.img"
        self.child: subprocess.Popen[str] | None = None
        self.pid = 0

    def make(self, key: str) -> None:
        """A home, a disk and keys of the server, all new."""
        self.home.mkdir()
        self.etc.mkdir(exist_ok=True)
        (self.etc / "passwd").write_text(PASSWD)
        (self.etc / "sshd_config").write_text(SSHD_CONFIG.format(folder=self.etc))
        (self.etc / "authorized_keys").write_text(key)
        if not (self.etc / "host_key").exists():
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.etc / "host_key"))
        if self.has_server:
            with self.disk.open("wb") as stream:
                stream.truncate(DISK_MIB << 20)
            sh("mkfs.ext4", "-q", "-F", str(self.disk))

    def start(self) -> None:
        """Boot it, and connect it to the network."""
        name = f"machine-{self.address.rpartition('.')[2]}"
        steps = [
            f"hostname {name}",
            "mount -t tmpfs tmpfs /tmp",
            "mount -t tmpfs tmpfs /run",
            "mount -t tmpfs -o size=2g tmpfs /dev/shm",
            "mkdir -p /run/sshd",
            f"mount --bind {self.etc}/passwd /etc/passwd",
            "mount -t tmpfs tmpfs /home",
            f"mkdir {HOME}",
            f"mount --bind {self.home} {HOME}",
            "ip link set lo up",
        ]
        for number, path in enumerate(SHARED):
            steps += [f"mkdir -p {path}", f"mount --bind {PLACE}/shared-{number} {path}"]
        if self.has_server:
            steps += ["mount -t tmpfs tmpfs /srv", f"mkdir {DISK}", f"mount -o loop {self.disk} {DISK}"]
        steps += [
            "echo made",
            "read connected",
            f"ip addr add {self.address}/24 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {self.address.rpartition('.')[0]}.{GATEWAY}",
            f"echo {READY}",
        ]
        end = (
            f"exec /usr/sbin/sshd -D -e -f {self.etc}/sshd_config"
            if self.has_server
            else "exec sleep infinity"
        )
        self.child = subprocess.Popen(
            [*NAMESPACES, "bash", "-c", " && ".join([*steps, end])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.etc / "sshd.log").open("ab"),
            text=True,
            env=environment(),
            cwd="/",
        )
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == "made\n", (self.etc / "sshd.log").read_text()
        (inside,) = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text().split()
        self.pid = int(inside)
        port = f"m{self.index}"
        # the same one after each boot: others keep it in their caches for half a minute
        mac = f"02:00:0a:00:00:{self.index:02x}"
        peer = ("peer", "name", "eth0", "address", mac, "netns", inside)
        sh("ip", "link", "add", port, "type", "veth", *peer)
        sh("ip", "link", "set", port, "master", "lan", "up")
        self.child.stdin.write("connected\n")
        self.child.stdin.close()
        assert self.child.stdout.readline() == f"{READY}\n", (self.etc / "sshd.log").read_text()

    def kill(self) -> None:
        """SIGKILL to its first process, and so to all; its network ends with it."""
        assert self.child is not None
        os.kill(self.pid, signal.SIGKILL)
        self.child.wait()
        self.child = None
        if self.has_server:
            # its mounts end with the last process of the namespace
            subprocess.run(["e2fsck", "-p", str(self.disk)], capture_output=True, check=False)

    def wipe(self) -> None:
        shutil.rmtree(self.home)
        self.disk.unlink()

    def command(self, text: str) -> list[str]:
        """Runs a text in a shell on this machine."""
        return ["nsenter", "-t", str(self.pid), "-n", "-m", "-p", "-u", "bash", "-c", f"cd {HOME} && {text}"]


def environment() -> dict[str, str]:
    """That of a login; nothing of the test's."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "HOME": str(HOME), "USER": USER, "LANG": "C.UTF-8", "PYTHONWARNINGS": "ignore"}


class Program:
    """Serves the requests of `Site`."""

    def __init__(self, folder: Path, addresses: list[str]) -> None:
        network = addresses[0].rpartition(".")[0]
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", "lan", "type", "bridge")
        sh("ip", "addr", "add", f"{network}.{GATEWAY}/24", "dev", "lan")
        sh("ip", "link", "set", "lan", "up")
        operator = Machine(folder, Site.OPERATOR, 0, has_server=False)
        operator.address = f"{network}.253"
        self.machines = {Site.OPERATOR: operator}
        self.machines |= {a: Machine(folder, a, i, has_server=True) for i, a in enumerate(addresses, 1)}
        key = folder / "key"
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        self.key = (folder / "key.pub").read_text()
        for machine in self.machines.values():
            machine.make(self.key)
        ssh = operator.home / ".ssh"
        ssh.mkdir(mode=0o700)
        shutil.copy(key, ssh / "id_ed25519")
        for machine in self.machines.values():
            machine.start()

    def answer(self, do: str, on: str, **more: Any) -> dict[str, Any]:
        machine = self.machines[on]
        if do == "start":
            machine.start()
        elif do == "kill":
            machine.kill()
        elif do == "wipe":
            machine.wipe()
            machine.make(self.key)
        elif do == "spawn":
            with (PLACE / more["output"]).open("wb") as stream:
                command = machine.command(more["command"])
                subprocess.Popen(
                    command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, env=environment()
                )
        else:
            return run(machine.command(more["command"]), more["timeout_s"])
        return {}


def run(command: list[str], timeout_s: float) -> dict[str, Any]:
    """Exit code and output. The output may stay open after the command: of servers that it started."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment()
    ) as child:
        assert child.stdout is not None
        lines = list[bytes]()
        reader = threading.Thread(target=lines.extend, args=(child.stdout,), daemon=True)
        reader.start()
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            code = 124
        reader.join(2)
        return {"code": code, "output": b"".join(lines).decode(errors="replace")}


def main(folder: str, *addresses: str) -> None:
    sh("mount", "--make-rprivate", "/")
    sh("mount", "--bind", folder, str(PLACE))
    for number, path in enumerate(SHARED):
        (PLACE / f"shared-{number}").mkdir()
        sh("mount", "--bind", str(path), str(PLACE / f"shared-{number}"))
    program = Program(PLACE, list(addresses))
    answers = os.fdopen(os.dup(1), "w")
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = program.answer(**json.loads(line))
        except Exception as error:  # noqa: BLE001 - reported to the test
            answer = {"error": repr(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
