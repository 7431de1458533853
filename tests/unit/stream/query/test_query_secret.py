"""The secret of an application for queries: keys, files, and which instances ask for it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition
from headrace.stream import QueryTimeoutError, http_app
from headrace.stream.config import StreamsConfig
from headrace.stream.query.client_io import Queries
from headrace.stream.query.hosts import HostInfo, HostMetadata
from headrace.stream.query.hosts_io import KnownHosts
from headrace.stream.query.http_tokens_io import has_token
from headrace.stream.query.secrets_io import QueryKeys, query_keys
from headrace.stream.query.server_io import QueryServer
from query_rig import QueryRig
from worker_rig import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = QueryKeys.of(b"a secret of the application", "app")
OTHERS = QueryKeys.of(b"another secret of someone", "app")


def config_of(**keys: str) -> StreamsConfig:
    return StreamsConfig.of({"application.id": "app"}, **keys)


def test_instances_that_require_a_secret() -> None:
    """Those with one, and those whose clients are secured: these do not start without it."""
    assert not config_of().needs_query_secret("PLAINTEXT")
    assert config_of(query_secret="x" * 16).needs_query_secret("PLAINTEXT")
    assert not config_of(query_security="NONE").needs_query_secret("SASL_SSL")
    with pytest.raises(ConfigError, match=r"security\.protocol=SASL_SSL needs query\.secret\.file"):
        config_of().needs_query_secret("SASL_SSL")
    with pytest.raises(ConfigError, match=r"query\.security=SECRET needs query\.secret\.file"):
        config_of(query_security="SECRET").needs_query_secret("PLAINTEXT")
    with pytest.raises(ConfigError, match=r"query\.security=NONE has no secret"):
        config_of(query_security="NONE", query_secret="x" * 16)


def test_a_secret_file(tmp_path: Path) -> None:
    """Others cannot read it, it is not short, and no error shows it. Each application has its own keys."""
    path = tmp_path / "secret"
    path.write_text("swordfish-swordfish\n")
    path.chmod(0o644)
    config = config_of(query_secret_file=str(path))
    with pytest.raises(ConfigError, match="others may read it"):
        query_keys(config, "app")
    path.chmod(0o600)
    found = query_keys(config, "app")
    assert found == QueryKeys.of(b"swordfish-swordfish", "app") == query_keys(config, "app")
    assert found != query_keys(config, "other")
    assert "swordfish" not in repr(config_of(query_secret="swordfish-swordfish"))
    path.write_text("swordfish")
    with pytest.raises(ConfigError, match="less than 16 characters") as refused:
        query_keys(config, "app")
    assert "swordfish" not in str(refused.value)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[HostInfo]:
    """An instance with a secret, which has partition 0 with a: 2."""
    rig = QueryRig(tmp_path)
    rig.assign(TopicPartition(SOURCE, 0))
    rig.send("a", "a")
    rig.work()
    server = QueryServer(rig.stores, "app", "127.0.0.1", 0, keys=KEYS)
    server.start()
    yield HostInfo("127.0.0.1", server.port)
    server.close()


def ask(host: HostInfo, keys: QueryKeys | None, timeout_s: float = 10.0) -> object:
    """The value of a key of partition 0."""
    table = {host: HostMetadata(host, frozenset([(SOURCE, 0)]))}
    with Queries(
        "app", KnownHosts(lambda: table), lambda _: (utf8, int64), partitioner=lambda *_: 0, keys=keys
    ) as queries:
        return queries.get("store", "a", timeout_s=timeout_s)


def test_only_the_secret_is_answered(host: HostInfo) -> None:
    assert ask(host, KEYS) == 2
    with pytest.raises(QueryTimeoutError, match=r"set query\.secret\.file"):
        ask(host, None, 1.0)
    with pytest.raises(QueryTimeoutError, match="is not that of the instances"):
        ask(host, OTHERS, 1.0)
    half = KEYS._replace(asker=OTHERS.asker)  # knows the public key of the servers, not the secret
    with pytest.raises(QueryTimeoutError, match="only servers of this cluster may connect"):
        ask(host, half, 1.0)
    assert ask(host, KEYS) == 2


def test_tokens_of_http(tmp_path: Path) -> None:
    """Bearer and Basic; a secured application has no HTTP without tokens."""
    path = tmp_path / "tokens"
    path.write_text("# of the dashboard\nfirst-token-of-0001\nsecond-token-of-002\n")
    path.chmod(0o600)
    basic = base64.b64encode(b"any:second-token-of-002").decode()
    assert has_token("Bearer first-token-of-0001", str(path))
    assert has_token(f"Basic {basic}", str(path))
    for wrong in (None, "", "Bearer ", "Bearer # of the dashboard", "Basic %%%", f"Bearer {basic}"):
        assert not has_token(wrong, str(path))
    path.write_text("short\n")
    assert not has_token("Bearer short", str(path))
    with (
        Queries("app", KnownHosts(dict), lambda _: (utf8, int64), keys=KEYS) as queries,
        pytest.raises(ConfigError, match="HTTP needs a token_file"),
    ):
        http_app(queries)
