"""The choice of a Ray: an argument, a variable, the Ray of this machine, or a new one."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from headrace.protocol.errors import NetworkError
from headrace.runtime.ports_io import reserve_ports
from headrace.services.own_ray_io import RayStartError
from headrace.services.ray_session import cause_of, is_reachable, joined, wanted_address


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


@pytest.fixture
def listening() -> Iterator[str]:
    """An address that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def dead() -> str:
    """An address that refuses connections."""
    return f"127.0.0.1:{reserve_ports(1)[0]}"


def left_by_ray_start(tmp_path: Path, address: str) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(address)


def test_own_ray_is_the_default() -> None:
    """Without argument, variable and running Ray."""
    assert wanted_address(None) is None


def test_argument_overrides_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the variable the Ray of this machine; "local" always starts a new one."""
    monkeypatch.setenv("RAY_ADDRESS", "there:1")
    assert wanted_address("here:2") == "here:2"
    assert wanted_address(None) == "there:1"
    assert wanted_address("local") is None


def test_the_ray_of_this_machine_is_joined(tmp_path: Path, listening: str) -> None:
    """`ray start` writes its address to a file."""
    left_by_ray_start(tmp_path, listening)
    assert wanted_address(None) == listening
    assert wanted_address("auto") == listening


def test_stopped_ray_is_not_joined(tmp_path: Path, dead: str) -> None:
    """Its file is still there: an error if the Ray was requested, otherwise a new Ray."""
    left_by_ray_start(tmp_path, dead)
    assert wanted_address(None) is None
    with pytest.raises(RayStartError, match="no Ray runs"):
        wanted_address("auto")


def test_address_without_a_ray_fails_at_once(dead: str) -> None:
    """Ray itself would retry for half a minute."""
    assert not is_reachable(dead)
    with pytest.raises(RayStartError, match=dead), joined(dead, "namespace"):
        pytest.fail("joined nothing")


def test_cause_of_a_ray_task_error_is_returned() -> None:
    """The exception of the actor, or the error itself."""
    inner = NetworkError("x")
    outer = RuntimeError("wrapped")
    outer.cause = inner  # type: ignore[attr-defined]
    assert cause_of(outer) is inner
    assert cause_of(inner) is inner
