"""Security that cannot be set up is an error of every client's constructor, before any connection."""

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace
import pytest
from headrace import aio
from headrace.clients.cluster.cluster_io import ClusterIo
from headrace.protocol.errors import ConfigError
from kerberos_kit import require

KEY = (b"k" * 32).hex()
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no file of keys": ({"trusted.server.keys.file": "{folder}/gone.keys"}, r"trusted\.server\.keys\.file"),
    "no token": ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.file": "{folder}/gone"}, "token"),
    "no library": ({"sasl.mechanism": "GSSAPI"}, r"GSSAPI.*headrace\[kerberos\]"),
    "no keytab": ({"sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "{folder}/gone"}, r"kerberos\.keytab"),
}
SYNC: list[Callable[..., Any]] = [
    headrace.connect,
    headrace.Producer,
    headrace.Admin,
    lambda address, config: headrace.Consumer("t", bootstrap=address, config=config),
]
ASYNC: list[Callable[..., Any]] = [
    aio.connect,
    aio.AsyncProducer,
    aio.AsyncAdmin,
    lambda address, config: aio.AsyncConsumer("t", bootstrap=address, config=config),
]


def io_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headrace-io"]


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A config, and the pattern of its error."""
    config, pattern = BROKEN[request.param]
    if request.param == "no library":
        monkeypatch.delitem(sys.modules, "headrace.protocol.security.kerberos_io", raising=False)
        monkeypatch.setitem(sys.modules, "gssapi", None)
    elif request.param == "no keytab":
        require()
    filled = {name: value.format(folder=tmp_path) for name, value in config.items()}
    return {"server.public.key": KEY, **filled}, pattern


def test_the_constructor_raises_it(broken: Any) -> None:
    """And leaves no thread."""
    config, pattern = broken
    before = len(io_threads())
    for make in SYNC:
        with pytest.raises(ConfigError, match=pattern):
            make("localhost:1", config=config)
    assert len(io_threads()) == before


def test_the_constructor_of_an_asyncio_client_raises_it(broken: Any) -> None:
    """Although its connections begin at the first use."""
    config, pattern = broken

    async def main() -> None:
        for make in ASYNC:
            with pytest.raises(ConfigError, match=pattern):
                make("localhost:1", config=config)

    asyncio.run(main())


def test_any_error_of_the_io_thread_at_its_start_is_that_of_the_constructor() -> None:
    def fail(*_: Any) -> Any:
        raise ConfigError("no such network")

    with pytest.raises(ConfigError, match="no such network"):
        ClusterIo("localhost:1", {}, fail)
