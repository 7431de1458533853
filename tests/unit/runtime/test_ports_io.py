"""Ports that are reserved among processes."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from headrace.runtime.ports_io import PORTS, reserve_ports

SCRIPT = """
import sys
from headrace.runtime.ports_io import reserve_ports
among = [int(port) for port in sys.argv[1].split(",")]
for count in range(len(among), -1, -1):
    try:
        print(*reserve_ports(count, among), flush=True)
        break
    except OSError:
        pass
sys.stdin.read()
"""


def test_ports_are_reserved_once() -> None:
    """Within one process; none is in the range of ephemeral ports."""
    first, second = reserve_ports(5), reserve_ports(5)
    assert len({*first, *second}) == 10
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert {*first, *second} <= set(PORTS)
    assert PORTS[-1] < lowest


def test_ports_of_another_process_stay_reserved_until_it_ends() -> None:
    """Whether or not it has bound them."""
    held = reserve_ports(1)
    among = [*held, *reserve_ports_of_another(2)]
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, ",".join(map(str, among))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        theirs = [int(port) for port in other.stdout.readline().split()]
        assert not set(theirs) & set(held)
        with pytest.raises(OSError, match="1 free ports were requested, 0 are available"):
            reserve_ports(1, theirs or held)
        other.stdin.close()


def reserve_ports_of_another(count: int) -> list[int]:
    """Ports that a process had reserved that has ended: they are free again."""
    command = [
        sys.executable,
        "-c",
        f"from headrace.runtime import ports_io as p; print(*p.reserve_ports({count}))",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(port) for port in done.stdout.split()]


def test_port_with_a_listener_is_not_reserved() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(OSError, match="0 are available"):
        reserve_ports(1, [server.getsockname()[1]])
