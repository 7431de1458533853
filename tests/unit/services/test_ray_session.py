"""Which Ray is meant, without any Ray."""

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
    """The address of something that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def dead() -> str:
    """An address where nothing listens any more."""
    return f"127.0.0.1:{reserve_ports(1)[0]}"


def left_by_ray_start(tmp_path: Path, address: str) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(address)


def test_nothing_there_means_our_own() -> None:
    """No argument, no variable, no running Ray."""
    assert wanted_address(None) is None


def test_what_is_given_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the variable over what runs here; "local" always means our own."""
    monkeypatch.setenv("RAY_ADDRESS", "there:1")
    assert wanted_address("here:2") == "here:2"
    assert wanted_address(None) == "there:1"
    assert wanted_address("local") is None


def test_the_ray_of_this_machine_is_joined(tmp_path: Path, listening: str) -> None:
    """`ray start` leaves its address in a file."""
    left_by_ray_start(tmp_path, listening)
    assert wanted_address(None) == listening
    assert wanted_address("auto") == listening


def test_a_ray_that_is_gone_is_not_joined(tmp_path: Path, dead: str) -> None:
    """The file outlives the Ray; asking for it is an error, not asking means our own."""
    left_by_ray_start(tmp_path, dead)
    assert wanted_address(None) is None
    with pytest.raises(RayStartError, match="no Ray runs"):
        wanted_address("auto")


def test_an_address_without_ray_fails_at_once(dead: str) -> None:
    """Ray itself would try for half a minute."""
    assert not is_reachable(dead)
    with pytest.raises(RayStartError, match=dead), joined(dead, "namespace"):
        pytest.fail("joined nothing")


def test_the_error_inside_ray_s_wrapping() -> None:
    """What the actor raised, or the error itself."""
    inner = NetworkError("x")
    outer = RuntimeError("wrapped")
    outer.cause = inner  # type: ignore[attr-defined]
    assert cause_of(outer) is inner
    assert cause_of(inner) is inner
